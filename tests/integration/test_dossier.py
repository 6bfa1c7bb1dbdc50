"""The dossier of a notification: all there is about it, whichever organization's it is."""

from collections.abc import Iterator
from datetime import datetime
from typing import LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.explanation import explain
from functions.core.login import Login
from functions.core.outcome import Accepted
from functions.core.states import Finding
from functions.store.bucket import RECOVERY_SECONDS
from functions.store.connection import Database
from functions.store.dossier import (
    READ_BREAKERS,
    READ_ENDPOINT,
    READ_HOLD,
    READ_WAY,
    ChannelPolicy,
    read_dossier,
)
from functions.store.restore import pause_all
from functions.store.uncertain import settle
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    HeldDatabase,
    add_notifications,
    row_of,
)
from tests.operating import (
    Waiting,
    action,
    arrange,
    discarded,
    operating,
    report,
    requeued,
    tell,
)
from tests.steps import begin_one, close_one, connected, lease, now_of, opening_of


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


@pytest.fixture
def rows(owner: psycopg.Connection, database: Database) -> Waiting:
    return Waiting(owner=owner, database=database)


def test_there_is_none_of_what_there_is_not(operator: Database) -> None:
    assert read_dossier(operator, notification_id=uuid4()) is None


@pytest.mark.parametrize("organization_id", [FIRST_ORGANIZATION, SECOND_ORGANIZATION])
def test_it_is_read_whichever_organizations_it_is(
    owner: psycopg.Connection, operator: Database, organization_id: UUID
) -> None:
    (id,) = add_notifications(owner, organization_id=organization_id)
    dossier = read_dossier(operator, notification_id=id)
    assert dossier is not None
    assert dossier.history.notification.id == id
    assert (dossier.history.attempts, dossier.operator_actions) == ([], [])


def test_it_tells_who_moved_it_by_hand_and_nobody_elses_actions(
    rows: Waiting, operator: Database
) -> None:
    opening, other = rows.undecided(), rows.rejected()
    requeue = action("dead.requeue", ids=[str(opening.id)], may_send_twice=True)
    refused = action("dead.requeue", ids=[str(opening.id)])
    assert requeued(operator, opening.id, asked=refused) == ["needs_consent"]
    assert requeued(operator, opening.id, other.id, asked=requeue, may_send_twice=True) == [
        "requeued",
        "requeued",
    ]
    discard = action("dead.discard", ids=[str(other.id)])
    assert discarded(operator, other.id, asked=discard) == ["pending"]
    dossier = read_dossier(operator, notification_id=opening.id)
    assert dossier is not None
    (told,) = dossier.operator_actions  # what changed it; what was refused changed nothing
    assert (told.id, told.actor, told.command) == (requeue.id, requeue.actor, requeue.command)
    assert told.arguments == requeue.arguments
    assert told.at is not None
    moved = [one.operator_action_id for one in dossier.history.transitions]
    assert moved[-1] == requeue.id
    assert set(moved[:-1]) == {None}


def test_it_holds_every_attempt_report_and_change_in_order(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.uncertain()
    asked = action("uncertain.settle", finding="not_accepted")
    settle(operator, opening.id, finding=Finding.NOT_ACCEPTED, action=asked)
    again = opening_of(lease(rows.database)[0])
    begin_one(rows.database, again, provider="http_keyless")
    close_one(rows.database, again, Accepted(reference="m-1"), keyed=False)
    tell(rows.database, report(opening.id, Rank.NONE), report(opening.id))
    dossier = read_dossier(operator, notification_id=opening.id)
    assert dossier is not None
    history = dossier.history
    assert [one.outcome for one in history.attempts] == ["transient", "accepted"]
    assert {one.type for one in history.receipts} == {"none", "delivered"}
    assert [(one.from_status, one.to_status) for one in history.transitions] == [
        ("leased", "uncertain"),
        ("uncertain", "pending"),
        ("leased", "submitted"),
        ("submitted", "delivered"),
    ]
    assert [one.id for one in dossier.operator_actions] == [asked.id]
    explained = explain(dossier, now=dossier.now)
    assert explained is not None


def test_it_knows_what_its_channel_would_do_next(rows: Waiting, operator: Database) -> None:
    rows.owner.execute(
        "UPDATE channels SET provider = 'keyed', fallback_provider = 'http', retries = false, "
        "unknown_policy = 'retry', cutoff_seconds = 77, max_attempts = 9, endpoint_concurrency = 4,"
        " waiting_limit_seconds = 88 WHERE name = 'push'"
    )
    (id,) = add_notifications(rows.owner, channel="push")
    before = now_of(rows.owner)
    dossier = read_dossier(operator, notification_id=id)
    assert dossier is not None
    assert dossier.channel == ChannelPolicy(
        paused_at=None,
        provider="keyed",
        fallback_provider="http",
        retries=False,
        unknown_policy="retry",
        cutoff_seconds=77.0,
        max_attempts=9,
        waiting_limit_seconds=88.0,
        endpoint_concurrency=4,
        share_of_rate=1.0,
        slowed_at=None,
    )
    assert before <= dossier.now <= now_of(rows.owner)
    pause_all(operator, action=action("recover.pause"))
    dossier = read_dossier(operator, notification_id=id)
    assert dossier is not None
    assert isinstance(dossier.channel.paused_at, datetime)


def test_it_knows_what_is_left_of_a_channels_rate(rows: Waiting, operator: Database) -> None:
    (id,) = add_notifications(rows.owner)
    rows.owner.execute(
        "UPDATE channels SET slow_factor = 0.25, slowed_at = %s WHERE name = 'email'",
        [now_of(rows.owner, seconds=-RECOVERY_SECONDS)],
    )
    dossier = read_dossier(operator, notification_id=id)
    assert dossier is not None
    assert dossier.channel.share_of_rate == pytest.approx(0.5, abs=0.05)
    rows.owner.execute("UPDATE channels SET slowed_at = slowed_at - interval '1 day'")
    dossier = read_dossier(operator, notification_id=id)
    assert dossier is not None
    assert dossier.channel.share_of_rate == 1.0


BREAKERS = """
    INSERT INTO breakers (channel, provider, scope, key, opened_at, code, probe_at, probe_id)
    SELECT b.channel, b.provider, b.scope, b.key, t.at, 'closed for now', t.at,
           CASE WHEN b.scope = 'country' THEN %(probe_id)s::uuid END
      FROM (VALUES ('sms', 'sms', 'provider', 'sms'),
                   ('sms', 'sms', 'sender_identity', 'bulk'),
                   ('sms', 'sms', 'country', 'FR'),
                   ('sms', 'http', 'provider', 'http'),
                   ('sms', 'sms', 'sender_identity', 'transactional'),
                   ('sms', 'sms', 'country', 'DE'),
                   ('email', 'ses', 'provider', 'ses')) AS b (channel, provider, scope, key),
           (SELECT clock_timestamp() AS at) t
"""


def test_it_holds_the_open_breakers_on_its_way_and_no_other(
    rows: Waiting, operator: Database
) -> None:
    (id,) = add_notifications(rows.owner, channel="sms", recipient="+33612345678")
    arrange(rows.owner, id, stream="bulk", country="FR", next_provider="http")
    rows.owner.execute(BREAKERS, {"probe_id": id})
    rows.owner.execute("UPDATE streams SET paused_at = clock_timestamp() WHERE name = 'bulk'")
    dossier = read_dossier(operator, notification_id=id)
    assert dossier is not None
    way = dossier.way
    assert (way.stream, way.next_provider, way.waiting_since) == ("bulk", "http", None)
    assert isinstance(way.stream_paused_at, datetime)
    assert [(one.provider, one.scope, one.key, one.is_probed_by_it) for one in way.breakers] == [
        ("http", "provider", "http", False),
        ("sms", "country", "FR", True),
        ("sms", "provider", "sms", False),
        ("sms", "sender_identity", "bulk", False),
    ]
    assert {one.code for one in way.breakers} == {"closed for now"}
    rows.owner.execute("UPDATE breakers SET opened_at = NULL, probe_at = NULL")
    dossier = read_dossier(operator, notification_id=id)
    assert dossier is not None
    assert dossier.way.breakers == []


def test_it_holds_its_own_organizations_endpoint(rows: Waiting, operator: Database) -> None:
    mine, other = (
        arrange(rows.owner, id, origin="https://hooks.example")
        for organization_id in (FIRST_ORGANIZATION, SECOND_ORGANIZATION)
        for id in add_notifications(
            rows.owner, channel="webhook", content={}, organization_id=organization_id
        )
    )
    rows.owner.execute(
        "INSERT INTO endpoints (organization_id, origin, failures, failing_since, code) "
        "VALUES (%s, 'https://hooks.example', 3, clock_timestamp(), '503')",
        [FIRST_ORGANIZATION],
    )
    dossier = read_dossier(operator, notification_id=mine)
    assert dossier is not None
    endpoint = dossier.way.endpoint
    assert endpoint is not None
    assert (endpoint.origin, endpoint.failures, endpoint.code, endpoint.paused_at) == (
        "https://hooks.example", 3, "503", None,
    )  # fmt: skip
    dossier = read_dossier(operator, notification_id=other)
    assert dossier is not None
    assert dossier.way.endpoint is None
    rows.owner.execute("UPDATE endpoints SET failures = 0")
    dossier = read_dossier(operator, notification_id=mine)
    assert dossier is not None
    assert dossier.way.endpoint is None  # it simply works


@pytest.mark.parametrize("statement", [READ_WAY, READ_BREAKERS, READ_ENDPOINT, READ_HOLD])
def test_what_lies_on_its_way_is_found_by_indexes(rows: Waiting, statement: LiteralString) -> None:
    """However many rows there are: without sequential scans each of them has an index."""
    rows.owner.execute("SET enable_seqscan = off")
    with psycopg.ClientCursor(rows.owner) as cursor:
        plan = cursor.execute(f"EXPLAIN {statement}", {"notification_id": uuid4()}).fetchall()
    assert "Seq Scan" not in str(plan)
    assert "Index Scan" in str(plan)


def test_it_is_of_one_moment(rows: Waiting, login: Login) -> None:
    """What is committed while it is read is told whole in the next one, and not at all in this."""
    opening = rows.uncertain()
    with connected(login, "reader", kind=HeldDatabase) as (reader,):
        first = read_dossier(reader, notification_id=opening.id)
        tell(rows.database, report(opening.id, attempt_id=opening.token))
        again = reader.run(
            lambda connection: connection.execute(
                "SELECT status FROM notifications WHERE id = %s", [opening.id]
            ).fetchone()
        )
        reader.rollback()
    assert first is not None
    assert (first.history.notification.status, again) == ("uncertain", ("uncertain",))
    assert len(first.history.transitions) == 1


def test_reading_it_writes_nothing(rows: Waiting, operator: Database) -> None:
    opening = rows.rejected()
    before = row_of(rows.owner, opening.id)
    assert read_dossier(operator, notification_id=opening.id) is not None
    assert row_of(rows.owner, opening.id) == before
    assert rows.owner.execute("SELECT count(*) FROM operator_actions").fetchone() == (0,)
