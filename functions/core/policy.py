"""May this notification be sent now? One pure, versioned function; its verdict is stored.

The claim asks it for every row of a page, after the lease and before the queue, from facts read at
that moment: never from copies made when the notification was accepted. The first rule that applies
decides:

rule                                                              verdict
it was erased, or nothing is left of the recipient it refers to   suppress  erased
it has a literal address                                          allow
the recipient refuses its category on its channel                 suppress  opted_out (1)
it is bulk, and the recipient did not ask for its category there  suppress  no_consent
an attempt in doubt went to an address they have no more          suppress  contact_point_changed
the recipient has no address on its channel                       suppress  no_contact_point
it is bulk, and none of the addresses is verified                 suppress  not_verified
all addresses that are left are suppressed                        suppress  suppressed
quiet hours leave no moment of the category's send window         suppress  no_send_time (2)
it is within the recipient's quiet hours                          defer     quiet_hours (2)
it is outside of the category's send window, by their clock       defer     outside_send_window
none of these                                                     allow

(1) not of a transactional category that is declared mandatory
(2) not for ``high`` in a transactional category that is declared to bypass them

Whether a category is bulk or transactional is asked as well when it is decided: the stream that the
notification was accepted to says only by which lane and under which name it goes.

Nobody consents by having an address: what is bulk needs a yes. Addresses are taken in the
recipient's own order, verified ones first, unverified ones for transactional categories only. What
may have been accepted goes to the same address again or nowhere, in the same words: two addresses
would be two messages. A literal address has no record behind it, so there is no preference, zone or
quiet hour to weigh; its suppressions are read when the attempt opens, as everybody's.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID
from zoneinfo import ZoneInfo

from functions.core.local_time import (
    UnknownZone,
    Window,
    first_inside,
    first_outside_all,
    leave_nothing,
    zone_of,
)
from functions.core.states import Priority

POLICY_VERSION = 2
"""Raised with every change of meaning, so that a stored verdict can be explained later."""

SPREADS = {
    Priority.HIGH: timedelta(minutes=1),
    Priority.NORMAL: timedelta(minutes=10),
    Priority.LOW: timedelta(minutes=30),
}
"""Over how long what was deferred to one moment is let go, so that 07:00 is no burst."""

ZONE_AGAIN = timedelta(hours=1)


class Because(StrEnum):
    """Reasons as stored."""

    ERASED = "erased"
    OPTED_OUT = "opted_out"
    NO_CONSENT = "no_consent"
    NO_CONTACT_POINT = "no_contact_point"
    CONTACT_POINT_CHANGED = "contact_point_changed"
    NOT_VERIFIED = "not_verified"
    SUPPRESSED = "suppressed"
    NO_SEND_TIME = "no_send_time"
    QUIET_HOURS = "quiet_hours"
    OUTSIDE_SEND_WINDOW = "outside_send_window"
    UNKNOWN_TIME_ZONE = "unknown_time_zone"


class QuietHours(StrEnum):
    """What quiet hours had to say to what is allowed."""

    NONE = "none"
    OVER = "over"
    BYPASSED = "bypassed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactPoint:
    """An address of a recipient on the channel that is asked about, by its keyed hash."""

    address_hash: bytes
    verified: bool
    country: str | None = None
    origin: str | None = None
    is_suppressed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the organization declares of the category; ``version`` None when it declares nothing
    but whether it is transactional."""

    version: int | None = None
    transactional: bool = False
    mandatory: bool = False
    high_bypasses_quiet_hours: bool = False
    window: Window | None = None


NO_RULES = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """What is known of a recipient, as far as a channel and a category are concerned."""

    version: int
    locale: str | None = None
    time_zone: str | None = None
    quiet_hours: Window | None = None
    preference: bool | None = None
    """What they said to the category on the channel; None: nothing."""
    contact_points: Sequence[ContactPoint] = ()
    """In their own order."""
    rules: Rules = NO_RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """Now: to ``contact_point`` in ``locale``, both of a recipient by reference only."""

    contact_point: ContactPoint | None = None
    locale: str | None = None
    quiet_hours_rule: QuietHours = QuietHours.NONE
    name = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defer:
    """Not now: due again at ``until``, without spending an attempt."""

    until: datetime
    reason: str
    blocked: bool = False
    """Something else than the policy is in its way: it is eligible all the same, and counts as
    waiting from when it was."""
    name = "defer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppress:
    """Never: ends the notification as suppressed."""

    reason: str
    name = "suppress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Not before a person says so: it waits under the hold, which is written on it already."""

    hold_id: UUID
    reason: str
    name = "hold"


Verdict = Allow | Defer | Suppress | Hold


class Candidate(Protocol):
    """What the decision reads of a notification."""

    @property
    def id(self) -> UUID: ...
    @property
    def priority(self) -> str: ...
    @property
    def recipient_id(self) -> str | None: ...
    @property
    def expires_at(self) -> datetime | None: ...
    @property
    def in_doubt(self) -> int: ...
    @property
    def contact_hash(self) -> bytes | None: ...
    @property
    def locale(self) -> str | None: ...
    @property
    def had_attempt(self) -> bool: ...
    @property
    def is_erased(self) -> bool: ...


def decide(
    notification: Candidate, recipient: Recipient | None, *, now: datetime
) -> Allow | Defer | Suppress:
    """Return the verdict; ``recipient`` is None for a literal address, and where nothing is left of
    the one that the notification refers to."""
    if notification.is_erased:
        return Suppress(reason=Because.ERASED)
    if notification.recipient_id is None:
        return Allow()
    if recipient is None:
        return Suppress(reason=Because.ERASED)
    if (refusal := _refusal(recipient)) is not None:
        return Suppress(reason=refusal)
    contact_point = _contact_point(notification, recipient)
    if isinstance(contact_point, Because):
        return Suppress(reason=contact_point)
    try:
        ruling = _by_the_clock(notification, recipient, now)
    except UnknownZone:  # nobody can tell what their clock shows: it is not sent at a guess
        until = now + ZONE_AGAIN
        return Defer(until=until, reason=Because.UNKNOWN_TIME_ZONE, blocked=True)
    if isinstance(ruling, Defer | Suppress):
        return ruling
    return Allow(
        contact_point=contact_point,
        locale=notification.locale if notification.had_attempt else recipient.locale,
        quiet_hours_rule=ruling,
    )


def _refusal(recipient: Recipient) -> Because | None:
    """Return why the recipient is not to be told at all, None when they may be."""
    rules = recipient.rules
    if rules.transactional and rules.mandatory:
        return None
    if recipient.preference is False:
        return Because.OPTED_OUT
    return None if rules.transactional or recipient.preference else Because.NO_CONSENT


def _contact_point(notification: Candidate, recipient: Recipient) -> ContactPoint | Because:
    """Return the address to use, or why there is none."""
    points = recipient.contact_points
    if notification.in_doubt:
        points = [one for one in points if one.address_hash == notification.contact_hash]
        if not points:
            return Because.CONTACT_POINT_CHANGED
    if not points:
        return Because.NO_CONTACT_POINT
    if not recipient.rules.transactional:
        points = [one for one in points if one.verified]
        if not points:
            return Because.NOT_VERIFIED
    open_points = [one for one in points if not one.is_suppressed]
    if not open_points:
        return Because.SUPPRESSED
    return next((one for one in open_points if one.verified), open_points[0])


def _by_the_clock(
    notification: Candidate, recipient: Recipient, now: datetime
) -> Defer | Suppress | QuietHours:
    """Return until when the recipient's clock is in the way, or what quiet hours say where not.

    In the last year that a time can be written in there is no later to defer to.
    """
    quiet, send = recipient.quiet_hours, recipient.rules.window
    if (quiet is None and send is None) or now.year == MAXYEAR:
        return QuietHours.NONE
    zone = zone_of(recipient.time_zone or "UTC")
    wall = now.astimezone(zone).time()
    is_quiet = quiet is not None and quiet.holds(wall)
    bypasses = _bypasses(notification, recipient.rules)
    closed = [window for window in (None if bypasses else quiet, send and send.rest) if window]
    if not any(window.holds(wall) for window in closed):
        if is_quiet:
            return QuietHours.BYPASSED
        return QuietHours.NONE if quiet is None else QuietHours.OVER
    if leave_nothing(closed):
        return Suppress(reason=Because.NO_SEND_TIME)
    keeps = is_quiet and not bypasses
    reason = Because.QUIET_HOURS if keeps else Because.OUTSIDE_SEND_WINDOW
    return Defer(until=_until(notification, closed, now, zone), reason=reason)


def _bypasses(notification: Candidate, rules: Rules) -> bool:
    return (
        rules.transactional
        and rules.high_bypasses_quiet_hours
        and notification.priority == Priority.HIGH
    )


def _until(
    notification: Candidate, closed: Sequence[Window], now: datetime, zone: ZoneInfo
) -> datetime:
    """Return when the last of ``closed`` is left, later by a share of its own of what may be
    taken: not so long that one begins again, or that the notification expires meanwhile."""
    sharp = first_outside_all(closed, now, zone=zone)
    ends = [first_inside(window, sharp, zone=zone) for window in closed]
    if notification.expires_at is not None and notification.expires_at > sharp:
        ends.append(notification.expires_at)
    room = min(SPREADS[Priority(notification.priority)], *(end - sharp for end in ends))
    return sharp + _share_of(room, notification.id)


def _share_of(room: timedelta, id: UUID) -> timedelta:
    """Return a part of ``room``, evenly spread over ids and the same for one: less than all."""
    place = int.from_bytes(hashlib.sha256(id.bytes).digest()[:8])
    return timedelta(microseconds=room // timedelta(microseconds=1) * place >> 64)
