"""The pace of questions: a crowd that waits for reports never makes more of them than is allowed.

Offsets count from the database's clock, which is moved by parameter; runs overlap as they do when a
schedule is faster than its function, each with a connection of its own.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

import psycopg
import pytest

from functions.core.declaration import Declaration
from functions.core.login import Login
from functions.providers.choice import DECLARATIONS
from functions.reconcile.reconcile import MAX_ROUNDS
from functions.store.check import CHECKED_AT_ONCE, LATE_SECONDS, MAX_POLLS, Checked, check
from functions.store.connection import Database
from tests.fakes import FIRST_ORGANIZATION, HeldDatabase, add_notifications, row_of
from tests.steps import connected, now_of, waiting

CROWD = 100_000
OVER = 200
"""Of the crowd: their cutoff has come."""

MINUTES = 3
"""So long two runs need to look at all of them once."""

RATE = 10.0
HORIZON_SECONDS = 42.0
"""Of an invocation of 50 s: what is left of it for questions."""

ADD_CROWD = """
    INSERT INTO notifications (id, organization_id, channel, recipient, recipient_hash, content,
                               priority, category, metadata, max_attempts, created_at, ready,
                               available_at, eligible_at, updated_at, status, provider,
                               attempts_spent, evidence_rank, evidence_at, evidence_key,
                               submitted_at, next_check_at)
    SELECT uuidv7(), %(organization)s, (ARRAY['email', 'sms', 'push'])[1 + n %% 3],
           'ok@example.com', decode(repeat('00', 32), 'hex'), '""', 'normal', 'transactional',
           '{}', 5, t.now, true, t.now, t.now, t.now, 'submitted', 'http', 1, 1, t.now, 'k',
           t.now - CASE WHEN n %% %(every)s = 0 THEN interval '30 days' ELSE interval '1 hour' END,
           t.now - n * interval '1 millisecond'
      FROM generate_series(1, %(crowd)s) n, (SELECT %(now)s::timestamptz AS now) t
"""


@dataclass(slots=True)
class Questions:
    """What is given out to be asked, by when it may be (seconds after ``start``)."""

    start: datetime
    at: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    ids: Counter[UUID] = field(default_factory=Counter[UUID])

    def add(self, checked: Checked, now: datetime) -> None:
        for inquiry in checked.inquiries:
            moment = (now - self.start).total_seconds() + inquiry.offset_seconds
            self.at.setdefault(inquiry.provider, []).append(moment)
            self.ids[inquiry.id] += 1

    def busiest_second(self, provider: str = "http") -> int:
        """Return the most that any window of one second holds."""
        moments = sorted(self.at[provider])
        most, first = 0, 0
        for place, moment in enumerate(moments):
            while moments[first] <= moment - 1 + 1e-6:
                first += 1
            most = max(most, place - first + 1)
        return most


def look(
    database: Database,
    now: datetime,
    *,
    rounds: int = MAX_ROUNDS,
    declarations: Sequence[Declaration] = DECLARATIONS,
) -> list[Checked]:
    """Look as a run does: page after page, until nothing is due."""
    pages: list[Checked] = []
    while len(pages) < rounds and (not pages or pages[-1].looked_at == CHECKED_AT_ONCE):
        pages.append(
            check(database, declarations=declarations, horizon_seconds=HORIZON_SECONDS, now=now)
        )
    return pages


def add_due(
    owner: psycopg.Connection, number: int, now: datetime, *, channel: str = "email"
) -> list[UUID]:
    """Add submitted rows that are to be looked at, more than an hour before any cutoff."""
    ids = add_notifications(owner, number, channel=channel)
    owner.execute(
        "UPDATE notifications SET status = 'submitted', provider = 'http', submitted_at = %(now)s,"
        " next_check_at = %(now)s WHERE id = ANY(%(ids)s)",
        {"now": now, "ids": ids},
    )
    return ids


def test_a_hundred_thousand_are_asked_about_in_turn_and_decided_in_time(
    owner: psycopg.Connection, login: Login
) -> None:
    now = now_of(owner)
    parameters = {
        "organization": FIRST_ORGANIZATION,
        "crowd": CROWD,
        "every": CROWD // OVER,
        "now": now,
    }
    owner.execute(ADD_CROWD, parameters)
    owner.execute("UPDATE channels SET poll_rate = %s", [RATE])
    questions = Questions(now)
    decided: list[int] = []
    looked_at = 0
    with (
        connected(login, "first", "second", kind=Database) as runs,
        ThreadPoolExecutor(len(runs)) as threads,
    ):
        for minute in range(MINUTES):
            at = now + timedelta(minutes=minute)
            pages = [page for run in threads.map(look, runs, [at, at]) for page in run]
            for page in pages:
                questions.add(page, at)
            decided.append(sum(page.unconfirmed for page in pages))
            looked_at += sum(page.looked_at for page in pages)
    # Two runs look at 40,000 a minute; each look at a row past its cutoff decides it.
    assert looked_at >= CROWD
    assert sum(decided) == OVER, decided
    assert questions.busiest_second() <= RATE
    # The pace is used: nobody asks less because there are many, or because two runs overlap.
    assert len(questions.at["http"]) >= 0.9 * RATE * MINUTES * HORIZON_SECONDS
    assert max(questions.ids.values()) == 1, "those that found no turn wait for their next look"
    asked = owner.execute("SELECT count(*), sum(polls) FROM notifications WHERE polls > 0")
    assert asked.fetchone() == (len(questions.ids), len(questions.ids))


def test_a_run_beside_another_waits_and_gives_away_what_follows(
    owner: psycopg.Connection, login: Login
) -> None:
    now = now_of(owner)
    add_due(owner, 2 * CHECKED_AT_ONCE, now)
    owner.execute("INSERT INTO polls (provider, reserved_until) VALUES ('http', %s)", [now])
    owner.execute("UPDATE channels SET poll_rate = 100")
    questions = Questions(now)
    with (
        connected(login, "first", kind=HeldDatabase) as (first,),
        connected(login, "second", kind=Database) as (second,),
    ):
        (page,) = look(first, now, rounds=1)
        with waiting(owner, "second", lambda: look(second, now, rounds=1)) as other:
            first.commit()
    for one in [page, *other.result()]:
        questions.add(one, now)
    moments = sorted(questions.at["http"])
    assert len(moments) == 2 * CHECKED_AT_ONCE
    assert all(later - earlier >= 1 / 100 - 1e-6 for earlier, later in pairwise(moments))


def test_after_the_last_turn_there_is_room_for_one_that_is_late(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    owner.execute("UPDATE channels SET poll_rate = %s", [RATE])
    questions = Questions(now)
    for seconds in (0.0, 0.05):
        at = now + timedelta(seconds=seconds)
        add_due(owner, 5, at)
        (page,) = look(database, at)
        questions.add(page, at)
    moments = sorted(questions.at["http"])
    assert moments[5] - moments[4] == pytest.approx(1 / RATE + LATE_SECONDS)


def test_a_clock_stepped_back_gives_no_turn_away_twice(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    owner.execute("UPDATE channels SET poll_rate = %s", [RATE])
    questions = Questions(now)
    for seconds in (0, -20, 5, -3, 30):
        at = now + timedelta(seconds=seconds)
        add_due(owner, 50, at)
        for page in look(database, at):
            questions.add(page, at)
    assert questions.busiest_second() <= RATE


def test_a_provider_of_several_channels_has_the_pace_of_the_slowest(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    for channel, rate in (("email", 50), ("sms", 4), ("push", 20)):
        owner.execute("UPDATE channels SET poll_rate = %s WHERE name = %s", [rate, channel])
        add_due(owner, 20, now, channel=channel)
    (page,) = look(database, now)
    offsets = sorted(inquiry.offset_seconds for inquiry in page.inquiries)
    assert {inquiry.turn_seconds for inquiry in page.inquiries} == {0.25}
    assert offsets == pytest.approx([place * 0.25 for place in range(60)])


def test_each_provider_has_a_pace_of_its_own(owner: psycopg.Connection, database: Database) -> None:
    now = now_of(owner)
    declarations = [
        Declaration(name=name, keyed=True, receipts=True, looks_up=True) for name in ("http", "x")
    ]
    owner.execute("UPDATE channels SET poll_rate = %s", [RATE])
    owner.execute("UPDATE channels SET provider = 'x' WHERE name = 'sms'")
    add_due(owner, 20, now)
    texts = add_due(owner, 20, now, channel="sms")
    owner.execute("UPDATE notifications SET provider = 'x' WHERE id = ANY(%s)", [texts])
    (page,) = look(database, now, declarations=declarations)
    questions = Questions(now)
    questions.add(page, now)
    for provider in ("http", "x"):
        assert len(questions.at[provider]) == 20
        assert questions.busiest_second(provider) <= RATE


def test_a_provider_that_the_channel_has_left_is_not_asked(
    owner: psycopg.Connection, database: Database
) -> None:
    """Its address may be the next provider's by now."""
    now = now_of(owner)
    (id,) = add_due(owner, 1, now)
    owner.execute("UPDATE channels SET provider = 'http_keyless' WHERE name = 'email'")
    (page,) = look(database, now)
    assert (page.looked_at, page.inquiries) == (1, [])
    assert row_of(owner, id).polls == 0


def test_no_notification_is_asked_about_more_than_twelve_times(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET cutoff_seconds = 86400 * 365, check_cap_seconds = 60")
    at = now_of(owner)
    (id,) = add_due(owner, 1, at)
    asked = 0
    for _ in range(20):
        (page,) = look(database, at)
        assert page.looked_at == 1
        asked += len(page.inquiries)
        at = row_of(owner, id).next_check_at
    row = row_of(owner, id)
    assert (asked, row.polls, row.checks, row.status) == (MAX_POLLS, MAX_POLLS, 20, "submitted")


def test_a_look_without_time_to_ask_gives_no_turn_away(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    (id,) = add_due(owner, 1, now)
    checked = check(database, declarations=DECLARATIONS, now=now)
    assert (checked.looked_at, checked.inquiries) == (1, [])
    assert (row_of(owner, id).polls, row_of(owner, id).checks) == (0, 1)
    assert owner.execute("SELECT count(*) FROM polls").fetchone() == (0,)
