"""Retries switched off: what was attempted waits, first attempts go on, and then all goes on."""

from uuid import UUID

import psycopg
import pytest

from functions.claim.claim import Claimer
from functions.core.outcome import Throttled, Transient
from functions.store.connection import Database
from functions.store.survey import FIRST_PLACE, WALKED_AT_ONCE, promote, promote_first
from tests.fakes import FakeSqs, add_notifications, moves_of, queues_of, row_of
from tests.steps import begun, close_one, now_of
from tests.streams import set_pace, tokens_of

SET_RETRIES = "UPDATE channels SET retries = %s WHERE name = %s"


def switch(owner: psycopg.Connection, retries: bool, channel: str = "email") -> None:
    owner.execute(SET_RETRIES, [retries, channel])


def add_retries(
    owner: psycopg.Connection, count: int, *, ready: bool = False, channel: str = "email"
) -> list[UUID]:
    """Put ``count`` due retries into the queue of record; ``ready``: promoted already."""
    ids = add_notifications(owner, count, channel=channel)
    owner.execute(
        "UPDATE notifications SET attempts_spent = 1, lease_number = 1, ready = %s, "
        "available_at = available_at - interval '1 minute' WHERE id = ANY(%s)",
        [ready, ids],
    )
    return ids


def claimer_of(database: Database, sqs: FakeSqs) -> Claimer:
    return Claimer(database=database, queues=queues_of(sqs), leased_by="run-1")


def test_due_retries_wait_and_first_attempts_go_on(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    retries = [*add_retries(owner, 5), *add_retries(owner, 5, ready=True)]
    due, scheduled = add_notifications(owner, 2), add_notifications(owner, 2, delay_seconds=60)
    owner.execute(
        "UPDATE notifications SET available_at = available_at - interval '61 seconds' "
        "WHERE id = ANY(%s)",
        [scheduled],
    )
    switch(owner, False)
    sqs = FakeSqs()
    claimer = claimer_of(database, sqs)
    rounds = [claimer.round() for _ in range(4)]
    assert sorted(sqs.ids()) == sorted([*due, *scheduled])
    assert {row_of(owner, id).status for id in retries} == {"pending"}
    assert not any(row_of(owner, id).ready for id in retries)
    assert rounds[-1].was_idle
    assert tokens_of(owner) == pytest.approx(1_000_000 - 4)


def test_what_was_ready_is_put_off_once_and_says_why(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    (id,) = add_retries(owner, 1, ready=True)
    eligible_at = row_of(owner, id).eligible_at
    switch(owner, False)
    claimer = claimer_of(database, FakeSqs())
    assert [claimer.round().put_off.get("email", 0) for _ in range(4)] == [1, 0, 0, 0]
    row = row_of(owner, id)
    assert (row.reason, row.attempts_spent, row.eligible_at) == ("retries_off", 1, eligible_at)
    assert moves_of(owner, id) == [("claim", "leased", "pending", "retries_off")]


def test_when_retries_are_on_again_they_go_on_at_once(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    ids = [*add_retries(owner, 5), *add_retries(owner, 5, ready=True)]
    switch(owner, False)
    sqs = FakeSqs()
    claimer = claimer_of(database, sqs)
    for _ in range(3):
        claimer.round()
    assert sqs.ids() == []
    switch(owner, True)
    for _ in range(2):
        claimer.round()
    assert sorted(sqs.ids()) == sorted(ids)


def test_what_is_in_doubt_is_a_retry_and_what_was_throttled_is_none(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    switch(owner, False)
    (throttled,) = add_notifications(owner)
    close_one(database, begun(database), Throttled(code="429"), again_seconds=0)
    (failed,) = add_notifications(owner)
    owner.execute("UPDATE notifications SET ready = false WHERE id = %s", [throttled])
    close_one(database, begun(database), Transient(code="503"), again_seconds=0)
    owner.execute("UPDATE notifications SET ready = true")
    (doubtful,) = add_notifications(owner)
    owner.execute("UPDATE notifications SET in_doubt = 1 WHERE id = %s", [doubtful])
    sqs = FakeSqs()
    claimer_of(database, sqs).round()
    assert sqs.ids() == [throttled]
    assert {row_of(owner, id).reason for id in (failed, doubtful)} == {"retries_off"}


def test_the_other_channels_retries_go_on(owner: psycopg.Connection, database: Database) -> None:
    set_pace(owner)
    email, sms = add_retries(owner, 3), add_retries(owner, 3, channel="sms")
    switch(owner, False)
    sqs = FakeSqs()
    claimer = claimer_of(database, sqs)
    for _ in range(2):
        claimer.round()
    assert (sorted(sqs.ids("sms")), sqs.ids("email")) == (sms, [])
    assert {row_of(owner, id).ready for id in email} == {False}


def test_no_retry_is_promoted_by_a_run_that_does_not_know_yet(
    owner: psycopg.Connection, database: Database
) -> None:
    add_retries(owner, 3)
    switch(owner, False, channel="push")
    assert promote(database) == 0
    switch(owner, True, channel="push")
    assert promote(database) == 3


def test_a_backlog_of_retries_is_walked_over_once(
    owner: psycopg.Connection, database: Database
) -> None:
    add_retries(owner, WALKED_AT_ONCE + 10)
    (late,) = add_notifications(owner, delay_seconds=60)
    switch(owner, False)
    later = now_of(owner, seconds=61)
    first = promote_first(database, after=FIRST_PLACE, now=later)
    assert (first.promoted, first.walked, first.is_over) == (0, WALKED_AT_ONCE, False)
    second = promote_first(database, after=first.place, now=later)
    assert (second.promoted, second.walked, second.is_over) == (1, 11, True)
    assert row_of(owner, late).ready
    third = promote_first(database, after=second.place, now=later)
    assert (third.promoted, third.walked, third.place) == (0, 0, second.place)


def test_rows_due_at_the_same_moment_are_all_walked_over(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 2 * WALKED_AT_ONCE, delay_seconds=60)
    switch(owner, False)
    later = now_of(owner, seconds=61)
    place, promoted = FIRST_PLACE, 0
    for _ in range(2):
        walk = promote_first(database, after=place, now=later)
        place, promoted = walk.place, promoted + walk.promoted
    assert promoted == len(ids)


def test_a_round_that_has_more_to_walk_over_is_not_idle(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    switch(owner, False)
    claimer = claimer_of(database, FakeSqs())
    claimer.round()
    add_retries(owner, WALKED_AT_ONCE + 1)
    assert [claimer.round().was_idle for _ in range(2)] == [False, True]


def test_whoever_begins_anew_finds_what_came_late(
    owner: psycopg.Connection, database: Database
) -> None:
    """A row whose writer committed behind the walk is found by the next run."""
    set_pace(owner)
    switch(owner, False)
    add_retries(owner, 3)
    claimer = claimer_of(database, FakeSqs())
    for _ in range(2):
        claimer.round()
    (late,) = add_notifications(owner, delay_seconds=60)
    owner.execute(
        "UPDATE notifications SET available_at = available_at - interval '1 hour' WHERE id = %s",
        [late],
    )
    claimer.round()
    assert not row_of(owner, late).ready
    sqs = FakeSqs()
    newer = claimer_of(database, sqs)
    for _ in range(2):
        newer.round()
    assert sqs.ids() == [late]
