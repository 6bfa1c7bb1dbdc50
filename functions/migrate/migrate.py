"""Apply the forward-only migrations in ``migrations/``, and the channel numbers of this deployment.

One transaction per file under one advisory lock: any number of runners may start at once, and a
crash leaves whole files applied and the rest to the next run.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg

from functions.core.errors import SendoffError

FOLDER = Path(__file__).resolve().parents[2] / "migrations"
_NAME = re.compile(r"(\d{4})_[a-z0-9]+(?:_[a-z0-9]+)+\.sql")

CREATE_LEDGER = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
        number integer NOT NULL,
        name text NOT NULL,
        sha256 text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        CONSTRAINT schema_migrations_pkey PRIMARY KEY (number)
    )
"""
# "sendoff" in ASCII, folded into a bigint: the same key for every runner of this database.
LOCK = "SELECT pg_advisory_xact_lock(x'73656e646f6666'::bigint)"
APPLIED = "SELECT number, sha256 FROM schema_migrations"
RECORD = """
    INSERT INTO schema_migrations (number, name, sha256) VALUES (%(number)s, %(name)s, %(sha256)s)
"""


class MigrationRefused(SendoffError):
    """The migrations in the folder and those in the database do not belong together."""

    code = "migration_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    number: int
    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def read(folder: Path = FOLDER) -> list[Migration]:
    """Return the migrations of ``folder`` in order; raise MigrationRefused on a gap or bad name."""
    found: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise MigrationRefused(f"{path.name} is not named NNNN_verb_object.sql.")
        found.append(
            Migration(number=int(match[1]), name=path.stem, text=path.read_text(encoding="utf-8"))
        )
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise MigrationRefused(f"The migrations are not numbered 1 to {len(found)}: {numbers}.")
    return found


def migrate(connection: psycopg.Connection, *, folder: Path = FOLDER) -> list[str]:
    """Apply what is missing, in order; return the names applied. ``connection`` autocommits."""
    applied: list[str] = []
    for migration in read(folder):
        with connection.transaction():
            connection.execute(LOCK)
            connection.execute(CREATE_LEDGER)
            known = dict(cast("list[tuple[int, str]]", connection.execute(APPLIED).fetchall()))
            if known.get(migration.number, migration.sha256) != migration.sha256:
                raise MigrationRefused(f"{migration.name} was changed after it had been applied.")
            if migration.number in known:
                continue
            # The files of this repository are our own literals.
            connection.execute(cast("LiteralString", migration.text))
            connection.execute(
                RECORD,
                {"number": migration.number, "name": migration.name, "sha256": migration.sha256},
            )
            applied.append(migration.name)
    return applied


TUNABLE = frozenset(
    {
        "provider", "provider_url", "fallback_provider", "fallback_provider_url", "rate", "burst",
        "max_in_flight", "page", "lease_seconds", "provider_deadline_seconds", "retries",
        "backoff_curve", "backoff_base_seconds", "backoff_cap_seconds", "max_attempts",
        "waiting_limit_seconds", "check_base_seconds", "check_cap_seconds", "cutoff_seconds",
        "grace_seconds", "unknown_policy", "poll_rate", "endpoint_concurrency",
        "fallback_after_seconds",
    }
)  # fmt: skip
"""What a deployment may set of a channel; its bucket and pause are the running service's."""

TUNABLE_OF_STREAM = frozenset({"sender_identity", "configuration_set", "settings", "rate", "burst"})

# Only what this deployment sets otherwise than the last one did: what it sets as before may have
# been changed since, at run time, and stays so.
CONFIGURE = """
    UPDATE channels SET (
        provider, provider_url, fallback_provider, fallback_provider_url, rate, burst,
        max_in_flight, page, lease_seconds, provider_deadline_seconds, retries, backoff_curve,
        backoff_base_seconds, backoff_cap_seconds, max_attempts, waiting_limit_seconds,
        check_base_seconds, check_cap_seconds, cutoff_seconds, grace_seconds, unknown_policy,
        poll_rate, endpoint_concurrency, fallback_after_seconds, deployed
    ) = (
        SELECT provider, provider_url, fallback_provider, fallback_provider_url, rate, burst,
               max_in_flight, page, lease_seconds, provider_deadline_seconds, retries,
               backoff_curve, backoff_base_seconds, backoff_cap_seconds, max_attempts,
               waiting_limit_seconds, check_base_seconds, check_cap_seconds, cutoff_seconds,
               grace_seconds, unknown_policy, poll_rate, endpoint_concurrency,
               fallback_after_seconds, channels.deployed || %(deployed)s::jsonb
          FROM jsonb_populate_record(channels, (
               SELECT coalesce(jsonb_object_agg(key, value), '{}')
                 FROM jsonb_each(%(numbers)s::jsonb)
                WHERE value IS DISTINCT FROM channels.deployed -> key))
    )
     WHERE name = %(name)s
"""

CONFIGURE_STREAM = """
    UPDATE streams SET (sender_identity, configuration_set, settings, rate, burst) = (
        SELECT sender_identity, configuration_set, settings, rate, burst
          FROM jsonb_populate_record(streams, (
               SELECT coalesce(jsonb_object_agg(key, value), '{}')
                 FROM jsonb_each(%(numbers)s::jsonb)
                WHERE value IS DISTINCT FROM (
                      SELECT deployed -> (streams.name || '.' || key)
                        FROM channels
                       WHERE channels.name = streams.channel)))
    )
     WHERE channel = %(channel)s AND name = %(stream)s
"""


def configure(connection: psycopg.Connection, channels: Mapping[str, Mapping[str, Any]]) -> None:
    """Set the named columns of each channel, and those of its streams below ``streams``, where they
    differ from what was deployed last; all others keep their value.

    Raises MigrationRefused for a channel, a stream or a column that there is not: a misspelt number
    would otherwise be a silent default.
    """
    with connection.transaction():
        for name, named in sorted(channels.items()):
            numbers = dict(named)
            streams: Mapping[str, Mapping[str, Any]] = numbers.pop("streams", {})
            _refuse_unknown("channel", numbers, TUNABLE)
            deployed = dict(numbers)
            for stream, more in sorted(streams.items()):
                _refuse_unknown("stream", more, TUNABLE_OF_STREAM)
                parameters = {"channel": name, "stream": stream, "numbers": json.dumps(dict(more))}
                if connection.execute(CONFIGURE_STREAM, parameters).rowcount == 0:
                    raise MigrationRefused(f"There is no stream named {stream} of {name}.")
                deployed |= {f"{stream}.{column}": value for column, value in more.items()}
            parameters = {
                "name": name,
                "numbers": json.dumps(numbers),
                "deployed": json.dumps(deployed),
            }
            if connection.execute(CONFIGURE, parameters).rowcount == 0:
                raise MigrationRefused(f"There is no channel named {name}.")


def _refuse_unknown(what: str, numbers: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(set(numbers) - known):
        raise MigrationRefused(f"A {what} has no number named {', '.join(unknown)}.")
