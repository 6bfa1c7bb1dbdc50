"""SNS as it calls: envelopes signed by a key of our own, and the server that its certificate and
its confirmations lie on. Nothing here asks any other host."""

import base64
import contextlib
import json
import secrets
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from functions.callbacks.intake import Intake
from functions.callbacks.sns import SnsDoor
from functions.providers.sns_envelope import Verifier
from functions.providers.transport import Lost, Response, Transport
from functions.store.clock import database_clock
from functions.store.connection import Database
from tests.reports import HASH_KEY
from tests.sending import recorded
from tests.wire import Peer, Wire, peer

HOST = "sns.eu-central-1.amazonaws.com"
TOPIC = "arn:aws:sns:eu-central-1:123456789012:sendoff-events"
CERTIFICATE_URL = f"https://{HOST}/SimpleNotificationService-010a507c1833636cd94bdb98bd93083a.pem"

# What AWS's guide says is signed, in its order; written here once more, without the product.
SIGNED = (
    "Message",
    "MessageId",
    "Subject",
    "SubscribeURL",
    "Timestamp",
    "Token",
    "TopicArn",
    "Type",
)
ONLY_ABOUT_SUBSCRIPTIONS = ("SubscribeURL", "Token")


@cache
def key(number: int = 1, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return the ``number``-th key of this process: the first is SNS's, the others are forgers'."""
    del number
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def certificate(
    signer: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    *,
    names: Sequence[str] = ("sns.amazonaws.com",),
    common_name: str = "sns.amazonaws.com",
    valid_from: timedelta = timedelta(days=-30),
    valid_until: timedelta = timedelta(days=300),
) -> bytes:
    """Return a certificate that ``signer`` made for itself, as PEM."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(signer.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + valid_from)
        .not_valid_after(now + valid_until)
    )
    if names:
        others = x509.SubjectAlternativeName([x509.DNSName(one) for one in names])
        builder = builder.add_extension(others, critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


def envelope(message: Any, **members: Any) -> dict[str, str]:
    """Return an envelope as SNS makes it, just now; members that are None are left out."""
    text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    made = {
        "Type": "Notification",
        "MessageId": str(secrets.token_hex(16)),
        "TopicArn": TOPIC,
        "Message": text,
        "Timestamp": stamp(),
        "SignatureVersion": "1",
        "SigningCertURL": CERTIFICATE_URL,
        **members,
    }
    return {name: value for name, value in made.items() if value is not None}


def stamp(age: timedelta = timedelta()) -> str:
    moment = datetime.now(UTC) - age
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def confirmation(kind: str = "SubscriptionConfirmation", **members: Any) -> dict[str, str]:
    topic, token = members.get("TopicArn", TOPIC), "2336412f37fb687f5d51e6e2425c464de12"
    url = f"https://{HOST}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}"
    more = {"Type": kind, "Token": token, "SubscribeURL": url, **members}
    return envelope(f"You have chosen to subscribe to the topic {topic}.", **more)


def sign(made: dict[str, str], signer: rsa.RSAPrivateKey | None = None) -> dict[str, str]:
    """Return ``made`` with its signature, of the version that it names."""
    left_out = ONLY_ABOUT_SUBSCRIPTIONS if made["Type"] == "Notification" else ("Subject",)
    names = [name for name in SIGNED if name in made and name not in left_out]
    text = "".join(f"{name}\n{made[name]}\n" for name in names).encode()
    digest = hashes.SHA1() if made["SignatureVersion"] == "1" else hashes.SHA256()
    signature = (signer or key()).sign(text, padding.PKCS1v15(), digest)
    return {**made, "Signature": base64.b64encode(signature).decode()}


def http_event(body: Any, *, name: str = "callbacks.sns_notification") -> dict[str, Any]:
    """Return the recorded event with ``body`` (an object, a text or bytes)."""
    event = recorded(name)
    if isinstance(body, bytes):
        event |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    else:
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        event |= {"body": text, "isBase64Encoded": False}
    return event


@dataclass(slots=True)
class FakeSns:
    """What stands in for every host of the world: ``asked`` is each URL that was fetched.

    ``files`` by path; a status, where a path has one, is answered instead. SNS's own host alone
    has a certificate of SNS, so a door that trusts another one shows it.
    """

    files: dict[str, bytes]
    statuses: dict[str, int] = field(default_factory=dict[str, int])
    asked: list[str] = field(default_factory=list[str])
    server: Peer | None = None
    transport: Transport = field(default_factory=Transport)

    def fetch(self, url: str, deadline: float) -> Response | Lost:
        assert self.server is not None
        self.asked.append(url)
        parts = urlsplit(url)
        there = f"{self.server.url}{parts.path}?{parts.query}"
        return self.transport.request("GET", there, headers={}, body=b"", deadline=deadline)

    def serve(self, wire: Wire) -> None:
        while True:
            path = wire.read_request().target.partition("?")[0]
            found = self.files.get(path)
            wire.answer(self.statuses.get(path, 404 if found is None else 200), found or b"")

    def door(self, database: Database, *topics: str) -> SnsDoor:
        """Return the product's door, which fetches from here."""
        return SnsDoor(
            topics=topics or (TOPIC,),
            verifier=Verifier(self.fetch),
            intake=Intake(database=database, hash_key=lambda: HASH_KEY),
            clock=lambda: database_clock(database),
        )


@contextlib.contextmanager
def fake_sns() -> Generator[FakeSns]:
    fake = FakeSns(files={urlsplit(CERTIFICATE_URL).path: certificate(key()), "/": b"<ok/>"})
    with peer(fake.serve) as server:
        fake.server = server
        yield fake
