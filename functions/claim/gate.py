"""What stands between a lease and the queue: retries that are off, the policy, and the gates.

Whatever does not pass costs no token, and spends no attempt. What refers to a recipient passes only
with an address chosen and the choice written: the gates see it as it goes out.
"""

import dataclasses
from collections.abc import Callable, Sequence

from functions.core.policy import Allow, ContactPoint, Defer, Recipient, Verdict, decide
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.policy import dumped, recipients_of, record_choices

Judged = list[tuple[Leased, Verdict]]

Gates = Callable[[Sequence[Leased]], Judged]
"""Tells of each row whether it passes: for now (``Defer``, blocked) or for good (``Suppress``) it
may not."""

RETRIES_OFF = "retries_off"


def open_to_all(leased: Sequence[Leased]) -> Judged:
    """Let every row pass."""
    return [(row, Allow()) for row in leased]


def judge(leased: Sequence[Leased], *, database: Database, retries: bool, gates: Gates) -> Judged:
    """Return a verdict for each row; the gates are asked about those that nothing else stops.

    None for a row whose choice of an address could not be written, as somebody else holds it: it
    keeps its lease until the sweep. Raises when the facts cannot be read: nothing is decided then.
    """
    stopped: Judged = []
    asking: list[Leased] = []
    for row in leased:
        if retries or row.is_first:
            asking.append(row)
        else:  # due at once, and yet not ready: it is promoted when retries are on again
            stopped.append((row, Defer(until=row.now, reason=RETRIES_OFF, blocked=True)))
    passing: list[Leased] = []
    for row, verdict in _decided(database, asking):
        if isinstance(verdict, Allow):
            passing.append(row)
        else:
            stopped.append((row, verdict))
    return stopped + gates(passing) if passing else stopped


def _decided(database: Database, leased: Sequence[Leased]) -> Judged:
    """Ask the policy about each row, and write what it chose for those that refer to somebody."""
    asked = [row for row in leased if row.recipient_id is not None]
    if not asked:
        return [(row, decide(row, None, now=row.now)) for row in leased]
    answers = iter(recipients_of(database, asked))
    known = [None if row.recipient_id is None else next(answers) for row in leased]
    judged = [
        (row, decide(row, recipient, now=row.now), recipient)
        for row, recipient in zip(leased, known, strict=True)
    ]
    choices = [
        (row, verdict, recipient)
        for row, verdict, recipient in judged
        if isinstance(verdict, Allow) and recipient is not None
    ]
    written = record_choices(database, choices)
    return [
        (row if row.recipient_id is None else _resolved(row, verdict, recipient), verdict)
        for row, verdict, recipient in judged
        if recipient is None or not isinstance(verdict, Allow) or row.id in written
    ]


def _resolved(row: Leased, verdict: Verdict, recipient: Recipient | None) -> Leased:
    """Return the row as it goes out, or with what it was decided against from."""
    if isinstance(verdict, Allow) and verdict.contact_point is not None:
        return _to(verdict.contact_point, row, locale=verdict.locale)
    return dataclasses.replace(row, decision=dumped(recipient, None, now=row.now))


def _to(point: ContactPoint, row: Leased, *, locale: str | None) -> Leased:
    """Return the row with the address in the place of the reference. Copied by hand, once for each
    row of a page: ``replace`` takes three times as long."""
    return Leased(
        id=row.id,
        organization_id=row.organization_id,
        lease_number=row.lease_number,
        channel=row.channel,
        stream=row.stream,
        priority=row.priority,
        category=row.category,
        country=point.country,
        origin=point.origin,
        address_hash=point.address_hash,
        attempts_spent=row.attempts_spent,
        in_doubt=row.in_doubt,
        now=row.now,
        recipient_id=row.recipient_id,
        expires_at=row.expires_at,
        contact_hash=point.address_hash,
        locale=locale,
        had_attempt=row.had_attempt,
        is_erased=row.is_erased,
    )
