"""The command line where no stack runs, and the parts of it that need none."""

import dataclasses
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from functions.cli import screen
from functions.cli.logs import FunctionLog, ProcessLog, UnknownLog, choose
from functions.cli.progress import InLines, ToParent, relay
from infra.local.state import Local, StateFolder
from tests.local import LOCAL, command


def test_help_names_every_command_and_not_the_inner_one(tmp_path: Path) -> None:
    done = command("--help", folder=tmp_path)
    assert done.returncode == 0
    for name in ("up", "down", "demo", "logs", "psql", "flush", "reset"):
        assert f" {name} " in done.stdout
    assert "supervise" not in done.stdout


@pytest.mark.parametrize("name", ["logs", "psql", "flush"])
def test_a_command_that_needs_a_stack_says_how_to_start_one(name: str, tmp_path: Path) -> None:
    done = command(name, "--state-dir", str(tmp_path / "none"), folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (f"No stack runs in {tmp_path / 'none'}. Start one with `sendoff up`.\n")
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["down", "reset"])
def test_ending_what_does_not_run_is_no_failure(name: str, tmp_path: Path) -> None:
    done = command(name, "--state-dir", str(tmp_path / "none"), folder=tmp_path)
    assert done.returncode == 0
    assert str(tmp_path / "none") in done.stdout
    assert not (tmp_path / "none").exists()


def test_up_refuses_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    done = command("up", "--state-dir", str(tmp_path), folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{tmp_path} holds other files.")
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_that_cannot_be_one_is_refused(port: str, tmp_path: Path) -> None:
    done = command("up", "--api-port", port, "--state-dir", str(tmp_path / "a"), folder=tmp_path)
    assert done.returncode == 2
    assert "--api-port" in done.stderr
    assert not (tmp_path / "a").exists()


def test_the_screen_shows_what_can_be_copied() -> None:
    text = screen.screen(LOCAL)
    assert LOCAL.api_url in text
    assert LOCAL.simulator_url in text
    assert LOCAL.api_key in text
    assert "base 1 s, cap 8 s, cutoff 30 s" in text
    assert "sender timeout 5 s, visibility 30 s, lease 40 s" in text
    assert screen.command(LOCAL) != screen.command(LOCAL)  # or the second would be a replay


def test_progress_of_a_background_start_is_told_as_if_it_ran_here() -> None:
    pipe = io.StringIO()
    there = ToParent(pipe)
    there.begin("PostgreSQL")
    there.note("as nobody")
    there.finish()
    pipe.write("Traceback: something below\n")
    there.fail(UnknownLog("There is none."))
    pipe.seek(0)
    here = io.StringIO()
    assert relay(pipe, to=InLines(here)) == (UnknownLog.code, "There is none.")
    assert here.getvalue() == "PostgreSQL …\nas nobody\nTraceback: something below\n"


@dataclass(slots=True)
class Streams:
    """As much of CloudWatch Logs as one reader needs: one answer has at most ``limit`` lines."""

    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    limit: int = 10

    def add(self, at: int, message: str, stream: str = "a") -> None:
        self.events.append({"timestamp": at, "message": message, "logStreamName": stream})
        self.events.sort(key=lambda event: event["timestamp"])

    def get_paginator(self, name: str) -> "Streams":
        assert name == "filter_log_events"
        return self

    def paginate(self, *, logGroupName: str, startTime: int) -> Iterator[Mapping[str, Any]]:
        assert logGroupName == "/aws/lambda/sendoff-ingest"
        found = [event for event in self.events if event["timestamp"] >= startTime]
        yield {"events": found[: self.limit]}


def texts(log: FunctionLog) -> list[str]:
    return [line.text.split(maxsplit=2)[2] for line in log.read()]


def function_log(streams: Streams) -> FunctionLog:
    return FunctionLog(cast("Any", streams), "ingest")


def test_each_line_of_a_function_is_shown_once_also_beyond_one_answer() -> None:
    streams = Streams()
    for number in range(35):
        streams.add(number * 1000, f"line {number}")
    log = function_log(streams)
    assert texts(log) == [f"line {number}" for number in range(35)]
    assert texts(log) == []
    streams.add(34_000, "line 34")  # equal to one that was shown, and yet another
    streams.add(34_000, "line 34", stream="b")
    assert texts(log) == ["line 34", "line 34"]


def test_a_line_that_appears_late_is_shown_although_it_is_older() -> None:
    streams = Streams()
    streams.add(5000, "new")
    log = function_log(streams)
    assert texts(log) == ["new"]
    streams.add(4000, "old, from an invocation that has just ended")
    assert texts(log) == ["old, from an invocation that has just ended"]


def test_the_log_of_a_process_is_read_by_whole_lines_and_again_after_a_restart(
    tmp_path: Path,
) -> None:
    path = tmp_path / "postgres.log"
    log = ProcessLog(path)
    assert log.read() == []
    path.write_text("one\ntw")
    assert [line.text for line in log.read()] == ["one"]
    with path.open("a") as file:
        file.write("o\n")
    assert [line.text for line in log.read()] == ["two"]
    path.write_text("new\n")
    assert [line.text for line in log.read()] == ["new"]


@pytest.fixture
def running(tmp_path: Path) -> tuple[StateFolder, Local]:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    folder.log("postgres").write_text("")
    names = ("claim", "ingest", "sender-email", "sender-sms")
    functions = {f"sendoff-{name}": f"arn:{name}" for name in names}
    return folder, dataclasses.replace(LOCAL, functions=functions)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (None, ["claim", "ingest", "sender-email", "sender-sms"]),
        ("ingest", ["ingest"]),
        ("sendoff-ingest", ["ingest"]),
        ("sender", ["sender-email", "sender-sms"]),
        ("sender-sms", ["sender-sms"]),
    ],
)
def test_a_name_means_a_function_or_all_senders(
    name: str | None, found: list[str], running: tuple[StateFolder, Local]
) -> None:
    folder, local = running
    chosen = choose(name, folder=folder, local=local)
    assert [log.name for log in chosen if isinstance(log, FunctionLog)] == found


def test_a_name_means_a_process_too_and_an_unknown_one_lists_them_all(
    running: tuple[StateFolder, Local],
) -> None:
    folder, local = running
    (log,) = choose("postgres", folder=folder, local=local)
    assert isinstance(log, ProcessLog)
    with pytest.raises(UnknownLog, match=r"claim, ingest, .*Processes: postgres\."):
        choose("nothing", folder=folder, local=local)
