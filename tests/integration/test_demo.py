"""The demo against an API and a simulator that can be wrong in every way it must notice."""

import io
import re
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from functions.cli.demo import run
from functions.cli.demo_batch import items
from functions.cli.demo_client import DemoFailed
from infra.local.state import StateFolder
from tests.fake_stack import FakeStack, fake_stack, local_of

COMMAND = (
    sys.executable,
    "-c",
    "import typer; from functions.cli.demo import demo; typer.run(demo)",
)


@pytest.fixture
def stack() -> Generator[FakeStack]:
    with fake_stack(FakeStack()) as stack:
        yield stack


@dataclass(slots=True)
class Outcome:
    is_right: bool
    text: str


def demo(stack: FakeStack, *, count: int = 60, timeout_seconds: float = 60) -> Outcome:
    console = Console(file=io.StringIO(), width=120)
    is_right = run(
        local_of(stack),
        count=count,
        timeout_seconds=timeout_seconds,
        console=console,
        settle_seconds=0,
    )
    assert isinstance(console.file, io.StringIO)
    return Outcome(is_right, console.file.getvalue())


def recipient_with(behaviour: str) -> str:
    """Return the demo's first email recipient of a behaviour."""
    return next(one["recipient"] for one in items(60) if one["recipient"].startswith(behaviour))


def test_it_is_right_when_every_item_ends_as_its_recipient_says(stack: FakeStack) -> None:
    outcome = demo(stack, count=1000)
    assert outcome.is_right
    assert "1000 of 1000 as expected; 950 effects, 950 expected." in outcome.text
    assert "From accept to the last final state: 7.5 s." in outcome.text
    cells = [re.split(" {2,}", line.strip()) for line in outcome.text.splitlines()]
    assert [
        "email",
        "bounce",
        "12",
        "failed + suppression",
        "failed + suppression",
        "12",
        "12",
        "ok",
    ] in cells


def test_one_wrong_end_is_enough_and_is_named(stack: FakeStack) -> None:
    recipient = recipient_with("ok")
    stack.ends[recipient] = "dead"
    outcome = demo(stack)
    assert not outcome.is_right
    assert re.search(
        rf"0199aaaa-[0-9a-f-]+  email {re.escape(recipient)}: expected delivered, is dead",
        outcome.text,
    )
    assert "59 of 60 as expected" in outcome.text


@pytest.mark.parametrize(("behaviour", "effects"), [("ok", 2), ("ok", 0), ("reject", 1)])
def test_one_doubled_lost_or_forbidden_effect_is_enough(
    stack: FakeStack, behaviour: str, effects: int
) -> None:
    stack.effects[recipient_with(behaviour)] = effects
    outcome = demo(stack)
    assert not outcome.is_right
    assert f"effects, saw {effects}" in outcome.text


def test_a_bounce_that_suppresses_nobody_is_wrong() -> None:
    class Forgetful(FakeStack):
        def suppress(self, channel: str, recipient: str | None) -> None:
            return

    with fake_stack(Forgetful()) as forgetful:
        outcome = demo(forgetful)
    assert not outcome.is_right
    assert "the address is not suppressed" in outcome.text


def test_at_most_ten_offenders_are_named() -> None:
    class Broken(FakeStack):
        def status_of(self, item: dict[str, Any]) -> str:
            return "dead"

    with fake_stack(Broken()) as broken:
        outcome = demo(broken)
    assert not outcome.is_right
    assert outcome.text.count(", is dead") == 10
    assert re.search(r"… and \d+ more", outcome.text)


def test_suppressions_of_its_recipients_are_lifted_and_no_others(stack: FakeStack) -> None:
    recipient = recipient_with("ok")
    stack.suppress("email", recipient.upper())
    stack.suppress("email", "somebody@example.com")
    stack.suppress("sms", None)
    # The fake lifts by the recipient as the fact has it.
    assert demo(stack).is_right
    left = [one["recipient"] for one in stack.suppressions]
    assert "somebody@example.com" in left
    assert None in left
    assert recipient.upper() not in left


def test_each_run_has_a_fresh_key_and_batches_of_at_most_a_thousand(stack: FakeStack) -> None:
    assert demo(stack, count=2010).is_right
    assert [len(items) for items in stack.posted.values()] == [1000, 1000, 10]
    assert len({item["recipient"] for items in stack.posted.values() for item in items}) == 2010
    stack.suppressions.clear()
    stack.posted, before = {}, set(stack.posted)
    assert demo(stack, count=10).is_right
    assert before.isdisjoint(stack.posted)


def test_webhook_recipients_lie_at_the_simulator_of_the_stack(stack: FakeStack) -> None:
    demo(stack)
    (items,) = stack.posted.values()
    hooks = [item["recipient"] for item in items if item["channel"] == "webhook"]
    assert hooks
    assert all(hook.startswith(f"{stack.origin}/hooks/") for hook in hooks)


def test_lost_connections_and_a_stack_under_repair_are_asked_again(stack: FakeStack) -> None:
    stack.failures = [0, 502, 404, 503]
    outcome = demo(stack)
    assert outcome.is_right
    assert "asking again" in outcome.text


def test_what_has_not_ended_in_time_is_wrong_and_it_says_what_it_waited_for() -> None:
    class Slow(FakeStack):
        def status_of(self, item: dict[str, Any]) -> str:
            return "submitted"

    with fake_stack(Slow(is_completed=False)) as slow:
        outcome = demo(slow, timeout_seconds=1)
    assert not outcome.is_right
    assert "60 await a report" in outcome.text


def test_an_api_that_never_answers_fails_in_words(stack: FakeStack) -> None:
    stack.failures = [503] * 100
    with pytest.raises(DemoFailed, match="got no answer: HTTP 503"):
        demo(stack, timeout_seconds=1)


@pytest.mark.parametrize(("end", "status"), [("delivered", 0), ("dead", 1)])
def test_the_exit_status_tells(stack: FakeStack, tmp_path: Path, end: str, status: int) -> None:
    stack.ends[recipient_with("ok")] = end
    folder = StateFolder(tmp_path / "state")
    folder.create()
    with folder.held():
        folder.publish(local_of(stack, str(folder.path)))
        done = subprocess.run(
            [*COMMAND, "--items", "60", "--state-dir", str(folder.path)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == status, done.stderr
    assert "Expected and seen" in done.stdout
