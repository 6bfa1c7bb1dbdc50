"""`sendoff explain`: what happened to a notification, on what evidence, and what comes next."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from functions.cli.explain_decision import (
    particulars_of_decision,
    show_candidates,
    show_faults,
)
from functions.cli.listing import say, short_time, show_story, tell, write_json
from functions.cli.operating import (
    FOUND,
    AsJson,
    Prefix,
    Profile,
    Region,
    operating,
    options_of,
    target_of,
)
from functions.cli.stack import StateDir
from functions.core.chain_told import Outcome
from functions.core.states import Reason, Status
from functions.core.times import parse_time
from infra.local.state import DEFAULT_FOLDER


def explain(
    id: Annotated[UUID, typer.Argument(help="Id of the notification.", show_default=False)],
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Tell who changed what of a notification, when, on what evidence, and what comes next.

    Neither an address nor its content is shown; what was decided of it, and from what, is.

    Exit status 1: it waits for a person, or for evidence of whether it was accepted. What is held
    of a notification that goes on, or ended, by another channel waits for nobody.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        told = console.call("explain", id=str(id))
    if as_json:
        write_json(told)
    else:
        show(told, options=options_of(target))
    row = told["notification"]
    if told["waits_for_person"] or _is_on_hold(row) or row["status"] == Status.UNCERTAIN:
        raise typer.Exit(FOUND)


_REST = dict.fromkeys(Status, "only evidence could change it") | dict.fromkeys(
    (Status.CANCELLED, Status.SUPPRESSED), "nothing changes it any more"
)


def show(told: Mapping[str, Any], *, options: str) -> None:
    """Write an explanation as one screen; ``options`` name the console in the commands."""
    row = told["notification"]
    if told.get("repeats"):
        tell(f"{told['asked']} repeats an event: the notification of it is the one below.")
        say("")
    say(f"{row['id']}  {_standing(row)}")
    tell(told["summary"])
    say("")
    for name, text in [*_particulars(row), *particulars_of_decision(told)]:
        say(f"  {name:<9} {text}")
    say("")
    show_story(
        [(short_time(entry["at"]), entry["actor"], entry["sentence"]) for entry in told["timeline"]]
    )
    show_candidates(told["children"])
    show_faults(told["faults"])
    say("")
    after = told["next"]
    tell(f"Next: {after['sentence']}" if after else f"Next: nothing; {_REST[row['status']]}.")
    commands = commands_for(row, children=told["children"], chain=told["chain"], options=options)
    if commands:
        say("")
        for command in commands:
            say(f"  {command}")


def _standing(row: Mapping[str, Any]) -> str:
    return f"{row['status']} ({row['reason']})" if row["reason"] else row["status"]


def _particulars(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    in_doubt = 0 if row["final_at"] else row["in_doubt"]
    doubt = f", {in_doubt:,} in doubt" if in_doubt else ""
    particulars = [
        ("Channel", f"{row['channel']}, {row['priority']}, {row['category']}"),
        ("Attempts", f"{row['attempts_spent']} of {row['max_attempts']} spent{doubt}"),
        ("Tenant", row["organization_id"]),
    ]
    if row["batch_id"]:
        particulars.append(("Batch", row["batch_id"]))
    if row["reference"]:
        particulars.append(("Reference", row["reference"]))
    if row["idempotency_key"] != row["id"]:
        particulars.append(("Key", row["idempotency_key"]))
    return particulars


def _is_on_hold(row: Mapping[str, Any]) -> bool:
    return row["status"] == Status.PENDING and row["hold_id"] is not None


def commands_for(
    row: Mapping[str, Any],
    *,
    children: Sequence[Mapping[str, Any]] = (),
    chain: Mapping[str, Any] | None = None,
    options: str,
) -> list[str]:
    """Return the commands that would move a notification which waits for a person or evidence.

    One by several channels is where its candidates are: it is they that are moved. ``chain`` is
    what became of the one that this is a candidate of.
    """
    if children:
        if not row["held"] and row["status"] != Status.UNCERTAIN:
            return []
        alike = [one for one in children if one["status"] == row["status"]]
        return [f"sendoff explain {(alike or children)[-1]['id']}{options}"]
    id = row["id"]
    settle = [
        f"sendoff uncertain settle {id} --as {found}{options}"
        for found in ("accepted", "delivered", "not-accepted")
    ]
    if row["status"] == Status.UNCERTAIN:
        return [*settle, f"sendoff uncertain settle {id} --as hold{options}"]
    if _is_on_hold(row):
        return [f"sendoff hold release {row['hold_id']}{options}"]
    if not row["held"]:
        return []
    commands = settle if row["in_doubt"] else []
    expires_at = row["expires_at"]
    if row["reason"] == Reason.INVALID or (chain and chain["is_over"]):
        return [f"sendoff dead discard {id}{options}"]
    if expires_at is None or parse_time(expires_at) > datetime.now(UTC):
        goes_on = chain is not None and chain["outcome"] == Outcome.GOES_ON
        is_doubtful = row["reason"] == Reason.OUTCOME_UNKNOWN or goes_on
        consent = " --may-send-twice" if is_doubtful else ""
        commands.append(f"sendoff dead requeue {id}{consent}{options}")
    return [*commands, f"sendoff dead discard {id}{options}"]
