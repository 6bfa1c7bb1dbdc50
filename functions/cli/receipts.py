"""`sendoff receipts`: what providers reported, kept as it was received."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from functions.cli.console import Console
from functions.cli.console_error import ConsoleError
from functions.cli.listing import number_of, say, write_json
from functions.cli.operating import (
    AsJson,
    Prefix,
    Profile,
    Region,
    Since,
    advancing,
    operating,
    target_of,
    written,
)
from functions.cli.stack import StateDir
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="What providers reported.")


@app.callback()
def receipts() -> None:
    """What providers reported, kept as it was received."""


@app.command()
def replay(
    since: Since = None,
    notification: Annotated[
        UUID | None, typer.Option("--notification", help="Those about this notification.")
    ] = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Read kept reports again by the rules of today, and let what they prove now decide.

    Give a time since when they were received, or the notification they are about.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    if (since is None) == (notification is None):
        raise typer.BadParameter("Give one of --since and --notification.")
    with operating(target, as_json=as_json) as console:
        done = _replay(console, since=since, notification=notification)
    if as_json:
        write_json(done)
    elif not done["read"]:
        say("No report is kept there.")
    else:
        say(
            f"{number_of(done['read'], 'report')} read again: {done['changed']:,} read differently "
            f"now, {number_of(done['moved'], 'notification')} moved."
        )


def _replay(
    console: Console, *, since: datetime | None, notification: UUID | None
) -> dict[str, Any]:
    done: dict[str, Any] = {"action_ids": [], "read": 0, "changed": 0, "moved": 0}
    following: str | None = None
    with advancing("Reports read", total=None) as advance:
        while True:
            try:
                page = console.call(
                    "receipts.replay",
                    since=None if since is None else written(since),
                    notification_id=None if notification is None else str(notification),
                    after=following,
                )
            except ConsoleError as error:
                error.partial = done
                raise
            done["action_ids"].append(page["action_id"])
            for name in ("read", "changed", "moved"):
                done[name] += page[name]
            following = page["next"]
            if following is None:
                return done
            advance(done["read"])
