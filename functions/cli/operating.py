"""What operators' commands have in common: where the console is, and how they ask and end.

Exit statuses: 0 done or nothing to do, 1 something waits for a person, 2 usage, 3 refused,
4 unreachable.
"""

import contextlib
import shlex
import sys
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console as Screen
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from functions.cli.console import Console, Target
from functions.cli.console_error import ConsoleError
from functions.cli.listing import write_json
from functions.core.times import DETAIL, InvalidTime, parse_time
from infra.local.state import DEFAULT_FOLDER

FOUND, REFUSED = 1, 3
PAGE = 500
"""What the console takes or gives at once."""

Profile = Annotated[
    str | None,
    typer.Option("--profile", help="AWS profile of the deployment; without it the local stack."),
]
Region = Annotated[
    str | None, typer.Option("--region", help="AWS region, if not the profile's own.")
]
Prefix = Annotated[str | None, typer.Option("--prefix", help="Prefix of the deployment's names.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="List at most so many.")]
After = Annotated[UUID | None, typer.Option("--after", help="Go on after this id.")]


def target_of(
    state_dir: Path, *, profile: str | None, region: str | None, prefix: str | None
) -> Target:
    """Return where the console is; refuse options that would be read by nobody."""
    if profile is None and (region is not None or prefix is not None):
        raise typer.BadParameter("It goes with --profile.", param_hint="--region, --prefix")
    return Target(state_dir=state_dir, profile=profile, region=region, prefix=prefix)


def options_of(target: Target) -> str:
    """Return the options that name ``target`` once more, with a space before."""
    given = {
        "--profile": target.profile,
        "--region": target.region,
        "--prefix": target.prefix,
        "--state-dir": None if target.state_dir == DEFAULT_FOLDER else str(target.state_dir),
    }
    return "".join(f" {name} {shlex.quote(text)}" for name, text in given.items() if text)


@contextlib.contextmanager
def operating(target: Target, *, as_json: bool) -> Generator[Console]:
    """Give the console; what goes wrong is said on standard error, and in JSON if that is asked."""
    try:
        yield target.connect()
    except ConsoleError as error:
        if as_json:
            write_json(error.document())
        typer.echo(error.detail, err=True)
        raise typer.Exit(error.exit_status) from None


def listed(
    console: Console, command: str, *, limit: int, after: UUID | None, **filters: Any
) -> dict[str, Any]:
    """Return up to ``limit`` of what ``command`` lists, and after which id there is more."""
    data: list[Any] = []
    following = None if after is None else str(after)
    while True:
        size = min(PAGE, limit - len(data))
        page = console.call(command, limit=size, after=following, **filters)
        data += page["data"]
        following = page["next"]
        if following is None or len(data) >= limit:
            return {"data": data, "next": following}


def in_pages(items: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(items), PAGE):
        yield items[start : start + PAGE]


def confirm(question: str, *, yes: bool) -> None:
    """Ask a person; without one, and without --yes, refuse as a matter of usage."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "There is no terminal to confirm at; say --yes to go on without.", param_hint="--yes"
        )
    if not typer.confirm(question, err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(REFUSED)


@contextlib.contextmanager
def advancing(what: str, *, total: int | None) -> Generator[Callable[[int], None]]:
    """Give what is told how much is done: a bar at a terminal, plain lines anywhere else."""
    screen = Screen(stderr=True)
    if not screen.is_terminal:
        of = "" if total is None else f" of {total:,}"
        yield lambda done: typer.echo(f"{what}: {done:,}{of}", err=True)
        return
    count = MofNCompleteColumn() if total is not None else TextColumn("{task.completed}")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), count)
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def moment(text: str) -> datetime:
    """Read a time of the command line."""
    try:
        return parse_time(text)
    except InvalidTime:
        raise typer.BadParameter(DETAIL) from None


def written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def is_line(text: str | None) -> str | None:
    """Read a name or a note: what the console would not keep is a matter of usage."""
    if text is not None and not (
        text.strip() == text and text.isprintable() and 0 < len(text) <= 256
    ):
        raise typer.BadParameter("It is one line of 1 to 256 characters.")
    return text


Since = Annotated[
    datetime | None,
    typer.Option("--since", parser=moment, metavar="TIME", help="RFC 3339, with its offset."),
]
Note = Annotated[
    str | None, typer.Option("--note", callback=is_line, help="Why, for those who read it later.")
]
