"""The services that injections are played with: each provider's own, as a server on a real socket
that takes what is sent, counts what took effect, and may answer when it is too late."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from functions.core.evidence import Receipt
from functions.core.login import GatewayCredentials
from functions.core.recipient import recipient_hash
from functions.core.stream import SenderIdentity
from functions.providers import http_report, ses_event, sms_event
from functions.providers.aws import AwsClient
from functions.providers.http import HttpProvider
from functions.providers.keyless import KeylessProvider
from functions.providers.provider import Provider
from functions.providers.ses import SesProvider
from functions.providers.sms import SERVICE as SMS_SERVICE
from functions.providers.sms import SmsProvider
from functions.providers.transport import Transport
from tests import pushing, webhooks
from tests.gateway import GATEWAY_SECRET
from tests.wire import Received, Wire

HASH_KEY = b"a key that is only good for tests"
EMAIL, NUMBER = "ok@example.com", "+15550100123"


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """An attempt that a service may report about."""

    notification_id: UUID
    attempt_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A provider and what it talks to.

    make       returns the product's provider, for a server at ``http://127.0.0.1:<port>``
    answer     of an acceptance: body and headers
    effect_of  what a send has an effect as; two sends with one effect are one to the recipient
    token      what is answered to a request that is no send, None where there are none
    reports    what it reports of an attempt that it accepted; empty where it reports nothing
    """

    name: str
    channel: str
    make: Callable[[str], Provider[Any]]
    recipient: Callable[[str], str]
    content: Any
    answer: tuple[bytes, Mapping[str, str]]
    effect_of: Callable[[Received, int], object]
    sender: SenderIdentity = field(default_factory=SenderIdentity)
    country: str | None = None
    token: bytes | None = None
    reports: Callable[[Called], Sequence[Receipt]] = lambda _: ()


@dataclass(slots=True, kw_only=True)
class Fake:
    """A server of ``service``; whoever makes the first ``late`` sends has given up when it answers,
    although it took them."""

    service: Service
    late: int = 0
    sends: list[Received] = field(default_factory=list[Received])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, wire: Wire) -> None:
        while True:
            received = wire.read_request()
            if self.service.token is not None and received.target == TOKEN_PATH:
                wire.answer(200, self.service.token)
                continue
            with self._lock:
                self.sends.append(received)
                is_late = len(self.sends) <= self.late
            if is_late:
                wire.wait_until_gone()
            wire.answer(200, *self.service.answer)

    @property
    def effects(self) -> int:
        """How many messages a recipient has of what was sent."""
        numbered = enumerate(self.sends)
        return len({self.service.effect_of(send, number) for number, send in numbered})


def as_json(body: Mapping[str, Any]) -> tuple[bytes, Mapping[str, str]]:
    return json.dumps(body).encode(), {"Content-Type": "application/json"}


def each_is_one(received: Received, number: int) -> object:
    """Every send is a message of its own."""
    del received
    return number


def by_header(name: str) -> Callable[[Received, int], object]:
    return lambda received, _: received.headers[name]


# A gateway, with and without a memory of keys.


def gateway_at(url: str) -> HttpProvider:
    credentials = GatewayCredentials(secrets=(GATEWAY_SECRET,))
    return HttpProvider(url=url, credentials=credentials, transport=Transport())


def keyless_at(url: str) -> KeylessProvider:
    return KeylessProvider(gateway=gateway_at(url))


def gateway_report(key: str) -> list[Receipt]:
    data = {"event_id": f"e-{key}", "idempotency_key": key, "recipient": EMAIL}
    report = {"type": "delivery.updated", "data": {**data, "status": "accepted"}}
    body = json.dumps(report).encode()
    hashed = recipient_hash(HASH_KEY, "email", EMAIL)
    read = http_report.read_report(body, webhook_id=f"e-{key}")
    return [http_report.receipt_of(read, raw=body, recipient_hash=hashed)]


HTTP = Service(
    name="http",
    channel="email",
    make=gateway_at,
    recipient=lambda _: EMAIL,
    content="Your receipt",
    answer=as_json({"message_id": "m-1"}),
    effect_of=by_header("idempotency-key"),
    reports=lambda called: gateway_report(f"{called.notification_id}"),
)
HTTP_KEYLESS = Service(
    name="http_keyless",
    channel="email",
    make=keyless_at,
    recipient=lambda _: EMAIL,
    content="Your receipt",
    answer=as_json({"message_id": "m-1"}),
    effect_of=each_is_one,
    reports=lambda called: gateway_report(f"{called.notification_id}.{called.attempt_id}"),
)


# AWS


def ses_at(url: str) -> SesProvider:
    return SesProvider(client=AwsClient("sesv2", transport=Transport(), endpoint_url=url))


def ses_reports(called: Called) -> list[Receipt]:
    tags = {
        "notification_id": [str(called.notification_id)],
        "attempt_id": [str(called.attempt_id)],
    }
    mail = {
        "timestamp": datetime.now(UTC).isoformat(),
        "messageId": "0100-m1",
        "destination": [EMAIL],
        "tags": tags,
    }
    return ses_event.parse({"eventType": "Send", "mail": mail, "send": {}}, hash_key=HASH_KEY)


SES = Service(
    name="ses",
    channel="email",
    make=ses_at,
    recipient=lambda _: EMAIL,
    content={"subject": "Your receipt", "text": "Thank you."},
    answer=as_json({"MessageId": "0100-m1"}),
    effect_of=each_is_one,
    sender=SenderIdentity(identity="no-reply@notify.example", configuration_set="notify"),
    reports=ses_reports,
)


def sms_at(url: str) -> SmsProvider:
    return SmsProvider(client=AwsClient(SMS_SERVICE, transport=Transport(), endpoint_url=url))


def sms_reports(called: Called) -> list[Receipt]:
    event = {
        "eventType": "TEXT_PENDING",
        "eventTimestamp": int(datetime.now(UTC).timestamp() * 1000),
        "isFinal": False,
        "destinationPhoneNumber": NUMBER,
        "messageId": "sms-m1",
        "context": {
            "attempt_id": str(called.attempt_id),
            "notification_id": str(called.notification_id),
        },
    }
    return sms_event.parse(event, hash_key=HASH_KEY)


SMS = Service(
    name="sms",
    channel="sms",
    make=sms_at,
    recipient=lambda _: NUMBER,
    content="Your code is 123456.",
    answer=as_json({"MessageId": "sms-m1"}),
    effect_of=each_is_one,
    sender=SenderIdentity(identity="pool-0123"),
    country="US",
    reports=sms_reports,
)

# Push: a duplicate with one collapse id replaces the first.

TOKEN_PATH = "/token"


def collapse_key_of(message: Mapping[str, Any]) -> object:
    return message["android"]["collapse_key"]


def published_as(received: Received, number: int) -> object:
    """Return the collapse id in what is published to SNS: JSON in JSON."""
    del number
    message = json.loads(pushing.parameters_of(received)["Message"])
    return collapse_key_of(json.loads(message["GCM"])["fcmV1Message"]["message"])


SNS = Service(
    name="push (SNS)",
    channel="push",
    make=pushing.provider_at,
    recipient=lambda _: pushing.ENDPOINT,
    content={"title": "Hello", "body": "World"},
    answer=(pushing.result("Publish", MessageId="push-m1"), {"Content-Type": "text/xml"}),
    effect_of=published_as,
    sender=pushing.BY_SNS,
)


def fcm_at(url: str) -> Provider[Any]:
    account = pushing.service_account(f"{url}{TOKEN_PATH}")
    return pushing.provider_at(url, account=lambda: account)


FCM = Service(
    name="push (FCM)",
    channel="push",
    make=fcm_at,
    recipient=lambda _: pushing.TOKEN,
    content={"title": "Hello", "body": "World"},
    answer=as_json({"name": f"projects/{pushing.PROJECT}/messages/0:1"}),
    effect_of=lambda received, _: collapse_key_of(pushing.message_in(received)),
    sender=pushing.BY_FCM,
    token=as_json({"access_token": "access-1", "expires_in": 3600})[0],
)

WEBHOOK = Service(
    name="webhook",
    channel="webhook",
    make=webhooks.provider_at,
    recipient=lambda url: f"{url}/hooks/ok",
    content={"order": 7},
    answer=(b"", {}),
    effect_of=by_header("webhook-id"),
)

SERVICES = (HTTP, HTTP_KEYLESS, SES, SMS, SNS, FCM, WEBHOOK)
