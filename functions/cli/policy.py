"""`sendoff policy`: what the policy said of a notification, and what it would say now."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from functions.cli.listing import NOTHING, say, short_time, show_table, tell, write_json
from functions.cli.operating import (
    AsJson,
    Prefix,
    Profile,
    Region,
    moment,
    operating,
    target_of,
    written,
)
from functions.cli.stack import StateDir
from functions.core.policy_words import said
from infra.local.state import DEFAULT_FOLDER

OVER = "It is {status}: nothing is sent of it by itself, whatever the policy says now."
VERSIONS = frozenset({"recipient_version", "rules_version"})
RUNNING_NUMBERS = (
    "Versions are running numbers of the whole service, not of the record or of the rules."
)


def policy(
    id: Annotated[UUID, typer.Argument(help="Id of the notification.", show_default=False)],
    at: Annotated[
        datetime | None,
        typer.Option(
            "--at",
            parser=moment,
            metavar="TIME",
            help="Ask for another moment than now, by what is known now: RFC 3339.",
        ),
    ] = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Tell what the policy decided of a notification, and what it would decide now.

    By today's rules and what is known today of the recipient. Nothing is changed. What else may be
    in its way is told by `sendoff explain`.
    """
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        told = console.call("policy", id=str(id), at=written(at) if at else None)
    if as_json:
        write_json(told)
    else:
        show(told, at=at)


def show(told: Mapping[str, Any], *, at: datetime | None) -> None:
    """Write what was decided, from what, and what would be now."""
    whom = told["recipient_id"] or "a literal address"
    say(f"{told['id']}  {told['status']}")
    say(f"{told['category']} ({told['stream']}), {told['priority']}, to {whom}")
    stored: Mapping[str, Any] | None = told["stored"]
    then: Mapping[str, Any] = {}
    if stored:
        then = stored["inputs"] or then
        reason = f" ({stored['reason']})" if stored["reason"] else ""
        when = f" at {short_time(stored['at'])}" if stored["at"] else ""
        tell(f"Decided{when}, by policy {stored['policy_version']}: {stored['verdict']}{reason}.")
    asked_of = f"At {short_time(told['at'])}" if at else "Now"
    say("")
    if told["is_parent"]:
        show_candidates(told["today"], asked_of=asked_of)
    else:
        (today,) = told["today"]
        tell(answer_words(today, asked_of=asked_of))
        tell(today["difference"])
        show_inputs(then, today["inputs"] or {})
        show_contact_points(today["contact_points"])
    if told["is_over"]:
        say("")
        tell(OVER.format(status=told["status"]))


def answer_words(today: Mapping[str, Any], *, asked_of: str) -> str:
    """Return what the policy says, and what that means."""
    reason = f" ({today['reason']})" if today["reason"] else ""
    verdict = f"{today['verdict']}{reason}"
    return f"{asked_of}, by policy {today['policy_version']}: {verdict}. {today['sentence']}"


def show_candidates(answers: Sequence[Mapping[str, Any]], *, asked_of: str) -> None:
    """Write what the policy says to each channel of a notification by several: no more, for there
    is nothing of the whole that it was decided from."""
    for today in answers:
        tell(answer_words(today, asked_of=f"{asked_of} by {today['channel']}"))
    tell(answers[0]["difference"])


def show_inputs(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Write what each verdict was made from, side by side."""
    names = list(dict.fromkeys([*now, *then]))
    if names:
        say("")
        show_table(
            ("MADE FROM", "THEN", "NOW"),
            [
                (name, said(then[name]) if name in then else NOTHING, said(now.get(name)))
                for name in names
            ],
        )
        if VERSIONS & set(names):
            tell(RUNNING_NUMBERS)


def show_contact_points(points: list[Mapping[str, Any]]) -> None:
    """Write the addresses there are, in the recipient's order, by what they are good for."""
    if points:
        say("")
        show_table(
            ("CONTACT POINT", "VERIFIED", "SUPPRESSED", "SINCE", "BECAUSE", "CHOSEN"),
            [
                (
                    place,
                    said(one["verified"]),
                    said(one["suppressed"]),
                    short_time(one["suppression"] and one["suppression"]["created_at"]),
                    because(one["suppression"]),
                    said(one["chosen"]),
                )
                for place, one in enumerate(points, start=1)
            ],
        )


def because(fact: Mapping[str, Any] | None) -> str:
    """Return why an address is suppressed, who says so, and for which category, if for one."""
    if fact is None:
        return NOTHING
    of = f", for {fact['category']}" if fact["category"] else ""
    return f"{fact['reason']} (source {fact['source']}{of})"
