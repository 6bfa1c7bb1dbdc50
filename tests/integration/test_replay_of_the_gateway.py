"""Today's rules read what they once stored as they stored it: a replay of it changes nothing."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.evidence import Rank, Receipt
from functions.core.login import Login
from functions.core.recipient import normalise, recipient_hash
from functions.core.states import Channel
from functions.providers.choice import reparse_for
from functions.providers.http_report import hash_of, looked_up, read_report, receipt_of
from functions.store.connection import Database
from functions.store.replay import Replayed, replay
from tests.fakes import add_notifications, row_of
from tests.operating import action, operating, tell

HASH_KEY = b"k" * 32
RECIPIENTS = {
    Channel.EMAIL: "Ada@Example.com",
    Channel.SMS: "+15551234567",
    Channel.PUSH: "sim-ok.1",
    Channel.WEBHOOK: "https://hooks.example.com/a",
}


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


def read_again(operator: Database, **bounds: Any) -> Replayed:
    return replay(operator, reparse=reparse_for(HASH_KEY), action=action(), **bounds)


def received(body: bytes, *, webhook_id: str, channel: str | None) -> Receipt:
    """Return what a callback with this body is kept as."""
    report = read_report(body, webhook_id=webhook_id)
    hashed = hash_of(report.recipient, channel=channel, hash_key=HASH_KEY)
    return receipt_of(report, raw=body, recipient_hash=hashed)


def body_of(id: UUID, **members: Any) -> bytes:
    data = {"idempotency_key": str(id), "status": "delivered", **members}
    timestamp = data.pop("timestamp", "2026-01-02T03:04:05.678+02:00")
    return json.dumps({"type": "report", "timestamp": timestamp, "data": data}).encode()


SHAPES: list[dict[str, Any]] = [
    {"status": "accepted"},
    {"status": "failed"},
    {"status": "failed", "permanent": True, "reason": "rejected"},
    {"status": "bounced", "reason": "x" * 2000},
    {"status": "bounced", "permanent": True, "reason": "no such user — at all"},
    {"status": "complained"},
    {"status": "opened", "permanent": False, "unknown": {"a": [1.0, None]}},
    {"message_id": "m-1"},
    {"event_id": "an event of the gateway's own"},
    {"timestamp": None},
    {"reason": ""},
    {"idempotency_key": "nobody's"},
    {"idempotency_key": None, "message_id": "m-2"},
]


@pytest.mark.parametrize("channel", list(Channel))
@pytest.mark.parametrize("named", [None, "ours", "somebody@else.example"])
def test_reports_of_every_shape_read_as_they_were_kept(
    owner: psycopg.Connection, operator: Database, channel: Channel, named: str | None
) -> None:
    address = normalise(channel, RECIPIENTS[channel])
    recipient = {"recipient": RECIPIENTS[channel] if named == "ours" else named}
    reports: list[Receipt] = []
    for number, shape in enumerate(SHAPES):
        (id,) = add_notifications(owner, channel=channel, recipient=address)
        hashed = recipient_hash(HASH_KEY, channel, address)
        owner.execute("UPDATE notifications SET recipient_hash = %s WHERE id = %s", [hashed, id])
        known = channel if "idempotency_key" not in shape else None
        body = body_of(id, **({} if named is None else recipient), **shape)
        reports.append(received(body, webhook_id=f"webhook-{number}", channel=known))
    tell(operator, *reports)
    before = owner.execute("SELECT * FROM receipts ORDER BY id").fetchall()
    assert read_again(operator) == Replayed(read=len(SHAPES), changed=0, moved=0, last_id=None)
    assert owner.execute("SELECT * FROM receipts ORDER BY id").fetchall() == before


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "accepted", "message_id": "m-1"},
        {"status": "delivered", "message_id": "m-1"},
        {"status": "bounced", "permanent": True},
        {"status": "queued: for a while"},
    ],
)
@pytest.mark.parametrize("epoch", ["", ".2"])
def test_answers_to_our_questions_read_as_they_were_kept(
    owner: psycopg.Connection, operator: Database, answer: dict[str, Any], epoch: str
) -> None:
    (id,) = add_notifications(owner)
    receipt = looked_up(json.dumps(answer).encode(), idempotency_key=f"{id}{epoch}")
    assert receipt is not None
    tell(operator, receipt)
    before = row_of(owner, id)
    assert read_again(operator) == Replayed(read=1, changed=0, moved=0, last_id=None)
    assert read_again(operator, notification_id=id).read == 1
    assert row_of(owner, id) == before


def test_what_no_provider_said_or_nobody_can_read_is_left_alone(
    owner: psycopg.Connection, operator: Database
) -> None:
    (id,) = add_notifications(owner)
    for number, raw in enumerate((b"", b"{}", b"\xff", b'{"data": {"status": 7}}', b"[" * 9999)):
        members: dict[str, Any] = {
            "provider": "http",
            "event_key": f"event-{number}",
            "type": "delivered",
            "rank": Rank.DELIVERED,
            "occurred_at": None,
            "idempotency_key": str(id),
        }
        tell(operator, Receipt(raw=raw, **members))
    owner.execute("UPDATE receipts SET provider = 'operator' WHERE event_key = 'event-0'")
    before = row_of(owner, id)
    assert read_again(operator) == Replayed(read=5, changed=0, moved=0, last_id=None)
    assert row_of(owner, id) == before


def test_a_rule_that_was_wrong_once_is_put_right(
    owner: psycopg.Connection, operator: Database
) -> None:
    """Kept by rules that knew no bounces: the address was not suppressed, the row delivered."""
    (id,) = add_notifications(owner)
    body = body_of(id, status="bounced", permanent=True, reason="no such user")
    kept = received(body, webhook_id="w-1", channel="email")
    tell(operator, kept)
    owner.execute(
        "UPDATE receipts SET type = 'note', evidence_rank = 3, permanent = false, reason = NULL, "
        "address_at_fault = false"
    )
    owner.execute("DELETE FROM suppressions")
    owner.execute("UPDATE notifications SET status = 'delivered', reason = NULL, evidence_rank = 3")
    assert read_again(operator) == Replayed(read=1, changed=1, moved=1, last_id=None)
    row = row_of(owner, id)
    assert (row.status, row.reason, row.evidence_rank) == ("failed", "no such user", 4)
    assert owner.execute("SELECT reason FROM suppressions").fetchall() == [("hard_bounce",)]
    assert read_again(operator).changed == 0
