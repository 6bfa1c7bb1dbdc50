"""Who a stream of a channel sends as: the two streams share nothing that could stop both.

Whatever a provider could not use would stop the stream at its next message: so it is refused where
it is set.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from functions.core.errors import RequestRefused
from functions.core.recipient import InvalidRecipient, normalise
from functions.core.states import Channel


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderIdentity:
    """How a provider is told who sends.

    identity           SES: a From address; SMS: an origination number, pool or sender id;
                       push: the ARN of a platform application
    configuration_set  of SES or SMS: without one no events come
    settings           what one provider alone knows, by the names in SETTINGS
    """

    identity: str | None = None
    configuration_set: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a setting takes: ``words`` go on "It is …", ``read`` returns the value as it is kept or
    raises ValueError, and ``is_text`` keeps one that looks like a number a text."""

    words: str
    read: Callable[[Any], Any]
    is_text: bool = False


def _text(words: str, shape: str) -> Setting:
    pattern = re.compile(shape)

    def read(value: Any) -> str:
        if isinstance(value, str) and value.isprintable() and pattern.fullmatch(value):
            return value
        raise ValueError

    return Setting(words=words, read=read, is_text=True)


def _whole(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


_PRICE = re.compile(r"[0-9]{1,2}\.[0-9]{1,5}")


def _price(value: Any) -> float:
    """Read a price; it is kept with a decimal point, which the service insists on."""
    if type(value) not in (int, float) or value <= 0:
        raise ValueError
    price = float(value)
    if _PRICE.fullmatch(str(price)) is None:
        raise ValueError
    return price


def _addresses(value: Any) -> Any:
    if isinstance(value, list) and value:
        return [_address(one) for one in cast("list[Any]", value)]
    return _address(value)


def _address(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return normalise(Channel.EMAIL, value)


_ARN = r"arn:aws[a-z-]*:{service}:[a-z0-9-]+:[0-9]{{12}}:{resource}"
_ORIGINATION = re.compile(
    r"[0-9]{3,8}"  # a short code
    r"|(?=[0-9_-]*[A-Za-z])[A-Za-z0-9_-]{1,11}"  # a sender id
    r"|(phone|pool)-[A-Za-z0-9]{1,64}|"
    + _ARN.format(service="sms-voice", resource=r"(phone-number|pool|sender-id)/[A-Za-z0-9_/-]+")
)
_APPLICATION = _ARN.format(service="sns", resource=r"app/[A-Z_]{1,32}/[A-Za-z0-9._-]{1,256}")


def _origination(value: Any) -> str:
    if isinstance(value, str) and value.startswith("+"):
        return normalise(Channel.SMS, value)
    if isinstance(value, str) and _ORIGINATION.fullmatch(value):
        return value
    raise ValueError


IDENTITIES: Mapping[Channel, Setting] = {
    Channel.EMAIL: Setting(
        words="an email address alone; the name beside it is the setting from_name", read=_address
    ),
    Channel.SMS: Setting(
        words="a number in international form, a short code, a sender id of at most 11 characters, "
        "or the id or ARN of a number or a pool",
        read=_origination,
    ),
    Channel.PUSH: _text("the ARN of an SNS platform application", _APPLICATION),
}
"""Who sends, of the channels that have such a thing: a webhook is signed."""

_WHOLE = Setting(words="a whole number from 1", read=_whole)
_WORD = _text("a text of at most 64 characters, without spaces", r"\S{1,64}")

SETTINGS: Mapping[Channel, Mapping[str, Setting]] = {
    Channel.EMAIL: {
        "from_name": _text("a text on one line", r".+"),
        "reply_to": Setting(
            words="an email address, or a list of them", read=_addresses, is_text=True
        ),
    },
    Channel.SMS: {
        "max_price": Setting(
            words="a number from 0.0001 to 99.99999, with at most five decimals", read=_price
        ),
        "max_segments": _WHOLE,
        "protect_configuration_id": _text(
            "a text of at most 256 letters, digits and _ : / -", r"[A-Za-z0-9_:/-]{1,256}"
        ),
        "keyword": _text("a text of at most 30 characters", r"[ \S]{1,30}"),
        "in_entity_id": _WORD,
        "in_template_id": _WORD,
    },
    Channel.PUSH: {
        "project_id": _WORD,
        "ttl_seconds": _WHOLE,
        "collapse": Setting(words="true or false", read=_flag),
    },
    Channel.WEBHOOK: {},
}
"""What the provider of each channel reads, by name; gateways read none."""


def setting_of(channel: Channel, name: str, value: Any) -> Any:
    """Return the value of a stream's setting as it is kept, None as it is; raise RequestRefused."""
    known = SETTINGS[channel]
    if name not in known:
        those = f"has {', '.join(known)}" if known else "has none"
        raise RequestRefused(f"{name}: There is no such setting; a stream of {channel} {those}.")
    return None if value is None else _read(known[name], value, name=name)


def identity_of(channel: Channel, identity: str) -> str:
    """Return who sends as it is kept; raise RequestRefused."""
    if channel not in IDENTITIES:
        raise RequestRefused(f"sender_identity: A stream of {channel} has none.")
    return _read(IDENTITIES[channel], identity, name="sender_identity")


def _read(setting: Setting, value: Any, *, name: str) -> Any:
    try:
        return setting.read(value)
    except (ValueError, InvalidRecipient):
        raise RequestRefused(f"{name}: It is {setting.words}.") from None
