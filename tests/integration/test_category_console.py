"""Categories by the console: declared by name, checked together, kept in the audit."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from functions.core.login import Login
from tests.operators import Operator, audit, losing_commit, operator_database, operator_with

ACME = "acme"


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        operator = operator_with(database, None, {})
        operator.ask("tenant.create", name=ACME)
        operator.ask("tenant.create", name="other")
        yield operator


def listed(operator: Operator, organization: str = ACME) -> dict[str, dict[str, Any]]:
    """Return what is declared, by category."""
    found = operator.ask("category.list", organization=organization)
    return {row.pop("category"): row for row in found["data"]}


def declare(operator: Operator, category: str, **settings: Any) -> dict[str, Any]:
    return operator.ask("category.set", organization=ACME, category=category, settings=settings)


def transactional_of(owner: psycopg.Connection, name: str = ACME) -> list[str]:
    statement = "SELECT transactional_categories FROM organizations WHERE name = %s"
    ((categories,),) = owner.execute(statement, [name]).fetchall()
    return categories


def version_of(operator: Operator, category: str) -> int:
    version = listed(operator)[category]["version"]
    assert version is not None
    return version


def test_a_tenant_begins_with_one_transactional_category(operator: Operator) -> None:
    assert listed(operator) == {
        "transactional": {
            "transactional": True,
            "mandatory": False,
            "high_bypasses_quiet_hours": False,
            "window": None,
            "version": None,
            "updated_at": None,
        }
    }


def test_what_is_declared_is_stored_told_and_kept(
    owner: psycopg.Connection, operator: Operator
) -> None:
    settings = {
        "transactional": True,
        "mandatory": True,
        "high_bypasses_quiet_hours": True,
        "window": "22:30-06:00",
    }
    done = declare(operator, "one-time_code", **settings)
    assert {name: change["is"] for name, change in done["changed"].items()} == settings
    assert done["changed"]["window"] == {"was": None, "is": "22:30-06:00"}
    row = listed(operator)["one-time_code"]
    assert {name: row[name] for name in settings} == settings
    assert transactional_of(owner) == ["transactional", "one-time_code"]
    kept = audit(owner)[-1]
    assert (str(kept.id), kept.command) == (done["action_id"], "category.set")
    assert kept.arguments == {
        "organization": ACME,
        "category": "one-time_code",
        "settings": settings,
    }
    assert kept.result == {"changed": done["changed"]}
    assert list(listed(operator, "other")) == ["transactional"]
    assert transactional_of(owner, "other") == ["transactional"]


def test_what_is_not_named_stays_and_every_change_has_a_new_version(operator: Operator) -> None:
    declare(operator, "news", window="08:00-20:00")
    first = version_of(operator, "news")
    done = declare(operator, "news", transactional=True)
    assert done["changed"] == {"transactional": {"was": False, "is": True}}
    assert listed(operator)["news"]["window"] == "08:00-20:00"
    second = version_of(operator, "news")
    assert declare(operator, "news", window="none", mandatory=True)["changed"].keys() == {
        "window",
        "mandatory",
    }
    third = version_of(operator, "news")
    assert declare(operator, "news", mandatory=True)["changed"] == {}
    assert first < second < third == version_of(operator, "news")


def test_a_category_that_is_made_bulk_loses_its_place_in_the_list_alone(
    owner: psycopg.Connection, operator: Operator
) -> None:
    declare(operator, "receipt", transactional=True)
    declare(operator, "code", transactional=True)
    declare(operator, "receipt", transactional=False)
    assert transactional_of(owner) == ["transactional", "code"]
    declare(operator, "transactional", transactional=False)
    assert transactional_of(owner) == ["code"]
    assert listed(operator)["transactional"]["transactional"] is False


def test_what_is_undeclared_is_as_if_nothing_had_been_declared(
    owner: psycopg.Connection, operator: Operator
) -> None:
    declare(operator, "news", transactional=True, mandatory=True, window="08:00-20:00")
    before = version_of(operator, "news")
    done = operator.ask("category.unset", organization=ACME, category="news")
    assert done["changed"] == {
        "transactional": {"was": True, "is": False},
        "mandatory": {"was": True, "is": False},
        "window": {"was": "08:00-20:00", "is": None},
    }
    assert list(listed(operator)) == ["transactional"]
    assert audit(owner)[-1].result == {"changed": done["changed"]}
    again = operator.ask("category.unset", organization=ACME, category="news")
    assert again["changed"] == {}
    declare(operator, "news", window="08:00-20:00")
    assert version_of(operator, "news") > before


def test_the_category_transactional_goes_back_to_what_it_is_by_itself(
    owner: psycopg.Connection, operator: Operator
) -> None:
    declare(operator, "transactional", transactional=False, window="08:00-20:00")
    done = operator.ask("category.unset", organization=ACME, category="transactional")
    assert done["changed"]["transactional"] == {"was": False, "is": True}
    assert transactional_of(owner) == ["transactional"]


@pytest.mark.parametrize("name", ["mandatory", "high_bypasses_quiet_hours"])
def test_what_only_a_transactional_category_can_be_is_refused_to_a_bulk_one(
    owner: psycopg.Connection, operator: Operator, name: str
) -> None:
    refused = {"organization": ACME, "category": "news"}
    for settings in ({name: True}, {name: True, "transactional": False}):
        code, detail = operator.refusal("category.set", **refused, settings=settings)
        assert (code, detail) == (
            "refused",
            f"{name}: Only a transactional category can be so, and news would be bulk. Say that it "
            "is transactional, or that it is not so any more.",
        )
    declare(operator, "news", transactional=True, **{name: True})
    code, _ = operator.refusal("category.set", **refused, settings={"transactional": False})
    assert code == "refused"
    assert listed(operator)["news"]["transactional"] is True
    assert len(audit(owner)) == 3
    declare(operator, "news", transactional=False, **{name: False})
    assert listed(operator)["news"][name] is False


@pytest.mark.parametrize(
    "settings",
    [
        {"window": "08:00-08:00"},
        {"window": "00:00-00:00"},
        {"window": "08:00-24:00"},
        {"window": "24:00-08:00"},
        {"window": "8:00-20:00"},
        {"window": "08:00-20:60"},
        {"window": "08:00:00-20:00:00"},
        {"window": "08:00-20:00 "},
        {"window": "٠٨:00-20:00"},
        {"window": ""},
        {"window": None},
        {"window": ["08:00", "20:00"]},
        {"transactional": "yes"},
        {"mandatory": 1},
        {"stream": "bulk"},
        {"window_start": "08:00"},
        [],
    ],
)
def test_a_declaration_that_cannot_be_is_refused(
    owner: psycopg.Connection, operator: Operator, settings: Any
) -> None:
    before = len(audit(owner))
    code, detail = operator.refusal(
        "category.set", organization=ACME, category="news", settings=settings
    )
    assert (code, detail.startswith("settings: ")) == ("invalid", True), detail
    assert len(audit(owner)) == before
    assert list(listed(operator)) == ["transactional"]


@pytest.mark.parametrize("category", ["", "News", "a b", "x" * 65, "néws", "a\n", 7, None])
def test_a_name_that_no_category_has_is_refused(operator: Operator, category: Any) -> None:
    for command, more in (
        ("category.set", {"settings": {"mandatory": False}}),
        ("category.unset", {}),
    ):
        code, detail = operator.refusal(command, organization=ACME, category=category, **more)
        assert (code, detail.startswith("category: ")) == ("invalid", True)


def test_nothing_to_change_and_no_tenant_are_refused(operator: Operator) -> None:
    code, detail = operator.refusal("category.set", organization=ACME, category="news")
    assert (code, detail) == ("refused", "There is nothing to change.")
    code, detail = operator.refusal("category.list", organization="nobody")
    assert code == "not_found"


def test_two_at_once_do_not_undo_each_other(login: Login, owner: psycopg.Connection) -> None:
    with operator_database(login) as first, operator_database(login) as second:
        operators = [operator_with(one, None, {}) for one in (first, second)]
        operators[0].ask("tenant.create", name=ACME)

        def work(number: int) -> None:
            for turn in range(5):
                declare(operators[number], f"category-{number}-{turn}", transactional=True)

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(work, range(2)))
    expected = {f"category-{number}-{turn}" for number in range(2) for turn in range(5)}
    assert set(transactional_of(owner)) == expected | {"transactional"}


def test_a_lost_answer_to_a_commit_is_told_as_it_was_done(
    login: Login, owner: psycopg.Connection, operator: Operator
) -> None:
    del operator  # made the tenant
    # The first piece of work takes the action's id, the second finds the tenant.
    with losing_commit(login, number=3) as losing:
        done = declare(operator_with(losing, None, {}), "news", transactional=True)
    assert done["changed"] == {"transactional": {"was": False, "is": True}}
    assert transactional_of(owner) == ["transactional", "news"]
    assert [kept.command for kept in audit(owner)].count("category.set") == 1
