"""The demo beside chaos: what the record of kills lets it accept, and what it says then."""

import io
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from functions.cli.chaos_record import Kill, Target, record
from functions.cli.demo import CHAOS_TIMEOUT_SECONDS, TIMEOUT_SECONDS, run, timer
from functions.cli.demo_batch import items
from infra.local.state import StateFolder
from tests.fake_stack import FakeStack, fake_stack, local_of

COUNT = 60
LOST, REFUSED = ("unknown", "lease_expired"), ("transient", "503")


@dataclass(slots=True)
class KilledStack(FakeStack):
    """A stack whose sender is killed, on record, at the moment a batch is posted to it."""

    folder: StateFolder | None = None
    target: Target = Target.SENDER
    kills: int = 1
    attempts: dict[str, list[tuple[str, str]]] = field(
        default_factory=dict[str, list[tuple[str, str]]]
    )
    """Outcome and code by recipient."""
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    reports: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The ends (by recipient) that reports bring, one more with each look at what is pending."""

    def answer(self, method: str, target: str, key: str, body: Any) -> tuple[int, Any]:
        match method, urlsplit(target).path.split("/")[1:]:
            case "POST", ["v1", "notifications", "batches"]:
                self._kill()
            case "GET", ["v1", "notifications", id]:
                return 200, self._detail(id)
            case "GET", ["activity"]:
                pending = len(self.reports)
                if self.reports:
                    self.ends.update(self.reports.pop(0))
                return 200, {"callbacks": {"pending": pending}}
            case _:
                pass
        return FakeStack.answer(self, method, target, key, body)

    def _kill(self) -> None:
        if self.folder is not None:
            for number in range(self.kills):
                kill = Kill(at=now(), target=self.target, name=self.target, pid=number)
                record(self.folder, kill)

    def _row(self, item: dict[str, Any]) -> dict[str, Any]:
        row = FakeStack._row(self, item)
        return row | {"reason": self.reasons.get(item["recipient"])}

    def _detail(self, id: str) -> dict[str, Any]:
        (item,) = (one for posted in self.posted.values() for one in posted if one["id"] == id)
        attempts = self.attempts.get(item["recipient"], [])
        at = now().isoformat()
        return self._row(item) | {
            "created_at": (now() - timedelta(seconds=1)).isoformat(),
            "max_attempts": 5,
            "attempts": [
                {"outcome": outcome, "code": code, "started_at": at} for outcome, code in attempts
            ],
        }


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def stack(tmp_path: Path) -> Generator[KilledStack]:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    with fake_stack(KilledStack(folder=folder)) as stack:
        assert isinstance(stack, KilledStack)
        yield stack


def demo(stack: KilledStack, tmp_path: Path) -> tuple[bool, str]:
    text = io.StringIO()
    is_right = run(
        local_of(stack, str(tmp_path / "state")),
        count=COUNT,
        timeout_seconds=20,
        console=Console(file=text, width=120),
        settle_seconds=0,
    )
    return is_right, text.getvalue()


def recipient_with(behaviour: str) -> str:
    return next(one["recipient"] for one in items(COUNT) if one["recipient"].startswith(behaviour))


def hold(stack: KilledStack, behaviour: str, *attempts: tuple[str, str], reason: str) -> None:
    """Let the first recipient of a behaviour end dead and without an effect."""
    recipient = recipient_with(behaviour)
    stack.ends[recipient], stack.effects[recipient] = "dead", 0
    stack.reasons[recipient], stack.attempts[recipient] = reason, list(attempts)


def test_kills_that_changed_nothing_are_told_of(stack: KilledStack, tmp_path: Path) -> None:
    is_right, text = demo(stack, tmp_path)
    assert is_right
    assert "60 of 60 as expected" in text
    assert re.search(
        r"Chaos ran beside it: 1 kills from [\d:]{8} to [\d:]{8} \(1 sender\), on record in \S+/"
        r"chaos\.log\.\nComplete all the same: nothing lost, nothing doubled\.",
        text,
    ), text


def test_a_budget_spent_by_kills_is_right_and_told_of(stack: KilledStack, tmp_path: Path) -> None:
    hold(stack, "flaky.1", REFUSED, *[LOST] * 4, reason="outcome_unknown")
    is_right, text = demo(stack, tmp_path)
    assert is_right, text
    assert "59 of 60 as expected" in text
    assert "1 more right by the kills: dead, outcome_unknown: the kills spent its attempts." in text
    assert "Complete all the same" in text
    assert re.search(r"flaky .* chaos", text), text


def test_a_crash_loop_by_kills_is_right_and_told_of(stack: KilledStack, tmp_path: Path) -> None:
    stack.kills = 5
    hold(stack, "ok", reason="crash_loop")
    is_right, text = demo(stack, tmp_path)
    assert is_right, text
    assert "1 more right by the kills: dead, crash_loop: the kills ended its starts." in text


def test_the_same_end_is_wrong_where_nothing_was_killed(tmp_path: Path) -> None:
    with fake_stack(KilledStack()) as stack:
        assert isinstance(stack, KilledStack)
        hold(stack, "flaky.1", REFUSED, *[LOST] * 4, reason="outcome_unknown")
        is_right, text = demo(stack, tmp_path)
    assert not is_right
    assert "expected delivered, is dead (outcome_unknown)" in text
    assert "haos" not in text


def test_kills_of_an_earlier_run_excuse_nothing(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    earlier = now() - timedelta(seconds=30)
    record(folder, Kill(at=earlier, target=Target.SENDER, name="sender-email", pid=1))
    with fake_stack(KilledStack()) as stack:
        assert isinstance(stack, KilledStack)
        hold(stack, "flaky.1", REFUSED, *[LOST] * 4, reason="outcome_unknown")
        is_right, text = demo(stack, tmp_path)
    assert not is_right
    assert "haos" not in text


@pytest.mark.parametrize(
    ("behaviour", "attempts", "reason"),
    [
        ("ok", [("rejected", "400")], "rejected"),
        ("ok", [LOST], "outcome_unknown"),
        ("ok", [], "crash_loop"),
    ],
)
def test_another_wrong_end_stays_wrong_beside_chaos(
    stack: KilledStack,
    tmp_path: Path,
    behaviour: str,
    attempts: list[tuple[str, str]],
    reason: str,
) -> None:
    hold(stack, behaviour, *attempts, reason=reason)
    is_right, text = demo(stack, tmp_path)
    assert not is_right
    assert f"expected delivered, is dead ({reason})" in text
    assert "Chaos ran beside it" in text
    assert "Complete" not in text


@pytest.mark.parametrize("effects", [0, 2])
def test_a_lost_or_doubled_effect_stays_wrong_beside_chaos(
    stack: KilledStack, tmp_path: Path, effects: int
) -> None:
    stack.effects[recipient_with("ok")] = effects
    is_right, text = demo(stack, tmp_path)
    assert not is_right
    assert f"expected 1 effects, saw {effects}" in text


def test_a_report_that_is_still_on_its_way_is_waited_for(
    stack: KilledStack, tmp_path: Path
) -> None:
    recipient = recipient_with("ok")
    stack.ends[recipient] = "unconfirmed"
    stack.reports = [{}, {recipient: "delivered"}]
    is_right, text = demo(stack, tmp_path)
    assert is_right, text


def test_an_end_that_no_report_corrects_is_wrong(stack: KilledStack, tmp_path: Path) -> None:
    stack.ends[recipient_with("ok")] = "unconfirmed"
    stack.reports = [{}]
    is_right, text = demo(stack, tmp_path)
    assert not is_right
    assert "expected delivered, is unconfirmed" in text


@pytest.mark.parametrize(
    ("seconds", "is_killed", "limit"),
    [
        (None, False, TIMEOUT_SECONDS),
        (None, True, CHAOS_TIMEOUT_SECONDS),
        (10.0, False, 10.0),
        (10.0, True, 10.0),
    ],
)
def test_beside_chaos_it_has_more_time_unless_it_was_told_how_much(
    tmp_path: Path, seconds: float | None, is_killed: bool, limit: float
) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    times = iter([100.0, 100.0 + limit, 101.0 + limit])
    is_over = timer(folder, seconds=seconds, since=now(), clock=lambda: next(times))
    if is_killed:  # after the demo has begun
        record(folder, Kill(at=now(), target=Target.CLAIM, name="claim", pid=1))
    assert [is_over(), is_over()] == [False, True]
