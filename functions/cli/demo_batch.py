"""The notifications of the demo: all channels, all behaviours of the simulator, mostly ``ok``.

``items(n)`` is one endless deterministic sequence of distinct recipients. Its first thousand are
events/ingest.batch.json, which ``python -m functions.cli.demo_batch`` writes; beyond, the same
mixture repeats with fresh recipients. A test compares the file with what is made here.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functions.core.states import Channel
from infra.local.simulator_behaviour import SMS_PREFIX

EVENT = Path(__file__).resolve().parents[2] / "events" / "ingest.batch.json"
ORIGIN = "http://127.0.0.1:8081"
"""The simulator's default origin, as it stands in the file."""
CYCLE = 1000

_LATE = ("late.2", "late.5", "late.8", "late.12", "late.16", "late.20")
_FLAKY = ("flaky.1", "flaky.2", "flaky.3", "flaky.4", "flaky.5")
_THROTTLE = ("throttle.1", "throttle.2", "throttle.3")

# How many of each; a tuple of names takes turns. Of flaky.5 every attempt of the budget fails.
PLAN: dict[Channel, tuple[tuple[tuple[str, ...], int], ...]] = {
    Channel.EMAIL: (
        (("ok",), 290), (("twice",), 12), (("early",), 12), (_LATE, 12), (("silent",), 10),
        (("bounce",), 12), (("reject",), 12), (_FLAKY, 20), (_THROTTLE, 8), (("hang",), 6),
        (("drop",), 6),
    ),
    Channel.SMS: (
        (("ok",), 187), (("twice",), 1), (("early",), 1), (("late",), 12), (("silent",), 12),
        (("bounce",), 12), (("reject",), 14), (("flaky",), 6), (("throttle",), 3), (("hang",), 1),
        (("drop",), 1),
    ),
    Channel.PUSH: (
        (("ok",), 142), (("twice",), 6), (("early",), 6), (_LATE, 6), (("silent",), 6),
        (("bounce",), 6), (("reject",), 8), (_FLAKY, 10), (_THROTTLE, 4), (("hang",), 3),
        (("drop",), 3),
    ),
    Channel.WEBHOOK: (
        (("ok",), 106), (("twice",), 3), (("early",), 3), (_LATE, 3), (("silent",), 3),
        (("bounce",), 3), (("reject",), 6), (_FLAKY, 10), (_THROTTLE, 5), (("hang",), 4),
        (("drop",), 4),
    ),
}  # fmt: skip

# The first number of a behaviour, and how many numbers it has (late and flaky: as many as are
# quick enough). A behaviour that has run out of numbers gives way to ``ok``.
_SMS_NUMBERS = {
    "ok": (0, 1000),
    "reject": (1000, 1000),
    "bounce": (2000, 1000),
    "silent": (3000, 1000),
    "flaky": (4001, 6),
    "throttle": (5001, 3),
    "hang": (6000, 1),
    "drop": (6001, 1),
    "twice": (6002, 1),
    "early": (6003, 1),
    "late": (6101, 20),
}
_SPARE_NUMBERS = "+1555"
_FIRST_SPARE = 2_000_000
"""Numbers outside the simulator's table are ``ok``."""


@dataclass(frozen=True, slots=True)
class _Seat:
    """One place in the mixture: the ``ordinal``-th of its behaviour, the ``serial``-th of all."""

    channel: Channel
    behaviour: str
    ordinal: int
    of: int
    serial: int

    @property
    def position(self) -> float:
        """Where it stands in the cycle: evenly spread, one of each kind first."""
        return self.ordinal / self.of


def _seats() -> list[_Seat]:
    seats: list[_Seat] = []
    for channel, groups in PLAN.items():
        serial = 0
        for names, count in groups:
            for ordinal in range(count):
                name = names[ordinal % len(names)]
                seats.append(_Seat(channel, name, ordinal, count, serial))
                serial += 1
    return sorted(seats, key=lambda seat: (seat.position, seat.channel, seat.behaviour))


def items(count: int, *, origin: str = ORIGIN) -> list[dict[str, Any]]:
    """Return the first ``count`` notifications; webhook recipients lie at ``origin``."""
    seats = _seats()
    return [
        _item(seats[number % CYCLE], number=number, cycle=number // CYCLE, origin=origin)
        for number in range(count)
    ]


def _item(seat: _Seat, *, number: int, cycle: int, origin: str) -> dict[str, Any]:
    made = _MAKERS[seat.channel]
    content, priority, category = made[number % len(made)](number)
    return {
        "channel": seat.channel.value,
        "recipient": _recipient(seat, cycle=cycle, origin=origin),
        "content": content,
        "priority": priority,
        "category": category,
        "reference": f"order-{10_000 + number}",
    }


def _recipient(seat: _Seat, *, cycle: int, origin: str) -> str:
    tag = f"{seat.serial:04}" if cycle == 0 else f"{seat.serial:04}-{cycle}"
    match seat.channel:
        case Channel.EMAIL:
            return f"{seat.behaviour}+{tag}@example.com"
        case Channel.PUSH:
            return f"sim-{seat.behaviour}-{tag}"
        case Channel.WEBHOOK:
            return f"{origin}/hooks/{seat.behaviour}/{tag}"
        case Channel.SMS:
            return _number(seat, cycle=cycle)


def _number(seat: _Seat, *, cycle: int) -> str:
    first, available = _SMS_NUMBERS[seat.behaviour]
    ordinal = cycle * seat.of + seat.ordinal
    if ordinal < available:
        return f"{SMS_PREFIX}{first + ordinal:04}"
    return f"{_SPARE_NUMBERS}{_FIRST_SPARE + cycle * CYCLE + seat.serial}"


Made = tuple[Any, str, str]
"""Content, priority, category."""


def _amount(number: int) -> str:
    return f"€ {5 + number * 37 % 190}.{number * 13 % 100:02}"


def _code(number: int) -> str:
    return f"{number * 7919 % 1_000_000:06}"


def _receipt(number: int) -> Made:
    subject = f"Your Northwind receipt for order {10_000 + number}"
    text = f"Thank you for your order. We charged {_amount(number)} to your card."
    html = f"<p>Thank you for your order.</p><p>We charged <b>{_amount(number)}</b>.</p>"
    return {"subject": subject, "text": text, "html": html}, "normal", "transactional"


def _sign_in(number: int) -> Made:
    text = f"Your sign-in code is {_code(number)}. It is valid for 10 minutes."
    return {"subject": "Your Northwind sign-in code", "text": text}, "high", "transactional"


def _shipped(number: int) -> Made:
    text = f"Order {10_000 + number} is on its way and arrives in {1 + number % 4} days."
    return {"subject": "Your order is on its way", "text": text}, "normal", "transactional"


def _newsletter(number: int) -> Made:
    html = f"<h1>New this week</h1><p>{3 + number % 9} roasts we think you will like.</p>"
    return {"subject": "New at Northwind", "html": html}, "low", "newsletter"


def _sms_code(number: int) -> Made:
    return f"{_code(number)} is your Northwind code. Never share it.", "high", "transactional"


def _sms_pickup(number: int) -> Made:
    text = f"Northwind: order {10_000 + number} is ready. Pick it up until 20:00."
    return text, "normal", "transactional"


def _sms_appointment(number: int) -> Made:
    return f"See you tomorrow at {8 + number % 10}:30, Northwind service.", "low", "reminder"


def _push_arriving(number: int) -> Made:
    body = f"Your parcel arrives in about {5 + number % 50} minutes."
    data = {"order": str(10_000 + number)}
    return {"title": "Almost there", "body": body, "data": data}, "normal", "transactional"


def _push_alert(number: int) -> Made:
    body = f"{_amount(number)} was paid with your card. Was it not you? Tap to block it."
    return {"title": "Card payment", "body": body}, "high", "transactional"


def _push_offer(number: int) -> Made:
    return f"Coffee tastes better today: {5 + number % 20} % off.", "low", "offers"


def _order_paid(number: int) -> Made:
    order = {"id": 10_000 + number, "amount": _amount(number), "currency": "EUR"}
    return {"event": "order.paid", "order": order}, "normal", "transactional"


def _stock_low(number: int) -> Made:
    return {"event": "stock.low", "article": f"A-{number % 97}", "left": number % 7}, "low", "stock"


def _payment_disputed(number: int) -> Made:
    content = {"event": "payment.disputed", "order": {"id": 10_000 + number}}
    return content, "high", "transactional"


_MAKERS: dict[Channel, tuple[Callable[[int], Made], ...]] = {
    Channel.EMAIL: (_receipt, _sign_in, _receipt, _shipped, _newsletter),
    Channel.SMS: (_sms_code, _sms_pickup, _sms_code, _sms_appointment),
    Channel.PUSH: (_push_arriving, _push_alert, _push_offer),
    Channel.WEBHOOK: (_order_paid, _order_paid, _payment_disputed, _stock_low),
}


def body_of(notifications: list[dict[str, Any]]) -> str:
    """Return the body of a request that sends ``notifications``."""
    return json.dumps({"notifications": notifications}, ensure_ascii=False, separators=(",", ":"))


def event_text() -> str:
    """Return events/ingest.batch.json: what API Gateway hands to ingest for the first thousand."""
    return json.dumps(_event(body_of(items(CYCLE))), ensure_ascii=False, indent=2) + "\n"


def _event(body: str) -> dict[str, Any]:
    """Return an HTTP API event, payload 2.0, as the ``$default`` route passes it on."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/v1/notifications/batches",
        "rawQueryString": "",
        "headers": {
            "accept": "application/json",
            "content-length": str(len(body.encode())),
            "content-type": "application/json",
            "host": "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
            "idempotency-key": '"demo-2026-01-01"',
            "user-agent": "northwind/1.0",
            "x-forwarded-for": "203.0.113.7",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
        },
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "a1b2c3d4e5",
            "authorizer": {
                "lambda": {
                    "key_id": "019b76da-a800-7000-8000-000000000002",
                    "organization_id": "019b76da-a800-7000-8000-000000000001",
                    "scopes": "send read admin",
                }
            },
            "domainName": "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
            "domainPrefix": "a1b2c3d4e5",
            "http": {
                "method": "POST",
                "path": "/v1/notifications/batches",
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.7",
                "userAgent": "northwind/1.0",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "$default",
            "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000",
            "timeEpoch": 1767225600000,
        },
        "body": body,
        "isBase64Encoded": False,
    }


def recorded(event: Path = EVENT) -> list[dict[str, Any]]:
    """Return the notifications of the recorded event."""
    recorded_event = json.loads(event.read_text(encoding="utf-8"))
    return json.loads(recorded_event["body"])["notifications"]


if __name__ == "__main__":
    EVENT.write_text(event_text(), encoding="utf-8")
