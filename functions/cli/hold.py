"""`sendoff hold`: SMS that wait because they are unlike what their tenant sends; judge them."""

from typing import Annotated, Any
from uuid import UUID

import typer

from functions.cli.choosing import organization_id_of
from functions.cli.console import Console
from functions.cli.console_error import ConsoleError
from functions.cli.dead import OfOrganization
from functions.cli.listing import number_of, say, short_time, show_table, write_json
from functions.cli.operating import (
    FOUND,
    REFUSED,
    After,
    AsJson,
    Limit,
    Note,
    Prefix,
    Profile,
    Region,
    advancing,
    listed,
    operating,
    options_of,
    target_of,
)
from functions.cli.stack import StateDir
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="SMS unlike what their tenant usually sends.")


@app.command("list")
def list_holds(
    organization: OfOrganization = None,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List the holds, the oldest first, and how many messages wait under each.

    Exit status 1: there is one.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        found = listed(
            console,
            "hold.list",
            limit=limit,
            after=after,
            organization_id=organization_id_of(console, organization),
        )
    if as_json:
        write_json(found)
    elif found["data"]:
        _show(found, options=options_of(target))
    else:
        say("Nothing is on hold.")
    if found["data"]:
        raise typer.Exit(FOUND)


def _show(found: dict[str, Any], *, options: str) -> None:
    columns = ("ID", "WHAT", "WAITING", "IN 24 H", "USUALLY", "OPENED", "TENANT")
    show_table(
        columns,
        [
            (
                row["id"],
                _what(row),
                f"{row['waiting']:,}",
                f"{row['today']:,}",
                f"{row['usual']:.1f}",
                short_time(row["opened_at"]),
                row["organization_id"],
            )
            for row in found["data"]
        ],
    )
    say("")
    if any(row["prefix"] is None for row in found["data"]):
        say(
            "What goes beyond the usual is added up over all countries of a tenant: once that is "
            "too much, a country that adds to it is held, be it by its first message."
        )
    if found["next"]:
        say(f"There are more; go on with --after {found['next']}.")
    say(
        f"`sendoff hold release <id>{options}` sends what waits and trusts it for two weeks; with "
        "--discard it ends instead."
    )


def _what(row: dict[str, Any]) -> str:
    words = row["prefix"] or row["country"] or "no country"
    return f"{words} (being released)" if row["released_at"] else words


@app.command()
def release(
    id: Annotated[UUID, typer.Argument(help="Id of the hold.", show_default=False)],
    discard: Annotated[
        bool, typer.Option("--discard", help="It is abuse: what waits ends as suppressed.")
    ] = False,
    note: Note = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Release a hold: what waits goes out, and its country or prefix is trusted for two weeks.

    With --discard what waits ends instead, and what comes next is held again.

    Cut off in the middle, the same command goes on.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = _release(console, id, discard=discard, note=note)
    if as_json:
        write_json(done)
    else:
        say(_words_of(done))
    if done["fate"] == "not_found":
        raise typer.Exit(REFUSED)


def _release(console: Console, id: UUID, *, discard: bool, note: str | None) -> dict[str, Any]:
    """Release in pages; return the actions' ids, and what came of all of them."""
    done: dict[str, Any] = {"action_ids": [], "id": str(id), "fate": "", "let_go": 0}
    with advancing("Let go", total=None) as advance:
        while True:
            try:
                page = console.call("hold.release", id=str(id), discard=discard, note=note)
            except ConsoleError as error:
                error.partial = done
                raise
            done["action_ids"].append(page["action_id"])
            done["fate"] = done["fate"] or page["fate"]
            done["discarded"] = page["discarded"]
            done["let_go"] += page["let_go"]
            if not page["more"]:
                return done
            advance(done["let_go"])


def _words_of(done: dict[str, Any]) -> str:
    match done["fate"]:
        case "released":
            messages = number_of(done["let_go"], "message")
            if done["discarded"]:
                return f"Discarded: {messages} ended as suppressed."
            return f"Released: {messages} may go out now."
        case "already_released":
            return f"It had been {'discarded' if done['discarded'] else 'released'} before."
        case "not_found":
            return "There is no such hold."
        case fate:
            return f"It is {fate}."
