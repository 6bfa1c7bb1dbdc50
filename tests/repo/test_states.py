"""The eleven states are the same everywhere they are listed."""

import json
import re
from pathlib import Path
from typing import Any, cast

import psycopg

from functions.core import states
from functions.core.states import Status
from functions.ingest.openapi import openapi_text
from tests.repo.repository import text_of

EXPECTED = {status.value for status in Status}


def test_there_are_eleven() -> None:
    assert len(EXPECTED) == 11


def test_the_check_of_the_table_lists_them(owner: psycopg.Connection) -> None:
    row = owner.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conname = 'notifications_status_is_known'"
    ).fetchone()
    assert row is not None
    assert set(re.findall(r"'(\w+)'", row[0])) == EXPECTED


def test_the_docstring_of_core_has_a_paragraph_for_each() -> None:
    assert set(re.findall(r"^(\w+)  ", states.__doc__ or "", re.MULTILINE)) == EXPECTED


def test_the_readme_has_a_row_for_each() -> None:
    section = text_of(Path("README.md")).split("## States", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == EXPECTED


def test_the_api_names_them() -> None:
    enumerations: list[set[str]] = []

    def collect(members: dict[str, Any]) -> dict[str, Any]:
        if isinstance(names := members.get("enum"), list):
            enumerations.append(set(cast("list[str]", names)))
        return members

    json.loads(openapi_text(), object_hook=collect)
    assert EXPECTED in enumerations
