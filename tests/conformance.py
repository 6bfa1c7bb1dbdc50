"""The conformance suite of providers: a local server plays a row of a provider's table, and the
product's own sender, on a real PostgreSQL, makes of it what the row says.

A provider's suite is a ``Subject`` (how it is made for a server's URL), its ``Row``s and one test:

    @pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
    def test_each_row_comes_to_what_the_table_says(row, owner, database):
        conform(row, SUBJECT, owner=owner, database=database)

``conform`` sets the channel and its streams up, adds a notification, leases and delivers it, and
checks the outcome, the ledger, the notification, the suppressions, that as many requests as stated
went over the wire (one), and that the next attempt is not due before the answer and the channel's
backoff allow. It returns what was seen, for whatever else a suite has to say about the row.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import psycopg

from functions.core.declaration import Declaration
from functions.core.outcome import Outcome, OutcomeName, Refused
from functions.core.stream import SenderIdentity
from functions.providers.provider import Provider, Submission
from functions.providers.transport import MAX_RESPONSE_BYTES
from functions.store.connection import Database
from tests.fakes import Row as Columns
from tests.fakes import add_notifications, row_of
from tests.sending import records_of, sender
from tests.steps import channel_of, lease
from tests.wire import Received, Script, answering, hanging_up, peer, resetting, sending, silent

# What a server may play; any other script of tests.wire may be played as well.

HANG: Script = silent
"""Take the request, never answer. Goes with ``Row.lasts``."""
RESET: Script = resetting
"""Take the request, end the connection by RST."""
CLOSE: Script = hanging_up
"""Take the request, end the connection."""


def respond(status: int = 200, body: bytes | Mapping[str, Any] = b"", **headers: str) -> Script:
    """Answer with ``body`` (an object is sent as JSON); ``Retry_After="7"`` names a header."""
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    if isinstance(body, Mapping):
        return answering(
            status, json.dumps(body).encode(), {"Content-Type": "application/json", **names}
        )
    return answering(status, body, names)


def aws_error(status: int, code: str, message: str = "", **members: Any) -> Script:
    """Answer as a JSON service of AWS says ``code``; ``members`` are those the error models."""
    body = {"__type": code, "message": message, **members}
    return respond(status, body, x_amzn_ErrorType=code)


def cut(body: bytes, status: int = 200) -> Script:
    """Answer with ``body``, announced as longer than what comes."""
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Length: {len(body) + 10}\r\n\r\n"
    return sending(head.encode() + body)


def oversized(members: Mapping[str, Any]) -> Script:
    """Answer 200 with ``members`` and more than a provider reads of an answer."""
    return respond(200, {**members, "padding": "x" * MAX_RESPONSE_BYTES})


EMPTY: Script = respond(200)
HTML: Script = respond(200, b"<html><body>Hello</body></html>", Content_Type="text/html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a provider's table: what is played, and what comes of it.

    outcome      of the attempt
    code         of the outcome and in the ledger
    status       of the notification afterwards
    scope        how far the answer reaches; None for one about this very request
    http_status  of the answer, None when there was none that could be used
    wait_seconds the least wait before the next attempt that the outcome asks for
    unforeseen   no table names the answer
    requests     on the wire, per attempt
    lasts        the play goes on for ever: only the deadline ends the call
    """

    name: str
    play: Script
    outcome: OutcomeName
    code: str | None
    status: str
    scope: str | None = None
    http_status: int | None = None
    wait_seconds: float = 0.0
    unforeseen: bool = False
    requests: int = 1
    lasts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The provider under test, and a notification for it.

    make       returns it, for a server at ``http://127.0.0.1:<port>``
    recipient  the address, by that same URL: a webhook's is on the server itself
    sender     what its stream tells it to send as
    country    of a telephone number
    counts     which requests are sends, where there are others (a token, an endpoint)
    """

    channel: str
    make: Callable[[str], Provider[Any]]
    recipient: Callable[[str], str]
    content: Any
    sender: SenderIdentity = field(default_factory=SenderIdentity)
    category: str = "transactional"
    country: str | None = None
    counts: Callable[[Received], bool] = lambda _: True


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What was seen: the outcome, the two rows by their columns, the facts that were added about
    the address as (reason, source, evidence), and the sends as they arrived."""

    outcome: Outcome
    notification: Columns
    attempt: Columns
    facts: list[tuple[str, str, Any]]
    requests: list[Received]


def conform(row: Row, subject: Subject, *, owner: psycopg.Connection, database: Database) -> Played:
    """Play ``row`` and check it; a database serves one row, whose breakers it opens."""
    played = play(row.play, subject, owner=owner, database=database, lasts=row.lasts)
    outcome, notification, attempt = played.outcome, played.notification, played.attempt
    assert (outcome.name, outcome.code, outcome.reach) == (row.outcome, row.code, row.scope)
    assert outcome.unforeseen == row.unforeseen
    assert (outcome.retry_after_seconds or 0) >= row.wait_seconds
    ledger = (attempt.outcome, attempt.code, attempt.scope, attempt.http_status)
    assert ledger == (row.outcome, row.code, row.scope, row.http_status)
    assert notification.status == row.status
    assert notification.attempts_spent == int(outcome.spends)
    assert len(played.requests) == row.requests
    assert len(played.facts) == isinstance(outcome, Refused)
    if row.status == "pending":
        waits = max(
            row.wait_seconds, channel_of(database, subject.channel).backoff_base_seconds / 2
        )
        assert _seconds(attempt.finished_at, notification.available_at) >= waits
    return played


def play(
    script: Script,
    subject: Subject,
    *,
    owner: psycopg.Connection,
    database: Database,
    lasts: bool = False,
) -> Played:
    """Deliver a notification of its own to a server that plays ``script``; return what was seen."""
    for patience in _patiences(lasts):
        with peer(script) as server:
            heard = _Heard(provider=subject.make(server.url))
            set_up(
                owner,
                channel=subject.channel,
                provider=heard.declaration.name,
                sender=subject.sender,
                deadline_seconds=patience,
            )
            id = _add(owner, subject, server.url)
            with sender(database, heard, channel=subject.channel) as one:
                report = one.deliver(records_of(lease(database, channel=subject.channel)))
            requests = [received for received in server.requests if subject.counts(received)]
        assert (report.failed, report.errors) == ([], [])
        if requests or not lasts:
            return Played(
                outcome=heard.outcome,
                notification=row_of(owner, id),
                attempt=_attempt_of(owner, id),
                facts=_facts_of(owner, id),
                requests=requests,
            )
    raise AssertionError("the request never arrived in time")


def _patiences(lasts: bool) -> Iterator[float]:
    """A call that only the deadline ends gets more of it where a busy machine was too slow to
    make the request at all."""
    yield from (0.3, 2.0, 10.0) if lasts else (20.0,)


@dataclass(slots=True, kw_only=True)
class _Heard:
    """A provider as the sender has it, and what it said."""

    provider: Provider[Any]
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def declaration(self) -> Declaration:
        return self.provider.declaration

    @property
    def outcome(self) -> Outcome:
        (outcome,) = self.outcomes
        return outcome

    def prepare(self, submission: Submission) -> Any:
        return self.provider.prepare(submission)

    def submit(self, call: Any, *, deadline: float) -> Outcome:
        outcome = self.provider.submit(call, deadline=deadline)
        with self.lock:
            self.outcomes.append(outcome)
        return outcome


SET_CHANNEL = "UPDATE channels SET provider = %s, provider_deadline_seconds = %s WHERE name = %s"
SET_STREAMS = """
    UPDATE streams SET sender_identity = %s, configuration_set = %s, settings = %s::jsonb
     WHERE channel = %s
"""


def set_up(
    owner: psycopg.Connection,
    *,
    channel: str,
    provider: str,
    sender: SenderIdentity,
    deadline_seconds: float,
) -> None:
    """Have ``channel`` use ``provider``, and both of its streams send as ``sender``."""
    owner.execute(SET_CHANNEL, [provider, deadline_seconds, channel])
    settings = json.dumps(dict(sender.settings))
    owner.execute(SET_STREAMS, [sender.identity, sender.configuration_set, settings, channel])


SET_PLACE = "UPDATE notifications SET country = %s, origin = %s WHERE id = %s"


def _add(owner: psycopg.Connection, subject: Subject, url: str) -> UUID:
    (id,) = add_notifications(
        owner,
        channel=subject.channel,
        recipient=subject.recipient(url),
        content=subject.content,
        category=subject.category,
    )
    origin = url if subject.channel == "webhook" else None
    owner.execute(SET_PLACE, [subject.country, origin, id])
    return id


def _attempt_of(owner: psycopg.Connection, id: UUID) -> Columns:
    statement = "SELECT id FROM attempts WHERE notification_id = %s"
    ((attempt_id,),) = owner.execute(statement, [id]).fetchall()
    return row_of(owner, attempt_id, "attempts")


FACTS = """
    SELECT s.reason, s.source, s.evidence
      FROM suppressions s
      JOIN notifications n USING (organization_id, channel, recipient_hash)
     WHERE n.id = %s
     ORDER BY s.id
"""


def _facts_of(owner: psycopg.Connection, id: UUID) -> list[tuple[str, str, Any]]:
    return cast("list[tuple[str, str, Any]]", owner.execute(FACTS, [id]).fetchall())


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()
