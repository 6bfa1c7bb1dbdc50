"""A line of a file of suppressions: what it states, or which cell is wrong with it."""

from datetime import UTC, datetime

import pytest

from functions.core.recipient import recipient_hash
from functions.core.suppression_line import Refused, StatedFact, is_history, read_line

KEY = b"a key that is only good for tests"
ADA = recipient_hash(KEY, "email", "ada@example.com")


def read(**cells: str) -> StatedFact:
    line = {"channel": "email", "recipient": "ada@example.com", "reason": "hard_bounce"} | cells
    return read_line(line, hash_key=KEY)


def test_what_is_left_out_says_nothing() -> None:
    empty = dict.fromkeys(("category", "source", "source_at", "evidence", "recipient_hash"), " ")
    for cells in ({}, empty):
        assert read(**cells) == StatedFact(
            channel="email",
            recipient="ada@example.com",
            recipient_hash=ADA,
            category=None,
            reason="hard_bounce",
            source=None,
            source_at=None,
            evidence=None,
        )


def test_every_cell_is_read() -> None:
    fact = read(
        channel=" Email ",
        reason=" Complaint",
        category="news",
        source="an old system, 2019",
        source_at="2026-01-31T08:00:00+01:00",
        evidence=' {"b": [1, "é\\n"], "a": null} ',
    )
    assert (fact.channel, fact.reason, fact.category) == ("email", "complaint", "news")
    assert fact.source == "an old system, 2019"
    assert fact.source_at == datetime(2026, 1, 31, 7, tzinfo=UTC)
    assert fact.evidence == '{"a":null,"b":[1,"é\\n"]}'


@pytest.mark.parametrize("evidence", ["null", " null "])
def test_evidence_of_nothing_is_none(evidence: str) -> None:
    assert read(evidence=evidence).evidence is None


def test_a_hash_stands_for_its_address_in_either_case() -> None:
    for digits in (ADA.hex(), ADA.hex().upper()):
        fact = read(recipient="", recipient_hash=digits)
        assert (fact.recipient, fact.recipient_hash) == (None, ADA)
        assert read(recipient_hash=digits).recipient == "ada@example.com"


@pytest.mark.parametrize(
    ("cells", "column", "code"),
    [
        ({"channel": ""}, "channel", "required"),
        ({"channel": "fax"}, "channel", "wrong_type"),
        ({"recipient": ""}, "recipient", "required"),
        ({"recipient": "ada@"}, "recipient", "invalid_email"),
        ({"recipient": "ada@example.com, bob@example.com"}, "recipient", "invalid_email"),
        ({"channel": "sms"}, "recipient", "invalid_phone"),
        ({"channel": "sms", "recipient": "020 7946 0018"}, "recipient", "invalid_phone"),
        ({"channel": "push", "recipient": "a b"}, "recipient", "invalid_token"),
        ({"channel": "webhook", "recipient": "http://example.com"}, "recipient", "invalid_url"),
        ({"recipient_hash": "abc"}, "recipient_hash", "wrong_type"),
        ({"recipient_hash": "0" * 64}, "recipient_hash", "not_allowed"),
        ({"category": "Häufig"}, "category", "wrong_type"),
        ({"category": "a" * 65}, "category", "wrong_type"),
        ({"reason": ""}, "reason", "required"),
        ({"reason": "bounced"}, "reason", "wrong_type"),
        ({"source": "s" * 129}, "source", "too_long"),
        ({"source": "a\x00b"}, "source", "not_encodable"),
        ({"source_at": "2026-01-31T08:00:00"}, "source_at", "invalid_time"),
        ({"source_at": "31.01.2026"}, "source_at", "invalid_time"),
        ({"evidence": "it bounced"}, "evidence", "malformed_json"),
        ({"evidence": '{"a":1,"a":2}'}, "evidence", "malformed_json"),
        ({"evidence": "[NaN]"}, "evidence", "malformed_json"),
        ({"evidence": '["\\u0000"]'}, "evidence", "not_encodable"),
        ({"evidence": "[1e999]"}, "evidence", "not_encodable"),
        ({"evidence": "[" * 101 + "]" * 101}, "evidence", "not_encodable"),
        ({"evidence": f'"{"x" * 16_384}"'}, "evidence", "too_long"),
    ],
)
def test_a_cell_that_is_wrong_is_named_and_not_repeated(
    cells: dict[str, str], column: str, code: str
) -> None:
    with pytest.raises(Refused) as refused:
        read(**cells)
    assert refused.value.item_code == code
    assert refused.value.detail.startswith(f"{column}: ")
    assert not any(len(text) > 3 and text in refused.value.detail for text in cells.values())


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({}, False),
        ({"kind": "suppress", "active": "true"}, False),
        ({"kind": "suppress", "active": " FALSE "}, True),
        ({"kind": "lift", "active": ""}, True),
        ({"active": "false"}, True),
    ],
)
def test_what_does_not_hold_any_more_is_history(cells: dict[str, str], expected: bool) -> None:
    assert is_history(cells) is expected
