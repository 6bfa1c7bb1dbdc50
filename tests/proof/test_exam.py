"""The exam of the exam fits the code: each guard can be found, so that it can be removed."""

from pathlib import Path

import pytest

from tests.proof.exam import REPOSITORY, examine, occurrences
from tests.proof.exam_guards import GUARDS, Guard


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_stands_in_its_file_exactly_once_and_names_its_tests(guard: Guard) -> None:
    assert occurrences(guard) == 1
    assert all((REPOSITORY / Path(test)).is_file() for test in guard.tests)


@pytest.mark.soak
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_the_guard_a_test_turns_red(guard: Guard) -> None:
    verdict = examine(guard)
    assert verdict.test is not None, verdict.output
