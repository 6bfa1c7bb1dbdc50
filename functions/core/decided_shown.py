"""What an explanation shows of what was asked by reference, decided, and belongs together: plain
values, fit for JSON. Of a recipient only the reference is in it, never an address.
"""

from collections.abc import Callable, Mapping
from typing import Any

from functions.core.decided import Candidate
from functions.core.forecast import is_held, next_of
from functions.core.history import Dossier
from functions.core.times import written

Strike = Callable[[str | None], str | None]


def decision_shown(dossier: Dossier) -> dict[str, Any] | None:
    """Return the last verdict and what it was decided from; None before the first."""
    row, decided = dossier.history.notification, dossier.decided
    if decided.verdict is None:
        return None
    inputs: Mapping[str, Any] = decided.decision or {}
    contact_point = None
    if decided.has_contact_point:
        contact_point = {"channel": row.channel, "verified": inputs.get("contact_verified")}
    return {
        "verdict": decided.verdict,
        "policy_version": decided.policy_version,
        "recipient_version": inputs.get("recipient_version"),
        "rules_version": inputs.get("rules_version"),
        "contact_point": contact_point,
        "locale": decided.locale or inputs.get("locale"),
        "time_zone": inputs.get("time_zone"),
        "local_time": inputs.get("local_time"),
        "preference": inputs.get("preference"),
        "quiet_hours": inputs.get("quiet_hours"),
        "window": inputs.get("window"),
    }


def template_shown(dossier: Dossier) -> dict[str, Any] | None:
    """Return the version that it is rendered from; None when it has its own content.

    Of an invalid request: which was asked for, and no version.
    """
    decided = dossier.decided
    if decided.template_name is None:
        return None
    return {"name": decided.template_name, "version": decided.template_version}


def candidate_shown(
    candidate: Candidate | None, strike: Strike, *, calls: bool = True
) -> dict[str, Any] | None:
    """Return a notification that belongs to the one explained; unless it ``calls`` for a person,
    what is held is not theirs to decide."""
    if candidate is None:
        return None
    after = next_of(candidate)
    if is_held(candidate) and not calls:
        after = None
    return {
        "id": str(candidate.id),
        "place": candidate.place,
        "channel": candidate.channel,
        "status": candidate.status,
        "reason": strike(candidate.reason),
        "created_at": written(candidate.created_at),
        "next": None if after is None else {"action": after.action, "at": written(after.at)},
    }


def faults_shown(dossier: Dossier, strike: Strike) -> list[dict[str, str | None]]:
    """Return what was wrong with what was asked for."""
    return [
        {
            "pointer": strike(one["pointer"]),
            "code": one["code"],
            "detail": strike(one["detail"]),
        }
        for one in dossier.decided.faults
    ]
