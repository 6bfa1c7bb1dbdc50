"""FAULTS G1: what work costs. By steps, which are the same everywhere, and never by time; what a
step takes is measured by tests/proof/template_steps.py."""

import json
from decimal import Decimal
from typing import Any

import pytest

from functions.core.content import encoded_bytes
from functions.core.errors import Fault
from functions.templates import budget
from functions.templates.budget import PART_STEPS, Budget
from functions.templates.document import check_document
from functions.templates.engine import MAX_KEPT_STEPS, compiled, reading_steps
from functions.templates.errors import Exhausted
from functions.templates.filters import ARGUMENTS, FILTERS
from functions.templates.render import render
from functions.templates.use import check_use, most_segments
from functions.templates.values import MAX_DATA_BYTES, MAX_DATA_VALUES, Values, canonical
from tests.words import document, everywhere

MANY = 1_000_000


def steps_of(source: str, *, is_html: bool = False, **data: Any) -> int:
    left = Budget(MANY)
    compiled(source, is_html=is_html).render(Values(data).form, budget=left)
    return MANY - left.left


def written(source: str, **data: Any) -> str:
    return compiled(source, is_html=False).render(Values(data).form, budget=Budget(MANY))


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        ("(1..5) reversed", "54321"),
        ("(1..5) offset: 3", "45"),
        ("(1..5) limit: 2 offset: 1 reversed", "32"),
        ("(1..5) limit: 0", "none"),
        ("(1..5) limit: -1", "none"),
        ("(1..5) offset: -2 limit: 1", "1"),
        ("(1..5) offset: 9", "none"),
        ("(3..1)", "none"),
        ("l limit: n", "ab"),
        ("l offset: 1 reversed", "cb"),
        ("s", "text"),
        ("e", "none"),
        ("n", "none"),
    ],
)
def test_a_loop_goes_through_what_it_says(loop: str, words: str) -> None:
    source = f"{{% for i in {loop} %}}{{{{ i }}}}{{% else %}}none{{% endfor %}}"
    assert written(source, l=["a", "b", "c"], n=2, s="text", e=[]) == words


def test_a_loop_goes_on_where_the_last_one_ended() -> None:
    source = "{% for i in l limit: 2 %}{{ i }}{% endfor %}|{% for i in l offset: continue %}"
    assert written(source + "{{ i }}{{ forloop.length }}{% endfor %}", l=list("abcd")) == "ab|c2d2"
    pairs = "{% for p in o reversed %}{{ p[0] }}{{ p[1] }}{% endfor %}"
    assert written(pairs, o={"a": 1, "b": 2}) == "b2a1"


def test_g1_what_a_loop_over_a_range_leaves_out_is_not_made() -> None:
    """So it costs nothing, and may: see the proof."""
    rest = "%}{% break %}{% endfor %}"
    for loop in ("reversed", "offset: 19998", "limit: 1", "offset: 9000 limit: 1 reversed"):
        short, long = (
            steps_of(f"{{% for a in (1..{number}) {loop}{rest}") for number in (2, 19_999)
        )
        assert abs(short - long) <= 3
    for loop in ("reversed", "offset: 999", "limit: 1"):  # a list is paid for as a whole
        assert steps_of(f"{{% for a in l {loop}{rest}", l=[1] * 1000) > 1000
        assert steps_of(f"{{% for a in l {loop}{rest}", l={str(n): 1 for n in range(1000)}) > 1000


TEXT = "a&b c\n" * 1000


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("is_html", [True, False])
def test_g1_every_filter_pays_for_what_it_handles(name: str, is_html: bool) -> None:
    """At the least a step for 64 characters or an element, given or made."""
    given: dict[str, Any] = {
        "t": TEXT, "l": [{"k": number, "t": "x"} for number in range(1000)], "f": "%Y" * 100,
        "n": list(range(1000)), "s": ["x"] * 1000,
    }  # fmt: skip
    uses = {
        "date": ("'2026-01-01' | date: f", 400),
        "default": ("t | default: t", 2 * len(TEXT) // 64),
        "compact": ("n | compact", 2000),
        "concat": ("n | concat: n", 4000),
        "first": ("n | first", 1000),
        "last": ("n | last", 1000),
        "map": ("l | map: 'k'", 4000),
        "reverse": ("n | reverse", 2000),
        "sort": ("n | sort", 4000),
        "sort_natural": ("n | sort_natural", 4000),
        "where": ("l | where: 'k', 1", 3000),
        "join": ("s | join: t | size", 0),
        "sum": ("n | sum", 4000),
        "slice": ("t | slice: 0, 9000", 2 * len(TEXT) // 64),
        "split": ("t | split: ''", len(TEXT)),
        "remove": ("t | remove: 'zz'", 2 * len(TEXT) // 64),
        "remove_first": ("t | remove_first: 'zz'", 2 * len(TEXT) // 64),
        "replace": ("t | replace: 'a', 'bbb'", 1000 // 8 + 4 * len(TEXT) // 64),
        "replace_first": ("t | replace_first: 'zz', 'x'", 2 * len(TEXT) // 64),
        "append": ("t | append: t", 4 * len(TEXT) // 64),
        "prepend": ("t | prepend: t", 4 * len(TEXT) // 64),
        "escape": ("t | escape", 2 * len(TEXT) // 64),
        "escape_once": ("t | escape_once", 3000),
    }
    if name == "join":
        with pytest.raises(Exhausted):
            compiled("{% assign x = s | join: t %}", is_html=is_html).render(
                Values({"s": ["x"] * 80, "t": "y" * 5000}).form, budget=Budget(4000)
            )
        return
    if ARGUMENTS[name] == range(1) or name in uses:
        use, least = uses.get(name, (f"t | {name}", len(TEXT) // 64))
        if name in ("abs", "ceil", "floor"):
            use, least = f"1.5 | {name}", 5
    else:
        use, least = f"'7' | {name}: 2", 4
        if "truncate" in name:
            use, least = f"t | {name}: 9000", len(TEXT) // 64
    assert steps_of(f"{{% assign x = {use} %}}", is_html=is_html, **given) >= least


@pytest.mark.parametrize(
    ("source", "data", "least"),
    [
        ("{{ 1" + " | abs" * 100 + " }}", {}, 400),
        ("{{ a" + ".b" * 400 + " | default: 1 }}", {"a": 1}, 200),
        ("{% case t %}{% when blank" + ",blank" * 99 + "%}{% endcase %}", {"t": " " * 6400}, 9999),
        ("{% for a in o['" + "q" * 800 + "'] %}{% endfor %}", {"o": {"q" * 800: []}}, 100),
        ("{% if t contains u %}{% endif %}", {"t": "a" * 6400, "u": "b" * 6400}, 200),
        ("{% if l == m %}{% endif %}", {"l": [[1] * 10] * 50, "m": [[1] * 10] * 50}, 1100),
        ("{% capture c %}{{ t }}{{ t }}{% endcapture %}{{ c }}", {"t": "a" * 6400}, 800),
    ],
)  # fmt: skip
def test_g1_whatever_grows_with_a_template_or_a_value_is_paid_for(
    source: str, data: dict[str, Any], least: int
) -> None:
    assert steps_of(source, **data) >= least


def test_g1_the_form_of_a_date_is_short() -> None:
    version = everywhere("{{ '2026-01-01' | date: f }}")
    assert check_use(version, channels=["sms"], data={"f": "%d" * 128}) == []
    (fault,) = check_use(version, channels=["sms"], data={"f": "%d" * 129})
    assert "at most 256 characters" in fault.detail


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("{{ 1" + "|abs" * 100 + "}}", 201),
        ("{{ a" + ".b" * 100 + "}}", 201),
        ("{% case 1 %}{% when 1" + ",1" * 100 + "%}{% endcase %}", 204),
        ("{% if 1 %}{% endif %}", 3),
    ],
)
def test_g1_reading_is_paid_for_by_the_word(statement: str, words: int) -> None:
    one, eleven = (reading_steps(statement * times, is_html=False) for times in (1, 11))
    assert eleven - one >= 10 * (4 * words + 14)
    assert compiled(statement, is_html=False).steps == one


def test_g1_the_bounds_lie_within_each_other() -> None:
    assert PART_STEPS <= budget.NOTIFICATION_STEPS <= budget.ITEM_STEPS <= budget.REQUEST_STEPS
    assert budget.PLACE_READING_STEPS <= budget.VERSION_READING_STEPS
    assert budget.VERSION_READING_STEPS <= budget.REQUEST_READING_STEPS <= MAX_KEPT_STEPS
    # Ten notifications of a sender: a second or two.
    assert 10 * (budget.PLACE_READING_STEPS + budget.NOTIFICATION_STEPS) <= 1_000_000


TURNING = "{% for a in (1..19000) %}{% endfor %}x"


def test_g1_the_parts_of_a_notification_share_their_steps() -> None:
    version = document(email={"en": {"subject": "s", "text": TURNING, "html": TURNING}})
    assert check_use(version, channels=["email"], data={}) == []
    version["channels"]["email"]["en"]["subject"] = TURNING
    (fault,) = check_use(version, channels=["email"], data={})
    detail = f"In email, en: html: {budget.IN_A_NOTIFICATION} (line 1)"
    assert fault == Fault("/data", "too_many", detail)
    with pytest.raises(Exhausted):
        render(version, channel="email", locale="en", data={})


def test_g1_the_languages_of_an_item_share_their_steps() -> None:
    locales = {f"a{letter}": {"text": TURNING} for letter in "abcdefghijklmnop"}
    few = dict(list(locales.items())[:15])
    left = Budget()
    assert check_use(document("aa", sms=few), channels=["sms"], data={}, budget=left) == []
    assert check_use(document("aa", sms=locales), channels=["sms"], data={}, budget=left) == [
        Fault("", "too_many", budget.IN_AN_ITEM)
    ]
    assert left.left > 0  # it is the item alone that is at fault


def test_g1_a_batch_that_takes_too_much_says_that_it_is_the_batch() -> None:
    version = document(sms={"en": {"text": TURNING}})
    left = Budget(30_000)
    assert check_use(version, channels=["sms"], data={}, budget=left) == []
    for _ in range(2):
        assert check_use(version, channels=["sms"], data={}, budget=left) == [
            Fault("", "too_many", budget.IN_A_REQUEST)
        ]
    assert left.left <= 0
    with pytest.raises(Exhausted):
        most_segments(version, data={}, budget=left)


def test_g1_reading_is_charged_once_whether_or_not_it_was_read_before() -> None:
    versions = [
        document(sms={"en": {"text": "{{ a }}" * 1_900 + f"{number}"}}) for number in range(30)
    ]
    outcomes: list[list[bool]] = []
    for _ in range(2):
        left = Budget()
        outcomes.append(
            [
                any(
                    fault.code == "too_many"
                    for fault in check_use(version, channels=["sms"], data={}, budget=left)
                )
                for version in versions
            ]
        )
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].count(False) == MAX_KEPT_STEPS // reading_steps(
        versions[10]["channels"]["sms"]["en"]["text"], is_html=False
    )


@pytest.mark.parametrize(
    "number", [1e300, -1e22, 1e16, 1.0, 0.0, -0.0, 1e-7, 5e-324, 0.1, 123456789012345678901234]
)
def test_g2_numbers_are_measured_and_written_as_they_come_back(number: Any) -> None:
    """As jsonb gives them back: every digit, and no exponent."""
    stored: Any = json.loads(format(Decimal(json.dumps(number)), "f"))
    assert canonical(stored) == canonical(number)
    assert type(canonical(stored)) is type(canonical(number))
    assert encoded_bytes(canonical(stored)) == encoded_bytes(canonical(number))
    assert written("{{ n }}", n=stored) == written("{{ n }}", n=number)
    assert "e" not in written("{{ n }}", n=number)


def test_g2_data_that_would_grow_in_the_database_is_measured_as_it_grows() -> None:
    version = document(sms={"en": {"text": "{{ l.size }}"}})
    fits = MAX_DATA_BYTES // 302 - 1
    assert check_use(version, channels=["sms"], data={"l": [1e300] * fits}) == []
    for count in (fits + 2, 9_000):
        (fault,) = check_use(version, channels=["sms"], data={"l": [1e300] * count})
        assert (fault.pointer, fault.code) == ("/data", "too_long")
    stored = json.loads(json.dumps({"l": [10**300] * fits}))
    assert render(version, channel="sms", locale="en", data=stored) == str(fits)
    (fault,) = check_use(version, channels=["sms"], data={"l": [0] * (MAX_DATA_VALUES + 1)})
    assert (fault.pointer, fault.code) == ("/data", "too_many")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% for a in (1..1000000000) %}x{% endfor %}", "at most 20000 numbers"),
        ("{% for a in (1..20001) reversed limit: 1 %}x{% endfor %}", "at most 20000 numbers"),
        ("{{ x | date }}", "has 1 argument, not 0"),
        ("{{ x | append }}", "has 1 argument, not 0"),
        ("{{ x | append: 1, 2 }}", "has 1 argument, not 2"),
        ("{{ x | upcase: 1 }}", "has 0 arguments, not 1"),
        ("{{ x | replace: 'a', 'b', 'c' }}", "has 1 to 2 arguments, not 3"),
        ("{{ x | append: 'a', allow_false: true }}", "no such argument"),
        ("{% comment %}{{ x }}{% endcomment %}\n{% # nothing %}", "empty, whatever"),
        ("{% assign a = x %}{% capture b %}x{% endcapture %} ", "empty, whatever"),
    ],
)
def test_g1_what_can_never_be_rendered_is_refused_when_it_is_published(
    source: str, words: str
) -> None:
    faults = check_document(everywhere(source))
    pointers = [fault.pointer.removeprefix("/channels/") for fault in faults]
    assert all(words in fault.detail for fault in faults)
    every = [
        "email/en/subject", "email/en/text", "email/en/html", "sms/en/text", "push/en/title",
        "push/en/body",
    ]  # fmt: skip
    if "empty" in words:  # one part of those that are alike is enough
        every = ["email/en/subject", "email/en/text", "sms/en/text", "push/en/title"]
    assert pointers == every


def test_what_may_be_rendered_can_be_published() -> None:
    for source in (
        "{% for a in (1..20000) %}{% break %}{% endfor %}x",
        "{{ x | default: 1, allow_false: true }}{{ x | default }}",
        "{{ x | truncate }}{{ x | truncate: 5 }}{{ x | truncate: 5, '' }}",
        "{% if x %}{{ x }}{% endif %}",
    ):
        assert check_document(everywhere(source)) == []
    silent = document(push={"en": {"title": "{% # none %}", "body": "x"}})
    assert check_document(silent) == []
