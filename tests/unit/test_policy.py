"""The policy: a pure function of what it is given, under a version."""

from dataclasses import dataclass
from datetime import UTC, datetime

from functions.core.policy import POLICY_VERSION, Allow, Defer, Suppress, decide

NOON = datetime(2030, 5, 17, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Candidate:
    channel: str = "email"
    category: str = "transactional"
    priority: str = "normal"


def test_a_literal_address_is_allowed_at_any_hour() -> None:
    for hour in range(24):
        for channel in ("email", "sms", "push", "webhook"):
            verdict = decide(Candidate(channel=channel), now=NOON.replace(hour=hour))
            assert verdict == Allow()


def test_the_same_question_has_the_same_answer() -> None:
    assert decide(Candidate(), now=NOON) == decide(Candidate(), now=NOON)


def test_verdicts_are_values_with_the_names_that_are_stored() -> None:
    verdicts = (Allow(), Defer(until=NOON, reason="quiet_hours"), Suppress(reason="opted_out"))
    assert [verdict.name for verdict in verdicts] == ["allow", "defer", "suppress"]


def test_a_verdict_is_stored_with_a_version() -> None:
    assert POLICY_VERSION >= 1
