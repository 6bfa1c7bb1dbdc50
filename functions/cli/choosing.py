"""Which held notifications a command is about: those that are named, or a choice that is shown."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import typer

from functions.cli.console import Console
from functions.cli.console_error import Refused
from functions.cli.listing import number_of
from functions.cli.operating import confirm, listed

NO_END = 1_000_000_000
"""More than are ever held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Ids by name, or by filters when there are no ids."""

    ids: tuple[UUID, ...]
    channel: str | None
    reason: str | None
    organization: str | None

    @classmethod
    def read(
        cls,
        ids: Sequence[UUID] | None,
        *,
        channel: str | None,
        reason: str | None,
        organization: str | None,
        everything: bool,
    ) -> "Chosen":
        """Return the choice; what is no clear choice is a matter of usage."""
        filters = [one for one in (channel, reason, organization) if one is not None]
        if not ids and not filters and not everything:
            raise typer.BadParameter(
                "Name ids, or choose by --channel, --reason, --organization, or --all."
            )
        if ids and (filters or everything):
            raise typer.BadParameter("Name ids or choose by options, not both.")
        if filters and everything:
            raise typer.BadParameter("--all is about everything; leave it out beside a filter.")
        return cls(ids=tuple(ids or ()), channel=channel, reason=reason, organization=organization)


def chosen(
    console: Console,
    choice: Chosen,
    *,
    verb: str,
    caution: str,
    needless: bool = False,
    yes: bool,
) -> list[str]:
    """Return the ids; a choice by filters is shown and confirmed first.

    ``caution`` says what becomes of those that may have been accepted already. Candidates whose
    notification does without them are chosen only where that is ``needless``.
    """
    if choice.ids:
        return [str(id) for id in choice.ids]
    held = listed(
        console,
        "dead.list",
        limit=NO_END,
        after=None,
        channel=choice.channel,
        reason=choice.reason,
        organization_id=organization_id_of(console, choice.organization),
        needless=needless or None,
    )["data"]
    if held:
        typer.echo(_shown(held, caution), err=True)
        confirm(f"{verb} {'it' if len(held) == 1 else 'all of them'}?", yes=yes)
    return [row["id"] for row in held]


def _shown(held: Sequence[dict[str, Any]], caution: str) -> str:
    reasons = Counter(row["reason"] for row in held)
    by_reason = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    words = f"{number_of(len(held), 'held notification')}: {by_reason}."
    doubtful = sum(row["in_doubt"] > 0 or row["reason"] == "outcome_unknown" for row in held)
    if doubtful and caution:
        words += f"\n{doubtful:,} may have been accepted already, and {caution}."
    return words


def organization_id_of(console: Console, named: str | None) -> str | None:
    """Return the id of the tenant named by id or name; raise Refused when there is none."""
    if named is None:
        return None
    try:
        return str(UUID(named))
    except ValueError:
        tenants = listed(console, "tenant.list", limit=NO_END, after=None)["data"]
    for tenant in tenants:
        if tenant["name"] == named:
            return tenant["id"]
    raise Refused(
        f"There is no tenant called {named!r}. `sendoff tenant list` shows all.", code="not_found"
    )
