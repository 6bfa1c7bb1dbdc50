"""`sendoff suppressions`: who is not to be told, taken in from a CSV file and given out as one."""

from pathlib import Path
from typing import Annotated

import typer

from functions.cli.choosing import organization_id_of
from functions.cli.dead import OfChannel
from functions.cli.listing import number_of, say, write_json
from functions.cli.operating import (
    FOUND,
    AsJson,
    Prefix,
    Profile,
    Region,
    advancing,
    operating,
    target_of,
)
from functions.cli.stack import StateDir
from functions.cli.suppression_export import STANDARD_OUTPUT, export_all
from functions.cli.suppression_import import Imported, import_all, opened, results_in
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="Who is not to be told, as files of CSV.")

Tenant = Annotated[
    str,
    typer.Option("--organization", help="The tenant, by id or name.", show_default=False),
]


@app.command("import")
def import_suppressions(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            dir_okay=False,
            allow_dash=True,
            help="CSV; - is standard input.",
            show_default=False,
        ),
    ],
    organization: Tenant,
    results: Annotated[
        Path | None,
        typer.Option("--results", dir_okay=False, help="Write what became of each line, as CSV."),
    ] = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """State the suppressions in a file, one by line, whatever the others are like.

    Its first line names the columns, in any order: channel, recipient (or recipient_hash) and
    reason are needed; category, source, source_at and evidence may be there.

    What is stated already is not stated again: cut off in the middle, the same command goes on.

    Exit status 1: a line was refused.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    if results is not None and results.exists() and file.exists() and results.samefile(file):
        raise typer.BadParameter("It is the file that is read.", param_hint="--results")
    with opened(file) as lines, operating(target, as_json=as_json) as console:
        id = organization_id_of(console, organization) or organization
        with results_in(results) as tell, advancing("Imported", total=None) as advance:
            done = import_all(console, lines, organization_id=id, advance=advance, tell=tell)
    if as_json:
        write_json(done.document())
    else:
        _say(done)
    if done.fates["refused"]:
        raise typer.Exit(FOUND)


def _say(done: Imported) -> None:
    for one in done.refused:
        say(f"Line {one['line']}: {one['detail']}")
    refused = done.fates["refused"]
    if refused > len(done.refused):
        say(f"{refused - len(done.refused):,} more were refused; --results names them all.")
    words = [
        f"{done.fates['added']:,} added",
        f"{done.fates['already']:,} known already",
        f"{refused:,} refused",
    ]
    if done.fates["skipped"]:
        words.append(f"{done.fates['skipped']:,} passed over, for they do not hold any more")
    say(f"{number_of(done.fates.total(), 'line')}: {', '.join(words)}.")


@app.command("export")
def export_suppressions(
    organization: Tenant,
    channel: OfChannel = None,
    active: Annotated[
        bool,
        typer.Option("--active/--all", help="What holds now; or its history too, lifts and all."),
    ] = True,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            dir_okay=False,
            allow_dash=True,
            help="Write to this; - is standard output.",
        ),
    ] = STANDARD_OUTPUT,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Write a tenant's suppressions as CSV, by channel, recipient and category.

    The file can be imported again. Of whom only the hash is known it has that, and no recipient.
    """
    if as_json and output == STANDARD_OUTPUT:
        raise typer.BadParameter("It goes with --output: the file is CSV.", param_hint="--json")
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with (
        operating(target, as_json=as_json) as console,
        advancing("Exported", total=None) as advance,
    ):
        id = organization_id_of(console, organization) or organization
        count = export_all(
            console,
            organization_id=id,
            channel=channel,
            active=active,
            advance=advance,
            output=output,
        )
    if as_json:
        write_json({"organization_id": id, "exported": count, "output": str(output)})
    elif output != STANDARD_OUTPUT:
        say(f"{number_of(count, 'suppression')} written to {output}.")
