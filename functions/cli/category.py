"""`sendoff category`: what a tenant declares of its categories, and what that changes."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from functions.cli.channel_tuning import shown
from functions.cli.listing import NOTHING, say, short_time, show_table, write_json
from functions.cli.operating import AsJson, Prefix, Profile, Region, operating, target_of
from functions.cli.stack import StateDir
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(
    no_args_is_help=True,
    help="Categories of a tenant: which ones somebody waits for, and when they may be sent.",
)

Tenant = Annotated[str, typer.Argument(help="The tenant, by id or name.", show_default=False)]
Category = Annotated[str, typer.Argument(help="The category.", show_default=False)]

WORDS: Mapping[str, str] = {
    "transactional": "transactional",
    "mandatory": "mandatory",
    "high_bypasses_quiet_hours": "high priority bypasses quiet hours",
    "window": "send window",
}
KIND_APPLIES = (
    "Whether a recipient has to have asked for it is decided by what the category is when a "
    "notification is taken up: it is {kind} at once, for what waits as well. What was accepted "
    "before keeps the stream that it is sent by."
)


@app.command("list")
def list_categories(
    organization: Tenant,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List the categories of which something is declared; any other is bulk, without a window."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        found = console.call("category.list", organization=organization)
    if as_json:
        write_json(found)
        return
    if not found["data"]:
        say("Nothing is declared: every category is bulk.")
        return
    show_table(
        ("CATEGORY", "KIND", "MANDATORY", "HIGH IN QUIET HOURS", "WINDOW", "SINCE"),
        [
            (
                row["category"],
                kind_of(is_transactional=row["transactional"]),
                shown(row["mandatory"]),
                shown(row["high_bypasses_quiet_hours"]),
                row["window"] or NOTHING,
                short_time(row["updated_at"]),
            )
            for row in found["data"]
        ],
    )
    say("Any other category is bulk.")


@app.command("set")
def set_category(
    organization: Tenant,
    category: Category,
    transactional: Annotated[
        bool | None,
        typer.Option(
            "--transactional/--bulk",
            help="Somebody waits for it: sent unless they said no; or sent only if they said yes.",
        ),
    ] = None,
    mandatory: Annotated[
        bool | None,
        typer.Option(
            "--mandatory/--not-mandatory",
            help="Sent even if the recipient said no; of a transactional one.",
        ),
    ] = None,
    high_bypasses_quiet_hours: Annotated[
        bool | None,
        typer.Option(
            "--high-bypasses-quiet-hours/--high-keeps-quiet-hours",
            help="High priority is sent in quiet hours too; of a transactional one.",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="HH:MM-HH:MM",
            help="Sent only then, in the recipient's zone (UTC where there is none); or none.",
        ),
    ] = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Declare something of a category; what is not named stays as it is.

    It holds at once, for what waits as well: it is asked when a notification is taken up. What was
    put off before keeps its time.
    """
    values = {
        "transactional": transactional,
        "mandatory": mandatory,
        "high_bypasses_quiet_hours": high_bypasses_quiet_hours,
        "window": window,
    }
    settings = {name: value for name, value in values.items() if value is not None}
    if not settings:
        raise typer.BadParameter("There is nothing to change; name it by options.")
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call(
            "category.set", organization=organization, category=category, settings=settings
        )
    if as_json:
        write_json(done)
    else:
        tell_changes(done)


@app.command("unset")
def unset_category(
    organization: Tenant,
    category: Category,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Let a category be as if nothing had been declared: bulk, or transactional if so called.

    It holds at once, as with `sendoff category set`.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call("category.unset", organization=organization, category=category)
    if as_json:
        write_json(done)
    else:
        tell_changes(done)


def kind_of(*, is_transactional: bool) -> str:
    return "transactional" if is_transactional else "bulk"


def tell_changes(done: Mapping[str, Any]) -> None:
    """Write line by line what changed, and what that means for what was accepted before."""
    changed: Mapping[str, Any] = done["changed"]
    if not changed:
        say("Nothing changed: it was so before.")
        return
    for name, change in changed.items():
        say(f"{WORDS[name]}: {shown(change['was'])} -> {shown(change['is'])}")
    if change := changed.get("transactional"):
        say(KIND_APPLIES.format(kind=kind_of(is_transactional=change["is"])))
