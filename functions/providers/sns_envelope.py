"""The envelope that SNS puts around a message, and the proof that SNS made it.

The proof is a signature over the envelope's own members, by a certificate that the envelope names.
So everything that a forger may choose is judged before anything is fetched: the topic has to be one
of ours, and the certificate has to lie with SNS itself, in the region of that topic. What a queue
of ours receives needs no proof: its policy lets nobody in but the topic.

https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
"""

import base64
import binascii
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlsplit

from functions.core.errors import RequestRefused, Unavailable, Unreadable
from functions.core.strict_json import MalformedJson, parse
from functions.providers.transport import Lost, Response

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509 import Certificate

NOTIFICATION = "Notification"
SUBSCRIPTION = "SubscriptionConfirmation"
UNSUBSCRIPTION = "UnsubscribeConfirmation"

MAX_AGE = timedelta(hours=1)
"""SNS gives up on an HTTP endpoint within the hour (its retry policy allows no more)."""
MAX_AHEAD = timedelta(minutes=5)

FETCH_SECONDS = 4.0
"""SNS waits 15 s for our answer, and the database has to answer as well."""
KEPT_CERTIFICATES = 16
LEAST_KEY_BITS = 2048

# In the order in which they are signed; Subject only where the message has one.
_ABOUT_A_SUBSCRIPTION = (
    "Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type",
)  # fmt: skip
SIGNED: Mapping[str, tuple[str, ...]] = {
    NOTIFICATION: ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    SUBSCRIPTION: _ABOUT_A_SUBSCRIPTION,
    UNSUBSCRIPTION: _ABOUT_A_SUBSCRIPTION,
}

_TOPIC = re.compile(
    r"arn:(?P<partition>aws(?:-cn|-us-gov)?):sns"
    r":(?P<region>[a-z]{2}(?:-[a-z]+){1,3}-[0-9]{1,2}):[0-9]{12}:[A-Za-z0-9_-]{1,256}(?:\.fifo)?"
)
_CERTIFICATE_PATH = re.compile(r"/SimpleNotificationService-[0-9a-f]{1,64}\.pem")
_PRINTABLE = re.compile(r"[!-~]{1,2048}")

Fetch = Callable[[str, float], Response | Lost]
"""Gets a URL by a deadline (``time.monotonic``), following nothing."""


class Forged(RequestRefused):
    """It cannot be shown that SNS made the message, or the topic is not one of ours."""

    code = "unauthenticated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What SNS says around a message; ``members`` are those of the JSON that are texts."""

    type: str
    message_id: str
    topic_arn: str
    message: str
    published_at: datetime
    members: Mapping[str, str]


def read(body: bytes) -> Envelope:
    """Return the envelope in ``body``; raise Unreadable for what is none, proved or not."""
    try:
        value, _ = parse(body)
    except MalformedJson as error:
        raise Unreadable(error.detail) from None
    envelope = envelope_in(cast("dict[str, Any]", value)) if isinstance(value, dict) else None
    if envelope is None:
        raise Unreadable("It is not the envelope of an SNS message.")
    return envelope


def envelope_in(value: Mapping[str, Any]) -> Envelope | None:
    """Return the envelope that the members ``value`` are, None where they are something else."""
    members = {name: text for name, text in value.items() if isinstance(text, str)}
    published_at = _time(members.get("Timestamp", ""))
    if members.get("Type") not in SIGNED or published_at is None:
        return None
    if not all(members.get(name) for name in ("MessageId", "TopicArn")) or "Message" not in members:
        return None
    return Envelope(
        type=members["Type"],
        message_id=members["MessageId"],
        topic_arn=members["TopicArn"],
        message=members["Message"],
        published_at=published_at,
        members=members,
    )


def _time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def signed_text(envelope: Envelope) -> bytes:
    """Return what the signature of ``envelope`` is over; raise Forged where a part is missing."""
    members = envelope.members
    names = [name for name in SIGNED[envelope.type] if name != "Subject" or name in members]
    if not all(name in members for name in names):
        raise Forged
    return "".join(f"{name}\n{members[name]}\n" for name in names).encode("utf-8", "surrogatepass")


def check_origin(envelope: Envelope, *, topics: Collection[str]) -> None:
    """Raise Forged unless the topic is one of ``topics`` and whatever the envelope would have us
    fetch lies with SNS, in the region of that topic. Nothing is fetched for it."""
    topic = _TOPIC.fullmatch(envelope.topic_arn)
    if envelope.topic_arn not in topics or topic is None:
        raise Forged("The topic is not one that is listened to.")
    host = _host_of(topic)
    url = envelope.members.get("SigningCertURL", "")
    parts = _parts_of(url, host)
    if parts is None or not _CERTIFICATE_PATH.fullmatch(parts.path) or "?" in url or "#" in url:
        raise Forged("The certificate does not lie with SNS.")
    if envelope.type != NOTIFICATION:
        _check_confirmation(envelope, host)


def _host_of(topic: re.Match[str]) -> str:
    suffix = "amazonaws.com.cn" if topic["partition"] == "aws-cn" else "amazonaws.com"
    return f"sns.{topic['region']}.{suffix}"


def _parts_of(url: str, host: str) -> Any:
    """Return the parts of a URL at exactly ``host``: no user, no port, no other spelling."""
    if not _PRINTABLE.fullmatch(url) or "\\" in url or not url.startswith(f"https://{host}/"):
        return None
    return urlsplit(url)


def _check_confirmation(envelope: Envelope, host: str) -> None:
    """Raise Forged unless the URL confirms this topic's subscription and does nothing else."""
    url = envelope.members.get("SubscribeURL", "")
    parts = _parts_of(url, host)
    asked = parse_qsl(parts.query, keep_blank_values=True) if parts and parts.path == "/" else []
    named = dict(asked)
    confirms = (named.get("Action"), named.get("TopicArn")) == (
        "ConfirmSubscription",
        envelope.topic_arn,
    )
    if not confirms or len(named) != len(asked) or "#" in url:
        raise Forged("The subscription would not be confirmed with SNS.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """An envelope that was signed by ``certificate``; when that was is another question."""

    envelope: Envelope
    certificate: "Certificate"

    def check_times(self, now: datetime) -> None:
        """Raise Forged when at ``now`` the message is too old or the certificate not valid."""
        if not now - MAX_AGE <= self.envelope.published_at <= now + MAX_AHEAD:
            raise Forged("The message was not published within the last hour.")
        valid = self.certificate.not_valid_before_utc <= now <= self.certificate.not_valid_after_utc
        if not valid:
            raise Forged("The certificate is not valid now.")


class Verifier:
    """Proves envelopes; keeps the certificates it has fetched, each fetched once."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._certificates: dict[str, Certificate] = {}

    def prove(self, envelope: Envelope, *, topics: Collection[str]) -> Proved:
        """Return the proof that SNS signed ``envelope``; raise Forged, or Unavailable where the
        certificate cannot be had at the moment."""
        check_origin(envelope, topics=topics)
        text = signed_text(envelope)
        try:
            signature = base64.b64decode(envelope.members.get("Signature", ""), validate=True)
        except (binascii.Error, ValueError):
            raise Forged from None
        version = envelope.members.get("SignatureVersion", "")
        if not signature or version not in ("1", "2"):
            raise Forged("There is no signature of a version that is known.")
        certificate = self._certificate_of(envelope)
        if not _is_signed(text, signature, version, _key_of(certificate)):
            raise Forged("The signature does not match.")
        return Proved(envelope=envelope, certificate=certificate)

    def confirm(self, proved: Proved) -> None:
        """Confirm the subscription that a proved envelope announces; raise Unavailable."""
        answer = self._fetch(
            proved.envelope.members["SubscribeURL"], time.monotonic() + FETCH_SECONDS
        )
        if isinstance(answer, Lost) or answer.status != 200:
            raise Unavailable("The subscription could not be confirmed.")

    def _certificate_of(self, envelope: Envelope) -> "Certificate":
        url = envelope.members["SigningCertURL"]
        known = self._certificates.get(url)
        if known is not None:
            return known
        answer = self._fetch(url, time.monotonic() + FETCH_SECONDS)
        if isinstance(answer, Lost) or answer.status >= 500 or answer.status == 429:
            raise Unavailable("The certificate of the message cannot be fetched.")
        if answer.status != 200 or not answer.complete:
            raise Forged("There is no such certificate.")
        certificate = _read_certificate(answer.body, host=urlsplit(url).netloc)
        while len(self._certificates) >= KEPT_CERTIFICATES:
            self._certificates.pop(next(iter(self._certificates)))
        self._certificates[url] = certificate
        return certificate


def _read_certificate(pem: bytes, *, host: str) -> "Certificate":
    """Return the certificate in ``pem``; raise Forged where it is not one that SNS signs by.

    Its chain is not walked: the file holds the leaf alone, and TLS has shown whose host it is on.
    """
    # 60 ms that only a message by this door needs, and none whose certificate is known.
    from cryptography.x509 import load_pem_x509_certificate

    try:
        certificate = load_pem_x509_certificate(pem)
        names = _names_of(certificate)
        _key_of(certificate)
    except ValueError:
        raise Forged("The certificate cannot be read.") from None
    if not names & _signing_names(host):
        raise Forged("The certificate is not one that SNS signs by.")
    return certificate


def _names_of(certificate: "Certificate") -> set[str]:
    from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName
    from cryptography.x509.oid import NameOID

    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    try:
        others = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return {str(name.value) for name in common}
    return set(others.get_values_for_type(DNSName))


def _signing_names(host: str) -> set[str]:
    """Return the names that SNS's certificates on ``host`` have: younger regions use their own."""
    region, suffix = host.removeprefix("sns.").split(".", 1)
    home = "us-gov-west-1" if region.startswith("us-gov-") else region
    return {"sns.amazonaws.com", host, f"sns-{home}.{suffix}", f"sns-signing.{region}.{suffix}"}


def _key_of(certificate: "Certificate") -> "RSAPublicKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise Forged("The certificate has no key that can be used.") from None
    if not isinstance(key, RSAPublicKey) or key.key_size < LEAST_KEY_BITS:
        raise Forged("The certificate has no key that can be used.")
    return key


def _is_signed(text: bytes, signature: bytes, version: str, key: "RSAPublicKey") -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA1, SHA256

    try:
        key.verify(signature, text, PKCS1v15(), SHA1() if version == "1" else SHA256())
    except InvalidSignature:
        return False
    return True
