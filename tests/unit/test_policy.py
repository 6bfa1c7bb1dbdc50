"""The policy: a pure function of what it is given, under a version."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from functions.core.decision import inputs_of
from functions.core.policy import (
    POLICY_VERSION,
    SPREADS,
    Allow,
    ContactPoint,
    Defer,
    QuietHours,
    Recipient,
    Rules,
    Suppress,
    decide,
)
from functions.core.states import Priority
from tests.deciding import Asking, point, somebody, window

NOON = datetime(2030, 5, 17, 12, tzinfo=UTC)
NIGHT = datetime(2030, 5, 17, 23, tzinfo=UTC)
QUIET: dict[str, Any] = {"time_zone": "UTC", "quiet_hours": window("21:00-07:00")}


def verdict_of(
    asking: Asking, recipient: Recipient | None, now: datetime = NOON
) -> tuple[str, str | None]:
    verdict = decide(asking, recipient, now=now)
    return verdict.name, None if isinstance(verdict, Allow) else verdict.reason


def test_a_literal_address_is_allowed_at_any_hour() -> None:
    for hour in range(24):
        for channel in ("email", "sms", "push", "webhook"):
            asking = Asking(channel=channel, recipient_id=None)
            assert decide(asking, None, now=NOON.replace(hour=hour)) == Allow()


def test_the_same_question_has_the_same_answer() -> None:
    for recipient in (None, somebody(), somebody(**QUIET)):
        answers = [decide(Asking(), recipient, now=NIGHT) for _ in range(2)]
        assert answers[0] == answers[1]


def test_verdicts_are_values_with_the_names_that_are_stored() -> None:
    verdicts = (Allow(), Defer(until=NOON, reason="quiet_hours"), Suppress(reason="opted_out"))
    assert [verdict.name for verdict in verdicts] == ["allow", "defer", "suppress"]


def test_a_verdict_is_stored_with_a_version() -> None:
    assert POLICY_VERSION == 2


def test_what_was_erased_is_suppressed_with_a_literal_address_too() -> None:
    for recipient_id in ("ada", None):
        asking = Asking(recipient_id=recipient_id, is_erased=True)
        assert verdict_of(asking, somebody()) == ("suppress", "erased")
    assert verdict_of(Asking(), None) == ("suppress", "erased")


@pytest.mark.parametrize(
    ("transactional", "preference", "mandatory", "expected"),
    [
        (True, None, False, "allow"),
        (True, True, False, "allow"),
        (True, False, False, "opted_out"),
        (True, False, True, "allow"),
        (False, True, False, "allow"),
        (False, None, False, "no_consent"),
        (False, False, False, "opted_out"),
        (False, None, True, "no_consent"),  # what is bulk is never mandatory
        (False, False, True, "opted_out"),
    ],
)
def test_bulk_needs_a_yes_and_transactional_no_no_unless_it_is_mandatory(
    transactional: bool, preference: bool | None, mandatory: bool, expected: str
) -> None:
    rules = Rules(version=1, mandatory=mandatory)
    recipient = somebody(preference=preference, rules=rules, transactional=transactional)
    name, reason = verdict_of(Asking(), recipient)
    assert (reason or name) == expected


def reader(*points: ContactPoint, **more: Any) -> Recipient:
    """Return somebody who asked for what is bulk."""
    return somebody(*points, transactional=False, preference=True, **more)


def chosen(asking: Asking, recipient: Recipient) -> str:
    """Return the name of the contact point that is chosen, or the reason why none is."""
    verdict = decide(asking, recipient, now=NOON)
    if isinstance(verdict, Allow):
        assert verdict.contact_point is not None
        return verdict.contact_point.address_hash[:1].decode()
    return verdict.reason


def test_addresses_are_taken_in_the_recipients_order_verified_ones_first() -> None:
    a, b, c = point("a", verified=False), point("b"), point("c")
    assert chosen(Asking(), somebody(c, b)) == "c"
    assert chosen(Asking(), somebody(a, b, c)) == "b"
    assert chosen(Asking(), somebody(a)) == "a"
    assert chosen(Asking(), reader(a, c, b)) == "c"
    assert chosen(Asking(), reader(a)) == "not_verified"
    assert chosen(Asking(), replace(somebody(), contact_points=())) == "no_contact_point"
    assert chosen(Asking(), replace(reader(), contact_points=())) == "no_contact_point"


def test_suppressed_addresses_are_passed_over() -> None:
    gone, b, unverified = point("a", is_suppressed=True), point("b"), point("c", verified=False)
    assert chosen(Asking(), somebody(gone, b)) == "b"
    assert chosen(Asking(), somebody(gone, unverified)) == "c"
    assert chosen(Asking(), reader(gone, unverified)) == "suppressed"
    assert chosen(Asking(), somebody(gone)) == "suppressed"


def test_what_may_have_been_accepted_goes_to_the_same_address_or_nowhere() -> None:
    a, b = point("a"), point("b")
    in_doubt = Asking(in_doubt=1, contact_hash=b.address_hash, had_attempt=True)
    assert chosen(in_doubt, somebody(a, b)) == "b"
    assert chosen(in_doubt, somebody(a)) == "contact_point_changed"
    assert chosen(in_doubt, replace(somebody(), contact_points=())) == "contact_point_changed"
    assert chosen(in_doubt, somebody(a, point("b", is_suppressed=True))) == "suppressed"
    # What provably was not accepted is free to go elsewhere.
    assert chosen(Asking(contact_hash=b.address_hash, had_attempt=True), somebody(a, b)) == "a"


def test_the_language_of_a_first_attempt_stays_and_that_of_none_does_not() -> None:
    def locale_of(asking: Asking) -> str | None:
        verdict = decide(asking, somebody(locale="de-AT"), now=NOON)
        assert isinstance(verdict, Allow)
        return verdict.locale

    assert locale_of(Asking()) == "de-AT"
    assert locale_of(Asking(locale="en")) == "de-AT"
    assert locale_of(Asking(locale="en", had_attempt=True)) == "en"
    assert locale_of(Asking(locale=None, had_attempt=True)) is None


def test_the_consent_is_asked_before_the_clock_and_the_clock_before_nothing() -> None:
    assert verdict_of(Asking(), somebody(**QUIET), NIGHT) == ("defer", "quiet_hours")
    assert verdict_of(Asking(), somebody(preference=False, **QUIET), NIGHT)[1] == "opted_out"
    suppressed = somebody(point(is_suppressed=True), **QUIET)
    assert verdict_of(Asking(), suppressed, NIGHT)[1] == "suppressed"
    assert verdict_of(Asking(), somebody(**QUIET), NOON) == ("allow", None)


@pytest.mark.parametrize(
    ("transactional", "priority", "bypasses", "expected"),
    [
        (True, "high", True, "bypassed"),
        (True, "high", False, "quiet_hours"),  # by default they do not
        (True, "normal", True, "quiet_hours"),
        (False, "high", True, "quiet_hours"),
    ],
)
def test_only_high_transactional_ones_bypass_quiet_hours_where_it_is_declared(
    transactional: bool, priority: str, bypasses: bool, expected: str
) -> None:
    rules = Rules(version=1, high_bypasses_quiet_hours=bypasses)
    recipient = somebody(preference=True, rules=rules, transactional=transactional, **QUIET)
    verdict = decide(Asking(priority=priority), recipient, now=NIGHT)
    found = verdict.quiet_hours_rule if isinstance(verdict, Allow) else verdict.reason  # pyright: ignore[reportAttributeAccessIssue]
    assert found == expected


def test_what_is_allowed_tells_what_quiet_hours_had_to_say() -> None:
    rules = Rules(version=1, high_bypasses_quiet_hours=True)
    for recipient, priority, expected in (
        (somebody(), "normal", QuietHours.NONE),
        (somebody(**QUIET), "normal", QuietHours.OVER),
        (somebody(rules=rules, **QUIET), "high", QuietHours.OVER),
    ):
        verdict = decide(Asking(priority=priority), recipient, now=NOON)
        assert isinstance(verdict, Allow)
        assert verdict.quiet_hours_rule == expected


def test_a_send_window_is_of_the_recipients_clock_and_nobody_bypasses_it() -> None:
    rules = Rules(version=1, window=window("09:00-17:00"), high_bypasses_quiet_hours=True)
    early = NOON.replace(hour=7, minute=30)
    urgent = Asking(priority="high")
    assert verdict_of(urgent, somebody(rules=rules), early) == ("defer", "outside_send_window")
    assert verdict_of(urgent, somebody(rules=rules, time_zone="Europe/Berlin"), early)[0] == "allow"
    evening = NOON.replace(hour=16)
    assert verdict_of(urgent, somebody(rules=rules), evening)[0] == "allow"
    late = somebody(rules=rules, time_zone="Europe/Berlin")
    assert verdict_of(urgent, late, evening) == ("defer", "outside_send_window")


def until_of(asking: Asking, recipient: Recipient, now: datetime) -> datetime:
    verdict = decide(asking, recipient, now=now)
    assert isinstance(verdict, Defer)
    return verdict.until


def test_quiet_hours_and_send_window_are_both_over_when_it_is_let_go() -> None:
    # Quiet until 07:00, then the window opens at 09:00; quiet again from 12:00, over at 14:00.
    rules = Rules(version=1, window=window("09:00-17:00"))
    night = somebody(rules=rules, **QUIET)
    assert until_of(Asking(), night, NIGHT) >= NIGHT.replace(day=18, hour=9)
    noon = somebody(rules=rules, time_zone="UTC", quiet_hours=window("08:00-14:00"))
    assert until_of(Asking(), noon, NOON) >= NOON.replace(hour=14)
    assert until_of(Asking(), noon, NOON.replace(hour=7)) >= NOON.replace(hour=14)


@pytest.mark.parametrize("quiet", ["08:00-18:00", "09:00-17:00", "17:00-16:59:30"])
def test_quiet_hours_that_leave_no_moment_of_the_window_end_it_at_any_hour(quiet: str) -> None:
    """It would wait for ever, put off from the end of the one to that of the other."""
    rules = Rules(version=1, window=window("09:00-16:59:30"))
    for zone in ("UTC", "Europe/Berlin"):
        never = somebody(rules=rules, time_zone=zone, quiet_hours=window(quiet))
        for hour in range(24):
            found = verdict_of(Asking(), never, NOON.replace(hour=hour))
            assert found == ("suppress", "no_send_time")


def test_quiet_hours_that_leave_a_moment_of_the_window_are_waited_for() -> None:
    rules = Rules(version=1, window=window("09:00-17:00"))
    for quiet, hour, minute in (("09:00-16:59", 16, 59), ("09:01-17:00", 9, 0)):
        barely = somebody(rules=rules, time_zone="UTC", quiet_hours=window(quiet))
        sharp = NOON.replace(day=17 if hour > 12 else 18, hour=hour, minute=minute)
        assert sharp <= until_of(Asking(), barely, NOON) < sharp + timedelta(minutes=1)


def test_who_bypasses_quiet_hours_waits_for_the_window_alone() -> None:
    rules = Rules(version=1, window=window("09:00-17:00"), high_bypasses_quiet_hours=True)
    morning = NOON.replace(day=18, hour=9)
    for quiet in ("08:00-18:00", "21:00-10:00"):
        urgent, recipient = (
            Asking(priority="high"),
            somebody(rules=rules, time_zone="UTC", quiet_hours=window(quiet)),
        )
        assert verdict_of(urgent, recipient, NIGHT) == ("defer", "outside_send_window")
        until = until_of(urgent, recipient, NIGHT)
        assert morning <= until < morning + timedelta(minutes=1)
        assert verdict_of(urgent, recipient, morning) == ("allow", None)


def test_a_zone_that_nobody_knows_is_no_reason_to_send_at_a_guess() -> None:
    lost = somebody(time_zone="Atlantis/Capital", quiet_hours=window("21:00-07:00"))
    assert decide(Asking(), lost, now=NOON) == Defer(
        until=NOON + timedelta(hours=1), reason="unknown_time_zone", blocked=True
    )
    # Where no window asks for it, it does not matter.
    assert verdict_of(Asking(), somebody(time_zone="Atlantis/Capital"))[0] == "allow"


def ids(count: int) -> list[UUID]:
    return [UUID(int=0x01900000_0000_7000_8000_000000000000 + number) for number in range(count)]


@pytest.mark.parametrize("priority", list(Priority))
def test_what_was_deferred_to_one_moment_is_let_go_evenly_over_its_spread(
    priority: Priority,
) -> None:
    sharp = NIGHT.replace(day=18, hour=7)
    spread = SPREADS[priority]
    untils = [
        until_of(Asking(id=id, priority=priority), somebody(**QUIET), NIGHT) for id in ids(5000)
    ]
    shares = [(until - sharp) / spread for until in untils]
    assert min(shares) >= 0
    assert max(shares) < 1
    tenths = Counter(int(share * 10) for share in shares)
    assert set(tenths) == set(range(10))
    assert all(400 < count < 600 for count in tenths.values())


def test_nothing_is_let_go_so_late_that_it_is_quiet_again_or_expired() -> None:
    sharp = NIGHT.replace(day=18, hour=7)
    brief = somebody(time_zone="UTC", quiet_hours=window("07:05-07:00"))
    expiring = sharp + timedelta(seconds=90)
    for id in ids(300):
        until = until_of(Asking(id=id, priority="low"), brief, NIGHT)
        assert sharp <= until < sharp + timedelta(minutes=5)
        until = until_of(Asking(id=id, expires_at=expiring), somebody(**QUIET), NIGHT)
        assert sharp <= until < expiring


@pytest.mark.parametrize("before_seconds", [0, 3600])
def test_what_expires_before_the_end_is_deferred_all_the_same(before_seconds: int) -> None:
    sharp = NIGHT.replace(day=18, hour=7)
    asking = Asking(expires_at=sharp - timedelta(seconds=before_seconds))
    assert until_of(asking, somebody(**QUIET), NIGHT) >= sharp


def test_in_the_last_year_there_is_no_later_to_defer_to() -> None:
    rules = Rules(version=1, high_bypasses_quiet_hours=True)
    for moment in (datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(9999, 1, 1)):  # noqa: DTZ001
        for zone in ("Pacific/Kiritimati", "Pacific/Niue"):
            recipient = somebody(time_zone=zone, quiet_hours=window("00:00-23:59"), rules=rules)
            now = moment.replace(tzinfo=UTC)
            for priority in ("high", "low"):
                assert verdict_of(Asking(priority=priority), recipient, now)[0] == "allow"
            assert inputs_of(recipient, None, now=now)["recipient_version"] == 7
    last = datetime(9998, 12, 31, 23, 58, tzinfo=UTC)
    recipient = somebody(time_zone="UTC", quiet_hours=window("22:00-21:00"))
    assert until_of(Asking(), recipient, last) >= datetime(9999, 1, 1, 21, tzinfo=UTC)


def test_what_it_was_decided_from_is_told_without_an_address() -> None:
    recipient = somebody(
        locale="de",
        time_zone="Asia/Kathmandu",
        quiet_hours=window("21:00-07:00:30"),
        preference=True,
        rules=Rules(version=3, window=window("09:00-17:00")),
    )
    expected: dict[str, Any] = {
        "recipient_version": 7,
        "rules_version": 3,
        "transactional": True,
        "locale": "de",
        "time_zone": "Asia/Kathmandu",
        "quiet_hours": {"start": "21:00", "end": "07:00:30"},
        "window": {"start": "09:00", "end": "17:00"},
        "preference": True,
        "contact_verified": True,
        "local_time": "2030-05-17T17:45:00+05:45",
    }
    assert inputs_of(recipient, point(), now=NOON) == expected
    unknown = inputs_of(somebody(time_zone="Atlantis/Capital"), None, now=NOON)
    assert (unknown["local_time"], unknown["contact_verified"]) == (None, None)
    assert inputs_of(None, None, now=NOON) == {"recipient_version": None}
