"""`sendoff dlq`: dead letters, which are evidence and never work: the rows they name decide."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from functions.cli.console import Console
from functions.cli.console_error import ConsoleError
from functions.cli.fates import meaning_of
from functions.cli.listing import number_of, say, show_table, write_json
from functions.cli.operating import (
    FOUND,
    AsJson,
    Prefix,
    Profile,
    Region,
    operating,
    target_of,
)
from functions.cli.stack import StateDir
from functions.core.states import Channel
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="Dead letters: messages that no sender finished.")

DECIDED_AT_ONCE = 100
"""What the console decides about in one call."""

OfQueue = Annotated[Channel, typer.Argument(help="Channel of the queue.", show_default=False)]


@app.command()
def preview(
    channel: OfQueue,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=DECIDED_AT_ONCE, help="Look at so many.")
    ] = DECIDED_AT_ONCE,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Show what a redrive would come to; nothing is changed.

    Exit status 1: there are messages.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        seen = console.call("dlq.preview", channel=channel, limit=limit)
    if as_json:
        write_json(seen)
    else:
        _show(channel, seen["messages"], count=seen["count"], stays="WOULD STAY")
    if seen["messages"] or seen["count"]:
        raise typer.Exit(FOUND)


@app.command()
def redrive(
    channel: OfQueue,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="Decide about at most so many; without it about all."),
    ] = None,
    may_send_twice: Annotated[
        bool,
        typer.Option(
            "--may-send-twice", help="Also what may have been accepted: a duplicate does no harm."
        ),
    ] = False,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Requeue what is held of the notifications that the messages name, and drop the messages.

    A message is dropped once its notification is decided; one that nobody can read stays.

    Exit status 1: some stay.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = _redrive(console, channel, limit=limit, may_send_twice=may_send_twice)
    if as_json:
        write_json(done)
    else:
        _show(channel, done["messages"], count=done["count"], stays="STAYS")
    if any(message["kept"] for message in done["messages"]):
        raise typer.Exit(FOUND)


def _redrive(
    console: Console, channel: Channel, *, limit: int | None, may_send_twice: bool
) -> dict[str, Any]:
    """Redrive page by page, until a page drops nothing: what stays is received again and again."""
    messages: dict[str, Any] = {}
    done: dict[str, Any] = {"action_ids": [], "count": 0, "messages": []}
    while limit is None or len(messages) < limit:
        size = DECIDED_AT_ONCE if limit is None else min(DECIDED_AT_ONCE, limit - len(messages))
        try:
            page = console.call(
                "dlq.redrive", channel=channel, limit=size, may_send_twice=may_send_twice
            )
        except ConsoleError as error:
            error.partial = done
            raise
        done["action_ids"].append(page["action_id"])
        done["count"] = page["count"] if not messages else done["count"]
        messages |= {message["message_id"]: message for message in page["messages"]}
        done["messages"] = list(messages.values())
        if all(message["kept"] for message in page["messages"]):
            break
    return done


def _show(
    channel: Channel, messages: Sequence[Mapping[str, Any]], *, count: int, stays: str
) -> None:
    if not messages and not count:
        say(f"The dead-letter queue of {channel} is empty.")
        return
    if not messages:
        about = number_of(count, "message")
        say(f"About {about}, none of which can be looked at now: somebody else does. Try again.")
        return
    rows = [
        (
            message["message_id"],
            message["id"],
            message["fate"],
            "yes" if message["kept"] else "no",
            message.get("body") or meaning_of(message["fate"]),
        )
        for message in messages
    ]
    show_table(("MESSAGE", "NOTIFICATION", "FATE", stays, "MEANING"), rows)
    if count > len(messages):
        say("")
        say(f"About {number_of(count, 'message')} in the queue; these are {len(messages):,}.")
