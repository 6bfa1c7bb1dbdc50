"""A sender that is stopped (SIGSTOP) between the begin and the call, as a whole process.

Started by a test: ``python -m tests.stopping_sender <json>``, which says where everything is and
how long the invocation lasts. Prints when it ends, by the clock that all processes share
(``time.monotonic``), and at last its report.
"""

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from functions.core.login import GatewayCredentials, Login
from functions.core.outcome import Outcome
from functions.providers.choice import DECLARATIONS
from functions.providers.http import DECLARATION, HttpProvider
from functions.providers.provider import Declaration, PreparedCall, Submission
from functions.providers.transport import Transport
from functions.sender.deliver import Sender
from functions.sender.record import Record
from functions.store.channel import read_channels
from functions.store.connection import Database, connector
from tests.gateway import GATEWAY_SECRET


@dataclass(frozen=True, slots=True)
class Stopping:
    """The real provider, but the process stops before it is called."""

    inner: HttpProvider
    declaration: Declaration = DECLARATION

    def prepare(self, submission: Submission) -> PreparedCall:
        return self.inner.prepare(submission)

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        os.kill(os.getpid(), signal.SIGSTOP)
        sys.stdin.readline()  # a signal to a process takes a moment to reach each of its threads
        return self.inner.submit(call, deadline=deadline)


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    told = json.loads(sys.argv[1])
    login = Login(**told["login"])
    database = Database(connector(lambda: login, application_name="stopping"))
    provider = HttpProvider(
        url=told["url"],
        credentials=GatewayCredentials(secrets=(GATEWAY_SECRET,)),
        transport=Transport(),
    )
    channel = read_channels(database)["email"]
    ends_at = time.monotonic() + told["seconds"]
    say(ends_at)
    with ThreadPoolExecutor(1) as threads:
        report = Sender(
            database=database,
            provider_of=lambda _name, _url: Stopping(provider),
            channel=channel,
            declarations=DECLARATIONS,
            threads=threads,
            ends_at=ends_at,
        ).deliver([Record(message_id="message", body=told["body"], received=1)])
    say({"failed": report.failed, "counts": report.counts})


if __name__ == "__main__":
    main()
