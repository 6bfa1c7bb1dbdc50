"""`sendoff uncertain`, `dlq` and `receipts`: what they ask, what they show, and how they end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Operator, operator_at


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


# uncertain


def test_nothing_uncertain_is_a_sentence(operator: Operator) -> None:
    operator.console.will("uncertain.list", EMPTY)
    ended = operator.run("uncertain", "list")
    assert (ended.status, ended.out) == (0, "Nothing is uncertain.\n")


def test_what_is_uncertain_is_listed_with_what_decides_it(operator: Operator) -> None:
    row = {
        "id": ID,
        "organization_id": TENANT,
        "channel": "sms",
        "provider": "http_keyless",
        "attempt_id": id_of(5),
        "in_doubt": 1,
        "since": "2030-01-01T00:00:00.5Z",
        "decide_at": "2030-01-01T00:15:00.5Z",
        "policy": "hold",
    }
    operator.console.will("uncertain.list", page(row))
    ended = operator.run("uncertain", "list", "--channel", "sms")
    assert ended.status == 1
    assert ended.out.splitlines()[1].split() == [
        ID, "sms", "http_keyless", "1", "2030-01-01T00:00:00Z", "2030-01-01T00:15:00Z", "hold",
        TENANT,
    ]  # fmt: skip
    assert operator.console.asked("uncertain.list") == [{"limit": 100, "channel": "sms"}]


@pytest.mark.parametrize(
    ("typed", "finding"),
    [
        ("accepted", "accepted"),
        ("delivered", "delivered"),
        ("not-accepted", "not_accepted"),
        ("hold", "hold"),
    ],
)
def test_a_finding_settles(operator: Operator, typed: str, finding: str) -> None:
    operator.console.will("uncertain.settle", {"action_id": id_of(77), "fate": "settled"})
    ended = operator.run("uncertain", "settle", ID, "--as", typed, "--note", "asked them")
    assert ended.status == 0
    assert ended.out.startswith(f"Settled. `sendoff explain {ID}")
    assert operator.console.asked("uncertain.settle") == [
        {"id": ID, "finding": finding, "note": "asked them"}
    ]


@pytest.mark.parametrize(
    ("fate", "status", "words"),
    [
        ("not_found", 3, "There is no such notification."),
        ("attempt_open", 1, "An attempt is still open"),
        ("delivered", 3, "It is delivered: there is no doubt to settle."),
        ("pending", 3, "It is pending: there is no doubt to settle."),
    ],
)
def test_what_is_not_in_doubt_is_not_settled(
    operator: Operator, fate: str, status: int, words: str
) -> None:
    operator.console.will("uncertain.settle", {"action_id": id_of(77), "fate": fate})
    ended = operator.run("uncertain", "settle", ID, "--as", "accepted")
    assert ended.status == status
    assert ended.out.startswith(words)


# dlq


def letter(number: int, fate: str, *, kept: bool = False, **members: Any) -> dict[str, Any]:
    return {
        "message_id": f"aaaa0000-0000-4000-8000-{number:012x}",
        "id": id_of(number),
        "lease": 1,
        "fate": fate,
        "kept": kept,
        **members,
    }


UNREADABLE = letter(900, "unreadable", kept=True, id=None, lease=None, body='{"v":9}')


@pytest.mark.parametrize("command", ["preview", "redrive"])
def test_an_empty_queue_is_a_sentence(operator: Operator, command: str) -> None:
    empty: dict[str, Any] = {"action_id": id_of(77), "count": 0, "messages": []}
    operator.console.will(f"dlq.{command}", empty)
    ended = operator.run("dlq", command, "sms")
    assert (ended.status, ended.out) == (0, "The dead-letter queue of sms is empty.\n")


def test_a_preview_shows_what_a_redrive_would_come_to(operator: Operator) -> None:
    operator.console.will(
        "dlq.preview", {"count": 12, "messages": [letter(1, "requeued"), UNREADABLE]}
    )
    ended = operator.run("dlq", "preview", "email", "--limit", "2")
    assert ended.status == 1
    assert operator.console.asked("dlq.preview") == [{"channel": "email", "limit": 2}]
    lines = ended.out.splitlines()
    assert lines[1].split()[:4] == [letter(1, "")["message_id"], ID, "requeued", "no"]
    assert lines[2].split() == [UNREADABLE["message_id"], "-", "unreadable", "yes", '{"v":9}']
    assert lines[-1] == "About 12 messages in the queue; these are 2."


def test_a_queue_that_somebody_else_reads_is_not_called_empty(operator: Operator) -> None:
    operator.console.will("dlq.preview", {"count": 3, "messages": []})
    ended = operator.run("dlq", "preview", "email")
    assert ended.status == 1
    assert ended.out.startswith("About 3 messages, none of which can be looked at now")


def redriven(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"action_id": id_of(77), "count": 101, "messages": list(messages)}


def test_a_redrive_goes_on_until_a_page_drops_nothing(operator: Operator) -> None:
    operator.console.will(
        "dlq.redrive",
        redriven(*(letter(n, "requeued") for n in range(100))),
        redriven(letter(100, "delivered"), UNREADABLE),
        redriven(UNREADABLE),
    )
    ended = operator.run("dlq", "redrive", "email", "--may-send-twice", "--json")
    assert ended.status == 1
    assert len(ended.document["messages"]) == 102
    assert ended.document["count"] == 101
    assert (
        operator.console.asked("dlq.redrive")
        == [{"channel": "email", "limit": 100, "may_send_twice": True}] * 3
    )


def test_a_redrive_of_what_all_drops_ends_well(operator: Operator) -> None:
    operator.console.will("dlq.redrive", redriven(letter(1, "already_scheduled")), redriven())
    ended = operator.run("dlq", "redrive", "email")
    assert ended.status == 0
    assert "It waits to be sent already" in ended.out


def test_a_redrive_stops_at_its_limit(operator: Operator) -> None:
    operator.console.will("dlq.redrive", redriven(letter(1, "requeued")))
    assert operator.run("dlq", "redrive", "email", "--limit", "1").status == 0
    assert len(operator.console.events) == 1


@pytest.mark.parametrize("fate", ["needs_consent", "attempt_open", "other_channel"])
def test_what_stays_in_the_queue_is_found(operator: Operator, fate: str) -> None:
    operator.console.will("dlq.redrive", redriven(letter(1, fate, kept=True)))
    ended = operator.run("dlq", "redrive", "email")
    assert ended.status == 1
    assert ended.out.splitlines()[1].split()[2:4] == [fate, "yes"]


# receipts


def test_reports_are_read_again_page_by_page(operator: Operator) -> None:
    operator.console.will(
        "receipts.replay",
        {"action_id": id_of(1), "read": 500, "changed": 2, "moved": 1, "next": id_of(500)},
        {"action_id": id_of(2), "read": 20, "changed": 1, "moved": 0, "next": None},
    )
    ended = operator.run("receipts", "replay", "--since", "2030-01-01T01:00:00+01:00")
    assert ended.status == 0
    assert ended.out == "520 reports read again: 3 read differently now, 1 notification moved.\n"
    assert operator.console.asked("receipts.replay") == [
        {"since": "2030-01-01T00:00:00Z"},
        {"since": "2030-01-01T00:00:00Z", "after": id_of(500)},
    ]


def test_reports_about_one_notification_may_be_none(operator: Operator) -> None:
    operator.console.will(
        "receipts.replay",
        {"action_id": id_of(1), "read": 0, "changed": 0, "moved": 0, "next": None},
    )
    ended = operator.run("receipts", "replay", "--notification", ID)
    assert (ended.status, ended.out) == (0, "No report is kept there.\n")
    assert operator.console.asked("receipts.replay") == [{"notification_id": ID}]
