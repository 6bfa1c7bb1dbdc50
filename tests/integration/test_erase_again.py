"""Somebody comes again while they are being erased, or their event does."""

from uuid import UUID

import psycopg
import pytest

from functions.claim.gate import judge, open_to_all
from functions.core.errors import Unavailable
from functions.core.login import Login
from functions.core.outcome import Accepted
from functions.core.recipient import reference_hash
from functions.store.connection import Database
from functions.store.erase import erase_recipient
from functions.store.recipient import BeingErased, NewRecipient, put_recipient
from tests.api import HASH_KEY, Api, email, start
from tests.erasing import delete, erase, put
from tests.fakes import FIRST_ORGANIZATION, HeldDatabase, row_of
from tests.reports import told
from tests.steps import begin_one, begun, close_one, connected, lease, opening_of, waiting

OLD, NEW = (
    {"contact_points": [{"channel": "email", "address": address, "verified": True}]}
    for address in ("old@example.com", "new@example.com")
)
FOR_ADA = {"channel": "email", "recipient_id": "ada", "content": "For you"}
NOBODY = NewRecipient(
    contact_points=(), locale=None, time_zone=None, quiet_start=None, quiet_end=None, preferences={}
)


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def erase_ada_without_time(database: Database) -> None:
    with pytest.raises(Unavailable):
        erase_recipient(
            database,
            organization_id=FIRST_ORGANIZATION,
            recipient_id="ada",
            reference_hash=reference_hash(HASH_KEY, "ada"),
            ends_at=0,
        )


def test_who_is_made_again_gets_nothing_that_was_meant_for_who_was_erased(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    """The erasure had no time left, or died: the document that follows ends it first."""
    put(api, OLD)
    meant = UUID(api.post(FOR_ADA).json["id"])
    several = {"channels": ["email", "sms"], "recipient_id": "ada", "content": "For you"}
    chain = UUID(api.post(several).json["id"])
    erase_ada_without_time(database)
    assert [row_of(owner, id).status for id in (meant, chain)] == ["pending"] * 2
    created = put(api, NEW)
    assert created.status == 201, created
    for id in (meant, chain):
        assert (row_of(owner, id).status, row_of(owner, id).reason) == ("suppressed", "erased")
    hers = UUID(api.post(FOR_ADA).json["id"])
    judged = judge(lease(database), database=database, retries=True, gates=open_to_all)
    assert [(row.id, verdict.name) for row, verdict in judged] == [(hers, "allow")]
    assert begin_one(database, opening_of(judged[0][0])).send


def test_nobody_is_made_again_before_who_was_erased_is_gone(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    put(api, OLD)
    api.post(FOR_ADA)
    erase_ada_without_time(database)
    with pytest.raises(BeingErased) as refused:
        put_recipient(
            database, organization_id=FIRST_ORGANIZATION, recipient_id="ada", document=NOBODY
        )
    assert refused.value.code == "unavailable"  # 503 with Retry-After
    assert api.get("/v1/recipients/ada").code == "not_found"
    _, is_new = put_recipient(
        database, organization_id=FIRST_ORGANIZATION, recipient_id="bob", document=NOBODY
    )
    assert is_new
    assert delete(api).status == 204
    assert put(api, NEW).status == 201
    assert owner.execute("SELECT count(*) FROM recipients").fetchone() == (2,)


def test_a_document_that_waits_for_the_erasure_comes_after_it(
    api: Api, database: Database, login: Login, owner: psycopg.Connection
) -> None:
    put(api, OLD)
    meant = UUID(api.post(FOR_ADA).json["id"])
    with connected(login, "erases", kind=HeldDatabase) as (erases,):
        assert delete(start(erases)).status == 204
        with waiting(owner, "test", lambda: put(api, NEW)) as made:
            erases.commit()
    assert made.result().status == 201
    assert row_of(owner, meant).status == "suppressed"
    assert row_of(owner, UUID(api.post(FOR_ADA).json["id"])).status == "pending"


def test_an_event_that_comes_while_it_is_erased_is_not_sent_again(
    api: Api, database: Database, login: Login, owner: psycopg.Connection
) -> None:
    item = email(event_id="paid:7:ada@example.com")
    first = api.post(item, key="k1").json["id"]
    close_one(database, begun(database), Accepted(reference="m1"))
    with connected(login, "erases", kind=HeldDatabase) as (erases,):
        assert erase(start(erases)).json == {"erased": 1}
        assert api.post(item, key="k2").json["id"] == first
        erases.commit()
    assert api.post(item, key="k2").json["id"] == first
    assert api.post(item, key="k3").json["id"] == first
    assert owner.execute("SELECT count(*) FROM notifications").fetchone() == (1,)


def test_a_report_that_comes_again_while_it_is_erased_is_kept_once(
    api: Api, database: Database, login: Login, owner: psycopg.Connection
) -> None:
    id = UUID(api.post(email()).json["id"])
    close_one(database, begun(database), Accepted(reference="m1"))

    def report() -> int:
        return told(database, "delivered", idempotency_key=id, recipient="ada@example.com",
                    event_id="delivered:ada@example.com").stored  # fmt: skip

    assert report() == 1
    with connected(login, "erases", kind=HeldDatabase) as (erases,):
        assert erase(start(erases)).json == {"erased": 1}
        assert report() == 0
        erases.commit()
    assert report() == 0
    assert owner.execute("SELECT count(*) FROM receipts").fetchone() == (1,)
