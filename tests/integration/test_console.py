"""The console's commands on notifications: refused whole, or done with their audit."""

import json
from collections.abc import Generator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.login import Login
from functions.core.outcome import Accepted, Rejected, Unknown
from functions.core.states import Finding
from functions.store.connection import Database, connector
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    add_notifications,
    moves_of,
    row_of,
)
from tests.operators import (
    ACTOR,
    Operator,
    arrange,
    asked,
    audit,
    losing_commit,
    operator_database,
    operator_login,
    operator_with,
)
from tests.reports import add_known, told
from tests.sending import Interrupted, recorded
from tests.steps import begun, close_one, now_of


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, None, {})


def dead(
    owner: psycopg.Connection,
    count: int = 1,
    organization_id: UUID = FIRST_ORGANIZATION,
    **columns: Any,
) -> list[UUID]:
    """Return notifications that are held, because they were rejected or as ``columns`` say."""
    given: dict[str, Any] = {"status": "dead", "reason": "rejected", "attempts_spent": 5}
    ids = add_notifications(owner, count, organization_id=organization_id)
    return [arrange(owner, id, **given | columns) for id in ids]


def uncertain(owner: psycopg.Connection, database: Database) -> UUID:
    """Return a notification whose only attempt has an unknown outcome."""
    (id,) = add_notifications(owner)
    opening = begun(database, provider="http_keyless")
    close_one(database, opening, Unknown(code="timeout"), keyed=False)
    assert row_of(owner, id).status == "uncertain"
    return id


def text_of(ids: list[UUID]) -> list[str]:
    return [str(id) for id in ids]


def test_a_command_is_refused_with_every_fault_and_nothing_is_done(
    owner: psycopg.Connection, operator: Operator
) -> None:
    (id,) = dead(owner)
    event = recorded("console.unknown")
    assert operator.answer(event) == {
        "ok": False,
        "code": "invalid",
        "detail": (
            "actor: It is who asks, in 1 to 256 printable characters. "
            "may_send_twise: The command takes no such argument. "
            "ids: One of its values is wrong. It is an id: 36 characters, hexadecimal in five "
            "groups."
        ),
    }
    unknown = event | {"command": "dead.delete", "actor": ACTOR}
    events: list[Any] = [None, [], {}, "dead.list", unknown]
    for wrong in events:
        assert operator.answer(wrong)["code"] == "invalid"
    code, _ = operator.refusal("dead.requeue", ids=[str(id)], force=True)
    assert (code, row_of(owner, id).status, audit(owner)) == ("invalid", "dead", [])


def test_the_answer_is_plain_json(owner: psycopg.Connection, operator: Operator) -> None:
    dead(owner, 2)
    answer = operator.answer(asked("dead.list"))
    assert json.loads(json.dumps(answer)) == answer
    (first, _) = answer["result"]["data"]
    assert first["created_at"].endswith("Z")
    assert UUID(first["id"])


def test_what_is_held_is_listed_page_by_page(owner: psycopg.Connection, operator: Operator) -> None:
    ids = text_of(dead(owner, 5))
    assert operator.ask("dead.list", limit=5)["next"] is None, "and no empty page at the end"
    seen: list[str] = []
    after = None
    for size in (2, 2, 1):
        page = operator.ask("dead.list", limit=2, after=after)
        assert len(page["data"]) == size
        seen += [one["id"] for one in page["data"]]
        after = page["next"]
        assert after == (seen[-1] if len(seen) < 5 else None)
    assert seen == sorted(ids)
    assert audit(owner) == [], "who only reads leaves no action"


def test_what_is_held_is_found_by_what_is_asked_for(
    owner: psycopg.Connection, operator: Operator
) -> None:
    def found(**filters: Any) -> list[str]:
        return [one["id"] for one in operator.ask("dead.list", **filters)["data"]]

    (rejected,) = text_of(dead(owner))
    (spent,) = text_of(dead(owner, reason="budget_spent"))
    (other,) = text_of(dead(owner, organization_id=SECOND_ORGANIZATION))
    dead(owner, discarded_at=now_of(owner), final_at=now_of(owner))
    assert found() == [rejected, spent, other]
    assert found(channel="sms") == []
    assert found(reason="budget_spent") == [spent]
    assert found(organization_id=str(SECOND_ORGANIZATION)) == [other]
    assert found(ids=[other, rejected, str(uuid4())]) == [rejected, other]
    event = recorded("console.list")
    answer = operator.answer(event)["result"]
    assert ([one["id"] for one in answer["data"]], answer["next"]) == ([spent], None)


def test_a_row_that_is_held_is_told_without_recipient_and_content(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    add_notifications(owner, recipient="ada@example.com", content="SENTINEL")
    close_one(database, begun(database), Rejected(code="invalid", http_status=400))
    (held,) = operator.ask("dead.list")["data"]
    assert set(held) == {
        "id", "organization_id", "channel", "priority", "reason", "provider", "attempts_spent",
        "max_attempts", "in_doubt", "created_at", "needed", "held_at", "last_code",
        "last_http_status",
    }  # fmt: skip
    assert (held["reason"], held["last_code"], held["last_http_status"]) == (
        "rejected",
        "invalid",
        400,
    )
    assert "ada@example.com" not in str(held)


def test_a_requeue_tells_the_fate_of_each_and_is_audited_with_its_transitions(
    owner: psycopg.Connection, operator: Operator
) -> None:
    (first,) = dead(owner)
    (doubtful,) = dead(owner, reason="outcome_unknown", in_doubt=1)
    ids = [str(first), str(doubtful), str(uuid4()), str(first)]
    done = operator.ask("dead.requeue", ids=ids)
    assert [one["fate"] for one in done["fates"]] == ["requeued", "needs_consent", "not_found"]
    assert [one["id"] for one in done["fates"]] == ids[:3]
    (kept,) = audit(owner)
    assert (str(kept.id), kept.actor, kept.command) == (done["action_id"], ACTOR, "dead.requeue")
    assert kept.arguments == {"ids": ids}
    assert kept.result == {"fates": {"requeued": 1, "needs_consent": 1, "not_found": 1}}
    actions = owner.execute("SELECT operator_action_id FROM transitions").fetchall()
    assert actions == [(kept.id,)]
    done = operator.ask("dead.requeue", ids=[str(doubtful)], may_send_twice=True)
    assert [one["fate"] for one in done["fates"]] == ["requeued"]
    assert row_of(owner, doubtful).status == "pending"


def test_a_discard_keeps_its_note_for_those_who_read_the_audit(
    owner: psycopg.Connection, operator: Operator
) -> None:
    (id,) = dead(owner)
    done = operator.ask("dead.discard", ids=[str(id)], note="the order was withdrawn")
    assert [one["fate"] for one in done["fates"]] == ["discarded"]
    assert row_of(owner, id).discarded_at is not None
    again = operator.ask("dead.discard", ids=[str(id)])
    assert [one["fate"] for one in again["fates"]] == ["already_discarded"]
    assert [kept.arguments for kept in audit(owner)] == [
        {"ids": [str(id)], "note": "the order was withdrawn"},
        {"ids": [str(id)]},
    ]


def test_what_is_uncertain_is_listed_with_what_decides_next(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    id = uncertain(owner, database)
    (found,) = operator.ask("uncertain.list")["data"]
    assert (found["id"], found["provider"], found["in_doubt"]) == (str(id), "http_keyless", 1)
    assert found["decide_at"] > found["since"]
    assert operator.ask("uncertain.list", channel="sms")["data"] == []
    found = operator.ask("uncertain.list", organization_id=str(FIRST_ORGANIZATION), limit=1)
    assert (len(found["data"]), found["next"]) == (1, None)


@pytest.mark.parametrize(
    ("finding", "status"),
    [
        (Finding.ACCEPTED, "submitted"),
        (Finding.DELIVERED, "delivered"),
        (Finding.NOT_ACCEPTED, "pending"),
        (Finding.HOLD, "dead"),
    ],
)
def test_an_operator_settles_what_nobody_else_can(
    owner: psycopg.Connection,
    database: Database,
    operator: Operator,
    finding: Finding,
    status: str,
) -> None:
    id = uncertain(owner, database)
    done = operator.ask("uncertain.settle", id=str(id), finding=finding, note="asked by telephone")
    assert (done["fate"], row_of(owner, id).status) == ("settled", status)
    (kept,) = audit(owner)
    assert (str(kept.id), kept.command) == (done["action_id"], "uncertain.settle")
    assert kept.arguments == {"id": str(id), "finding": finding, "note": "asked by telephone"}
    assert moves_of(owner, id)[-1][:3] == ("operator", "uncertain", status)
    assert operator.refusal("uncertain.settle", id=str(id), finding="lost")[0] == "invalid"


def test_settling_what_is_not_there_changes_nothing_and_says_so(
    owner: psycopg.Connection, operator: Operator
) -> None:
    done = operator.ask("uncertain.settle", id=str(uuid4()), finding="accepted")
    assert done["fate"] == "not_found"
    assert [kept.result for kept in audit(owner)] == [{"fate": "not_found"}]


def test_a_notification_is_explained_without_saying_to_whom_or_what(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    (id,) = add_notifications(owner, recipient="ada@example.com", content="SENTINEL")
    close_one(database, begun(database), Rejected(code="no mailbox ada@example.com"))
    operator.ask("dead.requeue", ids=[str(id)])
    told = operator.ask("explain", id=str(id))
    assert set(told) >= {"notification", "summary", "timeline", "attempts", "receipts", "next"}
    assert (told["notification"]["id"], told["notification"]["status"]) == (str(id), "pending")
    assert (told["timeline"][-1]["to"], told["timeline"][-1]["by"]) == ("pending", ACTOR)
    assert told["next"]["action"] == "send"
    assert told["next"]["at"].endswith("Z")
    for word in ("ada@example.com", "SENTINEL"):
        assert word not in json.dumps(told)
    assert operator.refusal("explain", id=str(uuid4())) == (
        "not_found",
        "There is no notification with this id.",
    )
    assert operator.refusal("explain", id="7")[0] == "invalid"


def test_after_a_restore_channels_stop_what_may_be_out_is_marked_and_they_go_on(
    owner: psycopg.Connection, operator: Operator
) -> None:
    owner.execute("UPDATE channels SET paused_at = clock_timestamp() WHERE name = 'sms'")
    ids = add_notifications(owner, 3)
    since = now_of(owner, seconds=1).isoformat()
    paused = operator.ask("recover.pause")["paused"]
    assert paused == ["email", "push", "webhook"]
    marked, after, pages = 0, None, 0
    while pages == 0 or after:
        page = operator.ask("recover", since=since, after=after, limit=2)
        marked, after, pages = marked + page["marked"], page["next"], pages + 1
    assert (marked, pages) == (3, 2)
    assert {row_of(owner, id).status for id in ids} == {"uncertain"}
    assert operator.ask("recover", since=since)["marked"] == 0
    assert operator.ask("recover.resume", channels=paused)["resumed"] == paused
    left = owner.execute("SELECT name FROM channels WHERE paused_at IS NOT NULL").fetchall()
    assert left == [("sms",)]
    assert [kept.command for kept in audit(owner)] == [
        "recover.pause", "recover", "recover", "recover", "recover.resume",
    ]  # fmt: skip
    for wrong in ({}, {"since": "yesterday"}, {"since": "2026-01-01T00:00:00"}):
        assert operator.refusal("recover", **wrong)[0] == "invalid"
    assert operator.refusal("recover.resume", channels=["fax"])[0] == "invalid"


def test_reports_are_read_again_by_the_rules_of_today(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    (id,) = add_known(owner)
    close_one(database, begun(database), Accepted(reference="m-1"))
    since = now_of(owner).isoformat()
    told(database, "delivered", idempotency_key=id)
    told(database, "delivered", idempotency_key=uuid4())
    row = row_of(owner, id)
    assert row.status == "delivered"
    # As if the rules of then had not known what the report said.
    owner.execute("UPDATE receipts SET evidence_rank = 0, type = 'mystery', applied = false")
    accepted = {"status": "submitted", "evidence_rank": 1, "final_at": None}
    arrange(owner, id, **accepted, evidence_at=row.submitted_at, evidence_key="attempt")
    done = operator.ask("receipts.replay", since=since)
    counts = {"read": 2, "changed": 2, "moved": 1}
    assert done == {"action_id": done["action_id"], **counts, "next": None}
    assert row_of(owner, id).status == "delivered"
    (kept,) = audit(owner)
    assert str(kept.id) == done["action_id"]
    assert kept.result.items() >= counts.items()
    first = operator.ask("receipts.replay", limit=1)
    assert (first["read"], first["changed"]) == (1, 0)
    assert operator.ask("receipts.replay", after=first["next"])["read"] == 1
    assert operator.ask("receipts.replay", notification_id=str(id))["read"] == 1
    assert operator.ask("receipts.replay", since=now_of(owner, hours=1).isoformat())["read"] == 0


def test_a_database_that_is_gone_is_told_and_the_operator_may_try_again(
    owner: psycopg.Connection, login: Login
) -> None:
    (id,) = dead(owner)
    connect = connector(lambda: operator_login(login), application_name="console")
    for out, done in ((1, False), (2, False), (2, True)):
        interrupted = Interrupted(connect, out=[out], done=done)
        operator = operator_with(interrupted, None, {})
        code, detail = operator.refusal("dead.requeue", ids=[str(id)])
        assert code == "unavailable"
        assert ("It may have been done" in detail) == done
        interrupted.close()
        assert (row_of(owner, id).status, len(audit(owner))) == (
            ("pending", 1) if done else ("dead", 0)
        )


def test_a_lost_answer_to_a_commit_does_not_double_the_audit(
    owner: psycopg.Connection, login: Login
) -> None:
    (id,) = dead(owner)
    # The first piece of work takes the action's id, the second discards.
    with losing_commit(login, number=2) as database:
        done = operator_with(database, None, {}).ask("dead.discard", ids=[str(id)])
    (kept,) = audit(owner)
    assert str(kept.id) == done["action_id"]
    assert len(moves_of(owner, id)) == 1


def test_the_console_s_role_may_not_touch_what_was_asked_for(login: Login) -> None:
    with operator_database(login) as database:
        for statement in (
            "UPDATE notifications SET recipient = 'mallory@example.com'",
            "UPDATE notifications SET content = '{}'",
            "DELETE FROM notifications",
            "DELETE FROM operator_actions",
            "UPDATE operator_actions SET actor = 'somebody else'",
            "UPDATE api_keys SET secret_sha256 = ''",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                database.run(lambda connection, statement=statement: connection.execute(statement))
