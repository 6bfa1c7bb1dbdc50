"""The OpenAPI document, put together from the table of routes and the shapes of both directions."""

import json
import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from functions.core.problem import CONTENT_TYPE, STATUS_OF_CODE
from functions.ingest import answers, browse
from functions.ingest.gateway import CALLBACKS, WEBHOOKS
from functions.ingest.operations import OPERATIONS, Operation
from functions.ingest.routes import ROUTES, Route
from functions.ingest.schemas import CHANNELS, STATUSES

VERSION = "1"
TITLE = "Sendoff"
DESCRIPTION = (
    "Notifications by email, SMS, push and webhook, with evidence of every attempt. Every refusal "
    "is an RFC 9457 problem with a stable `code` and, where fields are at fault, a JSON pointer "
    "for each of up to 100 faults. Unknown fields and query parameters are refused. What the "
    "gateway itself refuses (over 10 MB, throttled, headers over 10 KB) keeps the gateway's shape."
)
"""Shown on top of the page."""


def openapi_text() -> str:
    """Return the document as JSON."""
    return json.dumps(openapi_document(), ensure_ascii=False, separators=(",", ":"))


def openapi_document() -> dict[str, Any]:
    """Return the document."""
    shapes = _Shapes()
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        path = re.sub(r"<(\w+)>", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, shapes)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": VERSION, "description": DESCRIPTION},
        "servers": [{"url": "/"}, {"url": "/api"}],
        "paths": {**paths, **CALLBACKS},
        "webhooks": WEBHOOKS,
        "components": {
            "schemas": shapes.definitions(),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "bearerFormat": "sk_<id>_<secret>"}
            },
        },
    }


class _Shapes:
    """The shapes that operations refer to, gathered so that each is defined once."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = {}

    def reference(self, shape: Any) -> dict[str, str]:
        if shape.__name__ not in self._asked:
            self._asked[shape.__name__] = (shape, "validation", TypeAdapter(shape))
        return {"$ref": f"#/components/schemas/{shape.__name__}"}

    def definitions(self) -> dict[str, Any]:
        _, schema = TypeAdapter.json_schemas(
            self._asked.values(), ref_template="#/components/schemas/{model}"
        )
        return dict(sorted(schema["$defs"].items()))


def _operation(route: Route, shapes: _Shapes) -> dict[str, Any]:
    about = OPERATIONS[route.serve]
    found: dict[str, Any] = {
        "operationId": about.name,
        "summary": about.summary,
        "tags": [about.tag],
        "parameters": _parameters(route, about),
        "responses": {
            **{
                str(status): _answer(shape, shapes, has_key=about.has_key)
                for status, shape in about.answers.items()
            },
            **_problems(route, about, shapes),
        },
        "security": [],
    }
    if about.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": shapes.reference(about.body)}},
        }
    if about.form:
        found["requestBody"] = _form(about.form)
    if route.scope is not None:
        found["security"] = [{"key": []}]
        found["description"] = f"Needs the scope `{route.scope}` (or `admin`)."
    return found


def _form(fields: dict[str, str]) -> dict[str, Any]:
    properties = {name: {"const": value} for name, value in fields.items()}
    schema = {"schema": {"type": "object", "properties": properties}}
    media_types = ("application/x-www-form-urlencoded", "multipart/form-data")
    return {"required": False, "content": dict.fromkeys(media_types, schema)}


def _answer(shape: Any, shapes: _Shapes, *, has_key: bool) -> dict[str, Any]:
    if shape is None:
        return {"description": "Done"}
    if shape == "text/html":
        return {"description": "A page", "content": {shape: {"schema": {"type": "string"}}}}
    if shape == dict[str, Any]:
        schema: dict[str, Any] = {"type": "object"}
    else:
        schema = shapes.reference(shape)
    return {
        "description": "Done",
        "content": {"application/json": {"schema": schema}},
        **({"headers": _REPLAYED} if has_key else {}),
    }


_REPLAYED = {
    "Idempotent-Replayed": {
        "schema": {"const": "true"},
        "description": "Present when this is the answer to an earlier, equal request.",
    }
}


def _problems(route: Route, about: Operation, shapes: _Shapes) -> dict[str, Any]:
    """Return one answer per status, naming the codes that it can carry."""
    codes = {*about.codes, "unknown_parameter", "invalid_parameter"}
    if route.scope is not None:
        codes |= {"unauthenticated", "insufficient_scope", "unavailable"}
    if about.name == "health":
        codes.add("unavailable")
    by_status: dict[int, list[str]] = {}
    for code in sorted(codes):
        by_status.setdefault(STATUS_OF_CODE[code], []).append(code)
    return {
        str(status): {
            "description": " or ".join(f"`{code}`" for code in names),
            "content": {CONTENT_TYPE: {"schema": shapes.reference(answers.Problem)}},
            **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
        }
        for status, names in sorted(by_status.items())
    }


_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    503: {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds"}},
}
_CHOICES: dict[str, Sequence[str]] = {
    "status": STATUSES,
    "channel": CHANNELS,
    "active": ["true", "false"],
}


def _parameters(route: Route, about: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"<(\w+)>", route.path)
    ]
    found += [_query_parameter(name, many) for name, many in about.parameters.items()]
    if about.has_key:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": True,
                "description": "1 to 255 printable ASCII characters, bare or as a quoted string. "
                "For 24 hours an equal request with the same key gets the first answer again, "
                "marked `Idempotent-Replayed: true`.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 257},
            }
        )
    return found


def _query_parameter(name: str, many: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if name == "limit":
        schema = {
            "type": "integer",
            "minimum": 1,
            "maximum": browse.MAX_LIMIT,
            "default": browse.DEFAULT_LIMIT,
        }
    elif name in _CHOICES:
        schema["enum"] = list(_CHOICES[name])
    if many:
        schema = {"type": "array", "items": schema}
    return {"name": name, "in": "query", "required": False, "explode": True, "schema": schema}
