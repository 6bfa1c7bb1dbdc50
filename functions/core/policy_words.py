"""A verdict of the policy in words, and a stored one beside what the policy says at some moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from functions.core.candidate_words import channel_words
from functions.core.cause import CAUSES
from functions.core.decided import Decided
from functions.core.deferral import deferral_words
from functions.core.evidence_words import moment
from functions.core.policy import POLICY_VERSION, Allow, Because, Defer, QuietHours, Suppress

LITERAL = (
    "It may be sent: it has a literal address, so there are no preferences and no quiet hours to "
    "weigh."
)
_BYPASSED = "; quiet hours are bypassed, as its priority and its category may"

_NAMES: dict[str, str] = {
    "policy_version": "the policy itself",
    "recipient_version": "the recipient's record",
    "rules_version": "the rules of the category",
    "transactional": "whether the category is transactional",
    "locale": "the locale",
    "time_zone": "the time zone",
    "quiet_hours": "the quiet hours",
    "window": "the send window",
    "preference": "what the recipient said",
    "contact_verified": "whether the contact point is verified",
}
"""What a verdict depends on, by how it is stored, in words."""

_OF_ALLOWED = frozenset({"contact_verified"})
"""Known only of what goes out."""


class Subject(Protocol):
    """What is decided about, as far as its words go."""

    @property
    def category(self) -> str: ...
    @property
    def recipient_id(self) -> str | None: ...
    @property
    def expires_at(self) -> datetime | None: ...
    @property
    def in_doubt(self) -> int: ...


def verdict_words(
    verdict: Allow | Defer | Suppress,
    subject: Subject,
    *,
    channel: str,
    inputs: Mapping[str, Any],
    now: datetime,
) -> str:
    """Return what a verdict means; ``inputs`` are what it was decided from at ``now``."""
    by = channel_words(channel)
    match verdict:
        case Allow():
            return _allowed(verdict, by)
        case Defer():
            words = deferral_words(
                inputs,
                reason=verdict.reason,
                category=subject.category,
                at=now,
                until=verdict.until,
                expires_at=subject.expires_at,
            )
            return (
                words or f"{CAUSES[f'claim.{verdict.reason}']} It waits, and is asked about again."
            )
        case Suppress():
            cause = CAUSES[f"policy.{verdict.reason}"]
            why = cause.format(what=f"{subject.category} by {by}", channel=by)
            end = "unconfirmed" if subject.in_doubt else "suppressed"
            return f"{why} It ends as {end}."


def _allowed(verdict: Allow, by: str) -> str:
    point = verdict.contact_point
    if point is None:
        return LITERAL
    verified = "verified" if point.verified else "unverified"
    locale = f", in {verdict.locale}" if verdict.locale else ""
    bypassed = _BYPASSED if verdict.quiet_hours_rule is QuietHours.BYPASSED else ""
    return f"It may be sent, by {by} to {_a(verified)} contact point{locale}{bypassed}."


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The verdict that was stored last; ``at`` is None where nobody kept when."""

    verdict: str
    reason: str | None
    policy_version: int | None
    at: datetime | None
    inputs: Mapping[str, Any]

    @property
    def is_the_policys(self) -> bool:
        """Nothing else had put it off."""
        return self.reason is None or self.reason in set(Because)


def stored_of(decided: Decided, *, at: datetime | None, reason: str | None) -> Stored | None:
    """Return the stored verdict: made ``at``, if it was against; None before the first."""
    if decided.verdict is None:
        return None
    inputs: Mapping[str, Any] = decided.decision or {}
    is_allowed = decided.verdict == Allow.name
    local_time: str | None = inputs.get("local_time")
    if is_allowed:
        at = None if local_time is None else datetime.fromisoformat(local_time)
    return Stored(
        verdict=decided.verdict,
        reason=None if is_allowed else reason,
        policy_version=decided.policy_version,
        at=at,
        inputs=inputs,
    )


def changes_between(
    stored: Stored | None, inputs: Mapping[str, Any], *, is_allowed: bool
) -> dict[str, tuple[Any, Any]]:
    """Return by name what of the inputs was otherwise then: (then, now)."""
    if stored is None:
        return {}
    then = {**stored.inputs, "policy_version": stored.policy_version}
    now = {**inputs, "policy_version": POLICY_VERSION}
    names = list(_NAMES)
    if None in (then.get("recipient_version"), now.get("recipient_version")):
        names = ["policy_version", "recipient_version"]  # of nobody there is nothing else to tell
    if not (is_allowed and stored.verdict == Allow.name):
        names = [name for name in names if name not in _OF_ALLOWED]
    return {
        name: (then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)
    }


def difference_words(
    stored: Stored | None,
    verdict: Allow | Defer | Suppress,
    changes: Mapping[str, tuple[Any, Any]],
) -> str:
    """Return how a verdict differs from the stored one, and what it may come from."""
    if stored is None:
        return "Nothing was decided of it yet."
    when = f" at {moment(stored.at)}" if stored.at else ""
    then = f"{stored.verdict} ({stored.reason})" if stored.reason else stored.verdict
    if not stored.is_the_policys:
        return f"What stopped it{when} was not the policy, but something else: {stored.reason}."
    reason = None if isinstance(verdict, Allow) else verdict.reason
    is_same = (verdict.name, reason) == (stored.verdict, stored.reason)
    same = f"It is as it was decided{when}: {then}."
    other = f"It is not as it was decided{when}: {then}."
    return f"{same if is_same else other} {_came_of(changes, is_same=is_same)}".rstrip()


def _came_of(changes: Mapping[str, tuple[Any, Any]], *, is_same: bool) -> str:
    if changes:
        named = [
            f"{_NAMES[name]} ({said(was)} to {said(now)})" for name, (was, now) in changes.items()
        ]
        return f"Changed since: {', '.join(named)}."
    return "" if is_same else "Nothing else changed than the time, or which addresses there are."


def said(value: Any) -> str:
    """Return a value that a verdict was decided from, in a word."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case {"start": start, "end": end}:
            return f"{start}–{end}"
        case _:
            return str(value)
