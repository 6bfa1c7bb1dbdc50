"""The authorizer recognises keys, denies nobody, and forgets what it knew within a minute."""

import copy
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.authorizer.authorize import KEPT_SECONDS, MAX_KEPT, KeyCache, authorize
from functions.core.errors import Unavailable
from functions.store.connection import Database
from functions.store.organization import (
    NewApiKey,
    create_api_key,
    create_organization,
    find_api_key,
    revoke_api_key,
)
from tests.api import recorded


@pytest.fixture
def owning(owner: psycopg.Connection) -> Database:
    """The owner's connection as a Database; the fixture closes it."""
    return Database(lambda: owner)


@pytest.fixture
def key(owning: Database) -> NewApiKey:
    organization = create_organization(owning, name="First")
    return create_api_key(
        owning, organization_id=organization.id, name="test", scopes=["send", "read"]
    )


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class CountingDatabase:
    """The database, which counts look-ups and can be out."""

    def __init__(self, database: Database) -> None:
        self.database, self.calls, self.is_out = database, 0, False

    def run(self, work: Any, **options: Any) -> Any:
        self.calls += 1
        if self.is_out:
            raise Unavailable
        return self.database.run(work, **options)


def ask(keys: KeyCache, authorization: str | None) -> dict[str, str]:
    event = copy.deepcopy(recorded("authorizer.request"))
    event["headers"].pop("authorization")
    if authorization is not None:
        event["headers"]["authorization"] = authorization
    answer = authorize(event, keys=keys)
    assert answer["isAuthorized"] is True
    assert all(isinstance(value, str) for value in answer["context"].values())
    return answer["context"]


def test_a_live_key_is_recognised(database: Database, key: NewApiKey) -> None:
    found = find_api_key(database, key_id=key.id)
    assert found is not None
    expected = {
        "organization_id": str(found.organization_id),
        "scopes": "send read",
        "key_id": str(key.id),
    }
    for authorization in (f"Bearer {key.key}", f"bearer  {key.key} ", f"BEARER {key.key}"):
        assert ask(KeyCache(database), authorization) == expected


def test_the_recorded_requests_are_answered(database: Database) -> None:
    for name in ("authorizer.request", "authorizer.anonymous"):
        answer = authorize(recorded(name), keys=KeyCache(database))
        assert answer == {"isAuthorized": True, "context": {"error": "unauthenticated"}}


def test_whatever_else_is_presented_is_not_recognised(database: Database, key: NewApiKey) -> None:
    prefix, id, secret = key.key.split("_")
    keys = KeyCache(database)
    for authorization in (
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {key.key}",
        key.key,
        f"Bearer {key.key}x",
        f"Bearer {key.key[:-1]}",
        f"Bearer {prefix}_{id}_",
        f"Bearer {prefix}_{id}",
        f"Bearer {prefix}_{uuid4().hex}_{secret}",
        f"Bearer {prefix}_{'g' * 32}_{secret}",
        f"Bearer {prefix}__{secret}",
        f"Bearer sk-{id}-{secret}",
        f"Bearer {key.key}\0",
        f"Bearer {key.key}é",
        "Bearer " + "x" * 100_000,
        f"Bearer {key.key}, Bearer {key.key}",
    ):
        assert ask(keys, authorization) == {"error": "unauthenticated"}, authorization


def test_a_header_of_any_case_is_read(database: Database, key: NewApiKey) -> None:
    event = recorded("authorizer.anonymous")
    event["headers"]["Authorization"] = f"Bearer {key.key}"
    assert authorize(event, keys=KeyCache(database))["context"]["key_id"] == str(key.id)


def test_any_number_of_keys_live_side_by_side(database: Database, owning: Database) -> None:
    organization = create_organization(owning, name="First")
    assert create_organization(owning, name="First") == organization
    keys = [
        create_api_key(owning, organization_id=organization.id, name=name, scopes=["admin"])
        for name in ("old", "new")
    ]
    cache = KeyCache(database)
    for key in keys:
        assert ask(cache, f"Bearer {key.key}")["organization_id"] == str(organization.id)


def test_only_a_digest_of_the_secret_is_stored(owner: psycopg.Connection, key: NewApiKey) -> None:
    secret = key.key.split("_")[2]
    stored = owner.execute("SELECT to_jsonb(api_keys)::text FROM api_keys").fetchall()
    assert secret not in str(stored)


def test_a_revoked_key_is_refused_within_a_minute(
    database: Database, owning: Database, key: NewApiKey
) -> None:
    clock = Clock()
    keys = KeyCache(database, clock)
    assert "key_id" in ask(keys, f"Bearer {key.key}")
    assert revoke_api_key(owning, key_id=key.id).fate == "revoked"
    assert revoke_api_key(owning, key_id=key.id).fate == "already_revoked"
    clock.now += KEPT_SECONDS - 1
    assert "key_id" in ask(keys, f"Bearer {key.key}")
    clock.now += 1
    assert ask(keys, f"Bearer {key.key}") == {"error": "unauthenticated"}
    assert ask(KeyCache(database), f"Bearer {key.key}") == {"error": "unauthenticated"}


def test_a_look_up_is_kept_for_a_minute_whatever_it_found(
    database: Database, key: NewApiKey
) -> None:
    counting, clock = CountingDatabase(database), Clock()
    keys = KeyCache(counting, clock)  # pyright: ignore[reportArgumentType]
    nobody = f"Bearer sk_{uuid4().hex}_secret"
    for _ in range(3):
        ask(keys, f"Bearer {key.key}")
        ask(keys, f"Bearer {key.key}x")
        ask(keys, nobody)
    assert counting.calls == 2
    clock.now += KEPT_SECONDS
    ask(keys, f"Bearer {key.key}")
    ask(keys, nobody)
    assert counting.calls == 4


def test_made_up_ids_neither_fill_the_memory_nor_crowd_out_live_keys(
    database: Database, key: NewApiKey
) -> None:
    counting = CountingDatabase(database)
    keys = KeyCache(counting, Clock())  # pyright: ignore[reportArgumentType]
    ask(keys, f"Bearer {key.key}")
    for number in range(MAX_KEPT + 50):
        ask(keys, f"Bearer sk_{UUID(int=number).hex}_secret")
    calls = counting.calls
    ask(keys, f"Bearer {key.key}")
    ask(keys, f"Bearer sk_{UUID(int=MAX_KEPT).hex}_secret")
    assert counting.calls == calls
    ask(keys, f"Bearer sk_{UUID(int=0).hex}_secret")
    assert counting.calls == calls + 1


def test_an_outage_is_passed_on_and_never_kept(database: Database, key: NewApiKey) -> None:
    counting, clock = CountingDatabase(database), Clock()
    keys = KeyCache(counting, clock)  # pyright: ignore[reportArgumentType]
    counting.is_out = True
    assert ask(keys, f"Bearer {key.key}") == {"error": "unavailable"}
    assert ask(keys, "Bearer nonsense") == {"error": "unauthenticated"}
    counting.is_out = False
    assert "key_id" in ask(keys, f"Bearer {key.key}")
    counting.is_out = True
    assert "key_id" in ask(keys, f"Bearer {key.key}")
    clock.now += KEPT_SECONDS  # a key is never believed for longer because the database is out
    assert ask(keys, f"Bearer {key.key}") == {"error": "unavailable"}
