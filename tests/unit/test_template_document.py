"""What may be a version of a template: its shape, its locales, and every source of it read."""

from typing import Any

import pytest

from functions.templates.document import MAX_DOCUMENT_BYTES, MAX_LOCALES, check_document
from tests.words import document, everywhere


def faults_of(version: Any) -> list[tuple[str, str]]:
    return [(fault.pointer, fault.code) for fault in check_document(version)]


GOOD = (
    everywhere("Hi {{ name }}"),
    document("de-AT", sms={"de-AT": {"text": "x"}, "en": {"text": "y"}}),
    document(email={"en": {"subject": "x", "text": "x", "html": None}}),  # pyright: ignore
    document(email={"en": {"subject": "x", "html": "<p>"}}, push={"en": {"title": "x"}}),
    {"channels": {"sms": {"en": {"text": "x"}}, "email": None}, "default_locale": "en"},
)


@pytest.mark.parametrize(
    ("version", "faults"),
    [
        (7, [("", "wrong_type")]),
        ([], [("", "wrong_type")]),
        ({}, [("/channels", "required"), ("/default_locale", "required")]),
        ({"channels": {}, "default_locale": "en"}, [("/channels", "required")]),
        ({"channels": [], "default_locale": 7},
         [("/channels", "wrong_type"), ("/default_locale", "wrong_type")]),
        (document(sms={"en": {"text": "x"}}) | {"x/y": 1}, [("/x~1y", "unknown_field")]),
        (document(webhook={"en": {"text": "x"}}), [("/channels/webhook", "unknown_field")]),
        (document(sms={"en": {"text": "x", "title": "y"}}),
         [("/channels/sms/en/title", "unknown_field")]),
        (document(sms={"en": {"body": "x"}}),
         [("/channels/sms/en/body", "unknown_field"), ("/channels/sms/en/text", "required")]),
        (document(sms={"en": {"text": ""}}), [("/channels/sms/en/text", "required")]),
        (document(sms={"en": {"text": 7}}),  # pyright: ignore[reportArgumentType]
         [("/channels/sms/en/text", "wrong_type")]),
        (document(sms={"en": "x"}),  # pyright: ignore[reportArgumentType]
         [("/channels/sms/en", "wrong_type"), ("/channels/sms/en/text", "required")]),
        (document(push={"en": {}}), [("/channels/push/en", "required")]),
        (document(email={"en": {"text": "x"}}), [("/channels/email/en/subject", "required")]),
        (document(email={"en": {"subject": "", "text": "x"}}),
         [("/channels/email/en/subject", "required")]),
        (document(email={"en": {"subject": "x"}}), [("/channels/email/en", "required")]),
        (document("de", sms={"en": {"text": "x"}}), [("/default_locale", "not_allowed")]),
        (document(sms={"en": {"text": "x"}}, push={"de": {"body": "x"}}),
         [("/default_locale", "not_allowed")]),
        (document("EN", sms={"en": {"text": "x"}}), [("/default_locale", "not_allowed")]),
        (document(sms={"en": {"text": "x"}, "EN": {"text": "x"}}),
         [("/channels/sms/EN", "not_allowed")]),
        (document(sms={"en": {"text": "x"}, "": {"text": "x"}, "d": {"text": "x"},
                       "de_AT": {"text": "x"}, "de\n": {"text": "x"}, "../x": {"text": "x"}}),
         [("/channels/sms/", "not_allowed"), ("/channels/sms/d", "not_allowed"),
          ("/channels/sms/de_AT", "not_allowed"), ("/channels/sms/de\n", "not_allowed"),
          ("/channels/sms/..~1x", "not_allowed")]),
        (document(sms={"en": {"text": [[[[["x"]]]]]}}),  # pyright: ignore[reportArgumentType]
         [("", "wrong_type")]),
        (document(sms={"en": {"text": "x" * MAX_DOCUMENT_BYTES}}), [("", "too_long")]),
        *((version, []) for version in GOOD),
    ],
)  # fmt: skip
def test_a_version_has_known_channels_locales_and_parts(
    version: Any, faults: list[tuple[str, str]]
) -> None:
    assert faults_of(version) == faults


def test_a_channel_has_so_many_locales_and_an_answer_so_many_faults() -> None:
    tags = [f"{first}{second}" for first in "abcdefghij" for second in "abcdefghij"]
    locales = {tag: {"text": "x"} for tag in tags}
    assert faults_of(document("aa", sms=locales)) == [("/channels/sms", "too_many")]
    few = dict(list(locales.items())[:MAX_LOCALES])
    assert faults_of(document("aa", sms=few)) == []
    unknown = dict.fromkeys(tags, 1) | {f"x{tag}": 1 for tag in tags}
    assert len(faults_of(document("aa", sms=few) | unknown)) == 100


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("a\nb\n{{ name", 3, "{{ is not closed"),
        ("a\n{% if x %}\nb", 3, "endif"),
        ("a\n\n{% if %}x{% endif %}", 3, "expression"),
        ("{% for x %}{% endfor %}", 1, "expected"),
        ("\n{{ x | }}", 2, "expected"),
        ("\n{{ x | upcas }}", 2, "no filter 'upcas'"),
        ("\n{% unles x %}", 2, "no tag 'unles'"),
        ("\n{% %}", 2, "without a name"),
        ("\n{% endif %}", 2, "unexpected"),
        ("\n{% if a %}{% else %}{% else %}{% endif %}", 2, "expected"),
        ("\n{{ a b }}", 2, ""),
        ("\n{{ 1.2.3 }}", 2, "expected"),
        ("\n{{ 'x }}", 2, "unexpected"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_with_its_line(
    source: str, line: int, words: str
) -> None:
    (fault,) = check_document(document(push={"en": {"title": "fine", "body": source}}))
    assert (fault.pointer, fault.code) == ("/channels/push/en/body", "not_allowed")
    assert fault.detail.startswith(f"Line {line}: ")
    assert words in fault.detail


def test_every_source_at_fault_is_named() -> None:
    assert faults_of(everywhere("{% if %}")) == [
        (f"/channels/{part}", "not_allowed")
        for part in ("email/en/subject", "email/en/text", "email/en/html", "sms/en/text",
                     "push/en/title", "push/en/body")
    ]  # fmt: skip
