"""One key, one effect: replays, twins, other bodies, other tenants, crashes."""

import contextlib
import dataclasses
import json
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from functions.core.errors import IdempotencyKeyReused
from functions.core.login import Login
from functions.core.recipient import recipient_hash
from functions.store.accept import BatchAnswer, NewNotification, accept_batch
from functions.store.connection import Connect, Database, connector
from functions.store.idempotency import Request, claim_key, forget_expired_keys
from tests.api import HASH_KEY, Api, Reply, email, start
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def stored(owner: psycopg.Connection) -> int:
    ((number,),) = owner.execute("SELECT count(*) FROM notifications").fetchall()
    return number


def a_request(**changes: Any) -> Request:
    request = Request(
        organization_id=FIRST_ORGANIZATION,
        route="/v1/notifications/batches",
        key="k",
        request_sha256=bytes(32),
    )
    return dataclasses.replace(request, **changes)


def some(*recipients: str, event_id: str | None = None) -> list[NewNotification]:
    return [
        NewNotification(
            channel="email",
            recipient=recipient,
            recipient_hash=recipient_hash(HASH_KEY, "email", recipient),
            content="Hi",
            priority="normal",
            category="transactional",
            event_id=event_id,
            reference=None,
            metadata={},
            send_at=None,
            expires_at=None,
        )
        for recipient in recipients
    ]


def test_a_replay_has_the_same_status_body_and_ids_and_stores_nothing(
    api: Api, owner: psycopg.Connection
) -> None:
    items = [email(event_id="e"), email(event_id="e"), email("ben@example.com")]
    first = api.post_batch(*items, key="k")
    again = api.post_batch(*items, key="k")
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert (again.status, again.text) == (first.status, first.text)
    assert stored(owner) == 2


def test_a_replay_of_a_single_notification_shows_it_as_it_was(api: Api) -> None:
    first = api.post(email(), key="k")
    assert api.call("POST", f"/v1/notifications/{first.json['id']}/cancel").status == 200
    again = api.post(email(), key="k")
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.status, again.text) == (202, first.text)


def test_b1_another_body_under_the_same_key_is_refused(api: Api, owner: psycopg.Connection) -> None:
    assert api.post_batch(email("a@example.com"), key="k").status == 202
    reply = api.post_batch(email("b@example.com"), key="k")
    assert (reply.status, reply.code) == (422, "idempotency_key_reused")
    assert stored(owner) == 1


def test_b1_reordered_members_and_spacing_are_the_same_request(api: Api) -> None:
    item = email(content={"subject": "Hi", "text": "There"}, metadata={"a": "1", "b": "2"})
    first = api.post_batch(item, key="k")
    reordered = dict(reversed(item.items()))
    reordered["content"] = {"text": "There", "subject": "Hi"}
    reordered["metadata"] = {"b": "2", "a": "1"}
    text = json.dumps({"notifications": [reordered]}, indent=3) + "\n"
    headers: dict[str, str | None] = {"idempotency-key": "k"}
    again = api.call("POST", "/v1/notifications/batches", text=text, headers=headers)
    assert (again.status, again.text) == (202, first.text)
    assert again.headers["idempotent-replayed"] == "true"


def test_b1_the_same_key_on_another_route_is_another_key(
    api: Api, owner: psycopg.Connection
) -> None:
    batch = api.post_batch(email(), key="k")
    single = api.post(email(), key="k")
    assert (batch.status, single.status) == (202, 202)
    assert "idempotent-replayed" not in single.headers
    assert stored(owner) == 2


def test_another_organization_with_the_same_key_is_independent(
    api: Api, owner: psycopg.Connection
) -> None:
    first = api.post_batch(email(event_id="e"), key="k")
    other = api.having(organization_id=SECOND_ORGANIZATION)
    second = other.post_batch(email(event_id="e", content="Other"), key="k")
    assert second.status == 202
    assert "idempotent-replayed" not in second.headers
    assert second.json["notifications"][0]["id"] != first.json["notifications"][0]["id"]
    assert stored(owner) == 2


@pytest.mark.parametrize("alone", [True, False])
def test_two_organizations_with_the_same_key_each_get_their_own_answer_again(
    api: Api, alone: bool
) -> None:
    def post(who: Api) -> Reply:
        return who.post(email(), key="k") if alone else who.post_batch(email(), key="k")

    other = api.having(organization_id=SECOND_ORGANIZATION)
    first, others_first = post(api), post(other)
    others_again, again = post(other), post(api)
    assert (again.text, others_again.text) == (first.text, others_first.text)
    assert first.text != others_first.text
    for reply in (again, others_again):
        assert (reply.status, reply.headers["idempotent-replayed"]) == (202, "true")


def test_a_key_is_the_same_bare_and_quoted_and_below_the_prefix(api: Api) -> None:
    first = api.post(email(), key='a "b" \\c')
    again = api.having(prefix="/api").post(email(), key='"a \\"b\\" \\\\c"')
    assert again.headers["idempotent-replayed"] == "true"
    assert again.text == first.text


@pytest.mark.parametrize("key", [None, "", "  "])
def test_a_key_is_required(api: Api, key: str | None) -> None:
    for path in ("/v1/notifications", "/v1/notifications/batches"):
        reply = api.call("POST", path, body=email(), headers={"idempotency-key": key})
        assert (reply.status, reply.code) == (400, "idempotency_key_missing")


@pytest.mark.parametrize(
    "key",
    [
        "a\0b",
        "a\nb",
        "ä",
        "k" * 256,
        '""',
        '"open',
        '"a"b"',
        '"a\\n"',
        '"' + "k" * 256 + '"',
        "\x7f",
    ],
)
def test_a1_a_key_that_is_not_printable_ascii_is_refused(
    api: Api, owner: psycopg.Connection, key: str
) -> None:
    for _ in range(2):
        reply = api.post(email(), key=key)
        assert (reply.status, reply.code) == (400, "idempotency_key_invalid")
    assert stored(owner) == 0


@pytest.mark.parametrize("key", ["k", "k" * 255, '"' + "k" * 255 + '"', " ~!,", "a\\b", "a, b"])
def test_a_key_may_be_any_printable_ascii(api: Api, key: str) -> None:
    assert api.post(email(), key=key).status == 202


def test_a_key_is_free_again_after_24_hours(database: Database, owner: psycopg.Connection) -> None:
    request, people = a_request(), some("a@example.com")
    now = datetime.now(UTC)
    first = accept_batch(database, request=request, notifications=people, now=now)
    almost = accept_batch(
        database, request=request, notifications=people, now=now + timedelta(hours=23, minutes=59)
    )
    assert (almost.replayed, almost.batch) == (True, first.batch)
    other, later = a_request(request_sha256=bytes([1]) * 32), now + timedelta(hours=24)
    second = accept_batch(database, request=other, notifications=people, now=later)
    assert not second.replayed
    again = accept_batch(database, request=other, notifications=people, now=later)
    assert (again.replayed, again.batch) == (True, second.batch)
    with pytest.raises(IdempotencyKeyReused):
        accept_batch(database, request=request, notifications=people, now=later)
    assert stored(owner) == 2


def test_expired_keys_are_forgotten_and_live_ones_are_not(
    database: Database, owner: psycopg.Connection
) -> None:
    now = datetime.now(UTC)
    for key, age in (("old", timedelta(hours=25)), ("live", timedelta(hours=1))):
        accept_batch(
            database,
            request=a_request(key=key),
            notifications=some("a@example.com"),
            now=now - age,
        )
    assert forget_expired_keys(database, now=now) == 1
    left = "SELECT key = as_digest('live') FROM idempotency_keys"
    assert owner.execute(left).fetchall() == [(True,)]
    assert forget_expired_keys(database, now=now) == 0


def test_a_key_that_is_being_taken_over_is_not_waited_for(
    database: Database, owner: psycopg.Connection
) -> None:
    now = datetime.now(UTC)
    accept_batch(
        database,
        request=a_request(),
        notifications=some("a@example.com"),
        now=now - timedelta(hours=25),
    )
    with owner.transaction():
        assert claim_key(owner, a_request(), now=now) is not None
        assert forget_expired_keys(database, now=now) == 0


def test_twenty_twins_at_once_are_one_set(login: Login, owner: psycopg.Connection) -> None:
    together = threading.Barrier(20)
    people = [f"user-{number}@example.com" for number in range(50)]

    def send() -> BatchAnswer:
        database = Database(connector(lambda: login, application_name="twin"))
        database.run(lambda connection: connection.execute("SELECT 1"))
        together.wait()
        try:
            return accept_batch(database, request=a_request(), notifications=some(*people))
        finally:
            database.close()

    with ThreadPoolExecutor(20) as pool:
        answers = [future.result() for future in [pool.submit(send) for _ in range(20)]]
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * 19
    assert all(answer.batch == answers[0].batch for answer in answers)
    assert stored(owner) == 50


def test_twins_of_an_event_under_different_keys_are_one_notification(
    login: Login, owner: psycopg.Connection
) -> None:
    """Each sends the same events in its own order: sorted inserts wait, and never deadlock."""
    together = threading.Barrier(2)
    events = [f"event-{number}" for number in range(300)]

    def send(key: str, order: list[str]) -> BatchAnswer:
        database = Database(connector(lambda: login, application_name=key))
        items = [item for event in order for item in some("a@example.com", event_id=event)]
        with contextlib.closing(database):
            answers: list[BatchAnswer] = []
            for number in range(4):
                renamed = [_renamed(item, number) for item in items]
                together.wait()
                answers.append(
                    accept_batch(
                        database, request=a_request(key=f"{key}-{number}"), notifications=renamed
                    )
                )
            return answers[-1]

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(send, "one", events)
        two = pool.submit(send, "two", events[::-1])
        batches = one.result().batch, two.result().batch
    assert batches[0].notification_ids == batches[1].notification_ids[::-1]
    assert len(batches[0].duplicate_indexes) + len(batches[1].duplicate_indexes) == 300
    assert stored(owner) == 1200
    assert owner.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone() == (0,)


def _renamed(item: NewNotification, number: int) -> NewNotification:
    (other,) = some(item.recipient or "", event_id=f"{item.event_id}-{number}")
    return other


class Dying:
    """Opens connections of which one loses its server just before the n-th step, or the commit."""

    def __init__(self, connect: Connect, owner: psycopg.Connection, *, at: int) -> None:
        self._connect, self._owner, self._left = connect, owner, at

    def __call__(self) -> psycopg.Connection:
        connection = self._connect()
        for name in ("execute", "cursor"):
            setattr(connection, name, self._counted(connection, getattr(connection, name)))
        begin = connection.transaction

        @contextlib.contextmanager
        def transaction() -> Generator[None]:
            with begin():
                yield
                self._count(connection)

        setattr(connection, "transaction", transaction)  # noqa: B010
        return connection

    def _counted(self, connection: psycopg.Connection, call: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            self._count(connection)
            return call(*arguments, **options)

        return counted

    def _count(self, connection: psycopg.Connection) -> None:
        self._left -= 1
        if self._left == 0:
            pid = connection.info.backend_pid
            self._owner.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


@pytest.mark.parametrize("step", range(1, 9))
def test_b4_a_connection_that_dies_at_any_step_loses_and_doubles_nothing(
    login: Login, owner: psycopg.Connection, step: int
) -> None:
    connect = connector(lambda: login, application_name="dying")
    with contextlib.closing(Database(Dying(connect, owner, at=step))) as database:
        api = start(database)
        items = [email(event_id="e"), email("ben@example.com")]
        reply = api.post_batch(*items, key="k")
        assert reply.status == 202
        assert stored(owner) == 2
        assert api.post_batch(*items, key="k").json == reply.json
        assert stored(owner) == 2


def test_b4_a_crash_before_the_commit_leaves_the_key_free(
    api: Api, login: Login, owner: psycopg.Connection
) -> None:
    """The function dies with its transaction open: the retry is not told to wait for anybody."""
    with psycopg.connect(
        host=login.host, port=login.port, dbname=login.name, user=login.user, autocommit=True
    ) as dying:
        crashed = Database(lambda: dying)

        def half(connection: psycopg.Connection) -> None:
            claim_key(connection, a_request(), now=None)
            raise SystemExit  # the environment ends here

        with pytest.raises(SystemExit):
            crashed.run(half)
    assert api.post_batch(email(), key="k").status == 202
    assert stored(owner) == 1


def test_b5_a_failure_is_not_kept_under_the_key(login: Login, owner: psycopg.Connection) -> None:
    """The database refuses once: 503; the same request then succeeds, once."""
    broken = [True]
    connect = connector(lambda: login, application_name="flaky")

    def flaky() -> psycopg.Connection:
        if broken:
            raise psycopg.OperationalError("connection refused")
        return connect()

    with contextlib.closing(Database(flaky)) as database:
        api = start(database)
        refused = api.post_batch(email(), key="k")
        assert (refused.status, refused.code) == (503, "unavailable")
        assert int(refused.headers["retry-after"]) > 0
        broken.clear()
        reply = api.post_batch(email(), key="k")
    assert reply.status == 202
    assert "idempotent-replayed" not in reply.headers
    assert stored(owner) == 1


def test_b5_a_refused_request_leaves_the_key_free(api: Api, owner: psycopg.Connection) -> None:
    assert api.post_batch(email("not an address"), key="k").status == 422
    conflict = api.post_batch(email(event_id="e"), email(event_id="e", content="x"), key="k")
    assert conflict.code == "event_id_conflict"
    reply = api.post_batch(email(), key="k")
    assert reply.status == 202
    assert "idempotent-replayed" not in reply.headers
    assert stored(owner) == 1


def test_a_key_that_another_request_holds_for_too_long_is_answered_503(
    login: Login, owner: psycopg.Connection
) -> None:
    """Twins wait, but not for ever: lock_timeout, here a short one."""

    def impatient() -> psycopg.Connection:
        return psycopg.connect(
            host=login.host,
            port=login.port,
            dbname=login.name,
            user=login.user,
            options="-c lock_timeout=50ms",
            autocommit=True,
        )

    with contextlib.closing(Database(impatient)) as database:
        api = start(database)
        with owner.transaction(force_rollback=True):
            claim_key(owner, a_request(), now=None)
            reply = api.post_batch(email(), key="k")
            assert (reply.status, reply.code) == (503, "unavailable")
        assert api.post_batch(email(), key="k").status == 202
