"""Who is to be told: addresses per channel, normalised once, at the door.

email    an ASCII local part (no SMTPUTF8: SES would refuse it later) and a domain as A-label
sms      E.164; national formats are refused
push     a device token, or the ARN of an SNS platform endpoint
webhook  an https URL

Two addresses are the same recipient when their *comparison form* is equal: the address itself, for
email in lower case. Only a keyed hash of it decides who is suppressed and which event is a repeat.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import urlsplit

from functions.core.errors import RequestRefused
from functions.core.states import Channel

MAX_EMAIL_CHARACTERS = 254
MAX_TOKEN_CHARACTERS = 4096
MAX_URL_CHARACTERS = 2048

_DOT_ATOM = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_MAX_LOCAL_CHARACTERS = 64
_INTERNATIONAL = re.compile(r"\+[0-9][0-9 ().-]{2,30}")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_ENDPOINT_ARN = re.compile(
    r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}"
    r":endpoint/[A-Z_]+/[A-Za-z0-9._-]{1,256}/[A-Za-z0-9-]{1,64}"
)
# urlsplit drops tabs and line breaks, and browsers read a backslash as a slash: neither may pass.
_NEVER_IN_A_URL = re.compile(r"[\x00-\x20\x7f\\]")
_UNKNOWN_REGION = "ZZ"
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


class InvalidRecipient(RequestRefused):
    """The recipient is not an address of its channel."""

    code = "validation_failed"

    def __init__(self, item_code: str, detail: str) -> None:
        super().__init__(detail)
        self.item_code = item_code
        """``invalid_email``, ``invalid_phone``, ``invalid_token`` or ``invalid_url``."""


def normalise(channel: str, recipient: str, *, local_webhook_origin: str = "") -> str:
    """Return ``recipient`` as it is stored and sent; raise InvalidRecipient.

    ``local_webhook_origin`` (``http://127.0.0.1:8081``) is the one origin that need not be https.
    """
    if channel == Channel.WEBHOOK:
        return _normalise_url(recipient, local_webhook_origin)
    return _NORMALISERS[channel](recipient)


def comparison_form(channel: str, recipient: str) -> str:
    """Return what makes two normalised addresses of ``channel`` the same recipient."""
    return recipient.lower() if channel == Channel.EMAIL else recipient


def recipient_hash(hash_key: bytes, channel: str, recipient: str) -> bytes:
    """Return the keyed hash (32 bytes) of a normalised address, by its comparison form."""
    content = f"{channel}:{comparison_form(channel, recipient)}".encode()
    return hmac.digest(hash_key, content, hashlib.sha256)


def reference_hash(hash_key: bytes, recipient_id: str) -> bytes:
    """Return the keyed hash (32 bytes) of a recipient given by reference: what an event is a repeat
    by, until and after an address is chosen behind it. No channel is called ``id``."""
    return hmac.digest(hash_key, f"id:{recipient_id}".encode(), hashlib.sha256)


def origin_of(url: str) -> str:
    """Return the origin of a URL: scheme, host, and the port unless it is that of https anyway."""
    parts = urlsplit(url)
    place = parts.netloc.removesuffix(":443" if parts.scheme == "https" else "").removesuffix(":")
    return f"{parts.scheme}://{place}"


@lru_cache(maxsize=8192)
def country_of(number: str) -> str | None:
    """Return the country (ISO 3166, two letters) of an E.164 number; None where it has none.

    None for what is no number, and for the codes that belong to no country (satellites, +800). A
    number in no plan that we know (plans are older than the numbers) is of its code's main
    country: +1 555 is of the US.
    """
    from phonenumbers import (  # 60 ms that only the door needs
        NumberParseException,
        parse,
        region_code_for_country_code,
        region_code_for_number,
    )

    try:
        parsed = parse(number, None)
    except NumberParseException:
        return None
    code = parsed.country_code or 0
    region = region_code_for_number(parsed) or region_code_for_country_code(code)
    return region if region and region.isalpha() and region != _UNKNOWN_REGION else None


def _normalise_email(recipient: str) -> str:
    local, _, domain = recipient.rpartition("@")
    if (
        len(local) > _MAX_LOCAL_CHARACTERS
        or len(domain) > MAX_EMAIL_CHARACTERS
        or _DOT_ATOM.fullmatch(local) is None
    ):
        raise _bad_email()
    ascii_domain = _ascii_domain(domain)
    if ascii_domain is None or len(local) + 1 + len(ascii_domain) > MAX_EMAIL_CHARACTERS:
        raise _bad_email()
    return f"{local}@{ascii_domain}"


@lru_cache(maxsize=4096)
def _ascii_domain(domain: str) -> str | None:
    """Return the A-label form of an email domain, None when it is none; cached, for its cost."""
    # Not every user of this module reads addresses: a hash needs no email library.
    from email_validator import EmailNotValidError, validate_email

    try:
        valid = validate_email(
            f"a@{domain}", check_deliverability=False, allow_smtputf8=False, strict=True
        )
    except (EmailNotValidError, ValueError):
        return None
    return valid.ascii_domain


def _bad_email() -> InvalidRecipient:
    return InvalidRecipient(
        "invalid_email",
        "It is not an email address: an ASCII part of at most 64 characters, an @, and a domain "
        "of the public Internet.",
    )


def _normalise_phone(recipient: str) -> str:
    number = _e164(recipient) if _INTERNATIONAL.fullmatch(recipient) else None
    if number is None:
        raise _bad_phone()
    return number


@lru_cache(maxsize=8192)
def _e164(recipient: str) -> str | None:
    """Return a number in international form as E.164, None when it is impossible; cached: 20 µs."""
    from phonenumbers import (  # 60 ms that only the door needs
        NumberParseException,
        PhoneNumberFormat,
        format_number,
        is_possible_number,
        parse,
    )

    try:
        number = parse(recipient, None)
    except NumberParseException:
        return None
    return format_number(number, PhoneNumberFormat.E164) if is_possible_number(number) else None


def _bad_phone() -> InvalidRecipient:
    return InvalidRecipient(
        "invalid_phone",
        "It is not a telephone number in international form: + and the country code first.",
    )


def _normalise_token(recipient: str) -> str:
    pattern = _ENDPOINT_ARN if recipient.startswith("arn:") else _PRINTABLE
    if len(recipient) > MAX_TOKEN_CHARACTERS or pattern.fullmatch(recipient) is None:
        raise InvalidRecipient(
            "invalid_token",
            "It is neither a device token (printable ASCII without spaces, at most "
            f"{MAX_TOKEN_CHARACTERS} characters) nor the ARN of an SNS platform endpoint.",
        )
    return recipient


def _normalise_url(recipient: str, local_webhook_origin: str) -> str:
    if len(recipient) > MAX_URL_CHARACTERS or _NEVER_IN_A_URL.search(recipient):
        raise _bad_url()
    try:
        parts = urlsplit(recipient)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _bad_url() from None
    origin = f"{parts.scheme}://{parts.netloc}"
    if local_webhook_origin and origin == local_webhook_origin and recipient.isascii():
        return recipient
    if parts.scheme != "https" or not host or "@" in parts.netloc or "#" in recipient or port == 0:
        raise _bad_url()
    name = _ascii_host(host)
    if name is None or not (parts.path + parts.query).isascii():
        raise _bad_url()
    suffix = "" if port in (None, 443) else f":{port}"
    # What follows the host stays byte for byte: it may be case-sensitive, signed or encoded.
    rest = recipient[recipient.index("//") + 2 + len(parts.netloc) :]
    normalised = f"https://{name}{suffix}{rest if rest.startswith('/') else '/' + rest}"
    if len(normalised) > MAX_URL_CHARACTERS:
        raise _bad_url()
    return normalised


@lru_cache(maxsize=4096)
def _ascii_host(host: str) -> str | None:
    """Return a URL's host in lower case and as A-label, None when it is no host."""
    if ":" in host:  # an IPv6 literal, which urlsplit has checked and freed of its brackets
        return None if "%" in host else f"[{host.lower()}]"
    if host.isascii():
        lower = host.lower()
        return lower if len(lower) <= 253 and _HOST.fullmatch(lower) else None
    import idna  # seldom: most hosts are ASCII

    try:
        return idna.encode(host, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        return None


def _bad_url() -> InvalidRecipient:
    return InvalidRecipient(
        "invalid_url",
        f"It is not an https URL of at most {MAX_URL_CHARACTERS} characters, without user name, "
        "fragment, spaces or backslashes.",
    )


_NORMALISERS: dict[str, Callable[[str], str]] = {
    Channel.EMAIL: _normalise_email,
    Channel.SMS: _normalise_phone,
    Channel.PUSH: _normalise_token,
}
