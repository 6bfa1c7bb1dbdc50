"""Requests by SQL whose recipient is erased while they wait: none is sent, none names anybody."""

import time
from typing import Any

import psycopg
import pytest

from functions.core.content import MAX_NAMED_CHARACTERS
from functions.core.login import Login
from functions.ingest.drain import drain
from functions.store.connection import Database
from functions.store.drain import take
from functions.store.erase import continue_erasures
from functions.store.request import faults_of, forget_invalid_items
from infra.local.postgres import Postgres
from tests.api import Api, email, start
from tests.doors import (
    add_organizations,
    deployment_of,
    enqueue,
    ids_of,
    lapse,
    pointers,
    requests_of,
    values,
)
from tests.erasing import delete, dump_of, erase, lines_naming, put
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, moves_of, row_of
from tests.referring import refer
from tests.steps import connected, now_of

ADDRESS = "ada@example.com"


@pytest.fixture
def api(owner: psycopg.Connection, database: Database) -> Api:
    add_organizations(owner)
    return start(database)


def drained(database: Database) -> tuple[int, int, int]:
    came = drain(deployment_of(database))
    assert came.mistakes == []
    return came.stored, came.repeated, came.invalid


def is_erased(owner: psycopg.Connection, id: Any) -> bool:
    row = row_of(owner, id)
    assert (row.recipient, row.recipient_id, row.content, row.metadata) == (None, None, None, {})
    assert row.final_at is not None
    assert row.erased_at is not None
    assert moves_of(owner, id) == [("client", "pending", "suppressed", "erased")]
    return (row.status, row.reason) == ("suppressed", "erased")


@pytest.mark.parametrize(
    ("item", "channel", "recipient"),
    [
        (email("  Ada@EXAMPLE.com "), "email", "Ada@example.com"),
        ({"channel": "sms", "recipient": "+1 (202) 555-0143", "content": "Hi"}, "sms",
         "+12025550143"),
        ({"channel": "webhook", "recipient": "https://Hooks.example.com/ada", "content": {}},
         "webhook", "https://hooks.example.com/ada"),
    ],
    ids=["email", "sms", "webhook"],
)  # fmt: skip
def test_what_waits_for_an_address_that_is_erased_is_emptied_at_once_and_ends_suppressed(
    owner: psycopg.Connection,
    database: Database,
    api: Api,
    postgres: Postgres,
    database_name: str,
    item: dict[str, Any],
    channel: str,
    recipient: str,
) -> None:
    more = {"category": "receipt", "priority": "high", "metadata": {"to": recipient}}
    id = enqueue(owner, item | more | {"reference": recipient[:64]})
    theirs = enqueue(owner, item, SECOND_ORGANIZATION)
    assert erase(api, recipient, channel).status == 200
    owner.execute("DELETE FROM erasures")  # the drain was out for longer than they are remembered
    owner.execute("DELETE FROM requests WHERE id = %s", [theirs])
    names = [recipient.lower(), item["recipient"].lower().strip()]
    assert lines_naming(dump_of(postgres, database_name), names) == []
    assert drained(database) == (1, 0, 0)
    assert is_erased(owner, id)
    row = row_of(owner, id)
    assert (row.channel, row.category, row.priority, row.reference) == (
        channel, "receipt", "high", None,
    )  # fmt: skip
    assert requests_of(owner) == []
    shown = api.get(f"/v1/notifications/{id}").json
    assert (shown["status"], shown["recipient"]) == ("suppressed", None)


def test_who_is_named_alike_and_what_is_asked_for_afterwards_is_sent(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    before = [
        enqueue(owner, email(f"n{ADDRESS}")),
        enqueue(owner, email("bob@example.com", content=f"Ask {ADDRESS}")),
        enqueue(owner, email(ADDRESS), SECOND_ORGANIZATION),
    ]
    assert erase(api).status == 200
    after = enqueue(owner, email(ADDRESS))
    assert drained(database) == (4, 0, 0)
    assert {row_of(owner, id).status for id in [*before, after]} == {"pending"}


def test_a_recipient_who_is_erased_while_a_request_waits_ends_it_suppressed(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    assert put(api).status == 201
    waiting = [enqueue(owner, refer(recipient_id="ada")), enqueue(owner, email("Ada@example.com"))]
    chain = refer(recipient_id="ada", channel=None, channels=["email", "sms"])
    waiting.append(enqueue(owner, chain))
    assert delete(api).status == 204
    owner.execute("DELETE FROM erasures")
    unknown = enqueue(owner, refer(recipient_id="ada"))
    assert drained(database) == (3, 0, 1)
    assert all(is_erased(owner, id) for id in waiting)
    assert (row_of(owner, unknown).status, row_of(owner, unknown).reason) == ("dead", "invalid")
    ((_, _, _, faults),) = requests_of(owner)
    assert pointers(faults) == [("/recipient_id", "unknown_recipient")]


@pytest.mark.parametrize("is_there_again", [False, True])
def test_what_was_asked_for_within_a_transaction_that_ends_after_the_erasure_is_not_sent(
    owner: psycopg.Connection, login: Login, database: Database, api: Api, is_there_again: bool
) -> None:
    put(api)
    with psycopg.connect(
        host=login.host, port=login.port, dbname=login.name, user="postgres"
    ) as payment:
        ids = [
            enqueue(payment, item)
            for item in (refer(recipient_id="ada"), email("Ada@Example.com"), refer(
                recipient_id="ada", content=None, template={"name": "none", "data": {}}
            ))
        ]  # fmt: skip
        assert delete(api).status == 204
        if is_there_again:
            put(api)
        payment.commit()
    assert drained(database) == (2 if is_there_again else 3, 0, 1 if is_there_again else 0)
    assert is_erased(owner, ids[0])
    assert is_erased(owner, ids[1])


def test_a_spelling_of_its_own_is_found_by_its_hash(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    id = enqueue(
        owner, {"channel": "webhook", "recipient": "https://a.example:443/x", "content": 1}
    )
    assert erase(api, "https://a.example/x", "webhook").status == 200
    assert drained(database) == (1, 0, 0)
    assert is_erased(owner, id)


def test_what_is_in_hand_while_its_recipient_is_erased_is_settled_as_erased(
    owner: psycopg.Connection, login: Login, database: Database, api: Api
) -> None:
    put(api)
    ids = [enqueue(owner, refer(recipient_id="ada")), enqueue(owner, email("Ada@Example.com"))]

    class Slow(Database):
        """Judges for so long that somebody is erased meanwhile."""

        is_judged = False

        def run(self, work: Any, *, pipelined: bool = False) -> Any:
            if work.__qualname__.startswith("_settled") and not Slow.is_judged:
                Slow.is_judged = True
                assert delete(api).status == 204
            return super().run(work, pipelined=pipelined)

    with connected(login, "slow", kind=Slow) as (slow,):
        drained(slow)
    drained(database)
    assert all(is_erased(owner, id) for id in ids)
    assert (ids_of(owner), requests_of(owner)) == (ids, [])


def test_an_erasure_takes_what_is_in_somebodys_hands(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    id = enqueue(owner, email(ADDRESS))
    database.run(take)
    assert erase(api).status == 200
    assert values(owner, "SELECT item::text FROM requests") == [
        '{"channel": "email", "category": null, "channels": null, "priority": null}'
    ]
    assert drained(database) == (1, 0, 0)
    assert is_erased(owner, id)


def test_the_second_look_of_an_erasure_does_no_harm(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    id = enqueue(owner, email(ADDRESS))
    assert erase(api).status == 200
    later = now_of(owner, minutes=2)
    continue_erasures(database, ends_at=time.monotonic() + 60, now=later)
    assert values(owner, "SELECT count(*) FROM erasures") == [0]
    database.run(take)
    lapse(owner)
    assert drained(database) == (1, 0, 0)
    assert is_erased(owner, id)


@pytest.mark.parametrize(
    "item",
    [
        email(ADDRESS, metadata={ADDRESS: 5}),
        email(ADDRESS) | {ADDRESS: 1},
        email(ADDRESS, content={"text": "x", ADDRESS.upper(): 1}),
        email("bob@example.com", content={"text": "x", f"to/{ADDRESS}": 1}),
        email("nobody", metadata={"x" * (MAX_NAMED_CHARACTERS - 6) + f" {ADDRESS}": 5}),
    ],
    ids=["metadata", "member", "content", "escaped", "cut"],
)
def test_the_faults_of_an_invalid_request_name_nobody_who_was_erased(
    owner: psycopg.Connection,
    database: Database,
    api: Api,
    postgres: Postgres,
    database_name: str,
    item: dict[str, Any],
) -> None:
    id = enqueue(owner, item)
    assert drained(database) == (0, 0, 1)
    before = database.run(lambda connection: faults_of(connection, id))
    assert erase(api).status == 200
    assert lines_naming(dump_of(postgres, database_name), [ADDRESS, "ada@e"]) == []
    after = database.run(lambda connection: faults_of(connection, id))
    assert [fault.code for fault in after] == [fault.code for fault in before]
    assert "…" in {fault.pointer for fault in after}


def test_faults_that_name_nobody_stay_as_they_are(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    faults = '[{"pointer": "/metadata/a~1b", "code": "wrong_type", "detail": "It is a text."}]'
    named = '[{"pointer": "/x", "code": "y", "detail": "No ada@example.com."}]'
    for _ in range(3):
        enqueue(owner, email("bob@example.com"))
    first, second, third = values(owner, "SELECT id FROM requests ORDER BY id")
    statement = "UPDATE requests SET drained_at = now(), faults = %s::jsonb WHERE id = %s"
    for told, id in ((faults, first), (named, second), ("[]", third)):
        owner.execute(statement, [told, id])

    def forget(connection: psycopg.Connection) -> int:
        return forget_invalid_items(
            connection, organization_id=FIRST_ORGANIZATION, spellings=[ADDRESS]
        )

    assert [database.run(forget), database.run(forget)] == [1, 0]
    kept = values(owner, "SELECT faults -> 0 ->> 'detail' FROM requests ORDER BY id")
    assert kept == ["It is a text.", "…", None]
    assert values(owner, "SELECT item IS NULL FROM requests ORDER BY id") == [False, True, False]
