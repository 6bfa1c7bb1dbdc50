"""Which ends of the demo kills excuse, and which not."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.cli.chaos_record import Kill, Target
from functions.cli.demo_chaos import excuse
from functions.cli.demo_verdict import Item, Seen
from functions.core.states import Reason, Status

AT = datetime(2026, 1, 1, tzinfo=UTC)
LOST, REFUSED, TIMED_OUT = (
    ("unknown", "lease_expired"),
    ("transient", "503"),
    ("unknown", "timeout"),
)
Attempt = tuple[str, str]
BUDGET = 5


def seen(
    behaviour: str = "ok",
    *,
    channel: str = "email",
    status: Status = Status.DEAD,
    reason: str = Reason.OUTCOME_UNKNOWN,
    effects: int = 0,
    is_suppressed: bool = False,
) -> Seen:
    recipient = f"{behaviour}+1@example.com"
    if channel == "webhook":
        recipient = f"http://127.0.0.1:8081/hooks/{behaviour}/1"
    return Seen(
        item=Item(id="1", channel=channel, recipient=recipient),
        status=status,
        reason=reason,
        effects=effects,
        is_suppressed=is_suppressed,
        ended_at=AT,
    )


def begun_at(number: int) -> datetime:
    return AT + timedelta(minutes=number)


def detail(*attempts: Attempt) -> dict[str, Any]:
    return {
        "created_at": AT.isoformat(),
        "max_attempts": BUDGET,
        "attempts": [
            {"outcome": outcome, "code": code, "started_at": begun_at(number).isoformat()}
            for number, (outcome, code) in enumerate(attempts)
        ],
    }


def kills(
    target: Target = Target.SENDER, *, count: int = BUDGET, after_seconds: float = 2.0
) -> list[Kill]:
    """Return a kill a little after the begin of each of ``count`` attempts."""
    return [
        Kill(
            at=begun_at(number) + timedelta(seconds=after_seconds),
            target=target,
            name=target,
            pid=number,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("target", [Target.SENDER, Target.POSTGRES, Target.EMULATOR])
def test_a_budget_spent_by_kills_alone_excuses(target: Target) -> None:
    assert excuse(seen(), detail(*[LOST] * 5), kills(target)) == "the kills spent its attempts"


def test_a_killed_claim_spends_nothing_and_excuses_nothing() -> None:
    assert excuse(seen(), detail(*[LOST] * 5), kills(Target.CLAIM)) is None


def test_without_a_kill_nothing_is_excused() -> None:
    assert excuse(seen(), detail(*[LOST] * 5), []) is None


@pytest.mark.parametrize(
    ("behaviour", "attempts", "is_excused"),
    [
        ("flaky.4", [REFUSED] * 4 + [LOST], True),
        ("flaky.3", [REFUSED] * 3 + [LOST] * 2, True),
        ("flaky.3", [REFUSED] * 4 + [LOST], False),
        ("flaky.1", [REFUSED] + [LOST] * 4, True),
        ("ok", [REFUSED] + [LOST] * 4, False),
        ("ok", [LOST] * 4, False),
        ("hang", [TIMED_OUT] + [LOST] * 4, True),
        ("hang", [TIMED_OUT] * 2 + [LOST] * 3, False),
        ("drop", [TIMED_OUT] + [LOST] * 4, True),
        ("throttle.3", [("throttled", "429")] + [LOST] * 5, True),
        ("throttle.3", [("throttled", "429")] + [LOST] * 4, False),
    ],
)
def test_what_the_recipient_spends_by_itself_is_all_that_may_be_missing(
    behaviour: str, attempts: Sequence[Attempt], is_excused: bool
) -> None:
    killed = kills(count=len(attempts))
    assert (excuse(seen(behaviour), detail(*attempts), killed) is not None) == is_excused


@pytest.mark.parametrize(
    ("after_seconds", "is_excused"), [(-2, False), (-0.5, True), (4.9, True), (5.1, False)]
)
def test_a_kill_counts_only_while_the_attempt_was_open(
    after_seconds: float, is_excused: bool
) -> None:
    killed = kills(after_seconds=after_seconds)
    assert (excuse(seen(), detail(*[LOST] * 5), killed) is not None) == is_excused


@pytest.mark.parametrize(
    "status",
    sorted(set(Status) - {Status.DEAD}),
)
def test_no_other_status_is_excused(status: Status) -> None:
    assert excuse(seen(status=status), detail(*[LOST] * 5), kills()) is None


@pytest.mark.parametrize(
    "reason", sorted({*Reason, ""} - {Reason.OUTCOME_UNKNOWN, Reason.CRASH_LOOP})
)
def test_no_other_reason_is_excused(reason: str) -> None:
    assert excuse(seen(reason=reason), detail(*[LOST] * 5), kills()) is None


@pytest.mark.parametrize(
    ("target", "count", "is_excused"),
    [
        (Target.SENDER, 5, True),
        (Target.EMULATOR, 5, True),
        (Target.SENDER, 4, False),
        (Target.POSTGRES, 9, False),
        (Target.CLAIM, 9, False),
    ],
)
def test_a_crash_loop_needs_five_kills_of_what_starts_on_notifications(
    target: Target, count: int, is_excused: bool
) -> None:
    held = seen(reason=Reason.CRASH_LOOP)
    assert (excuse(held, detail(), kills(target, count=count)) is not None) == is_excused


def test_kills_before_the_notification_was_there_end_no_start_on_it() -> None:
    held = seen(reason=Reason.CRASH_LOOP)
    assert excuse(held, detail(), kills(after_seconds=-3600)) is None


@pytest.mark.parametrize(
    ("behaviour", "channel", "effects", "is_excused"),
    [
        ("ok", "email", 1, False),  # its report would have moved it
        ("bounce", "email", 1, False),
        ("ok", "webhook", 1, True),
        ("bounce", "webhook", 1, True),
        ("silent", "email", 1, True),
        ("hang", "email", 1, True),
        ("drop", "email", 1, True),
        ("silent", "email", 2, False),
        ("ok", "webhook", 2, False),
    ],
)
def test_only_what_nobody_reports_may_have_taken_effect_and_once(
    behaviour: str, channel: str, effects: int, is_excused: bool
) -> None:
    held = seen(behaviour, channel=channel, effects=effects)
    assert (excuse(held, detail(*[LOST] * 5), kills()) is not None) == is_excused


def test_a_suppression_that_nothing_explains_is_not_excused() -> None:
    held = seen("bounce", is_suppressed=True)
    assert excuse(held, detail(*[LOST] * 5), kills()) is None


def test_an_excused_end_has_no_faults_and_another_has() -> None:
    assert seen().faults
    excused = Seen(
        item=seen().item,
        status=Status.DEAD,
        reason=Reason.OUTCOME_UNKNOWN,
        effects=0,
        is_suppressed=False,
        ended_at=AT,
        excuse="the kills spent its attempts",
    )
    assert excused.faults == []
