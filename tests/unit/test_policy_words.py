"""A verdict in words, and a stored one beside today's: what changed, and what that changed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.core.decision import inputs_of
from functions.core.policy import (
    POLICY_VERSION,
    Allow,
    Because,
    Defer,
    QuietHours,
    Recipient,
    Rules,
    Suppress,
    decide,
)
from functions.core.policy_words import (
    LITERAL,
    Stored,
    changes_between,
    difference_words,
    stored_of,
    verdict_words,
)
from tests.deciding import Asking, point, somebody, window
from tests.histories import Decided

NOW = datetime(2030, 1, 1, 21, 41, tzinfo=UTC)
LATER = NOW + timedelta(hours=12)
BERLIN: dict[str, Any] = {"time_zone": "Europe/Berlin", "quiet_hours": window("22:00-07:00")}


def words(asking: Asking, recipient: Recipient | None, *, now: datetime = NOW) -> str:
    verdict = decide(asking, recipient, now=now)
    inputs = inputs_of(recipient, None, now=now)
    return verdict_words(verdict, asking, channel=asking.channel, inputs=inputs, now=now)


@pytest.mark.parametrize(
    ("asking", "recipient", "said"),
    [
        (Asking(recipient_id=None), None, LITERAL),
        (
            Asking(),
            somebody(locale="de"),
            "It may be sent, by email to a verified contact point, in de.",
        ),
        (
            Asking(channel="sms"),
            somebody(point(verified=False)),
            "It may be sent, by SMS to an unverified contact point.",
        ),
        (
            Asking(),
            None,
            "The recipient was erased before it was taken up. It ends as suppressed.",
        ),
        (
            Asking(category="news"),
            somebody(preference=False),
            "The recipient opted out of news by email. It ends as suppressed.",
        ),
        (
            Asking(),
            somebody(
                rules=Rules(version=1, window=window("08:00-20:00")),
                time_zone="Europe/Berlin",
                quiet_hours=window("07:00-22:00"),
            ),
            "The recipient's quiet hours leave no moment of the send window of its category. It "
            "ends as suppressed.",
        ),
        (
            Asking(category="news", in_doubt=1),
            somebody(transactional=False),
            "The recipient never asked for news by email, and a bulk category is sent to nobody "
            "unasked. It ends as unconfirmed.",
        ),
    ],
)
def test_a_verdict_is_told_with_where_it_leads(
    asking: Asking, recipient: Recipient | None, said: str
) -> None:
    assert words(asking, recipient) == said


def test_every_reason_of_the_policy_is_told() -> None:
    told = {
        reason: verdict_words(
            Defer(until=LATER, reason=reason)
            if reason in (Because.QUIET_HOURS, Because.OUTSIDE_SEND_WINDOW)
            or reason is Because.UNKNOWN_TIME_ZONE
            else Suppress(reason=reason),
            Asking(),
            channel="email",
            inputs=inputs_of(somebody(**BERLIN, rules=somebody().rules), point(), now=NOW),
            now=NOW,
        )
        for reason in Because
        if reason is not Because.OUTSIDE_SEND_WINDOW
    }
    assert len(set(told.values())) == len(told)
    assert all(text.endswith(".") and "{" not in text for text in told.values())
    assert "asked about again" in told[Because.UNKNOWN_TIME_ZONE]


def test_a_deferral_and_what_bypasses_it_are_told() -> None:
    quiet = somebody(**BERLIN)
    told = words(Asking(), quiet)
    assert told.startswith("It is 22:41 in Europe/Berlin, within the recipient's quiet hours")
    allowed = Allow(contact_point=point(), quiet_hours_rule=QuietHours.BYPASSED)
    assert verdict_words(allowed, Asking(), channel="email", inputs={}, now=NOW).endswith(
        "; quiet hours are bypassed, as its priority and its category may."
    )


def stored(verdict: str = "defer", reason: str | None = "quiet_hours", **more: Any) -> Stored:
    return Stored(
        verdict=verdict,
        reason=reason,
        at=more.pop("at", NOW),
        policy_version=more.pop("policy_version", POLICY_VERSION),
        inputs=inputs_of(somebody(**(BERLIN | more)), None, now=NOW),
    )


def compared(was: Stored | None, recipient: Recipient, *, now: datetime = LATER) -> str:
    verdict = decide(Asking(), recipient, now=now)
    chosen = verdict.contact_point if isinstance(verdict, Allow) else None
    inputs = inputs_of(recipient, chosen, now=now)
    changes = changes_between(was, inputs, is_allowed=isinstance(verdict, Allow))
    return difference_words(was, verdict, changes)


def test_before_the_first_verdict_there_is_nothing_to_compare() -> None:
    assert compared(None, somebody()) == "Nothing was decided of it yet."


def test_the_same_verdict_from_the_same_is_said_to_be_so() -> None:
    assert compared(stored(), somebody(**BERLIN), now=NOW) == (
        "It is as it was decided at 2030-01-01T21:41:00Z: defer (quiet_hours)."
    )


def test_another_verdict_by_the_clock_alone_is_said_to_be_so() -> None:
    assert compared(stored(), somebody(**BERLIN)) == (
        "It is not as it was decided at 2030-01-01T21:41:00Z: defer (quiet_hours). Nothing else "
        "changed than the time, or which addresses there are."
    )


def test_what_changed_is_named_with_its_values() -> None:
    changed = replace(
        somebody(transactional=False, **BERLIN),
        version=9,
        time_zone="Asia/Tokyo",
        preference=False,
    )
    assert compared(stored(policy_version=1), changed) == (
        "It is not as it was decided at 2030-01-01T21:41:00Z: defer (quiet_hours). Changed since: "
        f"the policy itself (1 to {POLICY_VERSION}), the recipient's record (7 to 9), "
        "whether the category is transactional (yes to no), the time zone (Europe/Berlin to "
        "Asia/Tokyo), what the recipient said (none to no)."
    )


def test_of_a_recipient_that_is_gone_only_that_is_told() -> None:
    verdict = decide(Asking(), None, now=LATER)
    changes = changes_between(stored(), inputs_of(None, None, now=LATER), is_allowed=False)
    assert changes == {"recipient_version": (7, None)}
    assert difference_words(stored(), verdict, changes).endswith(
        "Changed since: the recipient's record (7 to none)."
    )


def test_what_something_else_stopped_is_not_laid_at_the_policys_door() -> None:
    assert compared(stored(reason="endpoint_busy"), somebody(**BERLIN)) == (
        "What stopped it at 2030-01-01T21:41:00Z was not the policy, but something else: "
        "endpoint_busy."
    )


def test_a_verdict_that_allowed_is_as_old_as_what_it_was_made_from() -> None:
    inputs = inputs_of(somebody(**BERLIN), point(), now=LATER)
    decided = Decided(verdict="allow", policy_version=2, decision=inputs)
    found = stored_of(decided, at=NOW, reason="quiet_hours")
    assert found is not None
    assert (found.at, found.reason) == (LATER, None)
    literal = stored_of(Decided(verdict="allow", policy_version=1), at=None, reason=None)
    assert literal is not None
    assert (literal.at, changes_between(literal, {}, is_allowed=True)) == (
        None,
        {"policy_version": (1, POLICY_VERSION)},
    )
    assert stored_of(Decided(), at=None, reason=None) is None
