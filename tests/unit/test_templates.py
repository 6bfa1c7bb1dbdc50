"""Templates become words, the same every time; nothing in one reads anything but its values."""

import html
import json
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.content import SmsContent, read_content
from functions.templates.choice import locale_of
from functions.templates.engine import MAX_KEPT_STEPS, compiled
from functions.templates.errors import Malformed, Missing, Unrenderable
from functions.templates.render import render
from functions.templates.use import check_use, most_segments
from tests.words import document, rendered

RECEIPT = document(
    email={
        "en": {
            "subject": "Receipt {{ order.id }}",
            "text": "{% for line in lines %}{{ line.name }}: {{ line.price }}\n{% endfor %}",
            "html": "<ul>{% for line in lines %}<li>{{ line.name }}</li>{% endfor %}</ul>",
        },
        "de": {"subject": "Beleg {{ order.id }}", "text": "Danke, {{ name | default: 'Gast' }}."},
    },
    sms={"en": {"text": "Paid {{ total }}"}, "de": {"text": "Bezahlt: {{ total }}"}},
    push={"en": {"body": "Paid {{ total }}"}},
)
DATA: dict[str, Any] = {
    "order": {"id": "A-7"},
    "lines": [{"name": "Tea & cake", "price": 4.5}, {"name": "Milk", "price": 1}],
    "total": "5.50 EUR",
}


def line(source: str, **data: Any) -> str:
    """Return an SMS of ``source``."""
    version = document(sms={"en": {"text": source}})
    words = render(version, channel="sms", locale="en", data=data)
    assert isinstance(words, str)
    return words


def test_a_version_becomes_the_content_of_each_channel() -> None:
    assert check_use(RECEIPT, channels=["email", "sms", "push"], data=DATA) == []
    assert render(RECEIPT, channel="email", locale="en", data=DATA) == {
        "subject": "Receipt A-7",
        "text": "Tea & cake: 4.5\nMilk: 1\n",
        "html": "<ul><li>Tea &amp; cake</li><li>Milk</li></ul>",
    }
    email_in_german = {"subject": "Beleg A-7", "text": "Danke, Gast."}
    assert render(RECEIPT, channel="email", locale="de", data=DATA) == email_in_german
    assert render(RECEIPT, channel="push", locale="en", data=DATA) == {"body": "Paid 5.50 EUR"}
    sms = render(RECEIPT, channel="sms", locale="de", data=DATA)
    assert read_content("sms", sms) == SmsContent(text="Bezahlt: 5.50 EUR")


def test_a_locale_is_found_exactly_then_by_its_language_then_by_default() -> None:
    words = {"text": "x"}
    version = document("en", sms=dict.fromkeys(("en", "de", "de-AT", "zh-Hant"), words))
    found = {
        wanted: locale_of(version, "sms", wanted)
        for wanted in ("de-AT", "DE-at", "de-CH", "de", "zh-Hant-TW", "zh-Hans", "fr", "", None)
    }
    assert found == {
        "de-AT": "de-AT",
        "DE-at": "de-AT",
        "de-CH": "de",
        "de": "de",
        "zh-Hant-TW": "zh-Hant",
        "zh-Hans": "en",
        "fr": "en",
        "": "en",
        None: "en",
    }
    with pytest.raises(Unrenderable, match="no words for push"):
        locale_of(version, "push", "de")


def test_the_most_parts_of_an_sms_count_over_its_locales() -> None:
    version = document(sms={"en": {"text": "{{ a }}"}, "de": {"text": "{{ a }} ✓"}})
    assert most_segments(version, data={"a": "x" * 100}) == 2
    assert most_segments(version, data={"a": "x"}) == 1
    assert most_segments(document(push={"en": {"body": "x"}}), data={}) is None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ n | plus: 1 }} {{ n | times: 2.5 }} {{ n | divided_by: 2 }}", "4 7.5 1"),
        ("{{ '19.90' | times: 3 }} {{ 2.675 | round: 1 }} {{ -1 | abs }}", "59.7 2.7 1"),
        ("{{ l | join: ', ' }}/{{ l | first }}/{{ l.last }}/{{ l.size }}", "b, a/b/a/2"),
        ("{{ l | sort | join: '' }} {{ o | map: 'p' | sum }} {{ o | sum: 'p' }}", "ab 3 3"),
        ("{{ o | where: 'p', 2 | map: 'k' | join }}", "y"),
        ("{% assign x = 'a,b' | split: ',' %}{{ x[1] | upcase | append: '!' }}", "B!"),
        ("{% capture c %}{{ n }}{% endcapture %}{{ c }}{{ c | size }}", "31"),
        ("{% for i in (1..n) reversed %}{{ i }}{% break %}{% endfor %}", "3"),
        ("{% for i in l %}{% if forloop.first %}{{ i }}{% endif %}{% endfor %}", "b"),
        ("{% for p in m %}{{ p[0] }}={{ p[1] }};{% endfor %}", "a=1;b=2;"),
        ("{% case n %}{% when 1, 3 %}odd{% else %}even{% endcase %}", "odd"),
        ("{% unless n > 3 %}few{% endunless %}{% comment %}{{ x }}{% endcomment %}", "few"),
        ("{{ d | date: '%-d.%-m.%Y, %H:%M %z' }}", "9.3.2026, 07:05 +0100"),
        ("{{ '2026-03-09' | date: '%a %e %b %j %y %p %I 100%%' }}", "Mon  9 Mar 068 26 AM 12 100%"),
        ("{{ 'Grüße' | truncate: 5 }} {{ 'a b c' | truncatewords: 2, '…' }}", "Gr... a b…"),
        ("{{ z | default: 'none' }} {{ z.a.b | default: n }} {{ '' | default: 'x' }}", "none 3 x"),
        ("{{ 0 | default: 1 }} {{ false | default: true, allow_false: true }}", "0 false"),
    ],
)  # fmt: skip
def test_tags_and_filters_do_what_liquid_says(source: str, words: str) -> None:
    given: dict[str, Any] = {
        "n": 3,
        "l": ["b", "a"],
        "o": [{"k": "x", "p": 1}, {"k": "y", "p": 2}],
        "m": {"b": 2, "a": 1},
        "d": "2026-03-09T07:05:00+01:00",
    }
    assert line(source, **given) == words
    page = document(email={"en": {"subject": "x", "html": source}})
    assert html.unescape(rendered(page, **given)["email.html"]) == words


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'now' | date: '%Y' }}", "{{ 'today' | date: '%Y' }}", "{{ v | date: '%Y' }}",
        "{{ '5 pm' | date: '%Y' }}", "{{ 1700000000 | date: '%Y' }}", "{{ '10' | date: '%d' }}",
        "{{ '2026-02-30' | date: '%d' }}", "{{ '2026-02-03' | date: '%s' }}",
        "{{ '2026-02-03' | date: '%c' }}", "{{ '2026-02-03' | date: '%' }}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["now", "today", "tomorrow", "12:00"])
def test_no_template_and_no_value_reads_the_clock(source: str, value: str) -> None:
    with pytest.raises(Unrenderable):
        line(source, v=value)
    for name in ("now", "today"):  # names that the library itself gives
        with pytest.raises(Missing):
            line(f"{{{{ {name} }}}}")
        assert line(f"{{{{ {name} }}}}", **{name: "mine"}) == "mine"


def test_names_that_the_library_uses_itself_are_the_clients() -> None:
    source = "{{ partial }} {{ forloop }} {{ size }} {{ first }}"
    assert line(source, partial="p", forloop="f", size="s", first=1) == "p f s 1"
    assert line("{{ a.size }} {{ a.first }}", a={"size": "XL", "first": "Ada"}) == "XL Ada"
    for step in ("size", "first", "last"):  # an object has its own members and no others
        with pytest.raises(Missing):
            line(f"{{{{ a.{step} }}}}", a={"x": 1})


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (1e16, 10000000000000000),
        (1e300, 10**300),
        (1.5e-7, 0.00000015),
        (-0.0, 0.0),
        ({"b": 1, "aa": 2}, {"aa": 2, "b": 1}),
    ],
)
def test_what_the_database_writes_otherwise_gives_the_same_words(sent: Any, stored: Any) -> None:
    source = "{% for p in v %}{{ p[0] }}{% endfor %}" if isinstance(sent, dict) else "{{ v }}"
    assert line(source, v=sent) == line(source, v=stored)
    if not isinstance(sent, dict):
        assert "e" not in line(source, v=sent)


JSON = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from("abcd"), JSON))
def test_a_check_that_finds_nothing_means_words_the_same_each_time(data: dict[str, Any]) -> None:
    version = document(
        email={"en": {"subject": "{{ a }}", "html": "{% for x in b %}{{ x }}{% endfor %}"}},
        push={"en": {"title": "{{ c | upcase }}", "body": "{% if d %}{{ d | size }}{% endif %}."}},
    )
    if check_use(version, channels=["email", "push"], data=data):
        return
    first = rendered(version, **data)
    shuffled = list(json.loads(json.dumps(data)).items())
    random.Random(7).shuffle(shuffled)
    assert rendered(version, **dict(shuffled)) == first
    read_content("email", render(version, channel="email", locale="en", data=data))


def test_compiled_templates_are_kept_by_their_source_within_bounds() -> None:
    first = compiled("Hi {{ name }}", is_html=False)
    assert compiled("Hi {{ name }}", is_html=False) is first
    assert compiled("Hi {{ name }}", is_html=True) is not first
    large = [f"{number}".ljust(200_000, "x") for number in range(MAX_KEPT_STEPS // 12_500 + 1)]
    kept = [compiled(source, is_html=False) for source in large[:50]]
    assert compiled("Hi {{ name }}", is_html=False) is first
    assert [compiled(source, is_html=False) for source in large[:50]] == kept
    for source in large:
        compiled(source, is_html=False)
    assert compiled("Hi {{ name }}", is_html=False) is not first


def test_a_rendering_leaves_nothing_behind() -> None:
    source = "{% assign seen = seen | default: '' | append: name %}{{ seen }}"
    assert [line(source, name=name) for name in ("a", "b", "a")] == ["a", "b", "a"]


def test_errors_tell_the_place_and_no_value() -> None:
    secret = "4000 0000 0000 0002"
    for source in ("\n{{ v | plus: 1 }}", "{{ v | date: '%Y' }}", "{{ 3 | slice: v }}",
                   "{% if v > 3 %}x{% endif %}", "{{ l }}", "{{ l | sum }}"):  # fmt: skip
        with pytest.raises(Unrenderable) as caught:
            line(source, v=secret, l=[secret])
        assert secret not in str(caught.value)
        assert "text" in str(caught.value)
    with pytest.raises(Unrenderable, match="line 2"):
        line("\n{{ v | plus: 1 }}", v=secret)


def test_the_sender_gets_one_kind_of_error() -> None:
    broken = document(sms={"en": {"text": "{% if %}"}})
    cases: list[tuple[Any, str, Any]] = [
        (broken, "sms", {}),
        (RECEIPT, "webhook", DATA),
        (RECEIPT, "sms", []),
        (RECEIPT, "sms", {"total": None}),
    ]
    for version, channel, data in cases:
        with pytest.raises(Unrenderable):
            render(version, channel=channel, locale="en", data=data)
    with pytest.raises(Malformed):
        compiled("{% if %}", is_html=False)


def test_nothing_outside_loads_the_library_until_it_renders() -> None:
    modules = (
        "functions.templates.choice, functions.templates.errors, functions.store.template, "
        "functions.ingest.templates"
    )
    check = f"import sys, {modules}; sys.exit('liquid' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
