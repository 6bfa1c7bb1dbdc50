"""What the simulator remembers: every request, every effect, and each key's history.

An effect is the *first* acceptance of a key: what the outside world would have seen. A gateway
remembers acceptances under a key, not refusals, so a key that was refused may still be accepted,
and a key that was accepted is never accepted again.

Memory is bounded: the newest REQUESTS_KEPT requests and BODY_BYTES_KEPT bytes of them, as many
effects, and the history of KEYS_KEPT keys. What is older is forgotten, oldest first.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from infra.local.simulator_behaviour import Behaviour, Kind

REQUESTS_KEPT = 100_000
BODY_BYTES_KEPT = 128 * 1024 * 1024
KEYS_KEPT = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One request as it came, and how it was answered (None: with nothing)."""

    at: datetime
    idempotency_key: str | None
    channel: str
    recipient: str
    behaviour: Behaviour
    body: bytes
    headers: bytes
    """``name: value`` lines: a third of the memory of a dictionary."""
    answer: int | None
    message_id: str | None

    @property
    def size(self) -> int:
        return len(self.body) + len(self.headers)

    def content(self) -> Any:
        """Return the body parsed, or as text when it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return self.body.decode("utf-8", "replace")

    def summary(self) -> dict[str, Any]:
        """Return the entry without its body and headers."""
        return {
            "at": moment(self.at),
            "idempotency_key": self.idempotency_key,
            "channel": self.channel,
            "recipient": self.recipient,
            "behaviour": str(self.behaviour),
            "answer": self.answer,
            "message_id": self.message_id,
        }

    def whole(self) -> dict[str, Any]:
        """Return the entry as the ledger shows it; ``raw`` is the body as received."""
        lines = self.headers.decode("latin-1").split("\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        raw = self.body.decode("utf-8", "replace")
        return {**self.summary(), "body": self.content(), "headers": headers, "raw": raw}


@dataclass(slots=True)
class KeyHistory:
    """What happened under one key so far."""

    refusals: int = 0
    throttled: bool = False
    message_id: str | None = None
    """The id of the first acceptance; None while never accepted."""
    status: str = "accepted"
    """What a look-up says once accepted."""
    reported: bool = False
    """Whether the callbacks of the acceptance are on their way."""


@dataclass(slots=True)
class _Shelf:
    """Entries in order, the oldest dropped when there are too many or they weigh too much."""

    entries: deque[Entry] = field(default_factory=deque[Entry])
    size: int = 0

    def put(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.size += entry.size
        while len(self.entries) > REQUESTS_KEPT or self.size > BODY_BYTES_KEPT:
            self.size -= self.entries.popleft().size


@dataclass(slots=True)
class Ledger:
    """Everything remembered; used by one thread (the event loop's)."""

    requests: _Shelf = field(default_factory=_Shelf)
    effects: _Shelf = field(default_factory=_Shelf)
    histories: OrderedDict[str, KeyHistory] = field(default_factory=OrderedDict[str, KeyHistory])
    request_counts: Counter[tuple[str, Kind]] = field(default_factory=Counter[tuple[str, Kind]])
    effect_counts: Counter[tuple[str, Kind]] = field(default_factory=Counter[tuple[str, Kind]])

    def history(self, key: str | None) -> KeyHistory:
        """Return the history of ``key``; a request without a key has none to share."""
        if key is None:
            return KeyHistory()
        known = self.histories.get(key)
        if known is None:
            known = self.histories[key] = KeyHistory()
            if len(self.histories) > KEYS_KEPT:
                self.histories.popitem(last=False)
        return known

    def accepted(self, key: str) -> KeyHistory | None:
        """Return the history of ``key`` if it was ever accepted."""
        known = self.histories.get(key)
        return known if known and known.message_id else None

    def record(self, entry: Entry, *, is_effect: bool) -> None:
        self.requests.put(entry)
        self.request_counts[entry.channel, entry.behaviour.kind] += 1
        if is_effect:
            self.effects.put(entry)
            self.effect_counts[entry.channel, entry.behaviour.kind] += 1

    def clear(self) -> None:
        """Forget everything, acceptances included."""
        self.requests, self.effects = _Shelf(), _Shelf()
        self.histories.clear()
        self.request_counts.clear()
        self.effect_counts.clear()

    def select(
        self, *, recipient: str | None = None, since: datetime | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """Return requests and effects in order, of one recipient or since a moment when given."""

        def chosen(entries: Iterable[Entry]) -> Iterator[Entry]:
            for entry in entries:
                if recipient is not None and entry.recipient != recipient:
                    continue
                if since is None or entry.at >= since:
                    yield entry

        return {
            "requests": [entry.whole() for entry in chosen(self.requests.entries)],
            "effects": [entry.whole() for entry in chosen(self.effects.entries)],
        }


def moment(at: datetime) -> str:
    """Return ``at`` as RFC 3339 in UTC with microseconds."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
