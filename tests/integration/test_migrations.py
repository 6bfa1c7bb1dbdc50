"""Migrations: every way to apply them gives one schema, and the schema refuses what must not be."""

import shutil
import subprocess
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from functions.core.states import Status
from functions.migrate.migrate import FOLDER, MigrationRefused, configure, migrate, read
from infra.local.postgres import HOST, SUPERUSER, Postgres, binaries
from tests.conftest import owner_connection
from tests.fakes import add_notifications

_numbers = count(1)

INTENT = (
    "id", "organization_id", "batch_id", "batch_index", "channel", "recipient", "recipient_id",
    "recipient_hash", "content", "priority", "category", "event_id", "reference", "metadata",
    "send_at", "expires_at", "max_attempts", "parent_id", "created_at", "stream", "template_name",
    "template_version", "segments", "channels", "fallback_after_seconds", "erased_at",
)  # fmt: skip
"""What is written once; an erasure changes it, by functions that can do nothing else."""


@contextmanager
def empty_database(postgres: Postgres) -> Generator[str]:
    """Yield the name of a database in which nothing was ever done."""
    name = f"empty_{next(_numbers)}"
    with owner_connection(postgres, "postgres") as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield name
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def schema_of(postgres: Postgres, name: str) -> str:
    """Return the schema of the database as pg_dump writes it."""
    command = [
        str(binaries() / "pg_dump"), "--schema-only", "--restrict-key=same",
        "-h", HOST, "-p", str(postgres.port), "-U", SUPERUSER, name,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def migrated(postgres: Postgres) -> Iterator[psycopg.Connection]:
    """The owner's connection to one database for all tests that leave it as it is."""
    with empty_database(postgres) as name, owner_connection(postgres, name) as connection:
        migrate(connection)
        yield connection


@pytest.fixture
def undone(migrated: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """A transaction that is undone at the end of the test, with one notification in it."""
    with migrated.transaction(force_rollback=True):
        add_notifications(migrated)
        yield migrated


@pytest.fixture(scope="module")
def schema(postgres: Postgres) -> str:
    """The schema after all migrations at once."""
    with empty_database(postgres) as name:
        with owner_connection(postgres, name) as connection:
            applied = migrate(connection)
        assert applied == [migration.name for migration in read()]
        return schema_of(postgres, name)


def test_one_by_one_they_give_the_same_schema(
    postgres: Postgres, schema: str, tmp_path: Path
) -> None:
    with empty_database(postgres) as name, owner_connection(postgres, name) as connection:
        for path in sorted(FOLDER.glob("*.sql")):
            shutil.copy(path, tmp_path)
            assert migrate(connection, folder=tmp_path) == [path.stem]
        assert schema_of(postgres, name) == schema


def test_twice_they_give_the_same_schema(postgres: Postgres, schema: str) -> None:
    with empty_database(postgres) as name, owner_connection(postgres, name) as connection:
        migrate(connection)
        assert migrate(connection) == []
        assert schema_of(postgres, name) == schema


def test_by_two_runners_at_once_they_give_the_same_schema(postgres: Postgres, schema: str) -> None:
    def run(connection: psycopg.Connection) -> list[str]:
        return migrate(connection)

    with (
        empty_database(postgres) as name,
        owner_connection(postgres, name) as first,
        owner_connection(postgres, name) as second,
        ThreadPoolExecutor(2) as threads,
    ):
        applied = [name for names in threads.map(run, (first, second)) for name in names]
        assert sorted(applied) == [migration.name for migration in read()]
        assert schema_of(postgres, name) == schema


def test_a_runner_that_dies_in_a_file_leaves_whole_files(
    postgres: Postgres, schema: str, tmp_path: Path
) -> None:
    files = sorted(FOLDER.glob("*.sql"))
    for path in files:
        shutil.copy(path, tmp_path)
    broken = tmp_path / files[2].name
    broken.write_text(broken.read_text(encoding="utf-8") + "\nSELECT 1 / 0;\n", encoding="utf-8")
    with empty_database(postgres) as name, owner_connection(postgres, name) as connection:
        with pytest.raises(errors.DivisionByZero):
            migrate(connection, folder=tmp_path)
        assert migrate(connection) == [path.stem for path in files[2:]]
        assert schema_of(postgres, name) == schema


def test_a_file_changed_after_it_was_applied_is_refused(
    owner: psycopg.Connection, tmp_path: Path
) -> None:
    for path in FOLDER.glob("*.sql"):
        shutil.copy(path, tmp_path)
    first = min(tmp_path.glob("*.sql"))
    first.write_text(first.read_text(encoding="utf-8") + "\n-- changed\n", encoding="utf-8")
    with pytest.raises(MigrationRefused, match=f"{first.stem} was changed"):
        migrate(owner, folder=tmp_path)


def test_a_missing_file_is_refused(owner: psycopg.Connection, tmp_path: Path) -> None:
    for path in FOLDER.glob("*.sql"):
        shutil.copy(path, tmp_path)
    sorted(tmp_path.glob("*.sql"))[1].unlink()
    with pytest.raises(MigrationRefused, match="not numbered 1 to"):
        migrate(owner, folder=tmp_path)


@pytest.mark.parametrize("name", ["1_create_tenants.sql", "0001-create.sql", "0001_create.sql"])
def test_a_file_of_another_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("SELECT 1", encoding="utf-8")
    with pytest.raises(MigrationRefused, match="is not named"):
        read(tmp_path)


def test_code_older_than_the_schema_still_runs(owner: psycopg.Connection, tmp_path: Path) -> None:
    """A deployment rolled back meets the newer schema: migrations only ever expand."""
    for path in sorted(FOLDER.glob("*.sql"))[:-1]:
        shutil.copy(path, tmp_path)
    assert migrate(owner, folder=tmp_path) == []


def test_the_service_role_may_update_the_state_of_a_notification_and_never_its_intent(
    migrated: psycopg.Connection,
) -> None:
    columns = """
        SELECT attname, has_column_privilege('sendoff_service', attrelid, attnum, 'UPDATE')
          FROM pg_attribute
         WHERE attrelid = 'notifications'::regclass AND attnum > 0 AND NOT attisdropped
    """
    may_update = dict(migrated.execute(columns).fetchall())
    derived = {"address_hash"}  # generated, so that nobody updates it
    assert {column for column, may in may_update.items() if not may} == {*INTENT, *derived}


@pytest.mark.parametrize("column", INTENT)
def test_the_service_role_cannot_change_what_was_asked_for(
    undone: psycopg.Connection, column: str
) -> None:
    undone.execute("SET LOCAL ROLE sendoff_service")
    with pytest.raises(errors.InsufficientPrivilege):
        undone.execute(f"UPDATE notifications SET {column} = {column}".encode())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE channels SET rate = 1",
        "UPDATE channels SET paused_at = now()",
        "DELETE FROM notifications",
        "DELETE FROM attempts",
        "DELETE FROM transitions",
        "UPDATE transitions SET reason = 'x'",
        "UPDATE suppressions SET kind = 'lift'",
        "DELETE FROM suppressions",
        "UPDATE attempts SET id = id",
        "UPDATE receipts SET raw = raw",
        "UPDATE batches SET organization_id = organization_id",
        "INSERT INTO api_keys SELECT",
        "CREATE TABLE public.stray (id integer)",
    ],
)
def test_the_service_role_may_not(undone: psycopg.Connection, statement: str) -> None:
    undone.execute("SET LOCAL ROLE sendoff_service")
    with pytest.raises(errors.InsufficientPrivilege):
        undone.execute(statement.encode())


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("status = 'sent'", "notifications_status_is_known"),
        ("channel = 'fax'", "notifications_channel_is_known"),
        ("priority = 'urgent'", "notifications_priority_is_known"),
        ("recipient_hash = 'short'", "notifications_recipient_hash_is_a_digest"),
        ("status = 'leased'", "notifications_leased_has_a_lease"),
        ("status = 'uncertain'", "notifications_uncertain_has_an_attempt"),
        ("discarded_at = now()", "notifications_only_dead_is_discarded"),
        ("status = 'delivered'", "notifications_final_has_a_time"),
        ("status = 'cancelled'", "notifications_final_has_a_time"),
        ("status = 'dead'", "notifications_held_has_a_reason"),
        (
            "evidence_rank = 5, evidence_at = now(), evidence_key = 'k'",
            "notifications_evidence_rank_is_known",
        ),
        ("evidence_rank = 1", "notifications_evidence_is_whole"),
        ("in_doubt = -1", "notifications_counters_are_natural"),
        ("attempts_spent = -1", "notifications_counters_are_natural"),
        ("max_attempts = 0", "notifications_counters_are_natural"),
        ("template_name = 'receipt'", "notifications_template_has_a_version"),
        ("channels = '{email,sms}'", "notifications_parent_is_not_sent"),
        ("parent_id = uuidv7()", "notifications_child_has_a_place"),
        ("contact_hash = 'short'", "notifications_contact_hash_is_a_digest"),
        (
            "send_at = now(), expires_at = now() - interval '1 s'",
            "notifications_expire_after_they_are_sent",
        ),
    ],
)
def test_a_notification_that_cannot_be_is_refused(
    undone: psycopg.Connection, change: str, constraint: str
) -> None:
    with pytest.raises(errors.CheckViolation) as refused:
        undone.execute(f"UPDATE notifications SET {change}".encode())
    assert refused.value.diag.constraint_name == constraint


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("rate = 0", "channels_pace_is_positive"),
        ("burst = 0.5", "channels_pace_is_positive"),
        ("max_in_flight = 0", "channels_pace_is_positive"),
        ("page = 1001", "channels_pace_is_positive"),
        ("tokens = -1", "channels_bucket_is_not_negative"),
        ("lease_seconds = 0", "channels_times_are_positive"),
        ("backoff_cap_seconds = 1", "channels_times_are_positive"),
        ("max_attempts = 0", "channels_max_attempts_is_positive"),
        ("unknown_policy = 'hope'", "channels_unknown_policy_is_known"),
        ("backoff_curve = 'steep'", "channels_backoff_curve_is_known"),
        ("slow_factor = 0", "channels_slow_factor_is_a_share"),
        ("slow_factor = 1.5", "channels_slow_factor_is_a_share"),
        ("endpoint_concurrency = 0", "channels_endpoint_concurrency_is_positive"),
        ("fallback_after_seconds = 0", "channels_fallback_after_is_positive"),
    ],
)
def test_a_channel_that_cannot_be_is_refused(
    undone: psycopg.Connection, change: str, constraint: str
) -> None:
    with pytest.raises(errors.CheckViolation) as refused:
        undone.execute(f"UPDATE channels SET {change} WHERE name = 'email'".encode())
    assert refused.value.diag.constraint_name == constraint


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        (
            "INSERT INTO recipients (organization_id, recipient_id, quiet_start, quiet_end, "
            "time_zone) VALUES (uuidv7(), 'ada', '22:00', '22:00', 'UTC')",
            "recipients_quiet_hours_are_a_window",
        ),
        (
            "INSERT INTO recipients (organization_id, recipient_id, quiet_start, time_zone) "
            "VALUES (uuidv7(), 'ada', '22:00', 'UTC')",
            "recipients_quiet_hours_are_a_window",
        ),
        (
            "INSERT INTO recipients (organization_id, recipient_id, quiet_start, quiet_end) "
            "VALUES (uuidv7(), 'ada', '22:00', '07:00')",
            "recipients_quiet_hours_have_a_zone",
        ),
        (
            "INSERT INTO category_rules (organization_id, category, window_start, window_end) "
            "VALUES (uuidv7(), 'news', '08:00', '08:00')",
            "category_rules_have_a_window",
        ),
        (
            "INSERT INTO category_rules (organization_id, category, window_end) "
            "VALUES (uuidv7(), 'news', '08:00')",
            "category_rules_have_a_window",
        ),
    ],
)
def test_a_window_that_cannot_be_is_refused(
    undone: psycopg.Connection, statement: str, constraint: str
) -> None:
    with pytest.raises(errors.CheckViolation) as refused:
        undone.execute(statement.encode())
    assert refused.value.diag.constraint_name == constraint


def test_every_status_of_core_can_be_stored(undone: psycopg.Connection) -> None:
    undone.execute(
        "UPDATE notifications SET reason = 'r', final_at = now(), lease_until = now(), in_doubt = 1"
    )
    for status in Status:
        undone.execute("UPDATE notifications SET status = %s", [status])


ADD_ATTEMPT = """
    INSERT INTO attempts (notification_id, lease_number, id, provider, started_at)
    SELECT id, 1, uuidv7(), 'http', now() FROM notifications
"""


def test_an_attempt_is_one_per_lease(undone: psycopg.Connection) -> None:
    undone.execute(ADD_ATTEMPT)
    with pytest.raises(errors.UniqueViolation) as twice:
        undone.execute(ADD_ATTEMPT)
    assert twice.value.diag.constraint_name == "attempts_one_per_lease"


def test_an_attempt_is_closed_with_an_outcome_and_a_time(undone: psycopg.Connection) -> None:
    undone.execute(ADD_ATTEMPT)
    with pytest.raises(errors.CheckViolation) as unfinished:
        undone.execute("UPDATE attempts SET outcome = 'accepted'")
    assert unfinished.value.diag.constraint_name == "attempts_closed_has_an_outcome"


def test_at_most_four_indexes_hold_final_rows(migrated: psycopg.Connection) -> None:
    """Every other one is partial on a live status, where final rows cost nothing, or holds but
    candidates, chains that go on, and what was erased."""
    total = migrated.execute(
        "SELECT count(*) FROM pg_index WHERE indrelid = 'notifications'::regclass "
        "AND coalesce(pg_get_expr(indpred, indrelid), '') "
        "!~ '(status|lease_until|parent_id|next_step_at|erased_at)'"
    ).fetchone()
    assert total is not None
    assert total[0] <= 4


def numbers_of(owner: psycopg.Connection, name: str) -> dict[str, Any]:
    """Return a channel's columns, but for the memory of what was deployed."""
    row = owner.execute(
        "SELECT to_jsonb(channels) - 'deployed' FROM channels WHERE name = %s", [name]
    ).fetchone()
    assert row is not None
    return row[0]


def stream_of(owner: psycopg.Connection, channel: str, name: str) -> dict[str, Any]:
    row = owner.execute(
        "SELECT to_jsonb(streams) FROM streams WHERE channel = %s AND name = %s", [channel, name]
    ).fetchone()
    assert row is not None
    return row[0]


def test_configure_sets_what_is_named_and_keeps_the_rest(undone: psycopg.Connection) -> None:
    email, sms = numbers_of(undone, "email"), numbers_of(undone, "sms")
    configure(undone, {"email": {"rate": 7, "provider_url": "http://127.0.0.1:9/gateway"}})
    expected = email | {"rate": 7, "provider_url": "http://127.0.0.1:9/gateway"}
    assert numbers_of(undone, "email") == expected
    assert numbers_of(undone, "sms") == sms
    configure(undone, {"email": {"backoff_base_seconds": 1, "backoff_cap_seconds": 8}})
    expected |= {"backoff_base_seconds": 1, "backoff_cap_seconds": 8}
    assert numbers_of(undone, "email") == expected


def test_configure_undoes_nothing_that_was_set_at_run_time(undone: psycopg.Connection) -> None:
    deployed = {"rate": 100, "burst": 50, "provider_url": None, "retries": True}
    configure(undone, {"email": deployed})
    undone.execute(
        "UPDATE channels SET rate = 20, provider_url = 'http://127.0.0.1:9', retries = false"
    )
    before = numbers_of(undone, "email")
    configure(undone, {"email": deployed})
    assert numbers_of(undone, "email") == before
    configure(undone, {"email": deployed | {"rate": 100.0}})  # the same number
    assert numbers_of(undone, "email") == before


def test_configure_sets_what_is_deployed_otherwise_than_before(undone: psycopg.Connection) -> None:
    configure(undone, {"email": {"rate": 100, "burst": 50}})
    undone.execute("UPDATE channels SET rate = 20, burst = 10")
    before = numbers_of(undone, "email")
    configure(undone, {"email": {"rate": 150, "burst": 50, "backoff_curve": "linear"}})
    expected = before | {"rate": 150, "backoff_curve": "linear"}
    assert numbers_of(undone, "email") == expected
    configure(undone, {"email": {"page": 50}})  # what is named no more is remembered
    configure(undone, {"email": {"burst": 50}})
    assert numbers_of(undone, "email") == expected | {"page": 50}


def test_configure_sets_streams_by_the_same_rule(undone: psycopg.Connection) -> None:
    deployed: dict[str, Any] = {
        "email": {
            "provider": "ses",
            "streams": {
                "bulk": {"sender_identity": "news@example.com", "settings": {"reply_to": "a@b.c"}},
                "transactional": {"rate": 5},
            },
        }
    }
    other = stream_of(undone, "sms", "bulk")
    configure(undone, deployed)
    bulk = stream_of(undone, "email", "bulk")
    assert (bulk["sender_identity"], bulk["settings"], bulk["rate"]) == (
        "news@example.com", {"reply_to": "a@b.c"}, None,
    )  # fmt: skip
    assert stream_of(undone, "email", "transactional")["rate"] == 5
    assert stream_of(undone, "sms", "bulk") == other
    undone.execute("UPDATE streams SET sender_identity = 'other@example.com', rate = 7")
    deployed["email"]["streams"]["transactional"] = {"rate": 6}
    configure(undone, deployed)
    assert stream_of(undone, "email", "bulk")["sender_identity"] == "other@example.com"
    assert stream_of(undone, "email", "transactional")["rate"] == 6


@pytest.mark.parametrize(
    "channels",
    [
        {"email": {"rat": 5}},
        {"email": {"paused_at": None}},
        {"email": {"deployed": {}}},
        {"fax": {"rate": 5}},
        {"email": {"streams": {"bulk": {"tokens": 5}}}},
        {"email": {"streams": {"slow": {"rate": 5}}}},
    ],
)
def test_configure_refuses_a_channel_or_a_column_that_there_is_not(
    undone: psycopg.Connection, channels: dict[str, dict[str, Any]]
) -> None:
    with pytest.raises(MigrationRefused):
        configure(undone, channels)


def test_configure_leaves_the_pause_and_the_bucket_alone(undone: psycopg.Connection) -> None:
    undone.execute("UPDATE channels SET paused_at = now(), tokens = 3")
    before = numbers_of(undone, "email")
    configure(undone, {"email": {"page": 50}})
    assert numbers_of(undone, "email") == before | {"page": 50}


def test_configure_refuses_all_when_one_number_cannot_be(undone: psycopg.Connection) -> None:
    before = numbers_of(undone, "email")
    with pytest.raises(errors.CheckViolation):
        configure(undone, {"email": {"rate": 5}, "sms": {"rate": -1}})
    assert numbers_of(undone, "email") == before
