"""Problem answers: RFC 9457 ``application/problem+json``, with every fault by its pointer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from functions.core.errors import Fault, RequestRefused, TooLate, ValidationFailed
from functions.core.strict_json import MAX_FAULTS

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 5

STATUS_OF_CODE: dict[str, int] = {
    "malformed_json": 400,
    "invalid_cursor": 400,
    "invalid_parameter": 400,
    "unknown_parameter": 400,
    "use_cursor": 400,
    "idempotency_key_missing": 400,
    "idempotency_key_invalid": 400,
    "unauthenticated": 401,
    "insufficient_scope": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "too_late": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "validation_failed": 422,
    "idempotency_key_reused": 422,
    "event_id_conflict": 422,
    "internal_error": 500,
    "unavailable": 503,
}


class Refused(RequestRefused):
    """The request cannot be served as it stands."""

    def __init__(
        self,
        problem_code: str,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem_code = problem_code
        self.faults = tuple(faults)
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem answer: what went wrong, once, in the words of the contract."""

    code: str
    detail: str
    faults: Sequence[Fault] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    members: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def status(self) -> int:
        return STATUS_OF_CODE[self.code]

    def body(self) -> str:
        problem: dict[str, Any] = {
            "type": "about:blank",  # what the title says; the code says the rest
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.members,
        }
        if self.faults:
            problem["errors"] = [
                {"pointer": fault.pointer, "code": fault.code, "detail": fault.detail}
                for fault in self.faults[:MAX_FAULTS]
            ]
        return json.dumps(problem, ensure_ascii=False, separators=(",", ":"))

    def answer(self) -> dict[str, Any]:
        """Return the answer as API Gateway takes it (HTTP API, payload 2.0)."""
        return {
            "statusCode": self.status,
            "headers": {"Content-Type": CONTENT_TYPE, **self.headers},
            "body": self.body(),
            "isBase64Encoded": False,
        }


def problem_of(error: RequestRefused) -> Problem:
    """Return the answer to a caller's mistake."""
    match error:
        case Refused():
            return Problem(
                code=error.problem_code,
                detail=error.detail,
                faults=error.faults,
                headers=error.headers,
            )
        case ValidationFailed():  # event_id_conflict too
            return Problem(code=error.code, detail=error.detail, faults=error.faults)
        case TooLate():
            return Problem(
                code=error.code,
                detail=f"{error.detail} Its status is {error.status}.",
                members={"notification_status": error.status},
            )
        case _:
            code = error.code if error.code in STATUS_OF_CODE else ValidationFailed.code
            return Problem(code=code, detail=error.detail)


def unavailable() -> Problem:
    return Problem(
        code="unavailable",
        detail="The service cannot answer at the moment. Try again.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )
