"""`sendoff webhook`: what a tenant's webhooks are signed with; see it, go on to the next.

Standard output has the secrets alone, one a line and the current one first; all words are on
standard error.
"""

from typing import Annotated, Any

import typer

from functions.cli.listing import number_of, say, short_time, write_json
from functions.cli.operating import (
    AsJson,
    Prefix,
    Profile,
    Region,
    Yes,
    confirm,
    is_line,
    operating,
    target_of,
)
from functions.cli.stack import StateDir
from functions.core.webhook_key import OVERLAP
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="What a tenant's webhooks are signed with.")

OfTenant = Annotated[
    str, typer.Argument(callback=is_line, help="The tenant, by id or name.", show_default=False)
]


@app.command()
def secret(
    organization: OfTenant,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Write the tenant's current signing secret; below it the ones that still sign beside it.

    Who looked is kept; the secret is not.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        shown = console.call("webhook.secret", organization=organization)
    _write(shown, as_json=as_json)


@app.command()
def rotate(
    organization: OfTenant,
    at_once: Annotated[
        bool,
        typer.Option("--now", help="Even while the secret before this one signs too: it ends."),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Go on to the tenant's next signing secret, and write what signs then.

    The one before signs beside it for a week, in which receivers take over the new one.

    Within that week another rotation is refused: it would cut off those that have not yet.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        # What it would do, asked before it is known not to be refused.
        would = f"The current one would sign beside it for {OVERLAP.days} days."
        if at_once:
            would += " Any before that would stop at once."
        confirm(f"Go on to the next signing secret of {organization}? {would}", yes=yes)
        shown = console.call("webhook.rotate", organization=organization, at_once=at_once or None)
    _write(shown, as_json=as_json)
    words = "Senders take it up within a minute."
    if at_once:
        words += " No secret before these signs any more."
    typer.echo(words, err=True)


def _write(shown: dict[str, Any], *, as_json: bool) -> None:
    previous: dict[str, Any] | None = shown["previous"]
    older: list[str] = shown["of_previous_master"]
    if as_json:
        write_json(shown)
        return
    for one in (shown["secret"], *([previous["secret"]] if previous else []), *older):
        say(one)
    words = f"The current secret has number {shown['number']}."
    if previous:
        words += (
            f" The one before, on the second line, signs too until "
            f"{short_time(previous['until'])}: by then receivers have to know the current one."
        )
    if older:
        words += (
            f" The last {number_of(len(older), 'line')} derive from the installation's previous "
            "master secret, and sign for as long as that is kept."
        )
    typer.echo(words, err=True)
