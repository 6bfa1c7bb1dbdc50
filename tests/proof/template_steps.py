"""Measure what a step of a template takes, over templates that are made to take more than they pay
for, and what the heaviest of everything takes, and print both.

What is accepted is bounded in steps, so a step that takes long is a door to a request or a sender
that takes long. Exits 1 if a step of rendering or reading takes beyond 5 µs of this machine's
processor, or ten of the heaviest notifications beyond 3 s. Other work on the machine hardly counts:
what is measured is the time of the processor.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from functions.core.errors import SendoffError
from functions.templates.budget import (
    PART_STEPS,
    PLACE_READING_STEPS,
    VERSION_READING_STEPS,
    Budget,
)
from functions.templates.document import check_document
from functions.templates.engine import Compiled, compiled, reading_steps
from functions.templates.errors import Unrenderable
from functions.templates.filters import FILTERS
from functions.templates.render import render
from functions.templates.use import check_use
from functions.templates.values import Values
from tests.words import document

AT_MOST_MICROSECONDS = 5.0
AT_MOST_SECONDS = 3.0
ROUNDS = 3
SHOWN = 25
FIXED_STEPS = 200
"""Below so many steps it is the beginning that is measured."""

TEXTS = {
    "ampersands": "&" * 60_000,
    "lines": "\n" * 30_000,
    "words": "a " * 30_000,
    "sharp s": "ß" * 30_000,
    "accents": "é" * 30_000,
    "entities": "&lt;" * 15_000,
    "no entities": "&abcdefghijklmnopqrstuvwxyzabcdef" * 1_800,
    "commas": "a," * 5_000,
    "short": "a",
}
LISTS: dict[str, Any] = {
    "numbers": list(range(5_000)),
    "objects": [{"a": number} for number in range(2_000)],
    "texts": ["abc" * 5] * 2_000,
    "long texts": ["a" * 1_000] * 60,
    "nested": [[[[[[1] * 10]]]]] * 200,
}
ARGUMENTS = {
    "append": "x", "prepend": "x", "remove": "'a'", "remove_first": "'zz'", "slice": "0, 99999",
    "replace": "'a', 'bb'", "replace_first": "'zz', 'b'", "split": "''", "truncate": "999999",
    "truncatewords": "99999", "concat": "x", "map": "'a'", "where": "'a', 1", "join": "','",
    "default": "1", "date": "x", "at_least": "2.5", "at_most": "2.5", "divided_by": "2.5",
    "minus": "2.5", "modulo": "2.5", "plus": "2.5", "times": "2.5",
}  # fmt: skip

NASTY: dict[str, tuple[str, dict[str, Any]]] = {
    "a number": ("{{ i }} ", {}),
    "a range backwards": ("{% for a in (1..20000) reversed %}{% break %}{% endfor %}", {}),
    "a range's last": ("{% for a in (1..20000) offset: 19999 %}{% endfor %}", {}),
    "a list's last": ("{% for a in x offset: 999 %}{% endfor %}", {"x": [1] * 1_000}),
    "an object backwards": (
        "{% for a in x reversed %}{% break %}{% endfor %}",
        {"x": {str(number): 1 for number in range(1_000)}},
    ),
    "a loop by a long name": (
        "{% for a in x['" + "q" * 900 + "'] %}{% endfor %}",
        {"x": {"q" * 900: []}},
    ),
    "loops in loops": ("{% for a in (1..2) %}" * 9 + "{% endfor %}" * 9, {}),
    "a long path": ("{{ a" + ".b" * 480 + " | default: 1 }}", {"a": 1}),
    "a chain of filters": ("{{ 1" + " | abs" * 160 + " }}", {}),
    "a chain of sums": ("{{ 1.5" + " | plus: 0.1" * 80 + " }}", {}),
    "a choice of blanks": (
        "{% case x %}{% when blank" + ", blank" * 110 + " %}{% endcase %}",
        {"x": " " * 60_000},
    ),
    "a choice of numbers": ("{% case x %}{% when 1" + ", 1" * 300 + " %}{% endcase %}", {"x": 2}),
    "a search that nearly finds": (
        "{% if x contains y %}{% endif %}",
        {"x": "a" * 29_000, "y": "a" * 49 + "b" + "a" * 49},
    ),
    "a replacement of nothing found": (
        "{% assign q = x | replace: y, '' %}",
        {"x": "a" * 29_000, "y": "a" * 49 + "b" + "a" * 49},
    ),
    "long dates": ("{{ '2026-01-01T00:00:00Z' | date: x }}", {"x": "%-j" * 85}),
    "dates": ("{{ '2026-01-01T00:00:00Z' | date: x }}", {"x": "%z" * 128}),
    "lists compared": (
        "{% if x == y %}{% endif %}",
        {"x": [[1] * 50] * 100, "y": [[1] * 50] * 100},
    ),
    "long output": ("{{ x }}", {"x": "'" * 60_000}),
    "a captured text": ("{% capture c %}{{ x }}{% endcapture %}", {"x": "a" * 6_000}),
    "a number of 4,000 digits": ("{{ x }}", {"x": 10**4_000}),
    "a tiny number": ("{{ x }}", {"x": 1e-300}),
    "conditions": ("{% if i == 1 or i > 3 and i < 9 or true %}{% endif %}", {}),
    "branches": ("{% if false %}" + "{% elsif false %}" * 50 + "{% endif %}", {}),
    "literal text": ("☃" * 900, {}),
}

SOURCES = {
    "small statements": "{{1}}" * 2_000,
    "blocks": "{%if 1%}{%endif%}" * 900,
    "filters": ("{{ 1" + "|abs" * 240 + "}}") * 15,
    "paths": ("{{ a" + ".b" * 480 + "}}") * 10,
    "choices": ("{% case 1 %}{% when 1" + ",1" * 480 + "%}{% endcase %}") * 9,
    "conditions": ("{% if true" + " and 1" * 30 + "%}{% endif %}") * 120,
    "assignments": "{% assign a = b %}" * 1_200,
    "loops in loops": ("{% for a in b %}" * 19 + "x" + "{% endfor %}" * 19) * 40,
    "blanks": ("{{ a" + " " * 990 + "}}") * 240,
    "quoted words": ("{{ 1 | default: '" + "a " * 400 + "' }}") * 240,
    "text": "abc def " * 32_000,
    "braces": "{ " * 120_000,
    "comments": ("{% comment %}" + "{{ a }}" * 300 + "{% endcomment %}") * 7,
    "inline comments": ("{% # " + "a " * 400 + " %}") * 250,
}


def templates() -> Iterator[tuple[str, str, dict[str, Any], bool]]:
    """Yield what is rendered: a name, a source that goes on for as long as it may, its values, and
    whether it is HTML."""
    for name, (body, data) in NASTY.items():
        for is_html in (False, True):
            yield name, turning(body), data, is_html
    for name in FILTERS:
        applied = f"{name}: {ARGUMENTS[name]}" if name in ARGUMENTS else name
        for what, value in (TEXTS | LISTS).items():
            for is_html in (False, True):
                body = f"{{% assign q = x | {applied} %}}"
                yield f"{name} of {what}", turning(body), {"x": value}, is_html
                if isinstance(value, str) and is_html:
                    captured = "{% capture c %}{{ x }}{% endcapture %}"
                    source = captured + turning(f"{{% assign q = c | {applied} %}}")
                    yield f"{name} of captured {what}", source, {"x": value[:20_000]}, is_html
        for number in (1.5, 7):
            yield (
                f"{name} of {number}",
                turning(f"{{% assign q = x | {applied} %}}"),
                {"x": number},
                False,
            )


def turning(body: str) -> str:
    return f"{{% for i in (1..20000) %}}{body}{{% endfor %}}"


def rendering(template: Compiled, data: dict[str, Any]) -> tuple[int, float]:
    """Return the steps that a rendering took, and its best time."""
    values, best, steps = Values(data).form, float("inf"), 0
    for _ in range(ROUNDS):
        left = Budget(PART_STEPS)
        begun = time.process_time()
        with suppress(Unrenderable):
            template.render(values, budget=left)
        best = min(best, time.process_time() - begun)
        steps = PART_STEPS - max(left.left, 0)
    return steps, best


def reading(source: str) -> tuple[int, float]:
    best = float("inf")
    for number in range(ROUNDS):  # another one each time: what is kept is not read
        begun = time.process_time()
        compiled(f"{source}{number}", is_html=False)
        best = min(best, time.process_time() - begun)
    return reading_steps(f"{source}0", is_html=False), best


def filled(unit: str, body: str, *, number: int) -> dict[str, Any]:
    """Return a version that takes as long to read, and to render, as one may."""
    least, most = 0, PLACE_READING_STEPS // 20
    while least < most:
        middle = (least + most + 1) // 2
        text = "{% if no %}" + unit * middle + f"{{% endif %}}{body}{number}"
        words = {"subject": f"{number}", "text": text, "html": f"{body}{number}"}
        if check_document(document(email={"en": words})):
            most = middle - 1
        else:
            least = middle
    text = "{% if no %}" + unit * least + f"{{% endif %}}{body}{number}"
    words = {"subject": f"{number}", "text": text, "html": f"{body}{number}"}
    return document(email={"en": words})


HEAVY = {
    "small statements": "{{1}}",
    "choices": "{% case 1 %}{% when 1" + ",1" * 80 + "%}{% endcase %}",
    "conditions": "{% if true and 1 and 1 and 1 %}{% endif %}",
    "loops": "{% for a in b %}{% endfor %}",
}


def ten_heaviest() -> Iterator[tuple[str, float]]:
    """Yield what a sender needs for ten notifications, each by another heaviest version."""
    data = {"no": False, "b": [1]}
    for name, unit in HEAVY.items():
        for turns, body in ((1_300, "{{ 1.5 | plus: 0.1 }}"), (2_000, "{{ i }}")):
            text = f"{{% for i in (1..{turns}) %}}{body}{{% endfor %}}"
            versions = [filled(unit, text, number=number) for number in range(10)]
            assert check_use(versions[0], channels=["email"], data=data) == []
            for number in range(200):  # what was kept of them goes
                compiled(f"{number}".ljust(200_000, "x"), is_html=False)
            begun = time.process_time()
            for version in versions:
                render(version, channel="email", locale="en", data=data)
            yield f"{name}, {body}", time.process_time() - begun


def main() -> None:
    renderings: list[tuple[float, str, int, float]] = []
    for name, source, data, is_html in templates():
        try:
            steps, seconds = rendering(compiled(source, is_html=is_html), data)
        except SendoffError:
            continue
        if steps >= FIXED_STEPS:
            kind = f"{name}{' (HTML)' if is_html else ''}"
            renderings.append((seconds / steps * 1e6, kind, steps, seconds))
    readings = [
        (seconds / steps * 1e6, name, steps, seconds)
        for name, source in SOURCES.items()
        for steps, seconds in [reading(source)]
    ]
    console = Console(highlight=False)
    console.print(shown(f"Rendering, the worst of {len(renderings)}", renderings))
    console.print(shown("Reading", readings))
    worst_version = max(readings)[0] * VERSION_READING_STEPS / 1e6
    console.print(f"The heaviest version is read in {worst_version:.2f} s.")
    sets = list(ten_heaviest())
    for name, seconds in sets:
        console.print(f"Ten of the heaviest notifications ({name}): {seconds:.2f} s.")
    is_well = max(*renderings, *readings)[0] <= AT_MOST_MICROSECONDS
    is_well = is_well and max(seconds for _, seconds in sets) <= AT_MOST_SECONDS
    sys.exit(0 if is_well else 1)


def shown(title: str, rows: list[tuple[float, str, int, float]]) -> Table:
    table = Table("µs/step", "what", "steps", "ms", title=title, box=box.SIMPLE)
    for microseconds, name, steps, seconds in sorted(rows, reverse=True)[:SHOWN]:
        table.add_row(f"{microseconds:.2f}", name, f"{steps:,}", f"{seconds * 1000:.1f}")
    return table


if __name__ == "__main__":
    main()
