"""What operators set for SMS by the console: countries, prices, budgets, limits; and the holds."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.login import Login
from functions.store.connection import Database
from tests.guarding import add_texts, names_of, ruled, some_texts, usual_weeks
from tests.operators import Operator, audit, operator_database, operator_with

NOON = datetime(2030, 5, 15, 12, tzinfo=UTC)


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, None, {})


@pytest.fixture
def tenant(operator: Operator) -> str:
    return operator.ask("tenant.create", name="acme")["id"]


def test_a_new_tenant_has_the_defaults(operator: Operator, tenant: str) -> None:
    shown = operator.ask("sms.show", organization_id=tenant)
    assert shown.pop("day")
    assert shown == {
        "organization_id": tenant,
        "countries": None,
        "daily_budget": None,
        "number_per_hour": 10,
        "prefix_per_hour": 200,
        "unusual_per_day": 20,
        "growth": 3.0,
        "spent": "0",
        "messages": 0,
        "usual": {"known": False, "since": None, "messages": 0},
    }


def test_the_usual_mix_is_known_once_there_is_enough_to_compare_with(
    owner: psycopg.Connection, operator: Operator, database: Database, tenant: str
) -> None:
    until = datetime.now(UTC) + timedelta(hours=2)  # the last of them is of 21 hours ago
    usual_weeks(database, owner, until=until, days=4, a_day=30, organization_id=UUID(tenant))
    usual = operator.ask("sms.show", organization_id=tenant)["usual"]
    assert (usual["known"], usual["messages"]) == (False, 90)  # 30 are of the last 24 hours
    owner.execute("UPDATE sms_slices SET total = total + 10 WHERE kind = 'country' AND key = 'FR'")
    usual = operator.ask("sms.show", organization_id=tenant)["usual"]
    assert (usual["known"], usual["messages"]) == (True, 100)
    assert datetime.fromisoformat(usual["since"]) == until - timedelta(days=4, hours=-1)


def test_what_is_set_is_shown_and_kept_with_who_did_it(
    owner: psycopg.Connection, operator: Operator, tenant: str
) -> None:
    operator.ask("sms.allow", organization_id=tenant, countries=["FR", "DE", "FR"])
    operator.ask("sms.price", country="FR", amount="0.07")
    operator.ask("sms.price", country="DE", amount="0.090")
    operator.ask("sms.price", country="DE", amount="0.1")
    operator.ask("sms.budget", organization_id=tenant, amount="25.50")
    operator.ask("sms.limits", organization_id=tenant, number_per_hour=0, growth=2)
    shown = operator.ask("sms.show", organization_id=tenant)
    assert (shown["countries"], shown["daily_budget"]) == (["DE", "FR"], "25.5")
    assert (shown["number_per_hour"], shown["prefix_per_hour"], shown["growth"]) == (0, 200, 2)
    assert operator.ask("sms.prices") == {
        "data": [{"country": "DE", "amount": "0.1"}, {"country": "FR", "amount": "0.07"}]
    }
    kept = audit(owner)[1:]
    assert [one.command for one in kept] == [
        "sms.allow", "sms.price", "sms.price", "sms.price", "sms.budget", "sms.limits",
    ]  # fmt: skip
    assert kept[4].arguments == {"organization_id": tenant, "amount": "25.50"}
    operator.ask("sms.allow", organization_id=tenant, every=True)
    operator.ask("sms.budget", organization_id=tenant, none=True)
    shown = operator.ask("sms.show", organization_id=tenant)
    assert (shown["countries"], shown["daily_budget"]) == (None, None)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("sms.allow", {}),
        ("sms.allow", {"countries": ["FR"], "every": True}),
        ("sms.allow", {"countries": []}),
        ("sms.allow", {"countries": ["fr"]}),
        ("sms.allow", {"countries": ["FRA"]}),
        ("sms.budget", {}),
        ("sms.budget", {"amount": "1", "none": True}),
        ("sms.budget", {"amount": 1}),
        ("sms.budget", {"amount": "-1"}),
        ("sms.budget", {"amount": "1e3"}),
        ("sms.budget", {"amount": "10000001"}),
        ("sms.limits", {}),
        ("sms.limits", {"number_per_hour": -1}),
        ("sms.limits", {"number_per_hour": True}),
        ("sms.limits", {"growth": 0.5}),
        ("sms.limits", {"growth": "3"}),
    ],
)
def test_what_is_no_clear_setting_is_refused(
    command: str, arguments: dict[str, Any], operator: Operator, tenant: str
) -> None:
    code, _ = operator.refusal(command, organization_id=tenant, **arguments)
    assert code == "invalid"


def test_a_budget_needs_prices_and_a_tenant(operator: Operator, tenant: str) -> None:
    code, detail = operator.refusal("sms.budget", organization_id=tenant, amount="5")
    assert code == "refused"
    assert "set prices first" in detail
    for command, arguments in (
        ("sms.show", {}),
        ("sms.allow", {"every": True}),
        ("sms.budget", {"none": True}),
        ("sms.limits", {"growth": 2}),
    ):
        code, _ = operator.refusal(command, organization_id=str(uuid4()), **arguments)
        assert code == "not_found"


def test_holds_are_listed_and_released_with_their_audit(
    owner: psycopg.Connection, operator: Operator, database: Database
) -> None:
    usual_weeks(database, owner, until=NOON)
    add_texts(owner, some_texts(30, at=NOON, country="MV", stem="+960771"))
    assert names_of(ruled(database, now=NOON)).count("hold") == 10
    (hold,) = operator.ask("hold.list")["data"]
    assert (hold["country"], hold["prefix"], hold["waiting"]) == ("MV", None, 10)
    done = operator.ask("hold.release", id=hold["id"], discard=True, note="abuse")
    assert {key: done[key] for key in ("fate", "discarded", "let_go", "more")} == {
        "fate": "released",
        "discarded": True,
        "let_go": 10,
        "more": False,
    }
    (kept,) = audit(owner)
    assert (str(kept.id), kept.command) == (done["action_id"], "hold.release")
    assert kept.arguments == {"id": hold["id"], "discard": True, "note": "abuse"}
    assert operator.ask("hold.list") == {"data": [], "next": None}
    assert operator.ask("hold.release", id=hold["id"])["fate"] == "already_released"
    assert operator.ask("hold.release", id=str(uuid4()))["fate"] == "not_found"
