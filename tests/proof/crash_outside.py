"""The queue client and the provider of a process that may die, each with a gate at every call.

Both only carry the call to the outside (crash_world.py), which outlives the process: what was
queued stays queued, and what a provider did stays done.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from functions.core.declaration import Declaration
from functions.core.evidence import Receipt
from functions.core.outcome import Outcome, Transient, Unknown
from functions.providers.provider import NeverAccepted, PreparedCall, Submission
from tests.proof.crash_boundary import Asked, Fault, Gate, Phase

SUBMIT, LOOK_UP, QUEUE_CALL = "submit", "look_up", "SendMessageBatch"
"""The calls, as the outside and the labels of boundaries name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgeredProvider:
    """A provider that keeps its promises as declared; ``call`` reaches its ledger.

    With keys it takes the notification's; without, each attempt has a key that names it, as
    providers.keyless does it.
    """

    declaration: Declaration
    call: Callable[[Asked], Any]

    def prepare(self, submission: Submission) -> PreparedCall:
        key = (
            submission.idempotency_key
            if self.declaration.keyed
            else f"{submission.notification_id}.{submission.attempt_id}"
        )
        request = {
            "key": key,
            "notification_id": str(submission.notification_id),
            "attempt_id": str(submission.attempt_id),
            "recipient": submission.recipient,
        }
        return PreparedCall(
            method="POST", url="ledger", headers={}, body=json.dumps(request).encode()
        )

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        """Say what the ledger answers; a call whose time is over is not begun."""
        if time.monotonic() >= deadline:
            return Transient(code="deadline", begun=False)
        return self.call(Asked(what=SUBMIT, arguments=json.loads(call.body)))

    def look_up(
        self, *, channel: str, idempotency_key: str, deadline: float
    ) -> Receipt | NeverAccepted | None:
        del channel, deadline
        return self.call(Asked(what=LOOK_UP, arguments={"key": idempotency_key}))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedProvider:
    """The same, with a gate before a call is written, after that, and after its answer."""

    ledgered: LedgeredProvider
    gate: Gate

    @property
    def declaration(self) -> Declaration:
        return self.ledgered.declaration

    def prepare(self, submission: Submission) -> PreparedCall:
        return self.ledgered.prepare(submission)

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        kind = json.loads(call.body)["recipient"].partition("@")[0]
        number, label = self.gate.arrive(), f"{SUBMIT} {kind}"
        if self.gate.meet(number, Phase.BEFORE, label):
            raise ConnectionResetError("the connection was lost")
        outcome = self.ledgered.submit(call, deadline=deadline)
        if self.gate.meet(number, Phase.WRITTEN, label):
            return Unknown(code="timeout", detail="no answer came")
        if self.gate.meet(number, Phase.AFTER, label):
            raise ConnectionResetError("the connection was lost")
        return outcome

    def look_up(
        self, *, channel: str, idempotency_key: str, deadline: float
    ) -> Receipt | NeverAccepted | None:
        number = self.gate.arrive()
        if self.gate.meet(number, Phase.BEFORE, LOOK_UP):
            return None
        found = self.ledgered.look_up(
            channel=channel, idempotency_key=idempotency_key, deadline=deadline
        )
        if self.gate.meet(number, Phase.AFTER, LOOK_UP):
            return None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedSqs:
    """SQS as the claim uses it, with a gate before and after each call."""

    gate: Gate

    def send_message_batch(
        self,
        *,
        QueueUrl: str,
        Entries: list[dict[str, str]],
    ) -> dict[str, Any]:
        number, label = self.gate.arrive(), QUEUE_CALL
        fault = self.gate.meet(number, Phase.BEFORE, label)
        if fault is Fault.ERROR:
            raise EndpointConnectionError(endpoint_url=QueueUrl)
        taken = Entries[::2] if fault is Fault.REFUSED else Entries
        refused = [entry for entry in Entries if entry not in taken]
        bodies = [entry["MessageBody"] for entry in taken]
        self.gate.ask(Asked(what=QUEUE_CALL, arguments={"url": QueueUrl, "bodies": bodies}))
        if self.gate.meet(number, Phase.AFTER, label):
            raise ReadTimeoutError(endpoint_url=QueueUrl)
        return {
            "Successful": [{"Id": entry["Id"]} for entry in taken],
            "Failed": [{"Id": entry["Id"], "Code": "InternalError"} for entry in refused],
        }
