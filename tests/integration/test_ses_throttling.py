"""FAULTS D5: throttling, quotas and pauses of SES are waits, and nothing is sent twice for them.

Two hundred emails meet an SES that says no, in each of its ways, and that recovers.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
import pytest

from functions.core.states import Stream
from functions.core.stream import SenderIdentity
from functions.providers.aws import AwsClient
from functions.providers.ses import QUOTA_SECONDS, SesProvider
from functions.providers.transport import Transport
from functions.sender.record import Report
from functions.store.claim import NO_ORGANIZATION, Leased, lease_page
from functions.store.connection import Database
from tests.conformance import set_up
from tests.fakes import add_notifications
from tests.sending import records_of, sender
from tests.steps import LEASE_SECONDS, channel_of
from tests.wire import Wire, peer

ROWS = 200
SET = 10
SENDER = SenderIdentity(identity="no-reply@notify.example", configuration_set="notify-tx")

NEWS = "news@notify.example"

RATE = (429, "TooManyRequestsException", "Maximum sending rate exceeded.")
THROTTLING = (400, "ThrottlingException", "Rate exceeded")
QUOTA = (400, "LimitExceededException", "Daily message quota exceeded.")
PAUSED = (400, "SendingPausedException", "Sending is paused for the configuration set.")
BROKEN = (500, "InternalServiceErrorException", "We encountered an internal error.")


@dataclass(slots=True)
class FakeSes:
    """Answers ``refusal`` to everything (of the one From address ``refused``, if there is one), or
    accepts; knows what it was asked.

    ``asked`` counts requests by attempt, ``accepted`` acceptances by notification.
    """

    refusal: tuple[int, str, str] | None = None
    refused: str | None = None
    asked: Counter[str] = field(default_factory=Counter[str])
    accepted: Counter[str] = field(default_factory=Counter[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, wire: Wire) -> None:
        while True:
            request = json.loads(wire.read_request().body)
            tags = {tag["Name"]: tag["Value"] for tag in request["EmailTags"]}
            refusal = self.refusal
            if self.refused not in (None, request["FromEmailAddress"]):
                refusal = None
            with self.lock:
                self.asked[tags["attempt_id"]] += 1
                if refusal is None:
                    self.accepted[tags["notification_id"]] += 1
            if refusal is None:
                wire.answer(200, json.dumps({"MessageId": tags["attempt_id"]}).encode())
            else:
                status, code, message = refusal
                body = json.dumps({"message": message}).encode()
                wire.answer(status, body, {"x-amzn-ErrorType": code})


Deliver = Callable[[], Report]


def lease_of(database: Database, stream: str) -> list[Leased]:
    """Lease all that is ready of ``stream``."""
    return lease_page(
        database,
        channel="email",
        stream=stream,
        priority="normal",
        page=ROWS,
        after=NO_ORGANIZATION,
        lease_seconds=LEASE_SECONDS,
        leased_by="test",
    ).leased


@pytest.fixture
def ses(
    owner: psycopg.Connection, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Generator[tuple[FakeSes, Deliver]]:
    """SES, and what leases all that is ready and hands it to a sender in sets of ten."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    fake = FakeSes()
    with peer(fake.serve) as server:
        client = AwsClient("sesv2", transport=Transport(), endpoint_url=server.url)
        provider = SesProvider(client=client)
        set_up(owner, channel="email", provider="ses", sender=SENDER, deadline_seconds=20.0)

        def deliver() -> Report:
            report = Report()
            leases = [leased for stream in Stream for leased in lease_of(database, stream)]
            with sender(database, provider, seconds=120.0) as one:
                for start in range(0, len(leases), SET):
                    part = one.deliver(records_of(leases[start : start + SET]))
                    report.failed += part.failed
                    report.errors += part.errors
                    report.counts += part.counts
            return report

        yield fake, deliver


def let_time_pass(owner: psycopg.Connection) -> None:
    """Make everything due that waits, and every breaker's next probe."""
    owner.execute("""
        UPDATE notifications SET ready = true, available_at = clock_timestamp()
         WHERE status = 'pending'
    """)
    owner.execute("UPDATE breakers SET probe_at = clock_timestamp() WHERE opened_at IS NOT NULL")


def waits_of(owner: psycopg.Connection) -> list[float]:
    """Return how long after the end of its last attempt each is due that was refused."""
    statement = """
        SELECT extract(epoch FROM n.available_at - max(a.finished_at))::float8
          FROM notifications n
          JOIN attempts a ON a.notification_id = n.id
         WHERE n.status = 'pending' AND NOT n.ready
         GROUP BY n.id
    """
    return [row[0] for row in owner.execute(statement)]


def statuses_of(owner: psycopg.Connection) -> dict[str, int]:
    return dict(owner.execute("SELECT status, count(*) FROM notifications GROUP BY 1").fetchall())


def open_breakers_of(owner: psycopg.Connection) -> list[tuple[str, str]]:
    statement = "SELECT scope, code FROM breakers WHERE opened_at IS NOT NULL"
    return owner.execute(statement).fetchall()


def spent_of(owner: psycopg.Connection) -> int:
    ((spent,),) = owner.execute("SELECT max(attempts_spent) FROM notifications").fetchall()
    return spent


def assert_all_were_sent_once(owner: psycopg.Connection, ses: FakeSes, ids: Sequence[UUID]) -> None:
    assert statuses_of(owner) == {"submitted": ROWS}
    assert ses.accepted == Counter({str(id): 1 for id in ids})
    assert set(ses.asked.values()) == {1}


@pytest.mark.parametrize("refusal", [RATE, THROTTLING], ids=["rate", "throttling"])
def test_d5_throttled_emails_wait_with_jitter_spend_nothing_and_all_leave(
    refusal: tuple[int, str, str],
    ses: tuple[FakeSes, Deliver],
    owner: psycopg.Connection,
    database: Database,
) -> None:
    fake, deliver = ses
    ids = add_notifications(owner, ROWS)
    base = channel_of(database, "email").backoff_base_seconds
    fake.refusal = refusal
    for attempt in (1, 2):
        report = deliver()
        assert (report.failed, report.errors) == ([], [])
        assert report.counts["AttemptThrottled"] == ROWS
        assert statuses_of(owner) == {"pending": ROWS}
        assert spent_of(owner) == 0
        assert sum(fake.asked.values()) == attempt * ROWS
        waits = waits_of(owner)
        assert len(waits) == ROWS
        assert min(waits) >= base / 2
        assert len({round(wait, 2) for wait in waits}) > ROWS / 2  # they do not come together
        let_time_pass(owner)
    fake.refusal = None
    deliver()
    assert_all_were_sent_once(owner, fake, ids)


@pytest.mark.parametrize(
    ("refusal", "scope", "seconds"),
    [(QUOTA, "provider", QUOTA_SECONDS), (PAUSED, "sender_identity", 0.0)],
    ids=["quota", "pause"],
)
def test_d5_a_quota_or_a_pause_opens_a_breaker_and_nothing_fails(
    refusal: tuple[int, str, str],
    scope: str,
    seconds: float,
    ses: tuple[FakeSes, Deliver],
    owner: psycopg.Connection,
) -> None:
    fake, deliver = ses
    ids = add_notifications(owner, ROWS)
    fake.refusal = refusal
    deliver()
    assert open_breakers_of(owner) == [(scope, refusal[1])]
    assert statuses_of(owner) == {"pending": ROWS}
    assert spent_of(owner) == 0
    assert sum(fake.asked.values()) <= 2 * SET  # whoever was on the way when it opened
    assert min(waits_of(owner)) >= seconds
    fake.refusal = None
    let_time_pass(owner)
    for _ in range(2):  # the first finds out for all of them
        deliver()
        let_time_pass(owner)
    deliver()
    assert_all_were_sent_once(owner, fake, ids)


def test_a_bulk_identity_that_is_paused_leaves_the_transactional_one_alone(
    ses: tuple[FakeSes, Deliver], owner: psycopg.Connection
) -> None:
    fake, deliver = ses
    transactional = add_notifications(owner, SET)
    bulk = add_notifications(owner, SET, category="news")
    owner.execute("UPDATE notifications SET stream = 'bulk' WHERE category = 'news'")
    owner.execute("UPDATE streams SET sender_identity = %s WHERE name = 'bulk'", [NEWS])
    fake.refusal, fake.refused = PAUSED, NEWS
    for _ in range(2):
        deliver()
        let_time_pass(owner)
    more = add_notifications(owner, SET)
    deliver()
    assert open_breakers_of(owner) == [("sender_identity", "SendingPausedException")]
    assert statuses_of(owner) == {"submitted": 2 * SET, "pending": SET}
    assert fake.accepted == Counter({str(id): 1 for id in (*transactional, *more)})
    assert not fake.accepted.keys() & {str(id) for id in bulk}


def test_d5_what_a_server_error_may_have_sent_is_never_sent_again(
    ses: tuple[FakeSes, Deliver], owner: psycopg.Connection
) -> None:
    fake, deliver = ses
    add_notifications(owner, ROWS)
    fake.refusal = BROKEN
    deliver()
    fake.refusal = None
    uncertain = statuses_of(owner)["uncertain"]
    assert uncertain == sum(fake.asked.values())
    for _ in range(3):  # what waits behind the breaker of so many failures leaves then
        let_time_pass(owner)
        deliver()
    left = Counter({"uncertain": uncertain, "submitted": ROWS - uncertain})
    assert statuses_of(owner) == dict(+left)
    assert set(fake.asked.values()) == {1}
    assert set(fake.accepted.values()) <= {1}
