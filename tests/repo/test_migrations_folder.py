"""Migrations are numbered without a gap and named for what they do."""

import re
from pathlib import Path

from tests.repo.repository import files

MIGRATIONS = sorted(path for path in files() if path.parts[0] == "migrations")


def test_they_are_numbered_without_a_gap() -> None:
    assert [int(path.name[:4]) for path in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_they_are_named_by_verb_and_object() -> None:
    for path in MIGRATIONS:
        assert re.fullmatch(r"\d{4}_[a-z]+(_[a-z]+)+\.sql", path.name), path
        assert path.parent == Path("migrations")
