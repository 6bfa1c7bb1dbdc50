"""Every zone, every window, and the clock changes of 2026 to 2028: when the policy lets go.

What is compared with is put together in another way: from the moments at which the wall's clock can
leave a window at all, which are its end on each day (twice where the clock is set back) and the
clock changes.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from functools import cache
from uuid import UUID
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from functions.core.local_time import Window, zone_names, zone_of
from functions.core.policy import SPREADS, Allow, Defer, Recipient, Rules, Suppress, decide
from functions.core.states import Priority
from tests.deciding import Asking, somebody, window

CASES = 10_000
BEGINS, ENDS = datetime(2026, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
ODD = [
    "Africa/Casablanca",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
]
"""Half hours, quarters, two hours at once, negative summer time, thirteen hours ahead and more."""


@cache
def changes_of(name: str) -> list[datetime]:
    """Return when the zone changes its clock, to the minute."""
    zone, found = zone_of(name), list[datetime]()
    moment = BEGINS - timedelta(days=3)
    while moment < ENDS + timedelta(days=3):
        later = moment + timedelta(days=7)
        if later.astimezone(zone).utcoffset() != moment.astimezone(zone).utcoffset():
            found += _changes_between(moment, later, zone)
        moment = later
    return found


def _changes_between(start: datetime, end: datetime, zone: ZoneInfo) -> list[datetime]:
    step = next(
        size
        for size in (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1))
        if size < end - start or size == timedelta(minutes=1)
    )
    found: list[datetime] = []
    while start < end:
        later = start + step
        if later.astimezone(zone).utcoffset() != start.astimezone(zone).utcoffset():
            found += (
                [later] if step == timedelta(minutes=1) else _changes_between(start, later, zone)
            )
        start = later
    return found


def leaving(windows: Sequence[Window], now: datetime, name: str) -> list[datetime]:
    """Return the moments from ``now`` on at which a window may be left, in order."""
    zone = zone_of(name)
    day = now.astimezone(zone).date()
    moments = [
        datetime.combine(day + timedelta(days=days), one.end, zone).replace(fold=fold)
        for days in range(8)
        for one in windows
        for fold in (0, 1)
    ]
    near = [one for one in changes_of(name) if abs(one - now) < timedelta(days=8)]
    return sorted(moment for one in moments + near if (moment := one.astimezone(UTC)) >= now)


def is_closed(windows: Sequence[Window], moment: datetime, name: str) -> bool:
    wall = moment.astimezone(zone_of(name)).time()
    return any(one.holds(wall) for one in windows)


def entering(windows: Sequence[Window], sharp: datetime, name: str) -> datetime:
    """Return when one of the windows begins to hold again."""
    starts = [one.rest for one in windows]
    return next(
        moment for moment in leaving(starts, sharp, name) if is_closed(windows, moment, name)
    )


DAY = 24 * 60


def window_by(number: int) -> Window:
    """Return one of all windows of whole minutes."""
    start, minutes = divmod(number, DAY - 1)
    end = (start + minutes + 1) % DAY
    return Window(start=time(*divmod(start, 60)), end=time(*divmod(end, 60)))


def moment_by(seconds: int, name: str) -> datetime:
    """Return any moment of the three years; for negative numbers within a day of a clock change,
    where there is one."""
    changes = changes_of(name)
    if seconds >= 0 or not changes:
        return BEGINS + timedelta(seconds=abs(seconds))
    place, near = divmod(-seconds, 2 * NEAR_SECONDS)
    return changes[place % len(changes)] + timedelta(seconds=near - NEAR_SECONDS)


NEAR_SECONDS = 26 * 3600
SPAN = int((ENDS - BEGINS).total_seconds())
WINDOWS = st.integers(0, DAY * (DAY - 1) - 1).map(window_by)
ZONES = st.sampled_from([*ODD * 20, *sorted(zone_names())])
PRIORITIES = st.sampled_from(list(Priority))


# Few draws for each case: it is they that take the time.
@settings(max_examples=CASES, deadline=None)
@given(ZONES, st.integers(-SPAN, SPAN), WINDOWS, st.none() | WINDOWS, PRIORITIES)
def test_f1_what_is_within_quiet_hours_waits_until_the_wall_clock_is_outside_and_nothing_else_does(
    name: str, seconds: int, quiet: Window, send: Window | None, priority: Priority
) -> None:
    now = moment_by(seconds, name)
    id = UUID(int=abs(seconds) << 64)
    recipient = somebody(time_zone=name, quiet_hours=quiet, rules=Rules(version=1, window=send))
    closed = [quiet] if send is None else [quiet, send.rest]

    verdict = decide(Asking(id=id, priority=priority), recipient, now=now)

    assert isinstance(verdict, Allow) is not is_closed(closed, now, name)
    if isinstance(verdict, Allow):
        return
    candidates = leaving(closed, now, name)
    sharp = next((moment for moment in candidates if not is_closed(closed, moment, name)), None)
    if sharp is None:  # in eight days: they leave no moment of any
        assert verdict == Suppress(reason="no_send_time")
        return
    assert isinstance(verdict, Defer)
    is_quiet = is_closed([quiet], now, name)
    assert verdict.reason == ("quiet_hours" if is_quiet else "outside_send_window")
    spread = SPREADS[priority]
    assert sharp <= verdict.until < min(sharp + spread, entering(closed, sharp, name))
    assert not is_closed(closed, verdict.until, name)


F1 = {
    "20:59": None,
    "21:00": "07:00",
    "23:59": "07:00",
    "00:00": "07:00",
    "06:59": "07:00",
    "07:00": None,
}


def decided_at(wall: str, hours: str, zone: str) -> datetime | None:
    """Return until when the policy defers what it is asked about at ``wall``; None: it does not."""
    now = datetime.fromisoformat(f"2026-06-15T{wall}").replace(tzinfo=zone_of(zone))
    recipient: Recipient = somebody(time_zone=zone, quiet_hours=window(hours))
    verdict = decide(Asking(), recipient, now=now.astimezone(UTC))
    return verdict.until.astimezone(zone_of(zone)) if isinstance(verdict, Defer) else None


def test_f1_quiet_hours_over_midnight_hold_from_their_start_and_release_at_their_end() -> None:
    for zone in ODD:
        for wall, end in F1.items():
            until = decided_at(wall, "21:00-07:00", zone)
            if end is None:
                assert until is None
            else:
                assert until is not None
                assert f"{until:%H}" == end[:2]
                assert until.minute < SPREADS[Priority.NORMAL].total_seconds() / 60


def test_f1_quiet_hours_up_to_2359_leave_one_minute_and_what_waits_is_let_go_within_it() -> None:
    for wall in ("00:00", "12:00", "23:58:59"):
        until = decided_at(wall, "00:00-23:59", "Europe/Paris")
        assert until is not None
        assert f"{until:%H:%M}" == "23:59"
    assert decided_at("23:59", "00:00-23:59", "Europe/Paris") is None
