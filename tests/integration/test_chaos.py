"""`sendoff chaos` on processes that look like a running stack's: what dies, when, and what not."""

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from functions.cli.chaos import Chaos
from functions.cli.chaos_record import Kill, Target, kills, record
from functions.cli.chaos_victims import has_deployed, victims
from infra.local.state import StateFolder
from tests.local import LOCAL, command, is_alive, is_gone, until
from tests.running_stack import NOTHING, RunningStack, running_stack

WORKERS = (
    "sender-email-a1b2c3d4", "sender-email-_9aaaaaa", "sender-sms-q7q7q7q7", "claim-zz_zz_zz",
    "ingest-k2k2k2k2", "callbacks-sender00",
)  # fmt: skip
WITHOUT_EMULATOR = (Target.SENDER, Target.CLAIM, Target.POSTGRES)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def stack(tmp_path: Path) -> Generator[RunningStack]:
    with running_stack(tmp_path / "state folder", workers=WORKERS) as stack:
        yield stack


@dataclass(slots=True)
class Clock:
    """Time that passes only while somebody sleeps."""

    now: float = 0.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass(slots=True)
class Run:
    """A run of chaos by a clock of its own; ``said`` has the kills and their times."""

    folder: StateFolder
    every: dict[Target, float]
    serves: Mapping[Target, Callable[[], bool]] = field(
        default_factory=dict[Target, Callable[[], bool]]
    )
    seed: int = 1
    clock: Clock = field(default_factory=Clock)
    said: list[tuple[float, Kill]] = field(default_factory=list[tuple[float, Kill]])
    chaos: Chaos = field(init=False)

    def go(self, seconds: float) -> bool:
        self.chaos = Chaos(
            folder=self.folder,
            every=self.every,
            serves=self.serves,
            dice=random.Random(self.seed),
            clock=self.clock.read,
            sleep=self.clock.sleep,
        )
        return self.chaos.go(seconds=seconds, say=self._hear)

    def _hear(self, kill: Kill) -> None:
        until(lambda: is_gone(kill.pid))
        self.said.append((self.clock.now, kill))


def names(stack: RunningStack, target: Target) -> dict[int, str]:
    return {victim.process.pid: victim.name for victim in victims(stack.folder, target)}


def test_each_target_is_found_below_the_supervisor_and_nothing_else(stack: RunningStack) -> None:
    pids = stack.pids
    assert names(stack, Target.POSTGRES) == {pids["postgres"]: "postgres"}
    assert names(stack, Target.EMULATOR) == {pids["emulator"]: "emulator"}
    assert names(stack, Target.CLAIM) == {pids["claim-zz_zz_zz"]: "claim"}
    assert names(stack, Target.SENDER) == {
        pids["sender-email-a1b2c3d4"]: "sender-email",
        pids["sender-email-_9aaaaaa"]: "sender-email",
        pids["sender-sms-q7q7q7q7"]: "sender-sms",
    }


def test_the_same_processes_elsewhere_are_not_meant(stack: RunningStack, tmp_path: Path) -> None:
    worker = f"{stack.folder.temporary}/ministack-lambda-sendoff-sender-push-x/_worker.py"
    with (
        running_stack(tmp_path / "other", workers=WORKERS) as other,
        subprocess.Popen(
            [sys.executable, "-c", NOTHING, worker], stdin=subprocess.PIPE
        ) as stranger,
    ):
        every = {
            victim.process.pid for target in Target for victim in victims(stack.folder, target)
        }
        assert every < set(stack.pids.values())
        killed: set[int] = set()
        for targets in (WITHOUT_EMULATOR, [Target.EMULATOR]):  # which would take its workers along
            run = Run(stack.folder, dict.fromkeys(targets, 1.0))
            run.go(30)
            killed |= {kill.pid for _, kill in run.said}
        assert killed == every
        assert all(is_alive(pid) for pid in other.pids.values())
        assert is_alive(stranger.pid)
        stranger.communicate()


def test_where_no_stack_runs_there_is_nothing_to_kill(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    assert [victims(folder, target) for target in Target] == [[]] * len(Target)


def test_only_what_was_named_is_killed_one_after_another(stack: RunningStack) -> None:
    run = Run(stack.folder, {Target.SENDER: 3.0})
    assert run.go(60)
    assert sorted(kill.name for _, kill in run.said) == ["sender-email"] * 2 + ["sender-sms"]
    times = [at for at, _ in run.said]
    gaps = [later - sooner for sooner, later in zip([0.0, *times], times, strict=False)]
    assert all(1.5 <= gap <= 4.75 for gap in gaps), gaps
    assert run.chaos.missed[Target.SENDER] > 5
    others = {"postgres", "claim-zz_zz_zz", "ingest-k2k2k2k2", "callbacks-sender00"}
    assert all(is_alive(stack.pids[name]) for name in others)


def test_a_process_that_has_ended_by_itself_is_no_error(stack: RunningStack) -> None:
    (victim,) = victims(stack.folder, Target.CLAIM)
    victim.process.kill()
    assert until(lambda: is_gone(victim.process.pid))
    run = Run(stack.folder, {Target.CLAIM: 1.0})
    assert run.go(5)
    assert run.said == []
    assert "times no claim was running" in run.chaos.summary()


def test_two_targets_are_killed_beside_each_other(stack: RunningStack) -> None:
    run = Run(stack.folder, {Target.CLAIM: 3.0, Target.POSTGRES: 3.0})
    run.go(6)
    assert {kill.target for _, kill in run.said} == {Target.CLAIM, Target.POSTGRES}


def test_the_same_seed_gives_the_same_pauses(tmp_path: Path) -> None:
    def times(name: str, seed: int) -> list[float]:
        with running_stack(tmp_path / name, workers=WORKERS) as stack:
            run = Run(stack.folder, {Target.SENDER: 3.0, Target.CLAIM: 3.0}, seed=seed)
            run.go(30)
            return [at for at, _ in run.said]

    first = times("first", 7)
    assert first == times("second", 7)
    assert first != times("third", 8)


def test_the_seconds_of_what_was_away_count_from_its_return(
    stack: RunningStack,
) -> None:
    clock = Clock()
    run = Run(
        stack.folder,
        {Target.EMULATOR: 20.0},
        serves={Target.EMULATOR: lambda: clock.now >= 100},
        clock=clock,
    )
    run.go(200)
    ((at, kill),) = run.said
    assert kill.pid == stack.pids["emulator"]
    assert 110 <= at <= 131


def test_an_emulator_is_back_when_the_stack_has_said_so_after_its_start(
    stack: RunningStack, tmp_path: Path
) -> None:
    assert not has_deployed(stack.folder)
    stack.folder.publish(LOCAL)
    local = stack.folder.path / "local.json"
    started = psutil.Process(stack.pids["emulator"]).create_time()
    os.utime(local, (started - 10, started - 10))  # by the one before
    assert not has_deployed(stack.folder)
    os.utime(local, (started + 10, started + 10))
    assert has_deployed(stack.folder)
    assert not has_deployed(StateFolder(tmp_path / "nobody"))


def test_every_kill_is_on_record(stack: RunningStack) -> None:
    assert kills(stack.folder, since=LONG_AGO) == []
    run = Run(stack.folder, dict.fromkeys(WITHOUT_EMULATOR, 1.0))
    run.go(30)
    killed = [kill for _, kill in run.said]
    assert len(killed) == 5
    assert kills(stack.folder, since=LONG_AGO) == killed
    assert kills(stack.folder, since=killed[2].at) == killed[2:]
    assert kills(stack.folder, since=killed[-1].at + timedelta(seconds=1)) == []


def test_a_damaged_line_of_the_record_proves_nothing(stack: RunningStack) -> None:
    kill = Kill(at=LONG_AGO, target=Target.SENDER, name="sender-sms", pid=1)
    record(stack.folder, kill)
    with stack.folder.log("chaos").open("a") as log:
        log.write('{"at": "2026-\n[]\n{}\n{"at": "2026-01-01", "target": "moon", "pid": 1}\n')
    record(stack.folder, replace(kill, pid=2))
    assert kills(stack.folder, since=LONG_AGO) == [kill, replace(kill, pid=2)]


def test_it_notices_that_the_stack_has_ended(stack: RunningStack) -> None:
    stack.end()
    assert not Run(stack.folder, {Target.SENDER: 1.0}).go(5)


def test_the_command_kills_for_its_time_and_says_what_and_when(stack: RunningStack) -> None:
    stack.folder.publish(LOCAL)
    folder = str(stack.folder.path)
    done = command(
        "chaos", "--kill", "sender", "--kill", "claim", "--every", "0.2", "--for", "3",
        "--seed", "5", "--state-dir", folder, folder=Path.cwd(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == f"Chaos in {folder}, seed 5: sender every 0.2 s, claim every 0.2 s."
    said = [re.fullmatch(r"\d\d:\d\d:\d\d  killed (\S+) \(process (\d+)\)", line) for line in lines]
    killed = {int(line[2]): line[1] for line in said if line}
    assert killed == {
        stack.pids["sender-email-a1b2c3d4"]: "sender-email",
        stack.pids["sender-email-_9aaaaaa"]: "sender-email",
        stack.pids["sender-sms-q7q7q7q7"]: "sender-sms",
        stack.pids["claim-zz_zz_zz"]: "claim",
    }
    assert lines[4] == "4 kills in 3 s: 1 claim, 2 sender-email, 1 sender-sms."
    assert [kill.pid for kill in kills(stack.folder, since=LONG_AGO)] == list(killed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_with_a_summary_when_it_is_asked_to(
    stack: RunningStack, number: signal.Signals
) -> None:
    stack.folder.publish(LOCAL)
    with subprocess.Popen(
        [
            sys.executable, "-m", "functions.cli.main", "chaos", "--kill", "claim",
            "--every", "0.2", "--state-dir", str(stack.folder.path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as chaos:  # fmt: skip
        assert chaos.stdout is not None
        assert chaos.stdout.readline().startswith("Chaos in ")
        assert "killed claim" in chaos.stdout.readline()
        chaos.send_signal(number)
        rest, _ = chaos.communicate(timeout=120)
    assert chaos.returncode == 0
    assert re.search(r"^1 kills in \d+ s: 1 claim\.$", rest, re.MULTILINE), rest


def test_the_command_fails_when_the_stack_ends_meanwhile(stack: RunningStack) -> None:
    stack.folder.publish(LOCAL)
    with subprocess.Popen(
        [
            sys.executable, "-m", "functions.cli.main", "chaos", "--kill", "sender",
            "--every", "60", "--state-dir", str(stack.folder.path),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as chaos:  # fmt: skip
        assert chaos.stdout is not None
        assert chaos.stdout.readline().startswith("Chaos in ")
        stack.end()
        rest, error = chaos.communicate(timeout=120)
    assert chaos.returncode == 1
    assert "0 kills" in rest
    assert error == f"The stack in {stack.folder.path} has ended.\n"


def test_the_command_refuses_where_no_stack_runs(tmp_path: Path) -> None:
    done = command("chaos", "--kill", "sender", "--state-dir", str(tmp_path), folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"No stack runs in {tmp_path}. Start one with `sendoff up`.\n"


@pytest.mark.parametrize(
    "arguments", [(), ("--kill", "moon"), ("--kill", "sender", "--every", "0")]
)
def test_the_command_names_what_is_wrong_with_its_options(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = command("chaos", *arguments, "--state-dir", str(tmp_path), folder=tmp_path)
    assert done.returncode == 2
    assert "Usage:" in done.stderr
