"""Time the claim's page of 1000 due notifications to 1000 recipients, decided by the policy from
what their records say, against the same page to 1000 literal addresses, and print the ratio.

Both are whole rounds of the claimer as it is deployed, in turns: what the machine does meanwhile
happens to both. The database is a real one on the same machine. The queue is another process; it
answers at once, so that nothing hides behind a wait, and a round's time on it is told apart
(``--queue-ms 10`` is about what SQS takes). Exits 1 if the median with policy is beyond 1.5 times
the median without. The machine should have nothing else to do: the database's part of a round is
larger with policy, and a busy machine stretches that part most.
"""

import hashlib
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from statistics import median, quantiles
from typing import Annotated, Any

import boto3
import psycopg
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from functions.claim.guarded import guarded_claimer
from functions.core.login import Login
from functions.core.message import LeaseMessage
from functions.core.states import Channel
from functions.migrate.migrate import migrate
from functions.runtime.queue import Queues
from functions.store.connection import Database, connector
from infra.local.postgres import HOST
from tests.conftest import owner_connection
from tests.fakes import FIRST_ORGANIZATION
from tests.proof.rivals_server import new_database, thrown_away_server

AT_MOST = 1.5
PAGE = 1000
BESIDES = 20
"""So many times a page are recipients and their facts that nobody asks about."""

PACE = """
    UPDATE channels
       SET rate = 1000000, burst = 1000000, tokens = 1000000, max_in_flight = 1000000, page = %s
"""
# Each with an address, a zone and quiet hours that are over, and a yes to what is bulk; one in ten
# with an older address first, which is suppressed.
RECIPIENTS = """
    INSERT INTO recipients (organization_id, recipient_id, locale, time_zone, quiet_start,
                            quiet_end)
    SELECT %(organization_id)s, 'r' || i, 'en',
           (ARRAY['Europe/Berlin', 'America/New_York', 'Asia/Kathmandu', 'UTC'])[1 + mod(i, 4)],
           (now() AT TIME ZONE 'UTC')::time(0) + interval '8 hours 7 minutes',
           (now() AT TIME ZONE 'UTC')::time(0) + interval '8 hours 8 minutes'
      FROM generate_series(1, %(count)s) i;
    INSERT INTO contact_points (organization_id, recipient_id, channel, place, address,
                                address_hash, verified)
    SELECT %(organization_id)s, 'r' || i, c.channel, c.place, 'r' || i || '@' || c.host,
           sha256(('r' || i || '@' || c.host)::bytea), true
      FROM generate_series(1, %(count)s) i,
           (VALUES ('email', 0, 'old.example.com'), ('email', 1, 'example.com'),
                   ('sms', 2, 'example.com')) AS c (channel, place, host)
     WHERE c.place > 0 OR mod(i / %(besides)s, 10) = 0;
    INSERT INTO preferences (organization_id, recipient_id, category, channel, allowed)
    SELECT %(organization_id)s, 'r' || i, p.category, p.channel, true
      FROM generate_series(1, %(count)s) i,
           (VALUES ('news', 'email'), ('news', 'sms'), ('receipts', 'email'))
           AS p (category, channel);
    INSERT INTO suppressions (organization_id, channel, recipient_hash, kind, reason, source,
                              source_at)
    SELECT %(organization_id)s, 'email', sha256(('r' || i || '@old.example.com')::bytea),
           'suppress', 'hard_bounce', 'ses:event', now()
      FROM generate_series(1, %(count)s) i;
    INSERT INTO category_rules (organization_id, category, window_start, window_end)
    VALUES (%(organization_id)s, 'news', '00:00', '23:59:59.999');
    ANALYZE
"""
DUE = """
    INSERT INTO notifications (id, organization_id, channel, recipient, recipient_id,
                               recipient_hash, content, priority, category, metadata, max_attempts,
                               created_at, ready, available_at, eligible_at, updated_at, stream)
    SELECT uuidv7(), %(organization_id)s, 'email',
           CASE WHEN NOT %(referring)s THEN 'r' || i || '@example.com' END,
           CASE WHEN %(referring)s THEN 'r' || i * %(step)s END,
           sha256(('r' || i || '@example.com')::bytea), '"News"', 'normal', 'news', '{}', 5, now(),
           true, now(), now(), now(), 'bulk'
      FROM generate_series(1, %(page)s) i
"""
DONE = """
    UPDATE notifications
       SET status = 'delivered', lease_until = NULL, final_at = now()
     WHERE status = 'leased'
"""


class TakesAll(BaseHTTPRequestHandler):
    """A queue, as far as SendMessageBatch goes: whatever is put on it is on it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    takes_seconds = 0.0

    def do_POST(self) -> None:
        entries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["Entries"]
        successful = [
            {"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": _md5_of(entry["MessageBody"])}
            for entry in entries
        ]
        content = json.dumps({"Successful": successful, "Failed": []}).encode()
        time.sleep(self.takes_seconds)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _md5_of(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _serve(tell_port: Connection, takes_seconds: float) -> None:
    TakesAll.takes_seconds = takes_seconds
    with ThreadingHTTPServer((HOST, 0), TakesAll) as server:
        tell_port.send(server.server_port)
        server.serve_forever()


class TimedQueues(Queues):
    """The product's queues, and how long they took."""

    seconds = 0.0

    def send(self, channel: str, messages: Sequence[LeaseMessage]) -> list[LeaseMessage]:
        begin = time.perf_counter()
        failed = super().send(channel, messages)
        self.seconds += time.perf_counter() - begin
        return failed


@contextmanager
def queue_process(takes_seconds: float) -> Generator[TimedQueues]:
    """Yield the product's queues with all of them in another process."""
    spawning = multiprocessing.get_context("spawn")
    port_of, tell_port = spawning.Pipe(duplex=False)
    process = spawning.Process(target=_serve, args=(tell_port, takes_seconds), daemon=True)
    process.start()
    try:
        url = f"http://{HOST}:{port_of.recv()}"
        sqs = boto3.client(  # pyright: ignore[reportUnknownMemberType]  # services without stubs
            "sqs",
            endpoint_url=url,
            region_name="eu-central-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )
        yield TimedQueues(sqs, dict.fromkeys(Channel, f"{url}/bench"))
    finally:
        process.terminate()
        process.join()


@dataclass(slots=True, kw_only=True)
class Bench:
    """The rounds of both kinds, in seconds."""

    owner: psycopg.Connection
    database: Database
    queues: "TimedQueues"
    seconds: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})
    queueing: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})
    """Of these, on the queue."""

    def prepare(self) -> None:
        self.owner.execute(PACE, [PAGE])
        self.owner.execute(
            "INSERT INTO organizations (id, name) VALUES (%s, 'Bench')", [FIRST_ORGANIZATION]
        )
        with psycopg.ClientCursor(self.owner) as cursor:
            cursor.execute(
                RECIPIENTS,
                {
                    "organization_id": FIRST_ORGANIZATION,
                    "count": PAGE * BESIDES,
                    "besides": BESIDES,
                },
            )

    def round(self, *, referring: bool, counts: bool) -> None:
        """Time a round over a page that is due, in which all of it goes out."""
        parameters: dict[str, Any] = {
            "organization_id": FIRST_ORGANIZATION,
            "referring": referring,
            "page": PAGE,
            "step": BESIDES,
        }
        self.owner.execute(DUE, parameters)
        self.queues.seconds = 0.0
        claimer = guarded_claimer(
            database=self.database, queues=self.queues, leased_by="bench", trouble=_raise
        )
        begin = time.perf_counter()
        done = claimer.round()
        took = time.perf_counter() - begin
        if done.claimed["email"] - done.undispatched != PAGE:
            raise RuntimeError(f"{done} is not a page of {PAGE}")
        if counts:
            self.seconds[referring].append(took)
            self.queueing[referring].append(self.queues.seconds)
        self.owner.execute(DONE)


def _raise(channel: str, error: Exception) -> None:
    raise RuntimeError(channel) from error


def run(bench: Bench, *, rounds: int, tell: Callable[[str], None]) -> None:
    """Run the rounds in turns, each kind first every other time; two of each are not counted."""
    bench.prepare()
    for number in range(-2, rounds):
        tell(f"round {max(number, 0) + 1} of {rounds}")
        for referring in (False, True) if number % 2 else (True, False):
            bench.round(referring=referring, counts=number >= 0)
        if number % 10 == 9:
            bench.owner.execute("VACUUM notifications")


def report(bench: Bench, console: Console) -> float:
    """Print both kinds; return the ratio of their medians."""
    table = Table("page of 1000", "rounds", "p50", "p90", "of it queue", box=box.MARKDOWN)
    for referring, label in ((False, "literal addresses"), (True, "by reference, with policy")):
        seconds = bench.seconds[referring]
        p50, p90, queue = (
            f"{1000 * value:.0f} ms"
            for value in (
                median(seconds),
                quantiles(seconds, n=10)[-1],
                median(bench.queueing[referring]),
            )
        )
        table.add_row(label, str(len(seconds)), p50, p90, queue)
    console.print(table)
    ratio = median(bench.seconds[True]) / median(bench.seconds[False])
    console.print(f"With policy, a page takes {ratio:.2f} times as long (at most {AT_MOST}).")
    return ratio


def main(
    rounds: Annotated[int, typer.Option("--rounds", min=3, help="Of each kind.")] = 40,
    queue_ms: Annotated[float, typer.Option("--queue-ms", min=0, help="Of a call.")] = 0,
) -> None:
    """Time both kinds of page in turns; exit 1 if policy costs more than half of a page."""
    console = Console(width=None if sys.stdout.isatty() else 100)
    with thrown_away_server() as server, queue_process(queue_ms / 1000) as queues:
        name = new_database(server)
        with owner_connection(server, name) as owner:
            migrate(owner)
            login = Login(host=HOST, port=server.port, name=name, user="sendoff_service", tls=False)
            database = Database(connector(lambda: login, application_name="bench"))
            bench = Bench(owner=owner, database=database, queues=queues)
            with console.status("") as status:
                run(bench, rounds=rounds, tell=lambda text: status.update(text))
            database.close()
    if report(bench, console) > AT_MOST:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
