"""Language tags are judged by their form and written in their usual case."""

import pytest

from functions.core.locale import normalise_locale


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        ("EN", "en"),
        ("de-at", "de-AT"),
        ("ZH-HANT-tw", "zh-Hant-TW"),
        ("zh-yue-hk", "zh-yue-HK"),
        ("es-419", "es-419"),
        ("sl-ROZAJ-1994", "sl-rozaj-1994"),
        ("en-U-ca-Gregory", "en-u-ca-gregory"),
        ("de-x-AT-work", "de-x-at-work"),
        ("sl-rozaj-biske-1994", "sl-rozaj-biske-1994"),
        ("de-1901-x-1901-1901", "de-1901-x-1901-1901"),
    ],
)
def test_a_tag_is_written_in_its_usual_case(given: str, tag: str) -> None:
    assert normalise_locale(given) == tag
    assert normalise_locale(tag) == tag


@pytest.mark.parametrize(
    "text",
    [
        "", "d", "en_US", "en-", "-en", "en--US", "en-a", "en-U", "1en", "x-mine", "i-klingon",
        "de-AT\n", " de", "dé", "en-US-US-US-a", "germanlanguage", "en" + "-abcdefgh" * 4,
        "de-1901-1901", "sl-rozaj-biske-ROZAJ", "en-a-bbb-A-ccc",
    ],
)  # fmt: skip
def test_what_has_not_its_form_is_no_tag(text: str) -> None:
    assert normalise_locale(text) is None
