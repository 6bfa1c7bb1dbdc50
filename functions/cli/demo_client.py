"""What the demo asks of the API and of the simulator, patient with a stack that is being repaired.

A lost connection, a 5xx, and an answer that is not the API's own (the emulator's, while it is
deployed to again) are asked again until the time is up. Posting again is safe: the key is the same.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn
from urllib.parse import urlencode

import urllib3

from functions.core.errors import SendoffError
from infra.local.state import Local

PAGE = 100
RETRY_SECONDS = 0.5
TIMEOUT = urllib3.Timeout(connect=2.0, read=30.0)


class DemoFailed(SendoffError):
    """The demo cannot go on."""

    code = "demo_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """An accepted batch: the ids in the order of its items."""

    id: str
    accepted_at: datetime
    notification_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stack:
    """A running stack, seen from outside."""

    local: Local
    http: urllib3.PoolManager
    is_over: Callable[[], bool]
    """Whether the time is up."""
    when_lost: Callable[[str], None]
    """Told in a few words each time an answer is missing."""

    def check_health(self) -> None:
        """Return when the service and its database answer."""
        self._api("GET", "/v1/health")

    def post(self, body: str, *, idempotency_key: str) -> Batch:
        answer = self._api(
            "POST",
            "/v1/notifications/batches",
            body=body.encode(),
            headers={"Idempotency-Key": idempotency_key},
        )
        return Batch(
            id=answer["batch_id"],
            accepted_at=datetime.fromisoformat(answer["accepted_at"]),
            notification_ids=tuple(one["id"] for one in answer["notifications"]),
        )

    def batch(self, batch_id: str) -> dict[str, Any]:
        return self._api("GET", f"/v1/batches/{batch_id}")

    def notifications(self, batch_id: str) -> Iterator[dict[str, Any]]:
        """Yield the notifications of a batch as the list shows them."""
        return self._pages("/v1/notifications", {"batch_id": batch_id})

    def notification(self, id: str) -> dict[str, Any]:
        """Return one notification with its attempts and its story."""
        return self._api("GET", f"/v1/notifications/{id}")

    def active_suppressions(self) -> Iterator[dict[str, Any]]:
        return self._pages("/v1/suppressions", {"active": "true"})

    def lift(self, suppression: Mapping[str, Any]) -> None:
        """Lift one; that somebody else has lifted it meanwhile is as good."""
        names = ("channel", "recipient", "category")
        body = {name: suppression[name] for name in names if suppression[name] is not None}
        body["reason"] = "operator"
        self._api("POST", "/v1/suppressions/lift", json=body, also_fine=(404,))

    def effects(self, *, since: datetime) -> list[dict[str, Any]]:
        """Return the simulator's effects since a moment."""
        query = urlencode({"since": since.isoformat()})
        return self._ask("GET", f"{self.local.simulator_url}/ledger?{query}").json()["effects"]

    def pending_reports(self) -> int:
        """Return how many of the simulator's callbacks the API has not taken yet."""
        activity = self._ask("GET", f"{self.local.simulator_url}/activity").json()
        return activity["callbacks"]["pending"]

    def _pages(self, path: str, parameters: dict[str, str]) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            more = {"cursor": cursor} if cursor else {}
            query = urlencode({**parameters, "limit": str(PAGE), **more})
            page = self._api("GET", f"{path}?{query}")
            yield from page["data"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _api(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        also_fine: tuple[int, ...] = (),
    ) -> Any:
        every = {"Authorization": f"Bearer {self.local.api_key}", **(headers or {})}
        if body is not None:
            every["Content-Type"] = "application/json"
        answer = self._ask(
            method, f"{self.local.api_url}{path}", json=json, body=body, headers=every
        )
        if answer.status >= 400 and answer.status not in also_fine:
            _explain(method, path, answer)
        return answer.json()

    def _ask(self, method: str, url: str, **request: Any) -> urllib3.BaseHTTPResponse:
        """Return an answer that is neither missing nor one of a stack that is away."""
        while True:
            try:
                answer = self.http.request(method, url, retries=False, timeout=TIMEOUT, **request)
            except urllib3.exceptions.HTTPError as error:
                lost = type(error).__name__
            else:
                if answer.status < 400 or _is_ours(answer):
                    return answer
                lost = f"HTTP {answer.status}"
            if self.is_over():
                raise DemoFailed(f"{method} {url} got no answer: {lost}.")
            self.when_lost(lost)
            time.sleep(RETRY_SECONDS)


def _is_ours(answer: urllib3.BaseHTTPResponse) -> bool:
    """Whether a refusal is the service's own and final."""
    kind = answer.headers.get("content-type", "")
    return answer.status < 500 and answer.status != 429 and "problem+json" in kind


def _explain(method: str, path: str, answer: urllib3.BaseHTTPResponse) -> NoReturn:
    """Raise what the API says, with its first faults."""
    problem = answer.json()
    faults = [f"{one['pointer']}: {one['code']}" for one in problem.get("errors", [])[:5]]
    words = "; ".join([problem.get("detail") or problem.get("title", ""), *faults])
    raise DemoFailed(f"{method} {path} was refused ({answer.status}): {words}")
