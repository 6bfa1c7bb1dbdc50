"""Retry-After: seconds or a date, anything else ignored, within 0 and an hour."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.retry import MAX_RETRY_AFTER_SECONDS, Backoff
from functions.providers.answer import retry_after_seconds

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def read(text: str) -> float | None:
    return retry_after_seconds({"Retry-After": text}, now=NOW)


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("7", 7), (" 120 ", 120), ("3600", 3600)])
def test_seconds_are_seconds(text: str, seconds: float) -> None:
    assert read(text) == seconds


@pytest.mark.parametrize("text", ["3601", "86400", "9999999999", "9" * 40, "9" * 400])
def test_more_than_an_hour_is_an_hour(text: str) -> None:
    assert read(text) == MAX_RETRY_AFTER_SECONDS


def test_a_date_counts_from_now() -> None:
    for zone in (UTC, timezone(timedelta(hours=5, minutes=30))):
        later = (NOW + timedelta(seconds=90)).astimezone(zone)
        assert read(format_datetime(later, usegmt=zone is UTC)) == 90


def test_a_date_counts_from_the_answers_own_date_whatever_our_clock_says() -> None:
    later = format_datetime(NOW + timedelta(seconds=90), usegmt=True)
    headers = {"Retry-After": later, "Date": format_datetime(NOW, usegmt=True)}
    for minutes in (-600, -10, 0, 10, 600):
        ours = NOW + timedelta(minutes=minutes)
        assert retry_after_seconds(headers, now=ours) == 90
        assert retry_after_seconds(headers) == 90


@pytest.mark.parametrize("date", ["", "soon", "Fri, 32 Jan 2026 03:04:05 GMT", "\x00"])
def test_an_answer_without_a_date_is_read_by_our_clock(date: str) -> None:
    later = format_datetime(NOW + timedelta(seconds=90), usegmt=True)
    assert retry_after_seconds({"Retry-After": later, "Date": date}, now=NOW) == 90


def test_the_three_forms_of_an_http_date_are_read() -> None:
    for text in (
        "Fri, 02 Jan 2026 03:05:05 GMT",
        "Friday, 02-Jan-26 03:05:05 GMT",
        "Fri Jan  2 03:05:05 2026",
    ):
        assert read(text) == 60, text


def test_a_date_in_the_past_is_now_and_one_far_ahead_is_an_hour() -> None:
    assert read("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert read("Fri, 31 Dec 9999 23:59:59 GMT") == MAX_RETRY_AFTER_SECONDS


@pytest.mark.parametrize(
    "text",
    ["", "-5", "+5", "1.5", "5s", "soon", "1e3", "٣", "NaN", "inf", "0x10", "5, 6", "Wed, 21 Oct",
     "Wed, 21 Oct 2015 07:28:00 +99999999999999", "Wed, 21 Oct 99999 07:28:00 GMT", "\x00"],
)  # fmt: skip
def test_nonsense_is_no_retry_after(text: str) -> None:
    assert read(text) is None


def test_an_absent_header_is_no_retry_after() -> None:
    assert retry_after_seconds({}) is None


@given(st.text(max_size=60))
def test_no_text_whatever_is_an_error(text: str) -> None:
    seconds = read(text)
    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER_SECONDS


@given(st.integers(0, 10**12), st.integers(1, 60))
def test_a_retry_after_never_shortens_the_backoff(seconds: int, attempts: int) -> None:
    backoff = Backoff(base_seconds=60, cap_seconds=1800)
    wait = backoff.delay_seconds(attempts, retry_after_seconds=read(str(seconds)), uniform=0.5)
    assert wait >= backoff.delay_seconds(attempts, uniform=0.5)
    assert wait <= MAX_RETRY_AFTER_SECONDS
