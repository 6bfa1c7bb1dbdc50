"""The ledger forgets the oldest when it is full."""

from datetime import UTC, datetime

from infra.local.simulator_behaviour import OK
from infra.local.simulator_ledger import BODY_BYTES_KEPT, KEYS_KEPT, REQUESTS_KEPT, Entry, Ledger

AT = datetime(2026, 1, 1, tzinfo=UTC)


def entry(*, recipient: str = "a@example.com", body: bytes = b"") -> Entry:
    return Entry(
        at=AT,
        idempotency_key="k",
        channel="email",
        recipient=recipient,
        behaviour=OK,
        body=body,
        headers=b"",
        answer=200,
        message_id="m",
    )


def test_the_newest_requests_and_effects_are_kept() -> None:
    ledger = Ledger()
    first, other = entry(recipient="first@example.com"), entry()
    ledger.record(first, is_effect=True)
    for _ in range(REQUESTS_KEPT):
        ledger.record(other, is_effect=True)
    assert len(ledger.requests.entries) == len(ledger.effects.entries) == REQUESTS_KEPT
    assert first not in ledger.requests.entries
    assert ledger.request_counts["email", OK.kind] == REQUESTS_KEPT + 1


def test_large_bodies_push_older_requests_out() -> None:
    ledger = Ledger()
    large = bytes(BODY_BYTES_KEPT // 4)
    for _ in range(6):
        ledger.record(entry(body=large), is_effect=False)
    assert len(ledger.requests.entries) == 4


def test_the_history_of_the_oldest_key_is_forgotten() -> None:
    ledger = Ledger()
    ledger.history("first").message_id = "m-1"
    for number in range(KEYS_KEPT - 1):
        ledger.history(str(number))
    assert ledger.accepted("first") is not None
    ledger.history("one more")
    assert ledger.accepted("first") is None
    assert len(ledger.histories) == KEYS_KEPT


def test_requests_without_a_key_share_no_history() -> None:
    ledger = Ledger()
    ledger.history(None).refusals = 3
    assert ledger.history(None).refusals == 0
