"""An operator at a command line without a terminal: what they see, and how it ends."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from functions.cli.main import app
from tests.fake_console import FakeConsole, fake_console, local_stack, own_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str) -> Ended:
    """Run a command; an exception that is no end of a command is the test's."""
    with own_environment():
        result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(status=result.exit_code, out=result.stdout, err=result.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Works on a local stack whose console is a fake."""

    console: FakeConsole
    state_dir: Path

    def run(self, *arguments: str) -> Ended:
        return run(*arguments, "--state-dir", str(self.state_dir))


@contextmanager
def operator_at(path: Path) -> Generator[Operator]:
    with fake_console() as console, local_stack(path, aws_endpoint_url=console.url):
        yield Operator(console=console, state_dir=path)
