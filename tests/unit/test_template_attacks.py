"""FAULTS G1: templates that want code, time, memory or space; values that look like templates."""

import tracemalloc
from typing import Any

import pytest

from functions.core.errors import Fault
from functions.templates import budget
from functions.templates.budget import PART_STEPS, Budget
from functions.templates.document import check_document
from functions.templates.engine import MAX_OUTPUT_BYTES, compiled
from functions.templates.errors import Exhausted, Malformed, TooLong, Unrenderable
from functions.templates.filters import FILTERS, MAX_TEXT_CHARACTERS
from functions.templates.scan import TAGS
from functions.templates.use import check_use
from tests.words import document, everywhere, rendered

CODE = (
    "{{ ''.__class__.__mro__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{% for a in range(10**9) %}x{% endfor %}",
    "{{ 'x'*10**9 }}",
)
"""The strings of FAULTS G1."""


@pytest.mark.parametrize("source", CODE)
def test_g1_a_template_that_reaches_for_python_is_refused(source: str) -> None:
    version = everywhere(source)
    faults = check_document(version)
    if not faults:  # it reads like a variable that nobody gave
        faults = check_use(version, channels=["email", "sms", "push"], data={})
        assert {fault.code for fault in faults} == {"missing_variable"}
        assert check_use(version, channels=["sms"], data={"cycler": {"x": 1}})
        assert check_use(version, channels=["sms"], data={"cycler": "x"})
        return
    assert {fault.code for fault in faults} == {"not_allowed"}
    assert all(fault.detail.startswith("Line 1: ") for fault in faults)
    assert len(faults) == 6


@pytest.mark.parametrize(
    "value", [*CODE, "{{ name }}", "{% assign x = 1 %}", "{{ name", "{%", "$(id) `id` %s {0} None"]
)
def test_g1_the_same_strings_as_values_appear_as_they_are(value: str) -> None:
    source = "Hi {{ name }}{% assign x = name %}{{ x | append: '' }}"
    words = rendered(everywhere(source), name=value)
    escaped = value.replace("'", "&#39;")
    assert words == {
        part: "Hi " + (escaped if part == "email.html" else value) * 2 for part in words
    }
    assert len(words) == 6


@pytest.mark.parametrize("step", ["__class__", "__mro__", "__init__", "format", "_data", "env"])
def test_g1_no_path_leads_to_an_attribute(step: str) -> None:
    for start in ("t", "l", "m", "n", "forloop"):
        source = (
            f"{{% for i in l %}}{{{{ {start}.{step} }}}}{{{{ {start}['{step}'] }}}}{{% endfor %}}"
        )
        with pytest.raises(Unrenderable):
            rendered(document(sms={"en": {"text": source}}), t="x", l=[1], m={"a": 1}, n=1)


def test_g1_only_what_is_listed_can_be_used() -> None:
    tags = (
        "include 'x'", "render 'x'", "extends 'x'", "block x", "raw", "doc", "liquid", "macro x",
        "tablerow i in l", "increment n", "cycle 1, 2", "echo 1",
    )  # fmt: skip
    for tag in tags:
        with pytest.raises(Malformed, match="There is no tag"):
            compiled(f"{{% {tag} %}}", is_html=True)
        assert tag.split()[0] not in TAGS
    names = ("safe", "raw", "escapejs", "url_decode", "base64_decode", "strip_html", "json", "t")
    for name in names:
        with pytest.raises(Malformed, match="There is no filter"):
            compiled(f"{{{{ 'x' | {name} }}}}", is_html=True)
        assert name not in FILTERS
    for argument in ("context: 1", "environment: 'x'", "arg: 1"):
        with pytest.raises(Malformed, match="no such argument"):
            compiled(f"{{{{ 'x' | append: 'y', {argument} }}}}", is_html=False)


def repeated(source: str, times: int = 40) -> str:
    return source * times


ENDLESS: dict[str, tuple[str, dict[str, Any]]] = {
    "a long loop": ("{% for a in (1..n) %}x{% endfor %}", {"n": 10**9}),
    "a long loop backwards": ("{% for a in (1..n) reversed %}x{% endfor %}", {"n": 10**9}),
    "a long loop by a value": ("{% for a in (0..n) %}{% endfor %}", {"n": 10**30}),
    "a loop of nothing": ("{% for a in (1..19999) %}{% endfor %}", {}),
    "a loop of blanks": ("{% for a in (1..19999) %}{% if 1 == 1 %} {% endif %}{% endfor %}", {}),
    "loops in loops": (
        "{% for a in (1..99) %}{% for b in (1..99) %}{% for c in (1..99) %}{% endfor %}"
        "{% endfor %}{% endfor %}",
        {},
    ),
    "loops one after the other": (repeated("{% for a in (1..9999) %}{% endfor %}"), {}),
    "a loop that takes one of many": (
        "{% for a in (1..9999) %}{% for b in (1..19999) limit: 1 %}{% endfor %}{% endfor %}",
        {},
    ),
    "a loop that leaves out many": (
        "{% for a in (1..9999) %}{% for b in (1..19999) offset: 19998 %}{% endfor %}{% endfor %}",
        {},
    ),
    "a loop that ends when it has turned": (
        "{% for a in (1..9999) %}{% for b in (1..19999) reversed %}{% break %}{% endfor %}"
        "{% endfor %}",
        {},
    ),
    "dates": (
        "{% for a in (1..9999) %}{% assign d = '2026-01-01' | date: f %}{% endfor %}",
        {"f": "%-j" * 85},
    ),
    "a text that doubles": (
        "{% assign s = 'abcdefgh' %}" + repeated("{% assign s = s | append: s %}"),
        {},
    ),
    "a text that doubles in a loop": (
        "{% assign s = 'x' %}{% for a in (1..9999) %}{% assign s = s | append: s %}{% endfor %}",
        {},
    ),
    "a captured text that doubles": (
        "{% assign s = 'abcdefgh' %}" + repeated("{% capture s %}{{ s }}{{ s }}{% endcapture %}"),
        {},
    ),
    "captures that are thrown away": (
        "{% for a in (1..9999) %}{% capture s %}" + "x" * 50_000 + "{% endcapture %}{% endfor %}",
        {},
    ),
    "a list that doubles": (
        "{% assign l = t | split: '' %}" + repeated("{% assign l = l | concat: l %}"),
        {"t": "abcdefgh"},
    ),
    "a replacement that multiplies": (
        "{{ t | replace: 'a', t | replace: 'a', t | replace: 'a', t }}",
        {"t": "a" * 60_000},
    ),
    "a replacement of nothing": ("{{ t | replace: '', t }}", {"t": "a" * 60_000}),
    "a separator that multiplies": ("{{ t | split: '' | join: t }}", {"t": "a" * 30_000}),
    "a number that squares": (
        "{% assign n = 9 %}" + repeated("{% assign n = n | times: n %}") + "{{ n }}",
        {},
    ),
    "a number by its exponent": ("{{ '1e999999999' | plus: 1 }}", {}),
    "a number that overflows": ("{{ n | times: n }}", {"n": 1e300}),
    "long values looked through": (
        "{% for a in (1..9999) %}{% if t contains 'b' %}{% endif %}{% endfor %}",
        {"t": "a" * 60_000},
    ),
    "long values compared": (
        "{% for a in (1..9999) %}{% if l == m %}{% endif %}{% endfor %}",
        {"l": [[[1]] * 3] * 1000, "m": [[[1]] * 3] * 1000},
    ),
    "filters one after the other": (
        "{% for a in (1..999) %}{{ t" + " | upcase | downcase" * 40 + " }}{% endfor %}",
        {"t": "a" * 60_000},
    ),
    "200 MB of output": (
        "{% for a in (1..9999) %}{{ t }}" + "x" * 1000 + "{% endfor %}",
        {"t": "a" * 20_000},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "data"), ENDLESS.values(), ids=ENDLESS.keys())
def test_g1_what_never_ends_ends_within_its_steps_and_bounded_memory(
    source: str, data: dict[str, Any]
) -> None:
    template = compiled(source, is_html=False)
    left = Budget(PART_STEPS)
    tracemalloc.start()
    try:
        with pytest.raises((Exhausted, TooLong, Unrenderable)):
            template.render(data, budget=left)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000
    # What is about to be done is paid for first, so not even the last step goes far beyond.
    assert left.left > -20 * PART_STEPS


def test_g1_the_check_of_a_request_ends_with_the_budget_of_the_request() -> None:
    source = "{% for a in (1..9000) %}{% endfor %}x"  # 9,018 steps in each of 5 languages
    version = document(sms={locale: {"text": source} for locale in ("en", "de", "fr", "it", "es")})
    assert check_document(version) == []
    left = Budget(200_000)
    rounds = 0
    while not (faults := check_use(version, channels=["sms"], data={}, budget=left)):
        rounds += 1
    assert rounds == 4
    assert faults == [Fault("", "too_many", budget.IN_A_REQUEST)]
    assert left.left == 0


def test_g1_the_steps_of_a_rendering_are_the_same_whether_or_not_it_was_compiled() -> None:
    version = document(sms={"en": {"text": "{{ name }} and only here"}})
    first, second = Budget(), Budget()
    for left in (first, second):
        assert check_use(version, channels=["sms"], data={"name": "x"}, budget=left) == []
    assert first.left == second.left < budget.REQUEST_STEPS


SOURCES: dict[str, str] = {
    "braces": "{" * 200_000,
    "an open statement and blanks": "{{" + " " * 200_000,
    "open statements": "{{ a " * 40_000,
    "open tags": "{% if a " * 25_000,
    "raws": "{% raw %}" * 20_000,
    "docs": "{% doc %}" * 20_000,
    "comments": "{% comment %}" * 15_000,
    "blocks in blocks": "{% if a %}" * 15_000,
    "parentheses": ("{{ " + "(" * 900 + " }}") * 200,
    "ranges": ("{% if " + "(1.." * 200 + " %}") * 200,
    "brackets": "{{ " + "a[" * 300 + "a" + "]" * 300 + " }}",
    "conditions": "{% if " + "a and " * 150 + "a %}x{% endif %}",
    "quotes": ("{{ " + "'\"" * 450 + " }}") * 100,
    "numbers": "{{ " + "9" * 950 + ".." + " }}",
    "a loop left outside": "{% break %}",
    "a range for a value": "{% assign l = (1..1000000000) %}",
    "a range looked through": "{% if (1..1000000000) contains 'x' %}x{% endif %}",
    "a range of ranges": "{% for a in (1..(1..9)) %}x{% endfor %}",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_g1_a_source_that_is_hard_to_read_is_refused_with_its_line(source: str) -> None:
    source = f"one\n{source}"
    with pytest.raises(Malformed) as caught:
        compiled(source, is_html=False)
    assert caught.value.detail.startswith(f"Line {caught.value.line}: ")
    assert caught.value.line in (1, 2)
    assert len(caught.value.detail) < 300
    (fault,) = check_document(document(sms={"en": {"text": source}}))
    assert fault.pointer == "/channels/sms/en/text"
    assert fault.code in ("not_allowed", "too_long")


def test_g1_a_version_with_too_many_statements_is_refused() -> None:
    locales = {locale: {"text": f"{{{{ {locale} }}}}" * 2_000} for locale in ("en", "de", "nl")}
    locales |= {locale: {"text": f"{{{{ {locale} }}}}" * 2_000} for locale in ("es", "it", "pt")}
    assert check_document(document(sms=locales)) == []
    locales["fr"] = {"text": "{{ fr }}" * 2_000}
    (fault,) = check_document(document(sms=locales))
    assert (fault.pointer, fault.code) == ("/channels/sms/fr/text", "too_long")


def test_g1_a_language_with_too_many_statements_is_refused() -> None:
    words = {"subject": "x", "text": "{{ a }}" * 1_000, "html": "{{ a }}" * 1_000}
    assert check_document(document(email={"en": words})) == []
    words["text"] += "{{ b }}" * 500
    (fault,) = check_document(document(email={"en": words}))
    assert (fault.pointer, fault.code) == ("/channels/email/en/html", "too_long")


def test_g1_output_stops_at_what_a_part_may_hold() -> None:
    source = "{% for a in (1..30) %}{{ t }}{% endfor %}"
    version = document(email={"en": {"subject": "x", "text": source}})
    assert check_use(version, channels=["email"], data={"t": "a" * 10_000}) == []
    (fault,) = check_use(version, channels=["email"], data={"t": "a" * 17_000})
    assert (fault.pointer, fault.code) == ("/data", "too_long")
    assert fault.detail.startswith("In email, en: ")
    assert MAX_OUTPUT_BYTES >= MAX_TEXT_CHARACTERS
