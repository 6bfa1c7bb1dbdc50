"""`sendoff tenant`, `keys` and `recover`: what they ask, what they show, and how they end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Operator, operator_at
from tests.fake_console import Trouble, no


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


def id_of(number: int) -> str:
    return f"0199aaaa-0000-7000-8000-{number:012x}"


ID, TENANT = id_of(1), "0199aaaa-0000-7000-8000-0000000000aa"
EMPTY: dict[str, Any] = {"data": [], "next": None}


def page(*rows: dict[str, Any], following: str | None = None) -> dict[str, Any]:
    return {"data": list(rows), "next": following}


# tenants and keys


def test_a_tenant_is_created_and_shown(operator: Operator) -> None:
    made = {"id": TENANT, "name": "acme", "created_at": "2030-01-01T00:00:00.5Z"}
    operator.console.will("tenant.create", made)
    ended = operator.run("tenant", "create", "acme")
    assert ended.status == 0
    assert ended.out.splitlines()[1].split() == [TENANT, "acme", "2030-01-01T00:00:00Z"]
    assert operator.console.asked("tenant.create") == [{"name": "acme"}]


def test_tenants_are_listed(operator: Operator) -> None:
    operator.console.will("tenant.list", EMPTY)
    ended = operator.run("tenant", "list")
    assert (ended.status, ended.out) == (0, "There is no tenant.\n")
    row = {"id": TENANT, "name": "acme", "created_at": "2030-01-01T00:00:00Z"}
    operator.console.will("tenant.list", page(row))
    ended = operator.run("tenant", "list")
    assert ended.status == 0
    assert TENANT in ended.out


def test_a_key_is_written_once_and_alone(operator: Operator) -> None:
    operator.console.will("keys.create", {"id": id_of(3), "key": "sk_3_secret"})
    ended = operator.run(
        "keys", "create", "--organization", "acme", "--name", "web",
        "--scope", "send", "--scope", "read", "--scope", "send",
    )  # fmt: skip
    assert (ended.status, ended.out) == (0, "sk_3_secret\n")
    assert id_of(3) in ended.err
    assert "not shown again" in ended.err
    assert "sk_3" not in ended.err
    assert operator.console.asked("keys.create") == [
        {"organization": "acme", "name": "web", "scopes": ["send", "read"]}
    ]


def test_keys_are_listed_without_their_text(operator: Operator) -> None:
    row = {
        "id": id_of(3),
        "name": "web",
        "scopes": ["send", "read"],
        "created_at": "2030-01-01T00:00:00Z",
        "revoked_at": None,
    }
    operator.console.will("keys.list", page(row))
    ended = operator.run("keys", "list", "--organization", "acme")
    assert ended.status == 0
    assert ended.out.splitlines()[1].split() == [
        id_of(3), "web", "send", "read", "2030-01-01T00:00:00Z", "-",
    ]  # fmt: skip
    operator.console.will("keys.list", EMPTY)
    assert operator.run("keys", "list", "--organization", "acme").out == "This tenant has no key.\n"
    operator.console.will("keys.list", no("not_found", "There is no organization."))
    assert operator.run("keys", "list", "--organization", "acme").status == 3


@pytest.mark.parametrize(
    ("fate", "status"), [("revoked", 0), ("already_revoked", 0), ("not_found", 3)]
)
def test_a_key_is_revoked(operator: Operator, fate: str, status: int) -> None:
    operator.console.will("keys.revoke", {"action_id": id_of(77), "id": id_of(3), "fate": fate})
    assert operator.run("keys", "revoke", id_of(3)).status == status
    assert operator.console.asked("keys.revoke") == [{"id": id_of(3)}]


# recover

SINCE = "2020-01-01T00:00:00Z"


def recovering(operator: Operator, *pages: Any) -> None:
    operator.console.will("recover.pause", {"action_id": id_of(1), "paused": ["email", "sms"]})
    operator.console.will("recover", *pages)
    operator.console.will("recover.resume", resumed)


def resumed(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"action_id": id_of(9), "resumed": arguments["channels"]}


def marked(count: int, following: str | None = None) -> dict[str, Any]:
    return {"action_id": id_of(2), "marked": count, "next": following}


def test_recover_pauses_marks_and_lets_go_on_what_it_paused(operator: Operator) -> None:
    recovering(operator, marked(500, id_of(500)), marked(3))
    ended = operator.run("recover", "--since", SINCE, "--yes")
    assert ended.status == 0
    assert [(event["command"], event["arguments"]) for event in operator.console.events] == [
        ("recover.pause", {}),
        ("recover", {"since": SINCE}),
        ("recover", {"since": SINCE, "after": id_of(500)}),
        ("recover.resume", {"channels": ["email", "sms"]}),
    ]
    assert "1. pause every channel" in ended.err
    assert "Marked: 503" in ended.err
    assert ended.out.startswith("503 notifications marked as possibly sent; email, sms let go on.")


def test_recover_asks_first_and_does_nothing_where_nobody_can_answer(operator: Operator) -> None:
    recovering(operator, marked(0))
    ended = operator.run("recover", "--since", SINCE)
    assert ended.status == 2
    assert operator.console.events == []


def test_recover_that_is_cut_off_says_how_to_go_on(operator: Operator) -> None:
    recovering(operator, marked(500, id_of(500)), Trouble(closes=True))
    ended = operator.run("recover", "--since", SINCE, "--yes", "--json")
    assert ended.status == 4
    again = (
        f"sendoff recover --since {SINCE} --resume email --resume sms --yes "
        f"--state-dir {operator.state_dir}"
    )
    assert "The channels email, sms stay paused. To go on, run" in ended.err
    assert again in ended.err
    document = json.loads(ended.out)
    assert (document["marked"], document["go_on"]) == (500, again)


def test_recover_goes_on_and_lets_go_what_the_first_run_paused(operator: Operator) -> None:
    recovering(operator, marked(3))
    operator.console.will("recover.pause", {"action_id": id_of(1), "paused": []})
    ended = operator.run(
        "recover", "--since", SINCE, "--resume", "sms", "--resume", "email", "--yes", "--json"
    )
    assert ended.status == 0
    assert ended.document == {
        "action_ids": [id_of(1), id_of(2), id_of(9)],
        "paused": [],
        "marked": 3,
        "resumed": ["email", "sms"],
    }


def test_recover_whose_pause_was_lost_says_that_channels_may_stand_still(
    operator: Operator,
) -> None:
    recovering(operator, marked(0))
    operator.console.will("recover.pause", Trouble(closes=True))
    ended = operator.run("recover", "--since", SINCE, "--yes")
    assert ended.status == 4
    assert "goes on with --resume <channel>" in ended.err


def test_recover_that_was_refused_at_the_start_changed_nothing(operator: Operator) -> None:
    recovering(operator, marked(0))
    operator.console.will("recover.pause", no("refused", "Not now."))
    ended = operator.run("recover", "--since", SINCE, "--yes")
    assert ended.status == 3
    assert "stay paused" not in ended.err
    assert "may have been paused" not in ended.err


def test_recover_leaves_alone_what_had_been_paused_before(operator: Operator) -> None:
    recovering(operator, marked(0))
    operator.console.will("recover.pause", {"action_id": id_of(1), "paused": []})
    ended = operator.run("recover", "--since", SINCE, "--yes")
    assert ended.status == 0
    assert operator.console.asked("recover.resume") == []
    assert "no channel let go on" in ended.out
