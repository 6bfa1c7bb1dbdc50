"""What a command came to for each notification: carried out page by page, shown, and counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from functions.cli.console import Console
from functions.cli.console_error import ConsoleError
from functions.cli.listing import say, show_table, write_json
from functions.cli.operating import FOUND, PAGE, REFUSED, advancing, in_pages

LEFT = frozenset({"needs_consent", "attempt_open", "invalid", "unreadable", "other_channel"})
"""With these fates it still waits for a person."""

SCHEDULED = frozenset({"requeued", "already_scheduled", "awaiting_evidence"})
AT_REST = frozenset({"discarded", "already_discarded"})

SHOWN_ONE_BY_ONE = 20

MEANINGS: Mapping[str, str] = {
    "requeued": "It waits to be sent.",
    "discarded": "It rests.",
    "already_discarded": "It had been discarded before.",
    "already_scheduled": "It waits to be sent already, or is being sent.",
    "awaiting_evidence": "It may have been accepted; evidence or its channel's policy decides.",
    "needs_consent": (
        "It may have been accepted, or a later candidate goes on: --may-send-twice, if a duplicate "
        "does no harm."
    ),
    "attempt_open": "An attempt is still open; the sweep closes it within minutes. Try again then.",
    "expired": "Its time to be sent has passed.",
    "chain_delivered": (
        "Another candidate of its notification was delivered: it is not sent again."
    ),
    "chain_cancelled": "Its notification was cancelled: it is not sent again.",
    "sent_by_candidates": "Its candidates are sent, not it itself: name the one that is held.",
    "invalid": "It was never valid, and nothing can be sent of it: ask for it anew, or discard it.",
    "not_found": "There is no such notification.",
    "unreadable": "Nobody can read the message; it stays in the queue.",
    "other_channel": "The message belongs to another channel; it stays in the queue.",
}


def meaning_of(fate: str) -> str:
    """Return what a fate means; one without a meaning of its own is the status it has."""
    return MEANINGS.get(fate, f"It is {fate}: there is nothing to do.")


def carry_out(
    console: Console, command: str, ids: Sequence[str], *, what: str, **arguments: Any
) -> dict[str, Any]:
    """Give ``command`` for ``ids`` in pages; return the ids of the actions, and every fate.

    Of a command that cannot go on, what was done before is told with its error.
    """
    done: dict[str, Any] = {"action_ids": [], "fates": []}
    with advancing(what, total=len(ids)) as advance:
        for page in in_pages(list(ids)):
            try:
                result = console.call(command, ids=page, **arguments)
            except ConsoleError as error:
                error.partial = done
                if len(ids) > PAGE:
                    error.detail += (
                        f" {len(done['fates']):,} of {len(ids):,} had been decided before. The "
                        "same command goes on; what is done is left alone."
                    )
                raise
            done["action_ids"].append(result["action_id"])
            done["fates"] += result["fates"]
            if len(ids) > PAGE:
                advance(len(done["fates"]))
    return done


def show_fates(done: Mapping[str, Any], *, as_json: bool) -> None:
    """Write what came of each: one by one while they are few, else by fate, and who is left."""
    fates: list[dict[str, str]] = done["fates"]
    if as_json:
        write_json(done)
    elif not fates:
        say("Nothing is held.")
    elif len(fates) <= SHOWN_ONE_BY_ONE:
        _show_each(fates)
    else:
        counts = Counter(one["fate"] for one in fates)
        rows = [(fate, f"{count:,}", meaning_of(fate)) for fate, count in counts.most_common()]
        show_table(("FATE", "NUMBER", "MEANING"), rows)
        left = [one for one in fates if one["fate"] in LEFT]
        if left:
            say("")
            _show_each(left[:SHOWN_ONE_BY_ONE])
        if len(left) > SHOWN_ONE_BY_ONE:
            say(f"{len(left) - SHOWN_ONE_BY_ONE:,} more of those; --json names all.")


def _show_each(fates: Sequence[Mapping[str, str]]) -> None:
    rows = [(one["id"], one["fate"], _meaning_for(one)) for one in fates]
    show_table(("ID", "FATE", "MEANING"), rows)


def _meaning_for(one: Mapping[str, str]) -> str:
    """Return what its fate means, and which candidate is meant instead, if one is."""
    instead = one.get("candidate_id")
    return (
        f"{meaning_of(one['fate'])} The newest is {instead}."
        if instead
        else meaning_of(one["fate"])
    )


def end_by(done: Mapping[str, Any], *, reached: frozenset[str]) -> None:
    """End with the status that the fates call for; with those of ``reached`` all is as asked."""
    fates = {one["fate"] for one in done["fates"]}
    if fates & LEFT:
        raise typer.Exit(FOUND)
    if fates - reached:
        raise typer.Exit(REFUSED)
