"""An API and a simulator in one, which can be wrong in every way that the demo must notice."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from functions.cli.demo_expectation import expected_end
from infra.local.state import Local
from tests.simulated import serving

AT = "2026-01-01T00:00:00Z"
END = "2026-01-01T00:00:07.500Z"


@dataclass(slots=True)
class FakeStack:
    """API and simulator in one: everything ends at once, as its recipient says or as told here."""

    ends: dict[str, str] = field(default_factory=dict[str, str])
    """Recipients that end otherwise."""
    effects: dict[str, int] = field(default_factory=dict[str, int])
    """Recipients with another number of effects."""
    is_completed: bool = True
    failures: list[int] = field(default_factory=list[int])
    """Answers given before any other; 0 closes the connection."""
    suppressions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    posted: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    """Items by Idempotency-Key; batch ids are the keys."""
    origin: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, method: str, target: str, key: str, body: Any) -> tuple[int, Any]:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match method, parts.path.split("/")[1:]:
            case "GET", ["v1", "health"]:
                return 200, {"status": "ok", "database": "ok"}
            case "POST", ["v1", "notifications", "batches"]:
                return self._post(key, body["notifications"])
            case "GET", ["v1", "batches", batch_id]:
                return 200, self._batch(batch_id)
            case "GET", ["v1", "notifications"]:
                rows = [self._row(item) for item in self.posted[query["batch_id"]]]
                return 200, page(rows, query)
            case "GET", ["v1", "suppressions"]:
                return 200, page(self.suppressions, query)
            case "POST", ["v1", "suppressions", "lift"]:
                self.suppressions = [
                    one for one in self.suppressions if one["recipient"] != body["recipient"]
                ]
                return 200, {}
            case "GET", ["ledger"]:
                return 200, {"requests": [], "effects": self._effects()}
            case _:
                return 404, {"code": "not_found", "title": "Not found", "detail": target}

    def _post(self, key: str, items: list[dict[str, Any]]) -> tuple[int, Any]:
        if items[0]["reference"] == "refuse":
            return 422, {"detail": "Refused.", "errors": [{"pointer": "/x", "code": "wrong_type"}]}
        before = sum(len(posted) for posted in self.posted.values())
        for number, item in enumerate(items):
            item["id"] = f"0199aaaa-0000-7000-8000-{before + number:012}"
            if expected_end(item["channel"], item["recipient"]).is_suppressed:
                self.suppress(item["channel"], item["recipient"])
        self.posted[key] = items
        accepted = [{"index": n, "id": item["id"]} for n, item in enumerate(items)]
        return 202, {"batch_id": key, "accepted_at": AT, "notifications": accepted}

    def suppress(self, channel: str, recipient: str | None) -> None:
        fact = {"channel": channel, "recipient": recipient, "category": None}
        self.suppressions.append(fact)

    def status_of(self, item: dict[str, Any]) -> str:
        default = expected_end(item["channel"], item["recipient"]).status
        return self.ends.get(item["recipient"], default)

    def _row(self, item: dict[str, Any]) -> dict[str, Any]:
        return {"id": item["id"], "status": self.status_of(item), "reason": None, "final_at": END}

    def _batch(self, batch_id: str) -> dict[str, Any]:
        counts: dict[str, int] = {}
        for item in self.posted[batch_id]:
            status = self.status_of(item) if self.is_completed else "submitted"
            counts[status] = counts.get(status, 0) + 1
        return {"status": "completed" if self.is_completed else "processing", "counts": counts}

    def _effects(self) -> list[dict[str, Any]]:
        effects: list[dict[str, Any]] = []
        for item in (item for batch in self.posted.values() for item in batch):
            expected = expected_end(item["channel"], item["recipient"]).effects
            for number in range(self.effects.get(item["recipient"], expected)):
                effects.append(
                    {
                        "channel": item["channel"],
                        "recipient": item["recipient"],
                        "idempotency_key": item["id"] if number == 0 else f"{item['id']}.{number}",
                        "body": {},
                    }
                )
        return effects


def page(rows: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    begin, limit = int(query.get("cursor", "0")), int(query["limit"])
    end = begin + limit
    return {"data": rows[begin:end], "next_cursor": str(end) if end < len(rows) else None}


@contextmanager
def fake_stack(stack: FakeStack) -> Generator[FakeStack]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._handle()

        def do_POST(self) -> None:
            self._handle()

        def _handle(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            body = json.loads(self.rfile.read(length) or b"null")
            with stack.lock:
                status = stack.failures.pop(0) if stack.failures else None
                if status is None:
                    key = self.headers.get("Idempotency-Key", "")
                    status, answer = stack.answer(self.command, self.path, key, body)
                else:
                    answer = {"message": "Not now."}
            if status == 0:
                self.close_connection = True
                return
            kind = "application/problem+json" if "detail" in answer else "application/json"
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    with serving(Handler) as stack.origin:
        yield stack


def local_of(stack: FakeStack, state_dir: str = "") -> Local:
    return Local(
        api_url=stack.origin,
        api_key="sk_1",
        second_tenant_api_key="sk_2",
        admin_api_key="sk_3",
        simulator_url=stack.origin,
        database_url="",
        aws_endpoint_url="",
        callback_secret="",
        webhook_secret="",
        functions={},
        queues={},
        state_dir=state_dir,
    )
