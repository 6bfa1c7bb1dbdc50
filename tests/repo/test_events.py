"""Every recorded event is used by a test, and is named for the function it reaches."""

import json
import re

from tests.repo.repository import files, python_files, text_of
from tests.repo.test_layout import DEPLOYABLE

EVENTS = [path for path in files() if path.parts[0] == "events"]


def test_there_are_events() -> None:
    assert EVENTS


def test_an_event_is_named_for_its_function_and_case() -> None:
    for path in EVENTS:
        match = re.fullmatch(r"([a-z]+)\.[a-z0-9_-]+\.json", path.name)
        assert match, path
        assert match[1] in DEPLOYABLE, path


def test_an_event_is_json() -> None:
    for path in EVENTS:
        assert json.loads(text_of(path))


def test_every_event_is_used_by_a_test() -> None:
    tests = "\n".join(text_of(path) for path in python_files("tests"))
    assert [path.name for path in EVENTS if path.stem not in tests] == []


def test_every_function_has_a_recorded_event() -> None:
    assert {path.name.split(".")[0] for path in EVENTS} == DEPLOYABLE
