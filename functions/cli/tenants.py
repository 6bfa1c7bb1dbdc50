"""`sendoff tenant` and `sendoff keys`: who may use the service, and with which keys."""

from typing import Annotated
from uuid import UUID

import typer

from functions.cli.listing import NOTHING, say, short_time, show_table, write_json
from functions.cli.operating import (
    REFUSED,
    After,
    AsJson,
    Limit,
    Prefix,
    Profile,
    Region,
    is_line,
    listed,
    operating,
    target_of,
)
from functions.cli.stack import StateDir
from functions.core.api_key import Scope
from infra.local.state import DEFAULT_FOLDER

tenant_app = typer.Typer(no_args_is_help=True, help="Tenants (organizations).")
keys_app = typer.Typer(no_args_is_help=True, help="API keys of a tenant.")


Organization = Annotated[
    str, typer.Option("--organization", help="The tenant, by id or name.", show_default=False)
]
NewName = Annotated[str, typer.Argument(callback=is_line, help="Its name.", show_default=False)]


@tenant_app.command("create")
def create_tenant(
    name: NewName,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Create a tenant; where there is one of this name, it is shown instead."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        made = console.call("tenant.create", name=name)
    if as_json:
        write_json(made)
    else:
        rows = [(made["id"], made["name"], short_time(made["created_at"]))]
        show_table(("ID", "NAME", "CREATED"), rows)


@tenant_app.command("list")
def list_tenants(
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List the tenants, the oldest first."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        found = listed(console, "tenant.list", limit=limit, after=after)
    if as_json:
        write_json(found)
        return
    if not found["data"]:
        say("There is no tenant.")
        return
    rows = [(row["id"], row["name"], short_time(row["created_at"])) for row in found["data"]]
    show_table(("ID", "NAME", "CREATED"), rows)
    if found["next"]:
        say(f"There are more; go on with --after {found['next']}.")


@keys_app.command("create")
def create_key(
    organization: Organization,
    name: Annotated[str, typer.Option("--name", help="What it is for.", show_default=False)],
    scope: Annotated[
        list[Scope],
        typer.Option("--scope", help="What it may do; repeat it for several.", show_default=False),
    ],
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Create a key and write it, this once, to standard output; all else to standard error."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        made = console.call(
            "keys.create", organization=organization, name=name, scopes=list(dict.fromkeys(scope))
        )
    if as_json:
        write_json(made)
    else:
        say(made["key"])
    typer.echo(
        f"The key has the id {made['id']}. Keep it now: it is stored nowhere and not shown again.",
        err=True,
    )


@keys_app.command("list")
def list_keys(
    organization: Organization,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List a tenant's keys, live and revoked; their text is stored nowhere."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        found = listed(console, "keys.list", limit=limit, after=after, organization=organization)
    if as_json:
        write_json(found)
        return
    if not found["data"]:
        say("This tenant has no key.")
        return
    columns = ("ID", "NAME", "SCOPES", "CREATED", "REVOKED")
    show_table(
        columns,
        [
            (
                row["id"],
                row["name"],
                " ".join(row["scopes"]) or NOTHING,
                short_time(row["created_at"]),
                short_time(row["revoked_at"]),
            )
            for row in found["data"]
        ],
    )
    if found["next"]:
        say(f"There are more; go on with --after {found['next']}.")


@keys_app.command("revoke")
def revoke_key(
    id: Annotated[UUID, typer.Argument(help="Id of the key.", show_default=False)],
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Revoke a key: its callers are refused within a minute."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call("keys.revoke", id=str(id))
    if as_json:
        write_json(done)
    else:
        say(_REVOKED.get(done["fate"], f"It is {done['fate']}."))
    if done["fate"] == "not_found":
        raise typer.Exit(REFUSED)


_REVOKED = {
    "revoked": "Revoked: its callers are refused within a minute.",
    "already_revoked": "It had been revoked before.",
    "not_found": "There is no such key.",
}
