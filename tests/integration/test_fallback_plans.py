"""What chains cost the claim: nothing where there are none, and their own indexes where there are,
whatever else is stored and whatever the planner knows of it."""

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql

from functions.core.login import Login
from functions.store.chain import advance
from functions.store.connection import Database, connector
from tests.chains import story
from tests.fakes import add_notifications

CHAINS, ORDINARY = 300, 20_000
MOODS = ("no statistics", "values", "generic")

SETTINGS = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
}

MULTIPLY = """
    INSERT INTO notifications (
        id, organization_id, channel, recipient_id, recipient_hash, content, priority, category,
        metadata, max_attempts, created_at, updated_at, ready, available_at, eligible_at, channels,
        candidate, parent_id, status, final_at, told_status, next_step_at
    )
    SELECT k.id, n.organization_id, n.channel, n.recipient_id, n.recipient_hash, n.content,
           n.priority, n.category, n.metadata, 5, n.created_at, n.updated_at, false,
           n.available_at, n.eligible_at, k.channels, 0, k.parent_id, 'submitted', NULL,
           'submitted', k.next_step_at
      FROM notifications n
     CROSS JOIN generate_series(1, %(count)s) AS i
     CROSS JOIN LATERAL (SELECT uuidv7() AS parent_id, uuidv7() AS child_id, i) AS ids
     CROSS JOIN LATERAL (VALUES
           (ids.parent_id, n.channels, NULL::uuid, now() + interval '1 day'),
           (ids.child_id, NULL, ids.parent_id, NULL)
           ) AS k (id, channels, parent_id, next_step_at)
     WHERE n.channels IS NOT NULL AND n.next_step_at IS NOT NULL
"""


@dataclass(slots=True)
class Told:
    """A database that tells how its statements read notifications."""

    database: Database
    notices: list[str] = field(default_factory=list[str])

    def scans(self) -> Generator[tuple[str | None, int]]:
        """Yield the index and how many rows were looked at, of each scan of the table."""
        for notice in self.notices:
            if "plan:\n" in notice:
                yield from _scans(json.loads(notice.split("plan:\n", 1)[1])["Plan"])


def _scans(node: dict[str, Any]) -> Generator[tuple[str | None, int]]:
    if "Scan" in node["Node Type"] and (
        node.get("Relation Name") == "notifications" or "Index Name" in node
    ):
        seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        is_heap = node["Node Type"] == "Bitmap Heap Scan"  # what its index found
        yield node.get("Index Name", "" if is_heap else None), round(seen * node["Actual Loops"])
    for child in node.get("Plans", []):
        yield from _scans(child)


@pytest.fixture
def told(
    owner: psycopg.Connection, login: Login, database: Database, request: pytest.FixtureRequest
) -> Iterator[Told]:
    mood: str = request.param
    add_notifications(owner, ORDINARY)
    owner.execute("UPDATE notifications SET status = 'delivered', final_at = now(), ready = false")
    story(owner, database)
    owner.execute(MULTIPLY, {"count": CHAINS})
    if mood != "no statistics":
        owner.execute("VACUUM ANALYZE notifications")
    for setting, value in SETTINGS.items():
        statement = sql.SQL("ALTER ROLE sendoff_service IN DATABASE {} SET {} = {}")
        owner.execute(
            statement.format(sql.Identifier(login.name), sql.SQL(setting), sql.Literal(value))  # pyright: ignore[reportArgumentType]
        )
    open_one = connector(lambda: login, application_name="told")

    def connect() -> psycopg.Connection:
        connection = open_one()
        if mood == "generic":
            connection.prepare_threshold = 0
            connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.add_notice_handler(
            lambda note: telling.notices.append(note.message_primary or "")
        )
        return connection

    telling = Told(Database(connect))
    yield telling
    telling.database.close()


@pytest.mark.parametrize("told", MOODS, indirect=True)
def test_a_round_without_news_of_chains_probes_two_indexes_and_reads_nothing(told: Told) -> None:
    assert advance(told.database).told == 0
    scans = list(told.scans())
    assert {index for index, _ in scans} == {"notifications_untold", "notifications_next_step"}
    assert sum(rows for _, rows in scans) == 0


@pytest.mark.parametrize("told", MOODS, indirect=True)
def test_a_page_of_chains_is_found_locked_and_moved_by_indexes(
    owner: psycopg.Connection, told: Told
) -> None:
    owner.execute(
        "UPDATE notifications SET status = 'suppressed', final_at = now() WHERE id = ANY(ARRAY("
        "SELECT id FROM notifications WHERE parent_id IS NOT NULL ORDER BY id DESC LIMIT 40))"
    )
    done = advance(told.database, limit=20)
    assert (done.started, done.told, done.is_full) == (20, 20, True)
    scans = list(told.scans())
    assert {index for index, _ in scans} <= {
        "notifications_untold", "notifications_next_step", "notifications_candidates",
        "notifications_pkey", "channels_pkey", "transitions_pkey", "",
    }  # fmt: skip
    assert sum(rows for _, rows in scans) <= 40 * 20
