"""Notifications that refer to a recipient, and recipients, as tests of the claim need them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from functions.claim.gate import Gates, Judged, judge, open_to_all
from functions.core.states import Stream
from functions.store.claim import NO_ORGANIZATION, Leased, lease_page, record_verdicts
from functions.store.connection import Database
from functions.store.recipient import NewContactPoint, NewRecipient, StoredRecipient, put_recipient
from tests.deciding import window
from tests.fakes import FIRST_ORGANIZATION, add_notifications, hash_of
from tests.steps import LEASE_SECONDS, lease

ADA, ADAS = "ada", "ada@example.com"


def address(to: str, *, channel: str = "email", verified: bool = True) -> NewContactPoint:
    """Return a contact point as the door would make it."""
    return NewContactPoint(
        channel=channel,
        address=to,
        address_hash=hash_of(to),
        verified=verified,
        country="FR" if channel == "sms" else None,
        origin="https://example.com" if channel == "webhook" else None,
    )


def put(
    database: Database,
    *points: NewContactPoint,
    recipient_id: str = ADA,
    organization_id: UUID = FIRST_ORGANIZATION,
    locale: str | None = None,
    time_zone: str | None = "UTC",
    quiet_hours: str | None = None,
    preferences: Mapping[str, Mapping[str, bool]] | None = None,
) -> StoredRecipient:
    """Store a recipient: quiet hours as ``21:00-07:00``, preferences by category and channel."""
    quiet = None if quiet_hours is None else window(quiet_hours)
    document = NewRecipient(
        contact_points=points or (address(ADAS),),
        locale=locale,
        time_zone=time_zone,
        quiet_start=quiet and quiet.start,
        quiet_end=quiet and quiet.end,
        preferences=preferences or {},
    )
    stored, _ = put_recipient(
        database, organization_id=organization_id, recipient_id=recipient_id, document=document
    )
    return stored


REFER = """
    UPDATE notifications
       SET recipient = NULL, recipient_id = %(recipient_id)s, recipient_hash = %(hash)s,
           stream = %(stream)s
     WHERE id = ANY(%(ids)s)
"""


def add_referring(
    owner: psycopg.Connection,
    count: int = 1,
    *,
    recipient_id: str = ADA,
    stream: str = "transactional",
    **intent: Any,
) -> list[UUID]:
    """Put pending notifications to a recipient into the queue of record, as accept would."""
    ids = add_notifications(owner, count, **intent)
    parameters = {
        "ids": ids,
        "recipient_id": recipient_id,
        "hash": hash_of(f"id:{recipient_id}"),
        "stream": stream,
    }
    owner.execute(REFER, parameters)
    return ids


DECLARE = """
    INSERT INTO category_rules (organization_id, category, mandatory, high_bypasses_quiet_hours,
                                window_start, window_end)
    VALUES (%(organization_id)s, %(category)s, %(mandatory)s, %(bypasses)s, %(start)s, %(end)s)
"""
NAMED = """
    INSERT INTO organizations (id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""


def declare(
    owner: psycopg.Connection,
    category: str = "transactional",
    *,
    organization_id: UUID = FIRST_ORGANIZATION,
    mandatory: bool = False,
    bypasses: bool = False,
    hours: str | None = None,
) -> None:
    """Declare a rule of an organization's category."""
    open_hours = None if hours is None else window(hours)
    owner.execute(NAMED, [organization_id, str(organization_id)])
    parameters = {
        "organization_id": organization_id,
        "category": category,
        "mandatory": mandatory,
        "bypasses": bypasses,
        "start": open_hours and open_hours.start,
        "end": open_hours and open_hours.end,
    }
    owner.execute(DECLARE, parameters)


CALL_TRANSACTIONAL = """
    INSERT INTO organizations (id, name, transactional_categories)
    VALUES (%(organization_id)s, %(organization_id)s::text, %(categories)s)
    ON CONFLICT (id) DO UPDATE SET transactional_categories = EXCLUDED.transactional_categories
"""


def call_transactional(
    owner: psycopg.Connection, *categories: str, organization_id: UUID = FIRST_ORGANIZATION
) -> None:
    """Declare that these categories of an organization are transactional, and no others."""
    parameters = {"organization_id": organization_id, "categories": list(categories)}
    owner.execute(CALL_TRANSACTIONAL, parameters)


def judged(
    database: Database,
    leased: Sequence[Leased],
    *,
    gates: Gates = open_to_all,
    now: datetime | None = None,
) -> Judged:
    """Decide a page as the claim does, and store what was decided against."""
    verdicts = judge(leased, database=database, retries=True, gates=gates)
    record_verdicts(database, verdicts, now=now)
    return verdicts


def decided(database: Database, *, now: datetime, **page: Any) -> dict[UUID, str]:
    """Lease a page at ``now`` and decide it; return the verdicts, or their reasons, by id."""
    verdicts = judged(database, lease(database, now=now, **page), now=now)
    return {row.id: getattr(verdict, "reason", verdict.name) for row, verdict in verdicts}


def lease_any(database: Database, *, now: datetime) -> list[Leased]:
    """Lease what is ready of email, of both streams."""
    return [
        row
        for stream in Stream
        for row in lease_page(
            database,
            channel="email",
            stream=stream,
            priority="normal",
            page=100,
            after=NO_ORGANIZATION,
            lease_seconds=LEASE_SECONDS,
            leased_by="test",
            now=now,
        ).leased
    ]


def within(moment: datetime, sharp: datetime, minutes: int = 10) -> bool:
    """Whether ``moment`` lies in the spread after ``sharp``."""
    return sharp <= moment < sharp + timedelta(minutes=minutes)
