"""`sendoff category`: what it asks, what it shows, and how it ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.cli.category import KIND_APPLIES
from tests.command_line import Operator, operator_at
from tests.fake_console import no

ID = "0199aaaa-0000-7000-8000-000000000001"


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


def row(category: str, **more: Any) -> dict[str, Any]:
    return {
        "category": category,
        "transactional": False,
        "mandatory": False,
        "high_bypasses_quiet_hours": False,
        "window": None,
        "version": 7,
        "updated_at": "2030-01-01T00:00:00.5Z",
        **more,
    }


def changed(**changes: tuple[Any, Any]) -> dict[str, Any]:
    return {
        "action_id": ID,
        "organization_id": ID,
        "category": "news",
        "changed": {name: {"was": was, "is": now} for name, (was, now) in changes.items()},
    }


def test_categories_are_listed(operator: Operator) -> None:
    rows = [
        row("code", transactional=True, mandatory=True, high_bypasses_quiet_hours=True),
        row("news", window="08:00-20:00"),
        row("transactional", transactional=True, version=None, updated_at=None),
    ]
    found = {"organization_id": ID, "data": rows}
    operator.console.will("category.list", found)
    ended = operator.run("category", "list", "acme")
    assert ended.status == 0
    assert [line.split() for line in ended.out.splitlines()[1:-1]] == [
        ["code", "transactional", "on", "on", "-", "2030-01-01T00:00:00Z"],
        ["news", "bulk", "off", "off", "08:00-20:00", "2030-01-01T00:00:00Z"],
        ["transactional", "transactional", "off", "off", "-", "-"],
    ]
    assert ended.out.endswith("Any other category is bulk.\n")
    assert operator.run("category", "list", "acme", "--json").document == found
    assert operator.console.asked("category.list") == [{"organization": "acme"}] * 2
    operator.console.will("category.list", {"organization_id": ID, "data": []})
    assert "every category is bulk" in operator.run("category", "list", "acme").out


def test_what_is_set_is_asked_by_name_and_told_with_what_it_means(operator: Operator) -> None:
    operator.console.will(
        "category.set", changed(transactional=(True, False), window=(None, "08:00-20:00"))
    )
    ended = operator.run("category", "set", "acme", "news", "--bulk", "--window", "08:00-20:00")
    assert ended.status == 0
    assert ended.out.splitlines() == [
        "transactional: on -> off",
        "send window: - -> 08:00-20:00",
        KIND_APPLIES.format(kind="bulk"),
    ]
    operator.console.will("category.set", changed(transactional=(False, True)))
    ended = operator.run(
        "category", "set", "acme", "news", "--transactional", "--mandatory",
        "--high-bypasses-quiet-hours", "--window", "none",
    )  # fmt: skip
    assert ended.out.endswith(KIND_APPLIES.format(kind="transactional") + "\n")
    assert "it is transactional at once" in ended.out
    operator.console.will("category.set", changed())
    ended = operator.run(
        "category", "set", "acme", "news", "--not-mandatory", "--high-keeps-quiet-hours", "--json"
    )
    assert ended.document == changed()
    assert [one["settings"] for one in operator.console.asked("category.set")] == [
        {"transactional": False, "window": "08:00-20:00"},
        {
            "transactional": True,
            "mandatory": True,
            "high_bypasses_quiet_hours": True,
            "window": "none",
        },
        {"mandatory": False, "high_bypasses_quiet_hours": False},
    ]


def test_what_is_unset_is_told(operator: Operator) -> None:
    operator.console.will("category.unset", changed(mandatory=(True, False)), changed())
    ended = operator.run("category", "unset", "acme", "news")
    assert ended.out == "mandatory: on -> off\n", "the kind is as it was: no word of it"
    ended = operator.run("category", "unset", "acme", "news")
    assert ended.out == "Nothing changed: it was so before.\n"
    assert (
        operator.console.asked("category.unset")
        == [{"organization": "acme", "category": "news"}] * 2
    )


def test_nothing_to_change_is_a_matter_of_usage(operator: Operator) -> None:
    ended = operator.run("category", "set", "acme", "news")
    assert ended.status == 2
    assert operator.console.events == []


def test_what_is_refused_is_said(operator: Operator) -> None:
    operator.console.will("category.set", no("refused", "mandatory: Only a transactional one."))
    ended = operator.run("category", "set", "acme", "news", "--mandatory")
    assert (ended.status, ended.out) == (3, "")
    assert "Only a transactional one." in ended.err
