"""Organizations and keys by the console: made once, shown once, revoked for good."""

from collections.abc import Generator
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.console.tenants import NO_TENANT
from functions.core import api_key
from functions.core.login import Login
from functions.store.connection import Database, connector
from functions.store.organization import ApiKey, find_api_key
from tests.operators import (
    Operator,
    audit,
    losing_commit,
    operator_database,
    operator_login,
    operator_with,
)
from tests.sending import Interrupted


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, None, {})


def live(database: Database, key: str) -> ApiKey | None:
    """Return the live key that a caller shows, as the authorizer finds it."""
    presented = api_key.read(key)
    assert presented is not None
    found = find_api_key(database, key_id=presented.id)
    assert found is None or api_key.matches(presented.secret, found.secret_sha256)
    return found


def test_a_tenant_is_made_once_and_told_again(
    owner: psycopg.Connection, operator: Operator
) -> None:
    made = operator.ask("tenant.create", name="Acme, Inc.")
    assert made["name"] == "Acme, Inc."
    assert made["created_at"].endswith("Z")
    again = operator.ask("tenant.create", name="Acme, Inc.")
    assert (again["id"], again["created_at"]) == (made["id"], made["created_at"])
    assert owner.execute("SELECT count(*) FROM organizations").fetchone() == (1,)
    assert [(kept.command, kept.arguments, kept.result) for kept in audit(owner)] == [
        ("tenant.create", {"name": "Acme, Inc."}, {"id": made["id"]})
    ] * 2
    assert [str(kept.id) for kept in audit(owner)] == [made["action_id"], again["action_id"]]


@pytest.mark.parametrize("name", ["", " acme", "a\nb", "x" * 257, str(UUID(int=7)), 7, ["acme"]])
def test_a_tenant_has_a_name_that_is_no_id(
    owner: psycopg.Connection, operator: Operator, name: object
) -> None:
    assert operator.refusal("tenant.create", name=name)[0] == "invalid"
    assert audit(owner) == []


def test_tenants_are_listed_page_by_page(operator: Operator) -> None:
    made = [operator.ask("tenant.create", name=f"tenant {n}")["id"] for n in range(3)]
    page = operator.ask("tenant.list", limit=2)
    assert [one["id"] for one in page["data"]] == made[:2]
    assert set(page["data"][0]) == {"id", "name", "created_at"}
    page = operator.ask("tenant.list", after=page["next"])
    assert ([one["id"] for one in page["data"]], page["next"]) == (made[2:], None)


def test_a_key_is_shown_once_and_works(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    tenant = operator.ask("tenant.create", name="acme")
    made = operator.ask("keys.create", organization="acme", name="web", scopes=["send", "read"])
    found = live(database, made["key"])
    assert found is not None
    assert (str(found.organization_id), found.scopes) == (tenant["id"], ["send", "read"])
    (_, kept) = audit(owner)
    assert (str(kept.id), kept.result) == (made["action_id"], {"id": made["id"]})
    assert kept.arguments == {"organization": "acme", "name": "web", "scopes": ["send", "read"]}
    presented = api_key.read(made["key"])
    assert presented is not None
    everything = str(
        [
            owner.execute("SELECT to_jsonb(k)::text FROM api_keys k").fetchall(),
            owner.execute("SELECT to_jsonb(a)::text FROM operator_actions a").fetchall(),
            operator.ask("keys.list", organization="acme"),
        ]
    )
    assert presented.secret not in everything


def test_a_tenant_is_named_by_its_id_or_its_name(operator: Operator) -> None:
    tenant = operator.ask("tenant.create", name="acme")
    for named in ("acme", tenant["id"], tenant["id"].upper()):
        operator.ask("keys.create", organization=named, name="web", scopes=["send"])
        assert operator.ask("keys.list", organization=named)["data"]
    assert "`sendoff tenant list`" in NO_TENANT
    for unknown in ("Acme", str(uuid4())):
        for command, more in (
            ("keys.list", {}),
            ("keys.create", {"name": "web", "scopes": ["send"]}),
        ):
            assert operator.refusal(command, organization=unknown, **more) == (
                "not_found",
                NO_TENANT,
            )


@pytest.mark.parametrize("scopes", [[], ["root"], "send", None, ["send", "read", "admin", "send"]])
def test_a_key_has_scopes_that_there_are(
    owner: psycopg.Connection, operator: Operator, scopes: object
) -> None:
    operator.ask("tenant.create", name="acme")
    code, detail = operator.refusal("keys.create", organization="acme", name="x", scopes=scopes)
    assert (code, detail.startswith("scopes: ")) == ("invalid", True)
    assert owner.execute("SELECT FROM api_keys").fetchone() is None
    assert len(audit(owner)) == 1


def test_keys_are_listed_live_and_revoked_page_by_page(operator: Operator) -> None:
    for tenant in ("acme", "other"):
        operator.ask("tenant.create", name=tenant)
    made = [
        operator.ask("keys.create", organization="acme", name=f"key {n}", scopes=["read"])["id"]
        for n in range(3)
    ]
    operator.ask("keys.create", organization="other", name="theirs", scopes=["read"])
    assert operator.ask("keys.revoke", id=made[0])["fate"] == "revoked"
    page = operator.ask("keys.list", organization="acme", limit=2)
    assert [one["id"] for one in page["data"]] == made[:2]
    assert set(page["data"][0]) == {"id", "name", "scopes", "created_at", "revoked_at"}
    assert [one["revoked_at"] is None for one in page["data"]] == [False, True]
    page = operator.ask("keys.list", organization="acme", after=page["next"])
    assert ([one["id"] for one in page["data"]], page["next"]) == (made[2:], None)


def test_a_revoked_key_is_refused_and_stays_so(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    operator.ask("tenant.create", name="acme")
    made = operator.ask("keys.create", organization="acme", name="web", scopes=["send"])
    fates = [operator.ask("keys.revoke", id=made["id"])["fate"] for _ in range(2)]
    fates.append(operator.ask("keys.revoke", id=str(uuid4()))["fate"])
    assert fates == ["revoked", "already_revoked", "not_found"]
    assert [kept.result for kept in audit(owner)[-3:]] == [{"fate": fate} for fate in fates]
    assert live(database, made["key"]) is None


def test_a_lost_answer_to_a_commit_makes_no_second_key(
    owner: psycopg.Connection, login: Login, database: Database
) -> None:
    with operator_database(login) as working:
        operator_with(working, None, {}).ask("tenant.create", name="acme")
    # The first piece of work takes the action's id, the second finds the tenant.
    with losing_commit(login, number=3) as losing:
        made = operator_with(losing, None, {}).ask(
            "keys.create", organization="acme", name="web", scopes=["send"]
        )
    assert [row[0] for row in owner.execute("SELECT id FROM api_keys")] == [UUID(made["id"])]
    assert live(database, made["key"]) is not None
    assert len(audit(owner)) == 2


def test_a_key_whose_answer_is_lost_altogether_is_told_as_possible(
    owner: psycopg.Connection, login: Login
) -> None:
    connect = connector(lambda: operator_login(login), application_name="console")
    # Two for the tenant; then an id for the action, the tenant, the key.
    interrupted = Interrupted(connect, out=[5], done=True)
    operator = operator_with(interrupted, None, {})
    operator.ask("tenant.create", name="acme")
    code, detail = operator.refusal("keys.create", organization="acme", name="web", scopes=["send"])
    assert (code, "It may have been done" in detail) == ("unavailable", True)
    assert len(operator.ask("keys.list", organization="acme")["data"]) == 1
    interrupted.close()
