"""The small parts of the API: times, cursors, id bounds, canonical requests, problems, imports."""

import contextlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.errors import (
    EventIdConflict,
    Fault,
    IdempotencyKeyReused,
    NotFound,
    RequestRefused,
    TooLate,
    ValidationFailed,
)
from functions.core.problem import STATUS_OF_CODE, Problem, Refused, problem_of, unavailable
from functions.core.signature import BadSignature
from functions.core.times import InvalidTime, parse_time
from functions.ingest.browse import least_id_at
from functions.ingest.cursor import cursor_key, read_cursor, write_cursor
from functions.ingest.openapi import openapi_document
from functions.ingest.operations import OPERATIONS
from functions.ingest.recognition import canonical
from functions.ingest.routes import ROUTES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2030-01-31T08:00:00+01:00", "2030-01-31T07:00:00+00:00"),
        ("2030-01-31t08:00:00z", "2030-01-31T08:00:00+00:00"),
        ("2030-01-31 08:00:00.5Z", "2030-01-31T08:00:00.500000+00:00"),
        ("2030-01-31T08:00:00.123456789-00:30", "2030-01-31T08:30:00.123456+00:00"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"),
    ],
)
def test_a_time_with_an_offset_is_read(text: str, expected: str) -> None:
    assert parse_time(text).isoformat() == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2030-01-31",
        "2030-01-31T08:00:00",
        "2030-01-31T08:00Z",
        "2030-W01-1T08:00:00Z",
        "20300131T080000Z",
        "2030-02-30T08:00:00Z",
        "2030-01-31T24:00:01Z",
        "2030-01-31T08:00:60Z",
        "2030-01-31T08:00:00+25:00",
        "2030-01-31T08:00:00+0100",
        "2030-01-31T08:00:00Z ",
        "2030-01-31T08:00:00Z\n",
        "٢٠٣٠-01-31T08:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_a_time_without_an_offset_or_out_of_range_is_none(text: str) -> None:
    with pytest.raises(InvalidTime):
        parse_time(text)


@given(st.text())
def test_any_text_is_a_time_or_none(text: str) -> None:
    with contextlib.suppress(InvalidTime):
        assert parse_time(text).tzinfo is UTC


KEY = cursor_key(b"secret")
ONE, TWO = UUID(int=1), UUID(int=2)


@given(st.uuids())
def test_a_cursor_is_read_back_by_whom_it_was_given_to(last_id: UUID) -> None:
    text = write_cursor(KEY, organization_id=ONE, filters={"a": ["b"]}, last_id=last_id)
    assert read_cursor(KEY, text, organization_id=ONE, filters={"a": ["b"]}) == last_id
    strangers: list[tuple[bytes, UUID, dict[str, Any]]] = [
        (KEY, TWO, {"a": ["b"]}),
        (KEY, ONE, {"a": ["c"]}),
        (KEY, ONE, {}),
        (cursor_key(b"other"), ONE, {"a": ["b"]}),
    ]
    for key, organization_id, filters in strangers:
        with pytest.raises(Refused):
            read_cursor(key, text, organization_id=organization_id, filters=filters)


@given(
    st.text() | st.text("abcdefghijklmnopqrstuvwxyzABCDEFGH0123456789-_", min_size=43, max_size=43)
)
def test_a3_no_made_up_cursor_is_read(text: str) -> None:
    with pytest.raises(Refused) as caught:
        read_cursor(KEY, text, organization_id=ONE, filters={})
    assert caught.value.problem_code == "invalid_cursor"


def test_a3_a_cursor_with_any_other_character_is_refused() -> None:
    text = write_cursor(KEY, organization_id=ONE, filters={}, last_id=TWO)
    for index, character in enumerate(text):
        for other in ("A", "_", "=", "!", "") if character != "A" else ("B",):
            if other != character:
                changed = text[:index] + other + text[index + 1 :]
                with pytest.raises(Refused):
                    read_cursor(KEY, changed, organization_id=ONE, filters={})


@given(st.integers(0, 253_402_300_799_999), st.integers(0, 999))
def test_the_bound_of_a_moment_divides_ids_by_their_millisecond(
    milliseconds: int, microseconds: int
) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        milliseconds=milliseconds, microseconds=microseconds
    )
    bound = least_id_at(moment)
    least, greatest = ((milliseconds << 80) + 0, (milliseconds + 1 << 80) - 1)
    assert (UUID(int=least) >= bound) == (microseconds == 0)
    assert (UUID(int=greatest) >= bound) == (microseconds == 0)
    assert UUID(int=greatest + 1) >= bound


def test_requests_that_differ_only_in_order_and_spacing_are_the_same() -> None:
    one = json.loads('{"b": [1, {"y": 10000000000000000000000, "x": "é"}], "a": 1.5}')
    two = json.loads('{ "a":1.50,"b":[1,{"x":"\\u00e9","y":10000000000000000000000}]}')
    assert canonical(one) == canonical(two)
    assert len({canonical(value) for value in ([1, 2], [2, 1], [1], [True], [1.5])}) == 5


REFUSALS: list[tuple[RequestRefused, int, str]] = [
    (NotFound(), 404, "not_found"),
    (IdempotencyKeyReused(), 422, "idempotency_key_reused"),
    (TooLate("submitted"), 409, "too_late"),
    (ValidationFailed([Fault("/a", "required", "x")]), 422, "validation_failed"),
    (EventIdConflict([Fault("/a", "event_id_conflict", "x")]), 422, "event_id_conflict"),
    (Refused("use_cursor", "x"), 400, "use_cursor"),
    (BadSignature(), 401, "unauthenticated"),
    (RequestRefused("x"), 422, "validation_failed"),
]


@pytest.mark.parametrize(("error", "status", "code"), REFUSALS)
def test_a_refusal_becomes_its_problem(error: RequestRefused, status: int, code: str) -> None:
    answer = problem_of(error).answer()
    body = json.loads(answer["body"])
    assert answer["statusCode"] == body["status"] == status
    assert body["code"] == code
    assert answer["headers"]["Content-Type"] == "application/problem+json"


def test_a_problem_names_at_most_a_hundred_faults() -> None:
    problem = Problem(code="validation_failed", detail="x", faults=[Fault("", "c", "d")] * 101)
    assert len(json.loads(problem.body())["errors"]) == 100


def test_an_outage_says_when_to_come_back() -> None:
    assert unavailable().status == 503
    assert int(unavailable().headers["Retry-After"]) > 0


def test_every_route_is_described_and_every_code_has_a_status() -> None:
    assert set(OPERATIONS) == {route.serve for route in ROUTES}
    for operation in OPERATIONS.values():
        assert set(operation.codes) <= set(STATUS_OF_CODE)


@pytest.mark.parametrize(
    ("function", "never"),
    [
        ("ingest", ["boto3", "botocore.auth", "functions.ingest.openapi", "liquid"]),
        ("authorizer", ["boto3", "botocore.auth", "pydantic"]),
    ],
)
def test_a_function_imports_without_network_and_without_what_it_seldom_needs(
    function: str, never: list[str]
) -> None:
    program = (
        f"import sys, functions.{function}.main\n"
        f"print([name for name in {never!r} if name in sys.modules])"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_HOST": "database.invalid",
        "HASH_SECRET_ARN": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:hash",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


NEEDED = {
    "Item": ("event_id", "category", "priority", "send_at", "expires_at", "reference", "metadata"),
    "RecipientDocument": ("contact_points", "quiet_hours", "preferences"),
    "GivenContactPoint": ("verified",),
    "EraseRequest": ("channel", "recipient"),
    "Recipient": ("version", "quiet_hours", "preferences"),
    "NotificationSummary": ("reason", "event_id"),
}


def test_what_a_newcomer_has_to_know_of_a_field_is_in_the_document() -> None:
    schemas = openapi_document()["components"]["schemas"]
    described = {
        (shape, name): schemas[shape]["properties"][name].get("description")
        for shape, names in NEEDED.items()
        if shape in schemas
        for name in names
    }
    assert {shape for shape, _ in described} >= {"Item", "Recipient", "EraseRequest"}
    assert [place for place, words in described.items() if not words] == []
    assert schemas["EraseRequest"]["description"]
