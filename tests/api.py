"""The API as a client sees it: requests become recorded events with other contents."""

import copy
import dataclasses
import io
import itertools
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from aws_lambda_powertools import Logger

from functions.ingest.api import Handler, build
from functions.store.connection import Database
from tests.fakes import FIRST_ORGANIZATION

EVENTS = Path(__file__).parents[1] / "events"
HASH_KEY = b"a key that is only good for tests"
LOCAL_ORIGIN = "http://127.0.0.1:8081"
_keys = itertools.count(1)


def recorded(name: str) -> dict[str, Any]:
    """Return the recorded event ``name`` (without .json)."""
    return json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def code(self) -> str:
        """The code of a problem answer, which must be one."""
        assert self.headers["content-type"] == "application/problem+json", self
        problem = self.json
        assert problem["status"] == self.status
        assert problem["type"] == "about:blank"
        assert problem["title"]
        assert problem["detail"]
        return problem["code"]

    @property
    def faults(self) -> list[tuple[str, str]]:
        return [(fault["pointer"], fault["code"]) for fault in self.json.get("errors", [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The handler, called by one organization with some scopes."""

    handler: Handler
    log: io.StringIO
    organization_id: UUID = FIRST_ORGANIZATION
    scopes: str = "send read admin"
    prefix: str = ""
    context: dict[str, str] | None = field(default=None)

    def having(self, **changes: Any) -> "Api":
        return dataclasses.replace(self, **changes)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: Any = None,
        text: str | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Reply:
        """Send ``body`` as JSON, or ``text`` as it is; a header that is None is left out."""
        event = self.event(method, path, query=query, body=body, text=text, headers=headers)
        return self.send(event)

    def event(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: Any = None,
        text: str | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> dict[str, Any]:
        event = copy.deepcopy(recorded("ingest.list" if method == "GET" else "ingest.post"))
        event.update(rawPath=self.prefix + path, rawQueryString=query)
        event.pop("queryStringParameters", None)
        event["requestContext"]["http"].update(method=method, path=self.prefix + path)
        event["requestContext"]["authorizer"]["lambda"] = self.context or {
            "organization_id": str(self.organization_id),
            "scopes": self.scopes,
            "key_id": "01900000-0000-7000-8000-00000000000a",
        }
        if text is None and body is not None:
            text = json.dumps(body)
        event.pop("body", None)
        if text is not None:
            event["body"] = text
        event["headers"]["idempotency-key"] = f"key-{next(_keys)}"
        event["headers"].update(headers or {})
        event["headers"] = {
            name: value for name, value in event["headers"].items() if value is not None
        }
        return event

    def send(self, event: dict[str, Any]) -> Reply:
        answer = self.handler(event, None)
        return Reply(
            status=answer["statusCode"],
            headers={name.lower(): value for name, value in answer["headers"].items()},
            text=answer["body"],
        )

    def get(self, path: str, query: str = "") -> Reply:
        return self.call("GET", path, query=query)

    def post_batch(self, *items: Any, key: str | None = None) -> Reply:
        headers = {"idempotency-key": key} if key else None
        body = {"notifications": list(items)}
        return self.call("POST", "/v1/notifications/batches", body=body, headers=headers)

    def post(self, item: Any, key: str | None = None) -> Reply:
        headers = {"idempotency-key": key} if key else None
        return self.call("POST", "/v1/notifications", body=item, headers=headers)


def start(database: Database) -> Api:
    """Return the API over ``database``, as the first organization with every scope."""
    log = io.StringIO()
    # Loggers of one service share their handlers: each API here is a service of its own.
    logger = Logger(service=f"test-{next(_keys)}", logger_handler=logging.StreamHandler(log))
    handler = build(
        database, hash_key=lambda: HASH_KEY, local_webhook_origin=LOCAL_ORIGIN, logger=logger
    )
    return Api(handler=handler, log=log)


def email(recipient: Any = "ada@example.com", **members: Any) -> dict[str, Any]:
    """Return an item that is good as it is."""
    return {"channel": "email", "recipient": recipient, "content": "Your order", **members}
