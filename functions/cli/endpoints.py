"""`sendoff endpoints`: the receivers of webhooks that fail, are paused or want no more."""

from typing import Annotated, Any
from uuid import UUID

import typer

from functions.cli.choosing import organization_id_of
from functions.cli.dead import OfOrganization
from functions.cli.listing import say, short_time, show_table, write_json
from functions.cli.operating import (
    FOUND,
    REFUSED,
    After,
    AsJson,
    Limit,
    Prefix,
    Profile,
    Region,
    listed,
    operating,
    options_of,
    target_of,
)
from functions.cli.stack import StateDir
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="Receivers of webhooks that do not simply work.")

_RESUMED = {
    "resumed": "What waits for it goes out within seconds.",
    "not_stopped": "It had not been stopped.",
    "not_found": "There is no such endpoint.",
}


@app.command("list")
def list_endpoints(
    organization: OfOrganization = None,
    stopped: Annotated[
        bool, typer.Option("--stopped", help="Only those that are paused or disabled.")
    ] = False,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List the endpoints that fail, are paused until they work again, or asked for no more.

    Exit status 1: one of them is paused or disabled.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        found = listed(
            console,
            "endpoints.list",
            limit=limit,
            after=after,
            organization_id=organization_id_of(console, organization),
            stopped=stopped,
        )
    if as_json:
        write_json(found)
    elif found["data"]:
        _show(found, options=options_of(target))
    else:
        say("Every endpoint works.")
    if any(row["state"] != "failing" for row in found["data"]):
        raise typer.Exit(FOUND)


def _show(found: dict[str, Any], *, options: str) -> None:
    columns = (
        "ID", "ORIGIN", "STATE", "FAILURES", "SINCE", "LAST ANSWER", "TRIED AGAIN", "TENANT",
    )  # fmt: skip
    show_table(
        columns,
        [
            (
                row["id"],
                row["origin"],
                row["state"],
                row["failures"],
                short_time(row["failing_since"]),
                row["code"],
                short_time(row["probe_at"]),
                row["organization_id"],
            )
            for row in found["data"]
        ],
    )
    say("")
    if found["next"]:
        say(f"There are more; go on with --after {found['next']}.")
    say(f"`sendoff endpoints resume <id>{options}` lets one be called again at once.")


@app.command()
def resume(
    id: Annotated[UUID, typer.Argument(help="Id of the endpoint.", show_default=False)],
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Let a paused or disabled endpoint be called again.

    What is suppressed because its URL asked for no more stays so; lift it by its address.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call("endpoints.resume", id=str(id))
    if as_json:
        write_json(done)
    else:
        say(_RESUMED.get(done["fate"], f"It is {done['fate']}."))
    if done["fate"] == "not_found":
        raise typer.Exit(REFUSED)
