"""`sendoff hold` and `sendoff sms`: what they ask, what they show, and how they end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Operator, operator_at
from tests.fake_console import Trouble, no

ID = "0199aaaa-0000-7000-8000-000000000001"
TENANT = "0199aaaa-0000-7000-8000-0000000000aa"
HOLD: dict[str, Any] = {
    "id": ID,
    "organization_id": TENANT,
    "country": "MV",
    "prefix": None,
    "reason": "mix_shifted",
    "today": 21,
    "usual": 0.25,
    "waiting": 1480,
    "opened_at": "2030-01-01T00:00:00.5Z",
    "released_at": None,
}
RULES: dict[str, Any] = {
    "organization_id": TENANT,
    "countries": None,
    "daily_budget": None,
    "number_per_hour": 10,
    "prefix_per_hour": 0,
    "unusual_per_day": 20,
    "growth": 3.0,
    "day": "2030-01-01",
    "spent": "1.5",
    "messages": 2,
    "usual": {"known": True, "since": "2029-12-01T00:00:00.5Z", "messages": 1480},
}


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


def released(*, let_go: int, more: bool = False, **changes: Any) -> dict[str, Any]:
    result = {"action_id": "a", "id": ID, "fate": "released", "discarded": False}
    return result | {"let_go": let_go, "more": more} | changes


# hold


def test_holds_are_shown_and_wait_for_a_person(operator: Operator) -> None:
    nowhere = HOLD | {"country": "", "released_at": "2030-01-02T00:00:00Z"}
    prefix = HOLD | {"country": None, "prefix": "+3389900"}
    operator.console.will("hold.list", {"data": [HOLD, prefix, nowhere], "next": None})
    ended = operator.run("hold", "list", "--organization", TENANT)
    assert ended.status == 1
    assert operator.console.asked("hold.list") == [{"organization_id": TENANT, "limit": 100}]
    first, second, third = ended.out.splitlines()[1:4]
    assert first.split() == [ID, "MV", "1,480", "21", "0.2", "2030-01-01T00:00:00Z", TENANT]
    assert "+3389900" in second
    assert "no country (being released)" in third
    assert "sendoff hold release <id>" in ended.out
    assert "added up over all countries of a tenant" in ended.out
    operator.console.will("hold.list", {"data": [prefix], "next": None})
    assert "all countries" not in operator.run("hold", "list").out


def test_without_holds_there_is_nothing_to_do(operator: Operator) -> None:
    operator.console.will("hold.list", {"data": [], "next": None})
    ended = operator.run("hold", "list")
    assert (ended.status, ended.out) == (0, "Nothing is on hold.\n")
    assert operator.run("hold", "list", "--json").document == {"data": [], "next": None}


def test_a_hold_is_released_page_by_page(operator: Operator) -> None:
    operator.console.will("hold.release", released(let_go=2000, more=True), released(let_go=17))
    ended = operator.run("hold", "release", ID, "--note", "a campaign")
    assert (ended.status, ended.out) == (0, "Released: 2,017 messages may go out now.\n")
    assert (
        operator.console.asked("hold.release")
        == [{"id": ID, "discard": False, "note": "a campaign"}] * 2
    )


def test_a_hold_is_discarded(operator: Operator) -> None:
    operator.console.will("hold.release", released(let_go=1, discarded=True))
    ended = operator.run("hold", "release", ID, "--discard", "--json")
    assert ended.status == 0
    assert ended.document == {
        "action_ids": ["a"], "id": ID, "fate": "released", "let_go": 1, "discarded": True,
    }  # fmt: skip
    assert operator.run("hold", "release", ID, "--discard").out == (
        "Discarded: 1 message ended as suppressed.\n"
    )


@pytest.mark.parametrize(
    ("fate", "status", "words"),
    [
        ("already_released", 0, "It had been released before.\n"),
        ("not_found", 3, "There is no such hold.\n"),
        ("elsewhere", 0, "It is elsewhere.\n"),
    ],
)
def test_what_came_of_a_release_is_said(
    fate: str, status: int, words: str, operator: Operator
) -> None:
    operator.console.will("hold.release", released(let_go=0, fate=fate))
    ended = operator.run("hold", "release", ID)
    assert (ended.status, ended.out) == (status, words)


def test_what_was_discarded_before_is_called_so(operator: Operator) -> None:
    done = released(let_go=0, fate="already_released", discarded=True)
    operator.console.will("hold.release", done)
    assert operator.run("hold", "release", ID).out == "It had been discarded before.\n"


def test_a_release_that_is_cut_off_tells_how_far_it_came(operator: Operator) -> None:
    operator.console.will(
        "hold.release", released(let_go=2000, more=True), Trouble(function_error=True)
    )
    ended = operator.run("hold", "release", ID, "--json")
    assert ended.status == 4
    assert ended.document["let_go"] == 2000


# sms


def test_the_rules_of_a_tenant_are_shown(operator: Operator) -> None:
    operator.console.will("sms.show", RULES)
    ended = operator.run("sms", "show", TENANT)
    assert ended.status == 0
    shown = " ".join(ended.out.split())
    assert "countries every one" in shown
    assert "budget a day no limit" in shown
    assert "spent today 1.5 for 2 messages" in shown
    assert "to one number an hour 10" in shown
    assert "to one prefix an hour no limit" in shown
    assert shown.endswith("usual mix known")
    assert operator.run("sms", "show", TENANT, "--json").document == RULES


@pytest.mark.parametrize(
    ("since", "messages", "said"),
    [(None, 0, "(0 so far)"), ("2030-01-01T00:00:00.5Z", 57, "(57 since 2030-01-01T00:00:00Z)")],
)
def test_a_usual_mix_that_is_not_known_holds_nothing(
    since: str | None, messages: int, said: str, operator: Operator
) -> None:
    usual = {"known": False, "since": since, "messages": messages}
    operator.console.will("sms.show", RULES | {"usual": usual})
    shown = " ".join(operator.run("sms", "show", TENANT).out.split())
    assert "usual mix not known yet" in shown
    assert shown.endswith(
        "Its usual mix is known after 3 days with 100 messages before the last 24 hours "
        f"{said}. Until then nothing is held as unlike it."
    )


def test_a_tenant_is_named_by_its_name_as_well(operator: Operator) -> None:
    tenant = {"id": TENANT, "name": "acme", "created_at": "2030-01-01T00:00:00Z"}
    operator.console.will("tenant.list", {"data": [tenant], "next": None})
    operator.console.will("sms.show", RULES | {"countries": ["FR"], "daily_budget": "25.5"})
    ended = operator.run("sms", "show", "acme")
    assert "25.5" in ended.out
    assert operator.console.asked("sms.show") == [{"organization_id": TENANT}]
    assert operator.run("sms", "show", "nobody").status == 3


def test_countries_are_allowed(operator: Operator) -> None:
    operator.console.will("sms.allow", {"action_id": "a", "countries": ["DE", "FR"]})
    ended = operator.run("sms", "allow", TENANT, "--country", "FR", "--country", "de")
    assert ended.out == "Allowed: DE FR. To any other country nothing is sent.\n"
    operator.console.will("sms.allow", {"action_id": "a", "countries": None})
    assert operator.run("sms", "allow", TENANT, "--all").out == "Every country is allowed.\n"
    assert operator.console.asked("sms.allow") == [
        {"organization_id": TENANT, "countries": ["FR", "DE"], "every": False},
        {"organization_id": TENANT, "every": True},
    ]


def test_prices_are_set_and_listed(operator: Operator) -> None:
    operator.console.will("sms.prices", {"data": []})
    assert operator.run("sms", "price", "list").out == "There is no price.\n"
    operator.console.will("sms.price", {"action_id": "a", "country": "FR", "amount": "0.07"})
    ended = operator.run("sms", "price", "set", "fr", "0.07")
    assert ended.out == "A part of a message to FR costs 0.07.\n"
    assert operator.console.asked("sms.price") == [{"country": "FR", "amount": "0.07"}]
    operator.console.will("sms.prices", {"data": [{"country": "FR", "amount": "0.07"}]})
    ended = operator.run("sms", "price", "list")
    assert ended.out.splitlines()[1].split() == ["FR", "0.07"]


def test_a_budget_is_set_and_what_waited_goes_on(operator: Operator) -> None:
    operator.console.will("sms.budget", {"action_id": "a", "daily_budget": "25.5", "woken": 3})
    ended = operator.run("sms", "budget", TENANT, "25.50")
    assert ended.out == (
        "It may spend 25.5 a day.\n3 messages waited for tomorrow and may go out now.\n"
    )
    operator.console.will("sms.budget", {"action_id": "a", "daily_budget": None, "woken": 0})
    ended = operator.run("sms", "budget", TENANT, "--none")
    assert ended.out == "There is no limit a day.\n"
    assert operator.console.asked("sms.budget") == [
        {"organization_id": TENANT, "amount": "25.50", "none": False},
        {"organization_id": TENANT, "none": True},
    ]
    operator.console.will("sms.budget", no("refused", "Set prices first."))
    assert operator.run("sms", "budget", TENANT, "1").status == 3


def test_limits_are_set(operator: Operator) -> None:
    operator.console.will("sms.limits", {"action_id": "a", "growth": 2.0})
    ended = operator.run("sms", "limits", TENANT, "--number-per-hour", "0", "--growth", "2")
    assert (ended.status, ended.out) == (0, "Set. It counts from the next message on.\n")
    assert operator.console.asked("sms.limits") == [
        {"organization_id": TENANT, "number_per_hour": 0, "growth": 2.0}
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("allow", TENANT),
        ("allow", TENANT, "--all", "--country", "FR"),
        ("allow", TENANT, "--country", "UK"),
        ("price", "set", "XX", "1"),
        ("price", "set", "FR", "free"),
        ("budget", TENANT),
        ("budget", TENANT, "5", "--none"),
        ("budget", TENANT, "5 EUR"),
        ("limits", TENANT),
        ("limits", TENANT, "--growth", "0.5"),
        ("limits", TENANT, "--number-per-hour", "-1"),
    ],
)
def test_what_makes_no_sense_is_a_matter_of_usage(
    arguments: tuple[str, ...], operator: Operator
) -> None:
    assert operator.run("sms", *arguments).status == 2
    assert operator.console.events == []
