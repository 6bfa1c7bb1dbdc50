"""The simulated outside world: a gateway for every channel, and webhook recipients.

Decides how each request ends from the faults that are switched on, the key's history and the
recipient's behaviour, keeps the ledger, and lets the callbacks follow.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast
from uuid import uuid4

import orjson

from functions.core import signature
from functions.core.states import Channel
from infra.local.simulator_behaviour import Behaviour, Kind, behaviour_of, hook_behaviour
from infra.local.simulator_callbacks import PATIENCE_SECONDS, Callbacks, Report, later
from infra.local.simulator_faults import Faults, Outage
from infra.local.simulator_http import Ending, Reply, Request
from infra.local.simulator_ledger import Entry, KeyHistory, Ledger

TWICE_AFTER_SECONDS = 0.2
"""When a doubled callback is delivered the second time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A request to deliver something: to the gateway, or to a webhook recipient."""

    request: Request
    idempotency_key: str | None
    channel: str
    recipient: str
    behaviour: Behaviour
    is_hook: bool = False


@dataclass(slots=True, kw_only=True)
class Gateway:
    """Answers deliveries and look-ups; used by the event loop alone."""

    ledger: Ledger
    callbacks: Callbacks
    secrets: tuple[str, ...] = ()
    """Gateway secrets; with none, requests need no signature."""
    faults: Faults = field(default_factory=Faults)

    def submit(self, request: Request) -> Reply:
        """Answer ``POST /gateway``."""
        body = _gateway_body(request.body)
        delivery = Delivery(
            request=request,
            idempotency_key=bare_key(request.header(b"idempotency-key")),
            channel=body.get("channel", ""),
            recipient=body.get("recipient", ""),
            behaviour=behaviour_of(body.get("channel", ""), body.get("recipient", "")),
        )
        if not self._is_signed(request):
            return self._refuse(delivery, 401, "unauthenticated")
        if delivery.idempotency_key is None:
            return self._refuse(delivery, 400, "idempotency_key_missing")
        if not body:
            return self._refuse(delivery, 400, "invalid_request")
        return self._deliver(delivery)

    def receive(self, request: Request) -> Reply:
        """Answer a request to ``/hooks/…`` as a webhook recipient: acceptance is delivery."""
        key = request.header(b"webhook-id") or bare_key(request.header(b"idempotency-key"))
        delivery = Delivery(
            request=request,
            idempotency_key=key,
            channel=Channel.WEBHOOK,
            recipient=f"http://{request.header(b'host') or ''}{request.target}",
            behaviour=hook_behaviour(request.path),
            is_hook=True,
        )
        return self._deliver(delivery)

    def look_up(self, key: str) -> Reply:
        """Answer ``GET /gateway/<key>``; an outage of one channel only does not reach it."""
        if self.faults.outage is not Outage.NONE and not self.faults.channels:
            return _outage_reply(self.faults.outage)
        known = self.ledger.accepted(key)
        if known is None:
            return json_reply(404, {"code": "not_found", "detail": "This key was never accepted."})
        return json_reply(200, {"message_id": known.message_id, "status": known.status})

    def _is_signed(self, request: Request) -> bool:
        if not self.secrets:
            return True
        headers = {name.decode("latin-1"): text.decode("latin-1") for name, text in request.headers}
        try:
            signature.verify(request.body, headers=headers, secrets=self.secrets, now=time.time())
        except (signature.BadSignature, signature.BadTimestamp):
            return False
        return True

    def _deliver(self, delivery: Delivery) -> Reply:
        faults = self.faults if self.faults.concern(delivery.channel) else Faults()
        if faults.outage is not Outage.NONE:
            reply = _outage_reply(faults.outage)
            self._record(delivery, reply)
            return reply
        if faults.fails_now():
            reply = self._refuse(delivery, 500, "internal_error")
        else:
            reply = self._judge(delivery)
        return _delayed(reply, faults.latency_seconds) if faults.latency_seconds else reply

    def _judge(self, delivery: Delivery) -> Reply:
        """Answer by the key's history, then by the recipient's behaviour."""
        history = self.ledger.history(delivery.idempotency_key)
        number = delivery.behaviour.number
        if history.message_id is not None:
            return self._repeat(delivery, history)
        match delivery.behaviour.kind:
            case Kind.REJECT:
                return self._refuse(delivery, 400, "invalid_recipient")
            case Kind.FLAKY if history.refusals < number:
                history.refusals += 1
                return self._refuse(delivery, 503, "unavailable")
            case Kind.THROTTLE if not history.throttled:
                history.throttled = True
                wait = ((b"retry-after", b"%d" % number),)
                return self._refuse(delivery, 429, "too_many_requests", headers=wait)
            case _:
                return self._accept(delivery, history)

    def _accept(self, delivery: Delivery, history: KeyHistory) -> Reply:
        """Remember the first acceptance of a key: this is the effect."""
        history.message_id = f"msg_{uuid4().hex}"
        if delivery.is_hook:
            history.status = "delivered"
        kind = delivery.behaviour.kind
        reply = _accepted(history)
        if kind is Kind.HANG or kind is Kind.DROP:
            reply = Reply(ending=Ending.SILENCE if kind is Kind.HANG else Ending.CLOSE)
        elif delivery.is_hook or kind is Kind.SILENT:
            pass
        elif kind is Kind.EARLY:
            reply = replace(reply, before=partial(self._report_early, delivery, history))
        else:
            reply = replace(reply, then=partial(self._report, delivery, history))
        self._record(delivery, reply, message_id=history.message_id, is_effect=True)
        return reply

    def _repeat(self, delivery: Delivery, history: KeyHistory) -> Reply:
        """Answer a key that was accepted before: the first id, and no second effect."""
        reply = _accepted(history)
        unanswered = delivery.behaviour.kind in (Kind.HANG, Kind.DROP)
        if unanswered and not history.reported and not delivery.is_hook:
            reply = replace(reply, then=partial(self._report, delivery, history))
        self._record(delivery, reply, message_id=history.message_id)
        return reply

    def _refuse(
        self,
        delivery: Delivery,
        status: int,
        code: str,
        *,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> Reply:
        reply = json_reply(status, {"code": code, "detail": _DETAILS[code]}, headers=headers)
        self._record(delivery, reply)
        return reply

    def _record(
        self,
        delivery: Delivery,
        reply: Reply,
        *,
        message_id: str | None = None,
        is_effect: bool = False,
    ) -> None:
        lines = [name + b": " + value for name, value in delivery.request.headers]
        entry = Entry(
            at=datetime.now(UTC),
            idempotency_key=delivery.idempotency_key,
            channel=delivery.channel,
            recipient=delivery.recipient,
            behaviour=delivery.behaviour,
            body=delivery.request.body,
            headers=b"\n".join(lines),
            answer=reply.status if reply.ending is Ending.ANSWER else None,
            message_id=message_id,
        )
        self.ledger.record(entry, is_effect=is_effect)

    def _report(self, delivery: Delivery, history: KeyHistory) -> None:
        """Let the callback of an acceptance follow, at once or ``late``."""
        history.reported = True
        behaviour = delivery.behaviour
        wait = behaviour.number if behaviour.kind is Kind.LATE else 0
        later(wait, partial(self._happen, delivery, history))

    async def _report_early(self, delivery: Delivery, history: KeyHistory) -> None:
        """Post the callback before the answer, as a fast provider does."""
        history.reported = True
        settled = self._happen(delivery, history)
        if settled is not None:
            try:
                await asyncio.wait_for(settled.wait(), PATIENCE_SECONDS)
            except TimeoutError:
                return

    def _happen(self, delivery: Delivery, history: KeyHistory) -> asyncio.Event | None:
        """The message arrives, or bounces: look-ups say so from now on, and a callback does."""
        bounces = delivery.behaviour.kind is Kind.BOUNCE
        history.status = "bounced" if bounces else "delivered"
        if not self.faults.callbacks:
            self.callbacks.counts["withheld"] += 1
            return None
        report = Report(
            message_id=history.message_id or "",
            idempotency_key=delivery.idempotency_key,
            recipient=delivery.recipient,
            status=history.status,
            permanent=bounces,
            reason="mailbox_does_not_exist" if bounces else None,
        )
        if delivery.behaviour.kind is Kind.TWICE:
            later(TWICE_AFTER_SECONDS, partial(self.callbacks.post, report))
        return self.callbacks.post(report, urgent=delivery.behaviour.kind is Kind.EARLY)


_DETAILS = {
    "unauthenticated": "The signature is missing or does not match.",
    "idempotency_key_missing": "The header Idempotency-Key is needed.",
    "invalid_request": "The body is an object with the texts recipient and channel.",
    "invalid_recipient": "There is no such recipient.",
    "unavailable": "Not now.",
    "too_many_requests": "Too many requests.",
    "internal_error": "Something went wrong.",
}


def json_reply(
    status: int, body: object, *, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Reply:
    return Reply(status=status, body=orjson.dumps(body), headers=headers)


def bare_key(header: str | None) -> str | None:
    """Return an Idempotency-Key without the quotes of a structured-field string."""
    text = (header or "").strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return text or None


def _accepted(history: KeyHistory) -> Reply:
    return json_reply(200, {"message_id": history.message_id, "status": "accepted"})


def _gateway_body(raw: bytes) -> dict[str, Any]:
    """Return the members of a gateway request; nothing when it has not that shape."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(body, dict):
        return {}
    members = cast(dict[str, Any], body)
    texts = (members.get("recipient"), members.get("channel"))
    return members if all(isinstance(text, str) and text for text in texts) else {}


def _outage_reply(outage: Outage) -> Reply:
    match outage:
        case Outage.HANG:
            return Reply(ending=Ending.SILENCE)
        case Outage.REFUSE:
            return Reply(ending=Ending.RESET)
        case _:
            return json_reply(503, {"code": "unavailable", "detail": "The provider is down."})


def _delayed(reply: Reply, seconds: float) -> Reply:
    """Return ``reply`` given ``seconds`` later: decided at once, answered late."""
    before = reply.before

    async def wait() -> None:
        if before is not None:
            await before()
        await asyncio.sleep(seconds)

    return replace(reply, before=wait)
