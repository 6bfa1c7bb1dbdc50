"""The README's SQL makes an organization and a key that work, once."""

import re
from typing import LiteralString, cast

import psycopg
import pytest
from psycopg import errors

from functions.core import api_key
from functions.store.connection import Database
from functions.store.organization import find_api_key
from tests.repo.repository import ROOT


def statement() -> LiteralString:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(r"<!-- first key -->\n```sql\n(.*?)```", text, re.DOTALL)
    assert match, "the README shows how the first key is made"
    return cast("LiteralString", match[1])


def test_the_key_it_shows_is_the_one_that_is_stored(
    owner: psycopg.Connection, database: Database
) -> None:
    ((shown,),) = owner.execute(statement()).fetchall()
    presented = api_key.read(shown)
    assert presented is not None
    assert len(presented.secret) == 64
    stored = find_api_key(database, key_id=presented.id)
    assert stored is not None
    assert api_key.matches(presented.secret, stored.secret_sha256)
    assert set(stored.scopes) == {"send", "read", "admin"}


def test_it_makes_no_second_organization_of_the_name(owner: psycopg.Connection) -> None:
    owner.execute(statement())
    with pytest.raises(errors.UniqueViolation):
        owner.execute(statement())
