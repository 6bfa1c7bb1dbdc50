"""Push services on real sockets: SNS by its actions, FCM by its tokens, Google's token service."""

import contextlib
import json
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from functions.core.stream import SenderIdentity
from functions.providers.push import PushProvider
from functions.providers.transport import Transport
from tests.wire import Peer, Received, Wire, peer

APPLICATION = "arn:aws:sns:eu-central-1:111122223333:app/GCM/shop"
ENDPOINT = (
    "arn:aws:sns:eu-central-1:111122223333:endpoint/GCM/shop/5e3e9847-3183-3f18-a7e8-671c3a57d4b3"
)
APPLE_ENDPOINT = ENDPOINT.replace("GCM", "APNS")
TOKEN = "device-token-1"
PROJECT = "shop-1"

BY_FCM = SenderIdentity(settings={"project_id": PROJECT})
BY_SNS = SenderIdentity(identity=APPLICATION)

_XML = 'xmlns="http://sns.amazonaws.com/doc/2010-03-31/"'

Reply = Callable[[Wire], None]
"""What follows one request: an answer, or none."""


def set_credentials(patch: pytest.MonkeyPatch) -> None:
    """Set what boto3 reads of the environment."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "testing")
    patch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def replying(status: int, body: bytes | Mapping[str, Any], **headers: str) -> Reply:
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda wire: wire.answer(status, raw, names)


def resetting(wire: Wire) -> None:
    wire.reset()


def hanging(wire: Wire) -> None:
    wire.wait_until_gone()


# SNS


def action_of(received: Received) -> str:
    return parameters_of(received)["Action"]


def parameters_of(received: Received) -> dict[str, str]:
    """Return the parameters of a request in the query protocol."""
    return {name: values[0] for name, values in parse_qs(received.body.decode()).items()}


def attributes_of(received: Received) -> dict[str, str]:
    """Return the message attributes of a Publish."""
    parameters = parameters_of(received)
    prefix = "MessageAttributes.entry."
    names = {
        name.removeprefix(prefix).removesuffix(".Name"): value
        for name, value in parameters.items()
        if name.startswith(prefix) and name.endswith(".Name")
    }
    return {
        value: parameters[f"{prefix}{number}.Value.StringValue"] for number, value in names.items()
    }


def is_publish(received: Received) -> bool:
    return action_of(received) == "Publish"


def result(action: str, **members: str) -> bytes:
    """Return what SNS answers to ``action``."""
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in members.items())
    return (
        f"<{action}Response {_XML}><{action}Result>{inner}</{action}Result><ResponseMetadata>"
        f"<RequestId>r-1</RequestId></ResponseMetadata></{action}Response>"
    ).encode()


def error(code: str, message: str = "") -> bytes:
    """Return what SNS answers where it refuses."""
    return (
        f"<ErrorResponse {_XML}><Error><Type>Sender</Type><Code>{code}</Code>"
        f"<Message>{escape(message)}</Message></Error><RequestId>r-1</RequestId></ErrorResponse>"
    ).encode()


PUBLISHED = replying(200, result("Publish", MessageId="push-m1"))
CREATED = replying(200, result("CreatePlatformEndpoint", EndpointArn=ENDPOINT))
CHANGED = replying(200, result("SetEndpointAttributes"))


@dataclass(slots=True)
class Sns:
    """An SNS that replies by the action that it is asked for: by itself, it does it."""

    replies: dict[str, Reply] = field(default_factory=dict[str, Reply])
    asked: list[Received] = field(default_factory=list[Received])

    def serve(self, wire: Wire) -> None:
        done = {
            "Publish": PUBLISHED,
            "CreatePlatformEndpoint": CREATED,
            "SetEndpointAttributes": CHANGED,
        }
        while True:
            received = wire.read_request()
            self.asked.append(received)
            action = action_of(received)
            self.replies.get(action, done[action])(wire)

    @property
    def actions(self) -> list[str]:
        return [action_of(received) for received in self.asked]


# FCM


def fcm_error(
    status: int,
    *,
    status_name: str = "",
    code: str | None = None,
    message: str = "",
    fields: Sequence[str] = (),
) -> dict[str, Any]:
    """Return an error of FCM's; ``code`` is that of its own detail, None where there is none."""
    details: list[dict[str, Any]] = []
    if code is not None:
        kind = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
        details.append({"@type": kind, "errorCode": code})
    if fields:
        violations = [{"field": field, "description": "invalid"} for field in fields]
        kind = "type.googleapis.com/google.rpc.BadRequest"
        details.append({"@type": kind, "fieldViolations": violations})
    body: dict[str, Any] = {"code": status, "message": message, "status": status_name}
    return {"error": {**body, "details": details} if details else body}


def message_in(received: Received) -> dict[str, Any]:
    """Return the message of a request to FCM."""
    return json.loads(received.body)["message"]


@dataclass(slots=True)
class Fcm:
    """An FCM that replies by the device token; one that it does not know takes the message."""

    replies: dict[str, Reply] = field(default_factory=dict[str, Reply])
    asked: list[Received] = field(default_factory=list[Received])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, wire: Wire) -> None:
        while True:
            received = wire.read_request()
            with self._lock:
                self.asked.append(received)
                name = f"projects/{PROJECT}/messages/0:{len(self.asked)}"
            token = message_in(received)["token"]
            self.replies.get(token, replying(200, {"name": name}))(wire)

    def times(self, token: str) -> int:
        return sum(message_in(received)["token"] == token for received in self.asked)


# Google's token service


@cache
def private_key() -> str:
    """Return the key of a service account, in PEM; once per process, for its cost."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def service_account(token_url: str) -> dict[str, str]:
    """Return a service account whose tokens are got from ``token_url``."""
    return {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "key-1",
        "private_key": private_key(),
        "client_email": "sender@shop-1.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": token_url,
    }


@dataclass(slots=True)
class Google:
    """A token service: each request gets a token of its own, or ``reply``."""

    reply: Reply | None = None
    expires_in: int = 3600
    server: Peer | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"{self.server.url}/token"

    @property
    def asked(self) -> int:
        assert self.server is not None
        return len(self.server.requests)

    def account(self) -> dict[str, str]:
        return service_account(self.url)

    def serve(self, wire: Wire) -> None:
        while True:
            wire.read_request()
            token = {"access_token": f"access-{self.asked}", "expires_in": self.expires_in}
            (self.reply or replying(200, token))(wire)


@contextlib.contextmanager
def google() -> Generator[Google]:
    served = Google()
    with peer(served.serve) as server:
        served.server = server
        yield served


def no_account() -> Mapping[str, Any]:
    raise AssertionError("no service account was to be asked for")


def provider_at(url: str, *, account: Callable[[], Mapping[str, Any]] = no_account) -> PushProvider:
    """Return the product's provider with SNS and FCM at ``url``."""
    return PushProvider(transport=Transport(), account=account, sns_endpoint_url=url, fcm_url=url)
