"""The ``http_keyless`` provider: a gateway that does not recognise a key it has seen.

The contract is the gateway's of API.md but for that. Each attempt has a key of its own, which names
it (``<notification>.<attempt>``), so that a report tells which attempt was accepted. An attempt of
unknown outcome waits for such a report; then the channel's policy decides.
"""

from dataclasses import dataclass, replace

from functions.core.declaration import Declaration
from functions.core.outcome import Outcome
from functions.providers import http
from functions.providers.http import HttpProvider
from functions.providers.provider import PreparedCall, Submission

DECLARATION = Declaration(
    name="http_keyless", keyed=False, receipts=True, reports_as=http.DECLARATION.name
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeylessProvider:
    gateway: HttpProvider
    declaration: Declaration = DECLARATION

    def prepare(self, submission: Submission) -> PreparedCall:
        key = f"{submission.notification_id}.{submission.attempt_id}"
        return self.gateway.prepare(replace(submission, idempotency_key=key))

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        return self.gateway.submit(call, deadline=deadline)
