"""`sendoff uncertain`: what may or may not have been accepted; list it, settle one by a finding."""

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from functions.cli.choosing import organization_id_of
from functions.cli.dead import OfChannel, OfOrganization
from functions.cli.listing import say, short_time, show_table, write_json
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
    listed,
    operating,
    options_of,
    target_of,
)
from functions.cli.stack import StateDir
from functions.core.states import Finding
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="What may or may not have been accepted.")


class FoundOut(StrEnum):
    """What a person found out, as it is typed."""

    ACCEPTED = "accepted"
    DELIVERED = "delivered"
    NOT_ACCEPTED = "not-accepted"
    HOLD = "hold"

    @property
    def finding(self) -> Finding:
        return Finding(self.value.replace("-", "_"))


@app.command("list")
def list_uncertain(
    channel: OfChannel = None,
    organization: OfOrganization = None,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List what waits for evidence, and when its channel's policy decides without.

    Exit status 1: there is something.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        found = listed(
            console,
            "uncertain.list",
            limit=limit,
            after=after,
            channel=channel,
            organization_id=organization_id_of(console, organization),
        )
    if as_json:
        write_json(found)
    elif found["data"]:
        _show(found, options=options_of(target))
    else:
        say("Nothing is uncertain.")
    if found["data"]:
        raise typer.Exit(FOUND)


def _show(found: dict[str, Any], *, options: str) -> None:
    columns = (
        "ID", "CHANNEL", "PROVIDER", "IN DOUBT", "SINCE", "DECIDED AT", "POLICY", "TENANT",
    )  # fmt: skip
    show_table(
        columns,
        [
            (
                row["id"],
                row["channel"],
                row["provider"],
                row["in_doubt"],
                short_time(row["since"]),
                short_time(row["decide_at"]),
                row["policy"],
                row["organization_id"],
            )
            for row in found["data"]
        ],
    )
    say("")
    if found["next"]:
        say(f"There are more; go on with --after {found['next']}.")
    say(f"`sendoff uncertain settle <id> --as …{options}` decides one by what you found out.")


@app.command()
def settle(
    id: Annotated[UUID, typer.Argument(help="Id of the notification.", show_default=False)],
    found: Annotated[
        FoundOut,
        typer.Option(
            "--as", help="What the provider's own records tell; hold, if nothing can be found out."
        ),
    ],
    note: Note = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Settle whether a notification was accepted, by what you found out.

    accepted and delivered count like the provider's report, not-accepted lets it be sent again,
    hold keeps it for a person.

    What is held in doubt is settled alike.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call("uncertain.settle", id=str(id), finding=found.finding, note=note)
    if as_json:
        write_json(done)
    else:
        say(_words_of(done["fate"], id, options_of(target)))
    match done["fate"]:
        case "settled":
            return
        case "attempt_open":
            raise typer.Exit(FOUND)
        case _:
            raise typer.Exit(REFUSED)


def _words_of(fate: str, id: UUID, options: str) -> str:
    match fate:
        case "settled":
            return f"Settled. `sendoff explain {id}{options}` tells what comes next."
        case "not_found":
            return "There is no such notification."
        case "attempt_open":
            return "An attempt is still open; the sweep closes it within minutes. Try again then."
        case _:
            return f"It is {fate}: there is no doubt to settle."
