"""Parents as they show any pair of candidates, and are cancelled with them: every state of each,
under the constraints of the table."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import namedtuple_row

from functions.store.cancel import cancel_batch
from functions.store.chain import advance
from functions.store.connection import Database
from functions.store.hold import NEVER
from tests.fakes import FIRST_ORGANIZATION, hash_of
from tests.steps import now_of

LEASED = "status = 'leased', lease_number = 1, lease_until = now() + interval '1 hour'"
ACCEPTED = "evidence_rank = 1, evidence_at = now(), evidence_key = 'k'"
ENDED = "final_at = now()"

CHILDREN = {
    "pending": "status = 'pending'",
    "leased": LEASED,
    "under way": f"{LEASED}, attempt_id = uuidv7()",
    "in doubt": "status = 'pending', in_doubt = 1",
    "uncertain": "status = 'uncertain', in_doubt = 1",
    "submitted": f"status = 'submitted', {ACCEPTED}",
    "delivered": f"status = 'delivered', {ENDED}, {ACCEPTED}",
    "failed": f"status = 'failed', {ENDED}, {ACCEPTED}",
    "unconfirmed": f"status = 'unconfirmed', {ENDED}, {ACCEPTED}",
    "unconfirmed in doubt": f"status = 'unconfirmed', {ENDED}, in_doubt = 1",
    "suppressed": f"status = 'suppressed', reason = 'opted_out', {ENDED}",
    "erased": f"status = 'suppressed', reason = 'erased', erased_at = now(), {ENDED}",
    "cancelled": f"status = 'cancelled', {ENDED}",
    "withdrawn": f"status = 'cancelled', reason = 'fallback_delivered', {ENDED}",
    "expired": f"status = 'expired', reason = 'expired', {ENDED}",
    "dead": "status = 'dead', reason = 'rejected'",
    "dead in doubt": "status = 'dead', reason = 'outcome_unknown', in_doubt = 1",
    "discarded": f"status = 'dead', reason = 'rejected', discarded_at = now(), {ENDED}",
}
"""Where a candidate can be."""

PARENTS = {
    name: CHILDREN[name.removesuffix(" by its client")].removesuffix(f", {ACCEPTED}")
    for name in (
        "pending", "uncertain", "submitted", "delivered", "failed", "unconfirmed", "suppressed",
        "erased", "cancelled", "cancelled by its client", "expired", "dead", "discarded",
    )
}  # fmt: skip
"""Where a parent can be, whatever it was told of its candidates last."""

LIVE = frozenset({"pending", "leased", "under way", "in doubt", "uncertain", "submitted"})
WAITS = frozenset({"pending", "leased", "under way", "in doubt"})
MAYBE = frozenset(CHILDREN) - {
    "pending", "leased", "suppressed", "erased", "cancelled", "withdrawn", "expired", "dead",
    "discarded",
}  # fmt: skip
"""Something of it may have been accepted."""

INSERT = """
    INSERT INTO notifications (
        id, organization_id, channel, recipient_id, recipient_hash, content, priority, category,
        metadata, max_attempts, created_at, updated_at, ready, available_at, eligible_at, channels,
        candidate, parent_id, told_status, next_step_at
    )
    SELECT i.id, %(organization_id)s,
           CASE i.place WHEN 1 THEN 'sms' ELSE 'push' END, 'customer-1', %(recipient_hash)s,
           '"Hi"', 'normal', 'transactional', '{}', 5, now(), now(), i.parent_id IS NOT NULL,
           CASE WHEN i.parent_id IS NULL THEN %(never)s ELSE now() END, now(),
           CASE WHEN i.parent_id IS NULL THEN %(channels)s::text[] END, coalesce(i.place, 1),
           i.parent_id, 'untold', CASE WHEN i.parent_id IS NULL THEN now() END
      FROM unnest(%(ids)b::uuid[], %(parents)b::uuid[], %(places)b::int4[])
           AS i (id, parent_id, place)
"""

WITHDRAW = """
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status)
    SELECT id, organization_id, now(), 'client', 'pending', 'cancelled'
      FROM unnest(%s::uuid[]) AS i (id)
      JOIN notifications USING (id)
"""

READ = """
    SELECT id, parent_id, status, candidate, reason, final_at, discarded_at, in_doubt,
           (SELECT count(*) FROM notifications c WHERE c.parent_id = n.id) AS children
      FROM notifications n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A parent and its two candidates, each where the test put it."""

    id: UUID
    children: tuple[UUID, UUID]
    parent: str
    states: tuple[str, str]

    @property
    def shown(self) -> int | None:
        """The place that the parent is to show, as a reader of the contract would say."""
        if "delivered" in self.states:
            return None if self.states == ("delivered",) * 2 else self.states.index("delivered")
        live = [place for place in (0, 1) if self.states[place] in LIVE]
        if live:
            return live[-1]
        sent = any(state in MAYBE for state in self.states)
        passed_over = {"withdrawn", *(("cancelled",) if sent else ())}
        ended = [place for place in (0, 1) if self.states[place] not in passed_over]
        return ended[-1] if ended else None

    @property
    def can_be_cancelled(self) -> bool:
        return (
            not self.parent.startswith("cancelled")
            and not any(state in MAYBE for state in self.states)
            and (
                self.parent in ("pending", "uncertain")
                or any(state in WAITS for state in self.states)
            )
        )


def all_cases(owner: psycopg.Connection, channels: Sequence[str]) -> list[Case]:
    """Put every parent above every pair of candidates."""
    cases = [
        Case(
            id=_id(3 * n),
            children=(_id(3 * n + 1), _id(3 * n + 2)),
            parent=parent,
            states=(first, second),
        )
        for n, (parent, first, second) in enumerate(itertools.product(PARENTS, CHILDREN, CHILDREN))
    ]
    put: defaultdict[str, list[UUID]] = defaultdict(list)
    rows: list[tuple[UUID, UUID | None, int | None]] = []
    for case in cases:
        rows.append((case.id, None, None))
        put[PARENTS[case.parent]].append(case.id)
        for place, id in enumerate(case.children):
            rows.append((id, case.id, place))
            put[CHILDREN[case.states[place]]].append(id)
    ids, parents, places = map(list, zip(*rows, strict=True))
    owner.execute(
        INSERT,
        {
            "organization_id": FIRST_ORGANIZATION, "recipient_hash": hash_of("customer-1"),
            "never": NEVER, "channels": list(channels), "ids": ids, "parents": parents,
            "places": places,
        },
    )  # fmt: skip
    for state, which in put.items():
        statement = sql.SQL("UPDATE notifications SET {} WHERE id = ANY(%s)")
        owner.execute(statement.format(sql.SQL(state)), [which])  # pyright: ignore[reportArgumentType]
    owner.execute(WITHDRAW, [[one.id for one in cases if one.parent == "cancelled by its client"]])
    return cases


def _id(number: int) -> UUID:
    return UUID(int=(7 << 76 | 2 << 62) + number + 1)


def rows_of(owner: psycopg.Connection) -> dict[UUID, Any]:
    with owner.cursor(row_factory=namedtuple_row) as cursor:
        rows: list[Any] = cursor.execute(READ).fetchall()
        return {row.id: row for row in rows}


def go_on(owner: psycopg.Connection, database: Database) -> int:
    """Let all chains go on; return how many children started."""
    first, again = [advance(database, limit=10_000, now=now_of(owner)) for _ in range(2)]
    assert (again.started, again.told) == (0, 0)
    return first.started


@pytest.mark.parametrize("channels", [("push", "sms"), ("push", "sms", "email")], ids=len)
def test_a_parent_shows_what_is_delivered_else_what_goes_on_else_the_last(
    owner: psycopg.Connection, database: Database, channels: Sequence[str]
) -> None:
    cases = all_cases(owner, channels)
    started = go_on(owner, database)
    rows = rows_of(owner)
    for case in cases:
        parent, children = rows[case.id], [rows[id] for id in case.children]
        if case.parent == "cancelled by its client":
            assert (parent.status, parent.children) == ("cancelled", 2), case
            continue
        if parent.children == 3:
            assert (parent.status, parent.candidate) == ("pending", 2), case
            assert (parent.final_at, parent.discarded_at) == (None, None), case
            started -= 1
            continue
        if case.shown is not None:
            assert parent.candidate == case.shown, case
        shown = children[parent.candidate]
        status = "pending" if shown.status == "leased" else shown.status
        waits = len(channels) == 3 and case.parent != "erased" and shown is children[1]
        if waits and shown.status == "unconfirmed":  # the next one is still to start
            assert parent.status == ("uncertain" if shown.in_doubt else "submitted"), case
            assert (parent.final_at, parent.discarded_at, parent.reason) == (None,) * 3, case
        else:
            assert (parent.status, parent.final_at, parent.discarded_at, parent.in_doubt) == (
                status, shown.final_at, shown.discarded_at, shown.in_doubt
            ), case  # fmt: skip
    assert started == 0


def test_a_cancel_withdraws_all_or_nothing_and_leaves_no_trace_of_what_was_shown(
    owner: psycopg.Connection, database: Database
) -> None:
    cases = all_cases(owner, ("push", "sms", "email"))
    batch_id = uuid4()
    owner.execute(
        "INSERT INTO batches (id, organization_id, notification_ids, duplicate_indexes, "
        "accepted_at) VALUES (%s, %s, %s, '{}', now())",
        [batch_id, FIRST_ORGANIZATION, [case.id for case in cases]],
    )
    before = rows_of(owner)
    counted = cancel_batch(database, organization_id=FIRST_ORGANIZATION, batch_id=batch_id)
    assert counted.cancelled == sum(case.can_be_cancelled for case in cases)
    assert counted.already_cancelled == sum(case.parent.startswith("cancelled") for case in cases)
    rows = rows_of(owner)
    for case in cases:
        parent, children = rows[case.id], [rows[id] for id in case.children]
        if not case.can_be_cancelled:
            assert [before[id] for id in (case.id, *case.children)] == [parent, *children], case
            continue
        assert (parent.status, parent.reason, parent.discarded_at) == ("cancelled", None, None), (
            case
        )
        assert parent.final_at, case
        assert not {"pending", "leased"} & {child.status for child in children}, case
    go_on(owner, database)
    rows = rows_of(owner)
    for case in cases:
        if case.can_be_cancelled:
            assert (rows[case.id].status, rows[case.id].children) == ("cancelled", 2), case
