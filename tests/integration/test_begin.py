"""Begin: an attempt is opened under its lease, once, or the row ends and says why."""

from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from functions.core.outcome import Unknown
from functions.providers.choice import DECLARATIONS
from functions.store.begin import Opening, begin
from functions.store.connection import Database
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.fakes import (
    SECOND_ORGANIZATION,
    add_notifications,
    add_suppression_fact,
    moves_of,
    row_of,
)
from tests.steps import (
    begin_all,
    begin_one,
    begun,
    channel_of,
    close_one,
    declaration_of,
    lease,
    now_of,
    opening_of,
)


def test_an_attempt_is_in_the_ledger_and_on_the_row_before_any_call(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    opening = opening_of(leased)
    answer = begin_one(database, opening)
    row, attempt = row_of(owner, id), row_of(owner, opening.token, "attempts")
    assert (answer.verdict, answer.send, answer.attempts_spent) == ("go", True, 1)
    assert answer.eligible_at == row.eligible_at
    assert (row.status, row.attempt_id, row.attempts_spent) == ("leased", opening.token, 1)
    assert (row.provider, row.key_first_used_at) == ("http", answer.started_at)
    assert (attempt.notification_id, attempt.lease_number, attempt.outcome) == (id, 1, None)
    assert attempt.started_at == answer.started_at


def test_a_lease_is_extended_to_the_end_of_the_invocation_and_never_shortened(
    owner: psycopg.Connection, database: Database
) -> None:
    short, long = add_notifications(owner, 2)
    now = now_of(owner)
    leases = {row.id: row for row in lease(database, lease_seconds=20, now=now)}
    begin_one(database, opening_of(leases[short]), remaining_seconds=35, now=now)
    begin_one(database, opening_of(leases[long]), remaining_seconds=5, now=now)
    assert row_of(owner, short).lease_until == now + timedelta(seconds=35)
    assert row_of(owner, long).lease_until == now + timedelta(seconds=20)


def test_a_set_opens_each_of_its_attempts(owner: psycopg.Connection, database: Database) -> None:
    ids = add_notifications(owner, 10)
    openings = [opening_of(row) for row in lease(database)]
    answers = begin_all(
        database,
        openings,
        remaining_seconds=30,
    )
    assert {id: answers[id].send for id in ids} == dict.fromkeys(ids, True)
    ledger = owner.execute("SELECT notification_id, id FROM attempts").fetchall()
    assert set(ledger) == {(opening.id, opening.token) for opening in openings}


def test_the_same_message_twice_in_one_set_opens_one_attempt(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    twice = [opening_of(leased), opening_of(leased)]
    answers = begin_all(
        database,
        twice,
        remaining_seconds=30,
    )
    assert [answers[id].send] == [True]
    assert row_of(owner, id).attempts_spent == 1
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (1,)


def test_a_message_delivered_again_finds_the_attempt_open(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner)
    (leased,) = lease(database)
    assert begin_one(database, opening_of(leased)).send
    again = begin_one(database, opening_of(leased))
    assert (again.verdict, again.send) == ("stale", False)
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (1,)


def test_an_attempt_knows_its_own_token_when_it_is_begun_again(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    again = begin_one(database, opening)
    assert (again.verdict, again.send, again.attempts_spent) == ("mine", True, 1)
    assert row_of(owner, id).attempts_spent == 1


def test_a_lease_that_ran_out_opens_nothing_by_the_databases_clock(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    now = now_of(owner)
    (leased,) = lease(database, lease_seconds=20, now=now)
    late = begin_one(database, opening_of(leased), now=now + timedelta(seconds=20))
    assert (late.verdict, late.send) == ("stale", False)
    assert row_of(owner, id).attempts_spent == 0


def test_a_lease_of_another_number_opens_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner)
    (leased,) = lease(database)
    for number in (leased.lease_number - 1, leased.lease_number + 1):
        other = Opening(id=leased.id, lease_number=number, token=uuid4())
        assert begin_one(database, other).verdict == "stale"
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


def test_of_two_leases_in_one_set_the_newer_counts(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    now = now_of(owner)
    (old,) = lease(database, now=now)
    later = now + timedelta(hours=1)
    sweep(database, channel=channel_of(database), declarations=[], now=later)
    (new,) = lease(database, now=later)
    answers = begin(
        database,
        [opening_of(old), opening_of(new)],
        declaration=declaration_of("http"),
        declarations=DECLARATIONS,
        remaining_seconds=30,
        now=later,
    )
    assert (answers[id].lease_number, answers[id].send) == (2, True)


def test_what_is_not_there_has_no_answer(database: Database) -> None:
    stranger = Opening(id=uuid4(), lease_number=1, token=uuid4())
    assert (
        begin_all(
            database,
            [stranger],
            remaining_seconds=30,
        )
        == {}
    )


def test_a_row_that_expired_on_its_way_ends(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner, expires_in_seconds=30)
    now = now_of(owner)
    (leased,) = lease(database, now=now)
    answer = begin_one(database, opening_of(leased), now=now + timedelta(seconds=30))
    row = row_of(owner, id)
    assert (answer.verdict, answer.send) == ("expired", False)
    assert (row.status, row.reason, row.lease_until) == ("expired", "expired", None)
    assert row.final_at == now + timedelta(seconds=30)
    assert moves_of(owner, id) == [("sender", "leased", "expired", "expired")]


def test_a_suppressed_address_is_not_sent_to(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    add_suppression_fact(owner)
    answer = begin_one(database, opening_of(leased))
    row = row_of(owner, id)
    assert (answer.verdict, answer.send) == ("suppressed", False)
    assert (row.status, row.reason, row.attempts_spent) == ("suppressed", "suppressed", 0)
    assert moves_of(owner, id) == [("sender", "leased", "suppressed", "suppressed")]


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ([("suppress", None), ("lift", None)], "go"),
        ([("lift", None), ("suppress", None)], "suppressed"),
        ([("suppress", "news")], "go"),
        ([("suppress", "transactional")], "suppressed"),
        ([("suppress", "transactional"), ("lift", None)], "suppressed"),
        ([("suppress", None), ("lift", "transactional")], "suppressed"),
        ([("suppress", "transactional"), ("lift", "transactional")], "go"),
    ],
)
def test_the_newest_fact_of_each_category_counts(
    owner: psycopg.Connection,
    database: Database,
    facts: list[tuple[str, str | None]],
    verdict: str,
) -> None:
    add_notifications(owner)
    (leased,) = lease(database)
    for kind, category in facts:
        add_suppression_fact(owner, kind=kind, category=category)
    assert begin_one(database, opening_of(leased)).verdict == verdict


def test_the_suppression_of_another_tenant_channel_or_address_is_none(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner)
    (leased,) = lease(database)
    add_suppression_fact(owner, organization_id=SECOND_ORGANIZATION)
    add_suppression_fact(owner, channel="sms")
    add_suppression_fact(owner, recipient="other@example.com")
    assert begin_one(database, opening_of(leased)).verdict == "go"


@pytest.mark.parametrize("end", ["expired", "suppressed"])
def test_a_row_that_may_have_been_accepted_ends_unconfirmed(
    owner: psycopg.Connection, database: Database, end: str
) -> None:
    (id,) = add_notifications(owner, expires_in_seconds=3_600)
    close_one(database, begun(database), Unknown(), again_seconds=None)
    (leased,) = lease(database, lease_seconds=7_200)
    if end == "suppressed":
        add_suppression_fact(owner)
    late = now_of(owner, hours=1) if end == "expired" else None
    assert begin_one(database, opening_of(leased), now=late).verdict == end
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("unconfirmed", end)


def test_a_channel_that_was_paused_meanwhile_gets_its_rows_back_unspent(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    owner.execute("UPDATE channels SET paused_at = now() WHERE name = 'email'")
    answer = begin_one(database, opening_of(leased))
    row = row_of(owner, id)
    assert (answer.verdict, answer.send) == ("paused", False)
    assert (row.status, row.ready, row.attempts_spent) == ("pending", True, 0)
    assert (row.lease_until, row.final_at, row.reason) == (None, None, None)
    assert promote(database) == 0
    assert len(lease(database)) == 1


def test_a_provider_key_remembers_when_it_was_first_used(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    now = now_of(owner)
    close_one(database, begun(database, now=now), Unknown(), again_seconds=None, now=now)
    begun(database, now=now + timedelta(seconds=5))
    assert row_of(owner, id).key_first_used_at == now


@pytest.mark.parametrize(("stream", "verdict"), [("bulk", "suppressed"), ("transactional", "go")])
def test_a_link_stops_bulk_and_never_what_has_become_transactional_since(
    owner: psycopg.Connection, database: Database, stream: str, verdict: str
) -> None:
    (id,) = add_notifications(owner, category="news")
    opening = opening_of(lease(database)[0])
    owner.execute("UPDATE notifications SET stream = %s WHERE id = %s", [stream, id])
    owner.execute(
        "INSERT INTO suppressions (organization_id, channel, recipient_hash, category, kind,"
        "                          reason, source, source_at)"
        " SELECT organization_id, channel, recipient_hash, category, 'suppress',"
        "        'recipient_choice', 'unsubscribe', now() FROM notifications"
    )
    assert begin_one(database, opening).verdict == verdict


def test_a_stream_that_was_paused_after_the_lease_sends_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = opening_of(lease(database)[0])
    pause = "UPDATE streams SET paused_at = now() WHERE channel = 'email' AND name = %s"
    owner.execute(pause, ["transactional"])
    assert begin_one(database, opening).verdict == "paused"
    assert (row_of(owner, id).status, row_of(owner, id).attempts_spent) == ("pending", 0)
