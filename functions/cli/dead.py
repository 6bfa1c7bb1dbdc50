"""`sendoff dead`: what is held for a person; list it, send it once more, or let it rest."""

from collections import Counter
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from functions.cli.choosing import Chosen, chosen, organization_id_of
from functions.cli.fates import AT_REST, SCHEDULED, carry_out, end_by, show_fates
from functions.cli.listing import say, short_time, show_table, write_json
from functions.cli.operating import (
    FOUND,
    After,
    AsJson,
    Limit,
    Note,
    Prefix,
    Profile,
    Region,
    Yes,
    listed,
    operating,
    options_of,
    target_of,
)
from functions.cli.stack import StateDir
from functions.core.states import Channel, Reason
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="What is held for a person to decide.")


NEEDLESS = " (waits for nobody)"
"""Behind a row whose notification does without it."""


class HeldReason(StrEnum):
    """Why a notification can be held."""

    REJECTED = Reason.REJECTED
    BUDGET_SPENT = Reason.BUDGET_SPENT
    OUTCOME_UNKNOWN = Reason.OUTCOME_UNKNOWN
    CRASH_LOOP = Reason.CRASH_LOOP
    WAITED_TOO_LONG = Reason.WAITED_TOO_LONG
    UNREADABLE = Reason.UNREADABLE
    INVALID = Reason.INVALID


Ids = Annotated[
    list[UUID] | None,
    typer.Argument(help="Ids of notifications; or choose them by options.", show_default=False),
]
OfChannel = Annotated[Channel | None, typer.Option("--channel", help="Of this channel.")]
OfReason = Annotated[HeldReason | None, typer.Option("--reason", help="Held for this reason.")]
OfOrganization = Annotated[
    str | None, typer.Option("--organization", help="Of this tenant, by id or name.")
]
Everything = Annotated[bool, typer.Option("--all", help="All that are held.")]


@app.command("list")
def list_held(
    channel: OfChannel = None,
    reason: OfReason = None,
    organization: OfOrganization = None,
    needless: Annotated[
        bool,
        typer.Option(
            "--all", help="Also candidates whose notification goes on or ended by another channel."
        ),
    ] = False,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List what is held and waits for a person, the oldest first.

    A candidate whose notification goes on, or has ended, by another channel waits for nobody: it is
    listed only with --all.

    Exit status 1: there is something that waits for a person.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        held = listed(
            console,
            "dead.list",
            limit=limit,
            after=after,
            channel=channel,
            reason=reason,
            organization_id=organization_id_of(console, organization),
            needless=needless or None,
        )
    if as_json:
        write_json(held)
    elif held["data"]:
        _show(held, options=options_of(target))
    else:
        say("Nothing is held.")
    if any(row["needed"] for row in held["data"]):
        raise typer.Exit(FOUND)


def _show(held: dict[str, Any], *, options: str) -> None:
    columns = (
        "ID", "CHANNEL", "REASON", "ATTEMPTS", "IN DOUBT", "LAST ANSWER", "HELD SINCE", "TENANT",
    )  # fmt: skip
    show_table(
        columns,
        [
            (
                row["id"],
                row["channel"],
                row["reason"],
                f"{row['attempts_spent']} of {row['max_attempts']}",
                row["in_doubt"],
                row["last_code"] or row["last_http_status"],
                short_time(row["held_at"]),
                row["organization_id"] if row["needed"] else f"{row['organization_id']}{NEEDLESS}",
            )
            for row in held["data"]
        ],
    )
    reasons = Counter(row["reason"] for row in held["data"])
    say("")
    say(", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common()) + ".")
    if held["next"]:
        say(f"There are more; go on with --after {held['next']}.")
    say(f"`sendoff explain <id>{options}` tells the whole story of one.")


@app.command()
def requeue(
    ids: Ids = None,
    channel: OfChannel = None,
    reason: OfReason = None,
    organization: OfOrganization = None,
    everything: Everything = False,
    may_send_twice: Annotated[
        bool,
        typer.Option(
            "--may-send-twice", help="Also what may have been accepted: a duplicate does no harm."
        ),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Send what is held once more: its attempts are counted anew, its history is kept.

    Name ids, or choose by options; then it is shown how many they are, and confirmed. Options
    choose what `sendoff dead list` lists.

    Exit status 1: some still wait for a person; 3: none does, and some could not be requeued.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    choice = Chosen.read(
        ids, channel=channel, reason=reason, organization=organization, everything=everything
    )
    with operating(target, as_json=as_json) as console:
        named = chosen(
            console,
            choice,
            verb="Requeue",
            caution="" if may_send_twice else "stay held unless --may-send-twice is given",
            yes=yes,
        )
        done = carry_out(
            console, "dead.requeue", named, what="Decided", may_send_twice=may_send_twice
        )
    show_fates(done, as_json=as_json)
    end_by(done, reached=SCHEDULED)


@app.command()
def discard(
    ids: Ids = None,
    channel: OfChannel = None,
    reason: OfReason = None,
    organization: OfOrganization = None,
    everything: Everything = False,
    note: Note = None,
    yes: Yes = False,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Let what is held rest as it is: it counts as ended, and only evidence can still change it.

    Name ids, or choose by options; then it is shown how many they are, and confirmed. Options
    choose what `sendoff dead list --all` lists.

    Exit status 3: some are not held.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    choice = Chosen.read(
        ids, channel=channel, reason=reason, organization=organization, everything=everything
    )
    with operating(target, as_json=as_json) as console:
        named = chosen(console, choice, verb="Discard", caution="", needless=True, yes=yes)
        done = carry_out(console, "dead.discard", named, what="Decided", note=note)
    show_fates(done, as_json=as_json)
    end_by(done, reached=AT_REST)
