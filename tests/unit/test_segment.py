"""Parts of an SMS: the counts that are billed, and what holds for every text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.segment import Encoding, encoded

BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
ESCAPED = "\f^{}\\[~]|€"
ROOM = {Encoding.GSM_7: (160, 153), Encoding.UCS_2: (70, 67)}

gsm_texts = st.text(st.sampled_from(BASIC + ESCAPED), max_size=700)
wide_texts = st.text(st.sampled_from("aç€漢😀"), max_size=400)
texts = st.one_of(gsm_texts, wide_texts, st.text(max_size=300))


def size_of(character: str, encoding: Encoding) -> int:
    if encoding == Encoding.UCS_2:
        return len(character.encode("utf-16-be", "surrogatepass")) // 2
    return 2 if character in ESCAPED else 1


def split(text: str) -> list[str]:
    """Return ``text`` cut into parts, filled one after the other and no character halved."""
    encoding = encoded(text).encoding
    alone, together = ROOM[encoding]
    if sum(size_of(character, encoding) for character in text) <= alone:
        return [text]
    parts = [""]
    for character in text:
        longer = parts[-1] + character
        if sum(size_of(one, encoding) for one in longer) <= together:
            parts[-1] = longer
        else:
            parts.append(character)
    return parts


@pytest.mark.parametrize(
    ("text", "units", "segments"),
    [
        ("", 0, 1),
        ("a", 1, 1),
        ("a" * 160, 160, 1),
        ("a" * 161, 161, 2),
        ("a" * 306, 306, 2),
        ("a" * 307, 307, 3),
        ("€" * 80, 160, 1),
        ("€" * 81, 162, 2),
        ("a" * 1600, 1600, 11),
        # 76 pairs fit a part, its last unit stays empty: 153 pairs need a third.
        ("€" * 152, 304, 2),
        ("€" * 153, 306, 3),
        ("a" + "€" * 80, 161, 2),
        ("a" * 152 + "€" + "a" * 152, 306, 3),
    ],
)
def test_the_gsm_alphabet_has_160_units_alone_and_153_in_a_part(
    text: str, units: int, segments: int
) -> None:
    counted = encoded(text)
    assert (counted.encoding, counted.units, counted.segments) == ("GSM-7", units, segments)


@pytest.mark.parametrize(
    ("text", "units", "segments"),
    [
        ("漢" * 70, 70, 1),
        ("漢" * 71, 71, 2),
        ("漢" * 134, 134, 2),
        ("漢" * 135, 135, 3),
        ("😀" * 35, 70, 1),
        ("😀" * 36, 72, 2),
        ("😀" * 66, 132, 2),
        ("😀" * 67, 134, 3),  # pairs are not split, so the last unit of a part stays empty
        ("漢" * 1600, 1600, 24),
        ("a" * 69 + "ç", 70, 1),
        ("a" * 70 + "ç", 71, 2),
    ],
)
def test_ucs_2_has_70_units_alone_and_67_in_a_part(text: str, units: int, segments: int) -> None:
    counted = encoded(text)
    assert (counted.encoding, counted.units, counted.segments) == ("UCS-2", units, segments)


def test_the_alphabet_has_127_characters_and_ten_more_that_are_escaped() -> None:
    assert (len(set(BASIC)), len(set(ESCAPED))) == (127, 10)
    for character in BASIC:
        assert (encoded(character).encoding, encoded(character).units) == ("GSM-7", 1), character
    for character in ESCAPED:
        assert (encoded(character).encoding, encoded(character).units) == ("GSM-7", 2), character
    others = {chr(code) for code in range(0x10000)} - set(BASIC + ESCAPED)
    assert {encoded(character).encoding for character in others} == {Encoding.UCS_2}


@pytest.mark.parametrize(
    "character", ["ç", "`", "\u2019", "\u201c", "\u2026", "\u00a0", "\t", "\x1b", "á", "😀"]
)
def test_one_character_outside_of_the_alphabet_turns_the_whole_text(character: str) -> None:
    assert encoded("Ç" * 160).segments == 1
    assert encoded("a" * 160 + character).encoding == "UCS-2"
    assert encoded("a" * 160 + character).segments == 3


def test_half_of_a_surrogate_pair_counts_as_one_unit_and_harms_nobody() -> None:
    assert encoded("\ud83d" * 71).segments == 2


@given(texts)
def test_the_parts_are_as_many_as_a_text_can_be_cut_into(text: str) -> None:
    counted = encoded(text)
    assert counted.segments == len(split(text))
    assert counted.units == sum(size_of(one, counted.encoding) for one in text)


@given(texts)
def test_the_parts_lie_between_what_the_units_need_and_what_halved_pairs_would_save(
    text: str,
) -> None:
    counted = encoded(text)
    alone, together = ROOM[counted.encoding]
    assert (counted.segments == 1) == (counted.units <= alone)
    if counted.segments > 1:
        assert counted.segments >= -(-counted.units // together)
        assert counted.segments <= -(-counted.units // (together - 1))


@given(texts, texts)
def test_a_longer_text_never_takes_fewer_parts(first: str, second: str) -> None:
    assert encoded(first + second).segments >= encoded(first).segments
    assert encoded(first + second).units >= encoded(first).units


@given(gsm_texts)
def test_ucs_2_is_never_chosen_where_the_alphabet_is_enough(text: str) -> None:
    assert encoded(text).encoding == Encoding.GSM_7
    assert encoded(text + "漢").segments >= encoded(text).segments
