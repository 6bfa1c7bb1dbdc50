"""Windows by the clock on the wall: their edges, over midnight, and where clocks are changed."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise

import pytest

from functions.core.local_time import (
    UnknownZone,
    Window,
    first_inside,
    first_outside,
    is_zone,
    zone_names,
    zone_of,
)
from tests.deciding import window


def at(wall: str, zone: str, *, fold: int = 0) -> datetime:
    """Return the moment at which the clock in ``zone`` shows ``wall`` (the ``fold``-th time)."""
    local = datetime.fromisoformat(wall).replace(tzinfo=zone_of(zone), fold=fold)
    return local.astimezone(UTC)


def test_f1_the_edges_of_a_window_over_midnight() -> None:
    night = window("21:00-07:00")
    held = ("21:00", "21:00:00.000001", "23:59", "00:00", "06:59", "06:59:59.999999")
    free = ("20:59", "20:59:59.999999", "07:00", "12:00")
    assert [wall for wall in held if not night.holds(time.fromisoformat(wall))] == []
    assert [wall for wall in free if night.holds(time.fromisoformat(wall))] == []


def test_f1_a_window_up_to_2359_leaves_out_the_last_minute_and_one_up_to_midnight_does_not() -> (
    None
):
    nearly = window("00:00-23:59")
    assert nearly.holds(time(0))
    assert nearly.holds(time(23, 58, 59))
    assert not nearly.holds(time(23, 59))
    evening = window("20:00-00:00")
    assert evening.holds(time(23, 59, 59, 999999))
    assert not evening.holds(time(0))


def test_the_rest_of_a_day_is_all_that_a_window_does_not_hold() -> None:
    for one in (window("21:00-07:00"), window("09:00-17:00"), window("00:00-23:59")):
        for minute in range(24 * 60):
            wall = time(minute // 60, minute % 60)
            assert one.holds(wall) is not one.rest.holds(wall)


def test_f1_what_is_held_is_released_at_the_end_sharp() -> None:
    night = window("21:00-07:00")
    end = at("2026-06-02T07:00", "Europe/Paris")
    for wall in ("2026-06-01T21:00", "2026-06-01T23:59", "2026-06-02T00:00", "2026-06-02T06:59"):
        moment = at(wall, "Europe/Paris")
        assert first_outside(night, moment, zone=zone_of("Europe/Paris")) == end
    for wall in ("2026-06-01T20:59", "2026-06-02T07:00"):
        moment = at(wall, "Europe/Paris")
        assert first_outside(night, moment, zone=zone_of("Europe/Paris")) == moment


def test_f1_a_window_that_got_past_the_door_with_one_end_twice_holds_nothing_and_ends_at_once() -> (
    None
):
    noon, zone = at("2026-06-01T12:00", "UTC"), zone_of("UTC")
    for one in (window("08:00-08:00"), window("12:00-12:00"), window("00:00-00:00")):
        assert not one.holds(time(12))
        assert first_outside(one, noon, zone=zone) == first_inside(one, noon, zone=zone) == noon


CASES = [
    # The clock goes forward: 02:00 is followed by 03:00, and the night is an hour shorter.
    ("Europe/Berlin", "22:00-07:00", "2026-03-28T23:00", "2026-03-29T07:00", 0, 7),
    # A window that would have ended at 02:30 is left by the jump.
    ("Europe/Berlin", "22:00-02:30", "2026-03-28T23:00", "2026-03-29T03:00", 0, 3),
    # The clock goes back: 03:00 is followed by 02:00, and the night is an hour longer.
    ("Europe/Berlin", "22:00-07:00", "2026-10-24T23:00", "2026-10-25T07:00", 0, 9),
    # It is over when the clock shows its end for the first time …
    ("Europe/Berlin", "22:00-02:30", "2026-10-24T23:00", "2026-10-25T02:30", 0, 3.5),
    # … at whatever place: New York is an hour behind itself at 02:00 already.
    ("America/New_York", "22:00-01:30", "2027-11-06T23:00", "2027-11-07T01:30", 0, 2.5),
    # Half an hour only, at Lord Howe.
    ("Australia/Lord_Howe", "22:00-07:00", "2027-04-03T23:00", "2027-04-04T07:00", 0, 8.5),
    ("Australia/Lord_Howe", "22:00-02:15", "2027-10-02T23:00", "2027-10-03T02:30", 0, 3),
    # No clock is changed in Kathmandu, where it is a quarter to.
    ("Asia/Kathmandu", "21:00-07:00", "2026-03-28T23:00", "2026-03-29T07:00", 0, 8),
    # A whole day was left out at Apia: the 30th was never there.
    ("Pacific/Apia", "22:00-07:00", "2011-12-29T23:00", "2011-12-31T07:00", 0, 8),
]


@pytest.mark.parametrize(("zone", "hours", "now", "end", "fold", "lasts"), CASES)
def test_windows_end_by_the_wall_clock_on_both_clock_changes(
    zone: str, hours: str, now: str, end: str, fold: int, lasts: float
) -> None:
    begins = at(now, zone)
    found = first_outside(window(hours), begins, zone=zone_of(zone))
    assert found == at(end, zone, fold=fold)
    assert found - begins == timedelta(hours=lasts)


def test_a_clock_set_back_enters_a_window_again() -> None:
    zone = zone_of("Europe/Berlin")
    night = window("22:00-02:30")
    free = at("2026-10-25T02:30", "Europe/Berlin")
    again = first_inside(night, free, zone=zone)
    assert again == at("2026-10-25T02:00", "Europe/Berlin", fold=1)
    assert first_outside(night, again, zone=zone) == at("2026-10-25T02:30", "Europe/Berlin", fold=1)


def test_a_change_within_the_very_second_is_seen() -> None:
    zone = zone_of("Europe/Berlin")
    jump = datetime(2026, 3, 29, 1, tzinfo=UTC)
    brief = Window(start=time(1, 59, 59), end=time(2, 30))
    for microseconds in (1, 999_999, 1_000_000):
        now = jump - timedelta(microseconds=microseconds)
        assert first_outside(brief, now, zone=zone) == jump
    assert first_outside(brief, jump, zone=zone) == jump


def test_every_zone_that_is_named_can_be_read_and_no_other() -> None:
    names = zone_names()
    assert len(names) > 500
    assert {zone_of(name).key for name in names} == names
    for name in (
        "Europe/Atlantis",
        "europe/berlin",
        "../UTC",
        "/etc/passwd",
        "",
        "UTC ",
        "Factory",
    ):
        assert not is_zone(name)
        with pytest.raises(UnknownZone):
            zone_of(name)


def test_no_zone_changes_its_clock_twice_within_days() -> None:
    """What a look for the change in between relies on, for the years that are sent in."""
    begins, ends = datetime(2026, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
    moments = [begins + timedelta(hours=6) * step for step in range(4 * (ends - begins).days)]
    seen: set[tuple[timedelta | None, ...]] = set()
    for name in zone_names():
        zone = zone_of(name)
        sample = tuple(moment.astimezone(zone).utcoffset() for moment in moments[::28])
        if sample in seen:  # another name of the same clock
            continue
        seen.add(sample)
        offsets = [moment.astimezone(zone).utcoffset() for moment in moments]
        changes = [
            place for place in range(1, len(offsets)) if offsets[place - 1] != offsets[place]
        ]
        assert all(later - one > 8 for one, later in pairwise(changes)), name
