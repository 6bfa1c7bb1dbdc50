"""`sendoff webhook`: secrets on standard output alone, and a rotation that says what it will do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.command_line import Operator, operator_at
from tests.fake_console import Trouble, no

UNTIL = "2030-01-08T00:00:00.25Z"
FIRST: dict[str, Any] = {
    "action_id": str(UUID(int=9)),
    "organization_id": str(UUID(int=1)),
    "number": 1,
    "secret": "whsec_current",
    "previous": None,
    "of_previous_master": [],
}
SECOND: dict[str, Any] = {
    **FIRST,
    "number": 2,
    "previous": {"secret": "whsec_before", "until": UNTIL},
}


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


def test_the_secret_is_written_to_standard_output_alone(operator: Operator) -> None:
    operator.console.will("webhook.secret", FIRST)
    ended = operator.run("webhook", "secret", "acme")
    assert (ended.status, ended.out) == (0, "whsec_current\n")
    assert "number 1" in ended.err
    assert "whsec_" not in ended.err
    assert operator.console.asked("webhook.secret") == [{"organization": "acme"}]


def test_during_a_rotation_the_one_before_follows_with_its_end(operator: Operator) -> None:
    operator.console.will(
        "webhook.secret", {**SECOND, "of_previous_master": ["whsec_a", "whsec_b"]}
    )
    ended = operator.run("webhook", "secret", "acme")
    assert ended.out.splitlines() == ["whsec_current", "whsec_before", "whsec_a", "whsec_b"]
    assert "until 2030-01-08T00:00:00Z" in ended.err
    assert "last 2 lines" in ended.err
    assert "whsec_" not in ended.err
    operator.console.will("webhook.secret", SECOND)
    assert operator.run("webhook", "secret", "acme", "--json").document == SECOND


def test_a_rotation_says_what_it_will_do_and_asks(operator: Operator) -> None:
    operator.console.will("webhook.rotate", SECOND)
    ended = operator.run("webhook", "rotate", "acme")
    assert (ended.status, ended.out) == (2, "")
    assert operator.console.events == []
    ended = operator.run("webhook", "rotate", "acme", "--yes")
    assert (ended.status, ended.out) == (0, "whsec_current\nwhsec_before\n")
    assert "signs too until 2030-01-08T00:00:00Z" in ended.err
    assert "within a minute" in ended.err
    assert "any more" not in ended.err
    assert operator.console.asked("webhook.rotate") == [{"organization": "acme"}]


def test_what_would_cut_receivers_off_is_refused_and_done_when_asked_for(
    operator: Operator,
) -> None:
    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        return SECOND if arguments.get("at_once") else no("refused", "It would cut them off.")

    operator.console.will("webhook.rotate", answer)
    ended = operator.run("webhook", "rotate", "acme", "--yes", "--json")
    assert (ended.status, ended.document["code"]) == (3, "refused")
    assert ended.err == "It would cut them off.\n"  # and nothing was promised before
    ended = operator.run("webhook", "rotate", "acme", "--now", "--yes", "--json")
    assert (ended.status, ended.document) == (0, SECOND)
    assert "No secret before these signs any more." in ended.err


def test_a_rotation_whose_answer_is_lost_is_told_as_possible_and_not_repeated(
    operator: Operator,
) -> None:
    operator.console.will("webhook.rotate", Trouble(closes=True))
    ended = operator.run("webhook", "rotate", "acme", "--yes")
    assert ended.status == 4
    assert "It may have been done all the same." in ended.err
    assert len(operator.console.events) == 1


def test_a_tenant_that_there_is_not_is_refused(operator: Operator) -> None:
    operator.console.will("webhook.secret", no("not_found", "There is no organization."))
    assert operator.run("webhook", "secret", "nobody").status == 3
    operator.console.will("webhook.rotate", no("not_found", "There is no organization."))
    ended = operator.run("webhook", "rotate", "nobody", "--yes")
    assert (ended.status, ended.err) == (3, "There is no organization.\n")
    assert operator.run("webhook", "secret", "two\nlines").status == 2
