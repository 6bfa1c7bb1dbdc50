"""A deferral in words: the recipient's clock, what keeps it, and when it goes out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.core.deferral import deferral_words
from functions.core.forecast import next_sentence
from functions.core.policy import Because
from functions.core.timeline import timeline
from tests.histories import Change, Decided, Row, told_of

AT = datetime(2030, 1, 1, 21, 41, tzinfo=UTC)  # 22:41 in Berlin
UNTIL = datetime(2030, 1, 2, 6, 4, 11, tzinfo=UTC)
NIGHT, DAY = {"start": "22:00", "end": "07:00"}, {"start": "08:00", "end": "20:00"}


def decision(zone: str | None = "Europe/Berlin", **more: Any) -> dict[str, Any]:
    return {"time_zone": zone, "quiet_hours": None, "window": None, **more}


def words(
    made_from: dict[str, Any] | None,
    reason: str = Because.QUIET_HOURS,
    *,
    at: datetime = AT,
    until: datetime = UNTIL,
    expires_at: datetime | None = None,
    was: bool = False,
) -> str | None:
    return deferral_words(
        made_from,
        reason=reason,
        category="news",
        at=at,
        until=until,
        expires_at=expires_at,
        was=was,
    )


QUIET = decision(quiet_hours=NIGHT)


def test_quiet_hours_are_told_by_the_recipients_clock() -> None:
    assert words(QUIET) == (
        "It is 22:41 in Europe/Berlin, within the recipient's quiet hours 22:00–07:00; it goes out "
        "about 07:04."
    )


def test_the_past_is_told_as_such_and_the_future_by_our_clock_too() -> None:
    assert words(QUIET, was=True) == (
        "It was 22:41 in Europe/Berlin, within the recipient's quiet hours 22:00–07:00; it goes "
        "out about 07:04 (2030-01-02T06:04:11Z)."
    )


def test_a_send_window_is_told_with_its_category() -> None:
    assert words(decision(window=DAY), Because.OUTSIDE_SEND_WINDOW) == (
        "It is 22:41 in Europe/Berlin, outside the send window 08:00–20:00 of news; it goes out "
        "about 07:04."
    )


def test_without_a_zone_the_clock_is_utc() -> None:
    told = words(decision(None, window=DAY), Because.OUTSIDE_SEND_WINDOW)
    assert (told or "").startswith("It is 21:41 UTC, outside the send window 08:00–20:00 of news;")


@pytest.mark.parametrize(
    ("made_from", "reason", "said"),
    [
        (QUIET, Because.QUIET_HOURS, "and the recipient's quiet hours 22:00–07:00 are over"),
        (
            decision(window={"start": "07:00", "end": "20:00"}),
            Because.OUTSIDE_SEND_WINDOW,
            "and the send window 07:00–20:00 of news is open",
        ),
    ],
)
def test_what_waits_for_its_turn_alone_says_so(
    made_from: dict[str, Any], reason: str, said: str
) -> None:
    at = UNTIL - timedelta(minutes=4)
    assert words(made_from, reason, at=at) == (
        f"It is 07:00 in Europe/Berlin, {said}; it goes out about 07:04."
    )
    assert words(made_from, reason, at=UNTIL) == (
        f"It is 07:04 in Europe/Berlin, {said}; it goes out now."
    )


def test_what_keeps_it_longer_than_that_is_told_too() -> None:
    both = decision(quiet_hours=NIGHT, window=DAY)
    until = UNTIL + timedelta(hours=1)
    assert words(both, until=until) == (
        "It is 22:41 in Europe/Berlin, within the recipient's quiet hours 22:00–07:00, and news is "
        "sent within 08:00–20:00 only; it goes out about 08:04."
    )
    early = decision(quiet_hours=NIGHT, window={"start": "06:00", "end": "20:00"})
    at = AT - timedelta(hours=1)
    assert words(early, Because.OUTSIDE_SEND_WINDOW, at=at) == (
        "It is 21:41 in Europe/Berlin, outside the send window 06:00–20:00 of news, and the "
        "recipient's quiet hours are 22:00–07:00; it goes out about 07:04."
    )
    assert "only" not in (words(both) or "")


def test_a_day_that_is_not_the_next_is_named() -> None:
    told = words(QUIET, until=UNTIL + timedelta(days=2))
    assert (told or "").endswith("; it goes out about 07:04 on 2030-01-04.")


def test_what_expires_before_is_not_promised_to_go_out() -> None:
    told = words(QUIET, expires_at=UNTIL)
    assert (told or "").endswith("; about 07:04 its time to be sent will have passed.")


@pytest.mark.parametrize(
    ("made_from", "reason"),
    [
        (None, Because.QUIET_HOURS),
        ({"recipient_version": None}, Because.QUIET_HOURS),
        (decision(window=DAY), Because.QUIET_HOURS),
        (QUIET, Because.OUTSIDE_SEND_WINDOW),
        (QUIET, "endpoint_busy"),
        (decision("Mars/Olympus", quiet_hours=NIGHT), Because.QUIET_HOURS),
    ],
)
def test_nothing_is_told_that_nobody_knows(made_from: dict[str, Any] | None, reason: str) -> None:
    assert words(made_from, reason) is None


def test_the_clock_of_a_changed_hour_is_the_one_on_the_wall() -> None:
    """In Berlin the clock goes from 03:00 back to 02:00 on the last Sunday of October."""
    before = datetime(2030, 10, 26, 22, 0, tzinfo=UTC)
    told = words(QUIET, at=before, until=datetime(2030, 10, 27, 6, 1, tzinfo=UTC))
    assert told == (
        "It is 00:00 in Europe/Berlin, within the recipient's quiet hours 22:00–07:00; it goes out "
        "about 07:01."
    )


DEFERRED = Change(at=AT, actor="policy", to_status="pending", reason="quiet_hours")
WAITING = Row(reason="quiet_hours", available_at=UNTIL, category="news")


def last_line(row: Row, *steps: Change, decided: Decided | None = None) -> str:
    entries = timeline(row, attempts=[], receipts=[], transitions=steps, decided=decided)
    return entries[-1].sentence


def test_the_timeline_tells_the_deferral_that_it_waits_by() -> None:
    decided = Decided(decision=QUIET, verdict="defer")
    assert last_line(WAITING, DEFERRED, decided=decided) == words(QUIET, was=True)
    # what is known of an earlier one is that it was, and its tenant is told no more either
    general = "It was within the recipient's quiet hours. It waits until they are over"
    assert last_line(WAITING, DEFERRED) == (
        f"{general}; the next try is due at 2030-01-02T06:04:11Z, as attempt 1 of 5."
    )
    ended = Row(status="delivered", available_at=UNTIL)
    assert last_line(ended, DEFERRED, decided=decided) == f"{general}."


def test_what_comes_next_of_a_deferral_is_told_by_the_clock_of_now() -> None:
    dossier = told_of(WAITING, decided=Decided(decision=QUIET, verdict="defer"))
    now = AT + timedelta(hours=2)
    assert next_sentence(dossier, now=now, keyed_providers=()) == (
        "It is 00:41 in Europe/Berlin, within the recipient's quiet hours 22:00–07:00; it goes out "
        "about 07:04. The claim takes it up from 2030-01-02T06:04:11Z on, for attempt 1 of 5."
    )
