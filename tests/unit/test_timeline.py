"""The timeline is in order, derives what is not stored, and speaks in whole sentences."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from functions.core.states import Reason, Status
from functions.core.timeline import sentence, timeline

START = datetime(2030, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    at: datetime
    actor: str
    from_status: str
    to_status: str
    reason: str | None = None
    lease_number: int | None = None
    attempt_id: UUID | None = None
    receipt_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    id: UUID
    lease_number: int
    started_at: datetime


def test_what_nobody_touched_was_accepted_and_no_more() -> None:
    (entry,) = timeline(
        accepted_at=START, due_at=START, current_lease=None, attempts=[], transitions=[]
    )
    assert (entry.actor, entry.from_status, entry.to_status) == ("client", None, "pending")
    assert entry.sentence.endswith("at once.")


def test_acceptance_says_when_it_is_to_be_sent() -> None:
    (entry,) = timeline(
        accepted_at=START, due_at=after(3600), current_lease=None, attempts=[], transitions=[]
    )
    assert entry.sentence.endswith("from 2030-01-01T01:00:00Z on.")


def test_a_claim_stands_before_what_its_lease_led_to() -> None:
    call = Call(id=UUID(int=1), lease_number=1, started_at=after(2))
    entries = timeline(
        accepted_at=START,
        due_at=START,
        current_lease=(3, after(9)),
        attempts=[call],
        transitions=[
            Step(
                at=after(2),
                actor="sender",
                from_status="leased",
                to_status="pending",
                reason="transient",
                lease_number=1,
                attempt_id=call.id,
            ),
            Step(
                at=after(5),
                actor="claim",
                from_status="leased",
                to_status="pending",
                reason="not_dispatched",
                lease_number=2,
            ),
        ],
    )
    assert [(entry.from_status, entry.to_status, entry.actor) for entry in entries] == [
        (None, "pending", "client"),
        ("pending", "leased", "claim"),
        ("leased", "pending", "sender"),
        ("pending", "leased", "claim"),
        ("leased", "pending", "claim"),
        ("pending", "leased", "claim"),
    ]
    assert entries[1].attempt_id == call.id
    assert "lease 1" in entries[1].sentence
    assert [entry.at for entry in entries] == [START, *map(after, (2, 2, 5, 5, 9))]


@pytest.mark.parametrize("to_status", list(Status))
@pytest.mark.parametrize(
    "reason",
    [
        None,
        "a code of the provider",
        "transient",
        "throttled",
        "blocked",
        "unknown",
        "lease_expired",
        "accepted",
        *Reason,
    ],
)
def test_every_step_is_one_sentence(to_status: Status, reason: str | None) -> None:
    step = Step(at=START, actor="x", from_status="leased", to_status=to_status, reason=reason)
    text = sentence(step)
    assert text.endswith(".")
    assert not text.endswith("..")
    assert text[0].isupper()
    assert "None" not in text


def test_a_providers_own_code_is_kept_in_the_sentence() -> None:
    step = Step(
        at=START,
        actor="provider",
        from_status="submitted",
        to_status="failed",
        reason="mailbox_full",
    )
    assert "(mailbox_full)" in sentence(step)
