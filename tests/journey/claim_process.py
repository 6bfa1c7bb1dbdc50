"""A process that claims until nothing is ready, with a queue that writes to standard output.

Arguments: host, port, database, and optionally ``before`` or ``after`` with the number of the
queue's call at which the process kills itself, before the messages of that call are out or after.
It starts when nobody holds the gate, an advisory lock of the database, exclusively.
"""

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from functions.claim.claim import RUN, Claimer
from functions.core.login import Login
from functions.runtime.queue import Queues
from functions.store.connection import Database, connector
from functions.store.survey import survey

GATE = 4711


@dataclass(slots=True)
class PrintingSqs:
    """SQS as the claim uses it: a message is out when its line is."""

    dies: str
    at_call: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def send_message_batch(
        self,
        *,
        QueueUrl: str,
        Entries: list[dict[str, str]],
    ) -> dict[str, Any]:
        del QueueUrl
        number = next(self.numbers)
        self._die("before", number)
        lines = "".join(f"{entry['MessageBody']}\n" for entry in Entries)
        os.write(sys.stdout.fileno(), lines.encode())
        self._die("after", number)
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def _die(self, moment: str, number: int) -> None:
        if self.dies == moment and number == self.at_call:
            os.kill(os.getpid(), signal.SIGKILL)


def main(host: str, port: str, name: str, dies: str = "never", at_call: str = "0") -> None:
    login = Login(host=host, port=int(port), name=name, user="sendoff_service", tls=False)
    database = Database(connector(lambda: login, application_name="claim"))
    sqs = PrintingSqs(dies=dies, at_call=int(at_call))
    queues = Queues(cast(Any, sqs), dict.fromkeys(("email", "sms", "push", "webhook"), "queue"))
    claimer = Claimer(database=database, queues=queues, leased_by=f"process-{os.getpid()}")
    pass_gate = "SELECT pg_advisory_xact_lock_shared(%s)"
    database.run(lambda connection: connection.execute(pass_gate, [GATE]))
    while any(channel.ready for channel in survey(database, run=RUN)):
        claimer.round()
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
