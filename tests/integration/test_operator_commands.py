"""`sendoff explain` and `sendoff dead`: what they ask, what they show, and how they end."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from functions.core.explanation import explain
from tests.command_line import Operator, operator_at
from tests.fake_console import Trouble, no
from tests.histories import HOLD, Call, Change, Dossier, Row, Story, after


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


def id_of(number: int) -> str:
    return f"0199aaaa-0000-7000-8000-{number:012x}"


ID, TENANT = id_of(1), "0199aaaa-0000-7000-8000-0000000000aa"
EMPTY: dict[str, Any] = {"data": [], "next": None}


def held(number: int, **members: Any) -> dict[str, Any]:
    row = {
        "id": id_of(number),
        "organization_id": TENANT,
        "channel": "email",
        "priority": "normal",
        "reason": "rejected",
        "provider": "http",
        "attempts_spent": 2,
        "max_attempts": 5,
        "in_doubt": 0,
        "created_at": "2030-01-01T00:00:00Z",
        "needed": True,
        "held_at": "2030-01-01T00:00:01.25Z",
        "last_code": "no_such_user",
        "last_http_status": 400,
    }
    return {**row, **members}


def page(*rows: dict[str, Any], following: str | None = None) -> dict[str, Any]:
    return {"data": list(rows), "next": following}


# explain


def explained(row: Row, **members: Any) -> dict[str, Any]:
    dossier = Dossier(history=Story(notification=row, **members))
    return explain(dossier, now=after(100), keyed_providers=("http",))


def test_explain_is_one_screen_of_sentences(operator: Operator) -> None:
    call = Call(http_status=202, reference="m-1")
    change = Change(to_status="submitted", reason="accepted", attempt_id=call.id)
    row = Row(status="submitted", submitted_at=after(4), reference="order 7", key_epoch=1)
    operator.console.will("explain", explained(row, attempts=[call], transitions=[change]))
    ended = operator.run("explain", ID)
    assert ended.status == 0
    assert operator.console.asked("explain") == [{"id": ID}]
    assert (
        ended.out
        == f"""\
{ID}  submitted
The provider accepted it, and since 2030-01-01T00:00:04Z its delivery is not confirmed.

  Channel   email, normal, transactional
  Attempts  0 of 5 spent
  Tenant    {TENANT}
  Reference order 7
  Key       {ID}.1

2030-01-01T00:00:00Z  client  The request was accepted and stored; it is to be sent at once.
2030-01-01T00:00:02Z  claim   It was taken up for sending (lease 1), and attempt 1 was opened at \
http.
2030-01-01T00:00:04Z  sender  Attempt 1 at http was answered with HTTP status 202 and the id m-1 \
after 2.0 s: it was accepted. Its delivery is not confirmed yet.

Next: A report of the provider moves it at once. Without one by 2030-01-01T01:00:04Z it ends as \
unconfirmed.
"""
    )


@pytest.mark.parametrize(
    ("row", "commands"),
    [
        (
            Row(status="dead", reason="rejected"),
            [f"sendoff dead requeue {ID}", f"sendoff dead discard {ID}"],
        ),
        (
            Row(status="dead", reason="outcome_unknown", in_doubt=1),
            [
                f"sendoff uncertain settle {ID} --as accepted",
                f"sendoff uncertain settle {ID} --as delivered",
                f"sendoff uncertain settle {ID} --as not-accepted",
                f"sendoff dead requeue {ID} --may-send-twice",
                f"sendoff dead discard {ID}",
            ],
        ),
        (
            Row(status="dead", reason="rejected", expires_at=datetime(2020, 1, 1, tzinfo=UTC)),
            [f"sendoff dead discard {ID}"],
        ),
        (
            Row(status="uncertain", in_doubt=1),
            [
                f"sendoff uncertain settle {ID} --as accepted",
                f"sendoff uncertain settle {ID} --as delivered",
                f"sendoff uncertain settle {ID} --as not-accepted",
                f"sendoff uncertain settle {ID} --as hold",
            ],
        ),
        (Row(hold_id=HOLD), [f"sendoff hold release {HOLD}"]),
    ],
)
def test_explain_of_what_waits_for_a_person_names_the_commands_that_move_it(
    operator: Operator, row: Row, commands: list[str]
) -> None:
    operator.console.will("explain", explained(row))
    ended = operator.run("explain", ID)
    assert ended.status == 1
    shown = [line.strip() for line in ended.out.splitlines() if line.startswith("  sendoff ")]
    assert shown == [f"{command} --state-dir {operator.state_dir}" for command in commands]


def test_explain_of_what_rests_names_no_command(operator: Operator) -> None:
    row = Row(status="dead", reason="rejected", discarded_at=after(9))
    operator.console.will("explain", explained(row))
    ended = operator.run("explain", ID)
    assert ended.status == 0
    assert "Next: nothing; only evidence could change it." in ended.out
    assert "  sendoff" not in ended.out


def test_explain_in_json_is_what_the_console_tells(operator: Operator) -> None:
    told = explained(Row(status="dead", reason="rejected"))
    operator.console.will("explain", told)
    ended = operator.run("explain", ID, "--json")
    assert (ended.status, ended.document) == (1, told)


def test_explain_of_nothing_is_refused(operator: Operator) -> None:
    operator.console.will("explain", no("not_found", "There is no notification with this id."))
    ended = operator.run("explain", ID)
    assert (ended.status, ended.err) == (3, "There is no notification with this id.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "42"),
        ("dead", "requeue", "42"),
        ("uncertain", "settle", "42", "--as", "hold"),
        ("uncertain", "settle", ID),
        ("uncertain", "settle", ID, "--as", "unknown"),
        ("keys", "revoke", "42"),
        ("keys", "create", "--organization", "acme", "--name", "a"),
        ("keys", "create", "--organization", "acme", "--name", "a", "--scope", "root"),
        ("dlq", "preview", "fax"),
        ("dlq", "preview", "email", "--limit", "101"),
        ("dead", "list", "--reason", "outcome_unknwon"),
        ("dead", "list", "--channel", "fax"),
        ("dead", "list", "--limit", "0"),
        ("dead", "list", "--after", "42"),
        ("dead", "discard", ID, "--note", "two\nlines"),
        ("dead", "discard", ID, "--note", "x" * 257),
        ("receipts", "replay"),
        ("receipts", "replay", "--since", "2030-01-01T00:00:00Z", "--notification", ID),
        ("receipts", "replay", "--since", "2030-01-01T00:00:00"),
        ("recover", "--since", "yesterday"),
        ("recover",),
    ],
)
def test_what_cannot_be_meant_is_a_matter_of_usage(
    operator: Operator, arguments: tuple[str, ...]
) -> None:
    assert operator.run(*arguments).status == 2
    assert operator.console.events == []


# dead


def test_nothing_held_is_a_sentence(operator: Operator) -> None:
    operator.console.will("dead.list", EMPTY)
    ended = operator.run("dead", "list")
    assert (ended.status, ended.out) == (0, "Nothing is held.\n")
    ended = operator.run("dead", "list", "--json")
    assert (ended.status, ended.document) == (0, EMPTY)


def test_what_is_held_is_listed_whole_and_found(operator: Operator) -> None:
    rows = [
        held(1),
        held(2, reason="outcome_unknown", in_doubt=1, last_code=None, last_http_status=None),
    ]
    operator.console.will("dead.list", page(*rows, following=id_of(2)))
    ended = operator.run("dead", "list", "--limit", "2")
    assert ended.status == 1
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[1] == [
        ID, "email", "rejected", "2", "of", "5", "0", "no_such_user", "2030-01-01T00:00:01Z",
        TENANT,
    ]  # fmt: skip
    assert lines[2][:2] == [id_of(2), "email"]
    assert "1 rejected, 1 outcome_unknown." in ended.out
    assert f"go on with --after {id_of(2)}." in ended.out


def test_a_list_is_narrowed_and_goes_on_over_pages_of_the_console(operator: Operator) -> None:
    operator.console.will(
        "dead.list",
        page(*(held(n) for n in range(500)), following=id_of(499)),
        page(*(held(n) for n in range(500, 600)), following=id_of(599)),
    )
    ended = operator.run(
        "dead", "list", "--limit", "600", "--channel", "sms", "--reason", "rejected",
        "--organization", TENANT, "--after", id_of(7), "--json",
    )  # fmt: skip
    assert len(ended.document["data"]) == 600
    assert ended.document["next"] == id_of(599)
    narrowed = {"channel": "sms", "reason": "rejected", "organization_id": TENANT}
    assert operator.console.asked("dead.list") == [
        {"limit": 500, "after": id_of(7), **narrowed},
        {"limit": 100, "after": id_of(499), **narrowed},
    ]


def test_what_waits_for_nobody_is_listed_only_with_all_and_is_no_finding(
    operator: Operator,
) -> None:
    operator.console.will("dead.list", page(held(1, needed=False)))
    ended = operator.run("dead", "list", "--all")
    assert ended.status == 0
    assert f"{TENANT} (waits for nobody)\n" in ended.out
    operator.console.will("dead.list", page(held(1, needed=False), held(2)))
    assert operator.run("dead", "list", "--all").status == 1
    operator.console.will("dead.list", EMPTY)
    for command in ("list", "requeue", "discard"):
        choice = () if command == "list" else ("--all", "--yes")
        assert operator.run("dead", command, *choice).status == 0
    asked = [one.get("needless") for one in operator.console.asked("dead.list")]
    assert asked == [True, True, None, None, True]
    told = operator.run("dead", "list", "--help").out.replace("│", " ")
    assert "waits for nobody: it is listed only with --all." in " ".join(told.split())


@pytest.mark.parametrize(
    ("fate", "words"),
    [
        (
            "chain_delivered",
            "Another candidate of its notification was delivered: it is not sent again.",
        ),
        ("chain_cancelled", "Its notification was cancelled: it is not sent again."),
        (
            "needs_consent",
            "It may have been accepted, or a later candidate goes on: --may-send-twice, if a "
            "duplicate does no harm.",
        ),
    ],
)
def test_a_fate_says_what_stands_in_the_way(operator: Operator, fate: str, words: str) -> None:
    operator.console.will("dead.requeue", fated(fate))
    ended = operator.run("dead", "requeue", ID)
    assert words in ended.out
    assert "there is nothing to do" not in ended.out


def test_a_tenant_may_be_named(operator: Operator) -> None:
    operator.console.will(
        "tenant.list",
        page({"id": id_of(8), "name": "other"}, following=id_of(8)),
        page({"id": TENANT, "name": "acme"}),
    )
    operator.console.will("dead.list", EMPTY)
    assert operator.run("dead", "list", "--organization", "acme").status == 0
    assert operator.console.asked("dead.list")[0]["organization_id"] == TENANT
    operator.console.will("tenant.list", EMPTY)
    ended = operator.run("dead", "list", "--organization", "acme")
    assert (ended.status, ended.err) == (
        3,
        "There is no tenant called 'acme'. `sendoff tenant list` shows all.\n",
    )


def test_what_others_wrote_cannot_act_on_a_terminal(operator: Operator) -> None:
    operator.console.will("dead.list", page(held(1, last_code="\x1b[2J\x9b[red]boo[/red]\r\n")))
    ended = operator.run("dead", "list")
    assert "[red]boo[/red]" in ended.out
    assert not set(ended.out) & set("\x1b\x9b\r")
    assert "\x9b" not in operator.run("dead", "list", "--json").out


def fated(fate: str) -> Any:
    """Return a console's answer that gives all ids of a page the same fate."""

    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        fates = [{"id": id, "fate": fate} for id in arguments["ids"]]
        return {"action_id": id_of(77), "fates": fates}

    return answer


@pytest.mark.parametrize(
    ("fate", "status"),
    [
        ("requeued", 0),
        ("already_scheduled", 0),
        ("awaiting_evidence", 0),
        ("delivered", 3),
        ("discarded", 3),
        ("needs_consent", 1),
        ("attempt_open", 1),
        ("not_found", 3),
    ],
)
def test_a_requeue_by_id_ends_by_its_fate(operator: Operator, fate: str, status: int) -> None:
    operator.console.will("dead.requeue", fated(fate))
    ended = operator.run("dead", "requeue", ID)
    assert ended.status == status
    assert ended.out.splitlines()[1].split()[:2] == [ID, fate]
    assert operator.console.asked("dead.requeue") == [{"ids": [ID], "may_send_twice": False}]


def test_consent_is_given_by_an_option_alone(operator: Operator) -> None:
    operator.console.will("dead.requeue", fated("requeued"))
    assert operator.run("dead", "requeue", ID, "--may-send-twice", "--json").document == {
        "action_ids": [id_of(77)],
        "fates": [{"id": ID, "fate": "requeued"}],
    }
    assert operator.console.asked("dead.requeue")[0]["may_send_twice"] is True


@pytest.mark.parametrize("command", ["requeue", "discard"])
@pytest.mark.parametrize("arguments", [(), (ID, "--all"), (ID, "--channel", "sms"),
                                       ("--all", "--channel", "sms")])  # fmt: skip
def test_an_unclear_choice_is_a_matter_of_usage(
    operator: Operator, command: str, arguments: tuple[str, ...]
) -> None:
    assert operator.run("dead", command, *arguments, "--yes").status == 2
    assert operator.console.events == []


@pytest.mark.parametrize("command", ["requeue", "discard"])
def test_a_choice_is_not_carried_out_where_nobody_can_confirm_it(
    operator: Operator, command: str
) -> None:
    operator.console.will("dead.list", page(held(1), held(2, reason="budget_spent")))
    ended = operator.run("dead", command, "--all")
    assert ended.status == 2
    assert "2 held notifications: 1 rejected, 1 budget_spent." in ended.err
    assert "--yes" in ended.err
    assert [event["command"] for event in operator.console.events] == ["dead.list"]


def test_a_choice_is_carried_out_in_pages_with_its_progress(operator: Operator) -> None:
    def listed(arguments: dict[str, Any]) -> dict[str, Any]:
        start = 0 if "after" not in arguments else int(arguments["after"][-4:], 16) + 1
        end = min(start + 500, 1100)
        following = id_of(end - 1) if end < 1100 else None
        return page(*(held(n) for n in range(start, end)), following=following)

    operator.console.will("dead.list", listed)
    operator.console.will("dead.requeue", fated("requeued"), fated("needs_consent"))
    ended = operator.run("dead", "requeue", "--reason", "rejected", "--yes")
    assert ended.status == 1
    pages = operator.console.asked("dead.requeue")
    assert [len(one["ids"]) for one in pages] == [500, 500, 100]
    assert len({id for one in pages for id in one["ids"]}) == 1100
    assert "Decided: 500 of 1,100\nDecided: 1,000 of 1,100\nDecided: 1,100 of 1,100\n" in ended.err
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[1][:2] == ["needs_consent", "600"]
    assert lines[2][:2] == ["requeued", "500"]
    assert "580 more of those; --json names all." in ended.out


def test_a_choice_of_nothing_is_a_sentence_and_asks_nobody(operator: Operator) -> None:
    operator.console.will("dead.list", EMPTY)
    ended = operator.run("dead", "discard", "--all")
    assert (ended.status, ended.out) == (0, "Nothing is held.\n")
    assert operator.console.asked("dead.discard") == []


def test_a_choice_tells_how_many_may_have_been_accepted(operator: Operator) -> None:
    rows = [held(1), held(2, reason="outcome_unknown"), held(3, in_doubt=1)]
    operator.console.will("dead.list", page(*rows))
    operator.console.will("dead.requeue", fated("requeued"))
    words = "2 may have been accepted already, and stay held unless --may-send-twice is given."
    assert words in operator.run("dead", "requeue", "--all", "--yes").err
    assert words not in operator.run("dead", "requeue", "--all", "--yes", "--may-send-twice").err


def test_what_was_done_before_a_failure_is_told(operator: Operator) -> None:
    ids = [id_of(number) for number in range(501)]
    operator.console.will("dead.requeue", fated("requeued"), Trouble(closes=True))
    ended = operator.run("dead", "requeue", *ids, "--json")
    assert ended.status == 4
    assert "500 of 501 had been decided before. The same command goes on" in ended.err
    assert len(ended.document["fates"]) == 500
    assert ended.document["action_ids"] == [id_of(77)]


@pytest.mark.parametrize(
    ("fate", "status"),
    [("discarded", 0), ("already_discarded", 0), ("pending", 3), ("not_found", 3)],
)
def test_a_discard_ends_by_its_fate(operator: Operator, fate: str, status: int) -> None:
    operator.console.will("dead.discard", fated(fate))
    assert operator.run("dead", "discard", ID, "--note", "out of date").status == status
    assert operator.console.asked("dead.discard") == [{"ids": [ID], "note": "out of date"}]
