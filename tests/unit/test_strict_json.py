"""Strict JSON: what is refused, what is named, and all else is what json.loads reads."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.strict_json import MAX_FAULTS, MalformedJson, parse


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "nul",
        "NaN",
        "[-Infinity]",
        '"\n"',
        '{"a":1,"a":1}',
        '[{"b":{"a":1,"\\u0061":2}}]',
        "[" * 600 + "]" * 600,
        '{"a":' * 600 + "1" + "}" * 600,
        "[" * 5000 + "]" * 5000,
        "[" * 200_000,
        "9" * 5000,
        "1 2",
        "'a'",
        "\ufeff{}",
    ],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(MalformedJson):
        parse(text.encode())


@pytest.mark.parametrize("depth", [1, 100, 400])
def test_nesting_below_the_limit_and_brackets_in_strings_are_read(depth: int) -> None:
    nested, faults = parse(b"[" * depth + b"]" * depth)
    assert nested is not None
    assert faults == []
    assert parse(b'["' + b"[{" * 2000 + b'"]') == (["[{" * 2000], [])


@pytest.mark.parametrize("body", [b"\xff", b'"\xc3"', b'"\xed\xa0\x80"', b"\xfe\xff\x00{"])
def test_what_is_not_utf_8_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedJson, match="UTF-8"):
        parse(body)


@pytest.mark.parametrize(
    ("text", "pointers"),
    [
        ('"\\u0000"', [""]),
        ('{"a": "\\ud800", "b": ["x", "\\uDFFF"]}', ["/a", "/b/1"]),
        ('{"\\u0000": 1}', ["/\ufffd"]),
        ('{"a/b": {"~": "\\u0000"}}', ["/a~1b/~0"]),
        ("[1e999, -1e999, 1e308]", ["/0", "/1"]),
        ('["\\ud83d\\ude00", "\\\\u0000"]', []),
    ],
)
def test_what_cannot_be_stored_is_named(text: str, pointers: list[str]) -> None:
    _, faults = parse(text.encode())
    assert [fault.pointer for fault in faults] == pointers
    assert {fault.code for fault in faults} <= {"not_encodable"}


def test_at_most_a_hundred_faults_are_named() -> None:
    text = json.dumps(["\0"] * 1000)
    assert len(parse(text.encode())[1]) == MAX_FAULTS


STORABLE = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | STORABLE,
    lambda inner: st.lists(inner) | st.dictionaries(STORABLE, inner),
)


@given(JSON, st.booleans())
def test_everything_else_is_read_as_it_is(value: Any, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    read, faults = parse(text.encode())
    assert (read, faults) == (value, [])


@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        value, _ = parse(body)
    except MalformedJson:
        return
    assert not isinstance(value, float) or not math.isnan(value)
