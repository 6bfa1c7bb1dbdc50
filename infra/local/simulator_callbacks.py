"""The simulator's reports: signed callbacks to the API, retried until they are taken.

A report becomes due on the event loop and is posted by a few daemon threads over kept connections.
Each worker of the local Lambda is a process, so few threads are kinder than many. Without an
answer of the API's own (none, 5xx, 429, or a gateway's words while the API is deployed anew) a
report is posted again with backoff for GIVE_UP_SECONDS; a refusal as problem+json is final.
At most PENDING_KEPT reports wait at a time; what comes beyond is dropped and counted.
"""

import asyncio
import itertools
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from uuid import uuid4

import orjson
import urllib3

from functions.core import signature
from infra.local.simulator_ledger import moment

WORKERS = 4
PENDING_KEPT = 100_000
RETRY_BASE_SECONDS = 0.5
RETRY_CAP_SECONDS = 10.0
GIVE_UP_SECONDS = 900.0
TIMEOUT = urllib3.Timeout(connect=2.0, read=15.0)
PATIENCE_SECONDS = 2.0
"""How long an ``early`` answer waits for its callback: less than the sender's deadline of 3 s."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One thing that happened to a message; delivered twice it is the same, byte for byte."""

    message_id: str
    idempotency_key: str | None
    recipient: str
    status: str
    permanent: bool = False
    reason: str | None = None
    event_id: str = field(default_factory=lambda: f"evt_{uuid4().hex}")
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def dumps(self) -> bytes:
        return orjson.dumps(
            {
                "type": "delivery.updated",
                "timestamp": moment(self.at),
                "data": {
                    "event_id": self.event_id,
                    "message_id": self.message_id,
                    "idempotency_key": self.idempotency_key,
                    "recipient": self.recipient,
                    "status": self.status,
                    "permanent": self.permanent,
                    "reason": self.reason,
                },
            }
        )


class _Taken(Enum):
    """What the API's answer to a callback means."""

    YES = auto()
    NOT_YET = auto()
    NEVER = auto()


@dataclass(slots=True)
class _Delivery:
    report: Report
    due_at: float
    """When it was first posted, by the monotonic clock."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    tries: int = 0


class Callbacks:
    """Posts reports to ``url``; with no url, counts them and posts nothing."""

    def __init__(self, *, url: str | None, secret: str | None) -> None:
        self._url = url
        self._secrets = [secret] if secret else []
        self._loop = asyncio.get_running_loop()
        self._order = itertools.count()
        self._queue: queue.PriorityQueue[tuple[int, int, _Delivery | None]] = queue.PriorityQueue()
        self.counts: Counter[str] = Counter()
        """delivered, retried, refused, abandoned, withheld."""
        self.pending = 0
        for number in range(WORKERS if url else 0):
            threading.Thread(target=self._work, name=f"callbacks-{number}", daemon=True).start()

    def post(self, report: Report, *, urgent: bool = False) -> asyncio.Event:
        """Post ``report`` now, and again until it is taken; the event is set when that is over."""
        delivery = _Delivery(report, time.monotonic())
        if self._url is None or self.pending >= PENDING_KEPT:
            self.counts["withheld" if self._url is None else "abandoned"] += 1
            delivery.settled.set()
            return delivery.settled
        self.pending += 1
        self._put(delivery, urgent=urgent)
        return delivery.settled

    def close(self) -> None:
        """End the threads; what is pending is lost, as with a provider that is switched off."""
        for _ in range(WORKERS if self._url else 0):
            self._queue.put((-1, next(self._order), None))

    def _put(self, delivery: _Delivery, *, urgent: bool = False) -> None:
        self._queue.put((0 if urgent else 1, next(self._order), delivery))

    def _work(self) -> None:
        with urllib3.PoolManager(maxsize=1, retries=False, timeout=TIMEOUT) as http:
            while (delivery := self._queue.get()[2]) is not None:
                taken = self._deliver(delivery.report, http=http)
                try:
                    self._loop.call_soon_threadsafe(self._settle, delivery, taken)
                except RuntimeError:  # the loop has been closed meanwhile
                    return

    def _deliver(self, report: Report, *, http: urllib3.PoolManager) -> _Taken:
        body = report.dumps()
        headers = signature.sign(
            body,
            message_id=report.event_id,
            timestamp=int(time.time()),
            secrets=self._secrets,
        )
        headers["content-type"] = "application/json"
        try:
            answer = http.request("POST", self._url or "", body=body, headers=headers)
        except urllib3.exceptions.HTTPError:
            return _Taken.NOT_YET
        if 200 <= answer.status < 300:
            return _Taken.YES
        is_final = answer.status < 500 and answer.status != 429
        is_own = "problem+json" in answer.headers.get("content-type", "")
        return _Taken.NEVER if is_final and is_own else _Taken.NOT_YET

    def _settle(self, delivery: _Delivery, taken: _Taken) -> None:
        delivery.tries += 1
        if taken is _Taken.NOT_YET:
            if time.monotonic() - delivery.due_at < GIVE_UP_SECONDS:
                self.counts["retried"] += 1
                wait = min(RETRY_BASE_SECONDS * 2 ** (delivery.tries - 1), RETRY_CAP_SECONDS)
                self._loop.call_later(wait, self._put, delivery)
                return
            self.counts["abandoned"] += 1
            logger.warning("A callback was given up; the API did not take it.")
        elif taken is _Taken.NEVER:
            self.counts["refused"] += 1
            logger.warning("The API refused a callback.")
        else:
            self.counts["delivered"] += 1
        self.pending -= 1
        delivery.settled.set()


def later(seconds: float, action: Callable[[], object]) -> None:
    """Run ``action`` on the running loop after ``seconds``; at once when that is nothing."""
    loop = asyncio.get_running_loop()
    if seconds > 0:
        loop.call_later(seconds, action)
    else:
        loop.call_soon(action)
