"""What a stream may be told: exactly what the providers read, and nothing they could not use."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from functions.core.errors import RequestRefused
from functions.core.outcome import Blocked
from functions.core.states import Channel
from functions.core.stream import SETTINGS, SenderIdentity, identity_of, setting_of
from functions.providers import choice
from functions.providers.push_message import message_of
from functions.providers.ses import SesProvider
from functions.providers.sms import SmsProvider
from tests.submissions import submission

PROVIDERS = Path(choice.__file__).parent
CHANNELS = {
    "ses": Channel.EMAIL,
    "sms": Channel.SMS,
    "push": Channel.PUSH,
    "fcm": Channel.PUSH,
    "sns_push": Channel.PUSH,
    "webhook": Channel.WEBHOOK,
}
"""By how a module's name begins; any other serves every channel, and may read no setting."""

POOL = "arn:aws:sms-voice:eu-central-1:111122223333:pool/pool-0123456789abcdef"
APPLICATION = "arn:aws:sns:eu-central-1:111122223333:app/GCM/shop"


def names_read(module: Path) -> Iterator[str]:
    """Yield each setting that ``module`` reads: by ``settings.get``, or by a table of its own."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    uses = [node for node in ast.walk(tree) if is_settings(node)]
    understood = 0
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="get", value=value), args=[ast.Constant(value=name), *_]
            ) if is_settings(value):
                understood += 1
                yield str(name)
            case ast.Call(args=[value, ast.Name(id=table)]) if is_settings(value):
                understood += 1
                yield from getattr(import_module(f"functions.providers.{module.stem}"), table)
            case _:
                pass
    assert understood == len(uses), f"{module.name} reads settings in a way this does not know"


def is_settings(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "settings"


def channel_of(module: Path) -> Channel | None:
    return next((one for stem, one in CHANNELS.items() if module.stem.startswith(stem)), None)


def test_the_settings_are_exactly_what_the_providers_read() -> None:
    read: dict[Channel | None, set[str]] = {channel: set() for channel in (*Channel, None)}
    for module in PROVIDERS.glob("*.py"):
        read[channel_of(module)].update(names_read(module))
    assert read == {None: set(), **{channel: set(SETTINGS[channel]) for channel in Channel}}


GOOD: list[tuple[Channel, str, Any]] = [
    (Channel.EMAIL, "from_name", "Ada's Shop, Inc. (ö)"),
    (Channel.EMAIL, "from_name", "2030"),
    (Channel.EMAIL, "reply_to", "a@example.com"),
    (Channel.EMAIL, "reply_to", ["a@example.com", "b@example.com"]),
    (Channel.SMS, "max_price", 0.05),
    (Channel.SMS, "max_price", 0.0001),
    (Channel.SMS, "max_price", 1),
    (Channel.SMS, "max_price", 99.99999),
    (Channel.SMS, "max_segments", 1),
    (Channel.SMS, "protect_configuration_id", "protect-1"),
    (Channel.SMS, "keyword", "KEY WORD"),
    (Channel.SMS, "in_entity_id", "1101455800000012345"),
    (Channel.SMS, "in_template_id", "1107"),
    (Channel.PUSH, "project_id", "shop-1"),
    (Channel.PUSH, "ttl_seconds", 60),
    (Channel.PUSH, "collapse", False),
]


@pytest.mark.parametrize(("channel", "name", "value"), GOOD)
def test_what_is_taken_is_kept_as_it_is_and_the_provider_can_use_it(
    channel: Channel, name: str, value: Any
) -> None:
    kept = setting_of(channel, name, value)
    assert kept == value
    assert is_usable(channel, name, kept)


def is_usable(channel: Channel, name: str, value: Any) -> bool:
    """Whether the channel's own provider makes a call of a message of such a stream."""
    recipient = {Channel.SMS: "+15550100123", Channel.PUSH: "token"}.get(channel, "ok@example.com")
    content: Any = {"subject": "S", "text": "T"} if channel is Channel.EMAIL else "T"
    identity = "shop@example.com" if channel is Channel.EMAIL else None
    message = replace(
        submission(channel=channel, recipient=recipient, content=content),
        sender=SenderIdentity(identity=identity, settings={name: value}),
    )
    nobody = cast("Any", None)  # nothing is called
    match channel:
        case Channel.EMAIL:
            return not isinstance(SesProvider(client=nobody).prepare(message), Blocked)
        case Channel.SMS:
            return not isinstance(SmsProvider(client=nobody).prepare(message), Blocked)
        case _:
            return bool(message_of(message))


@pytest.mark.parametrize(
    ("channel", "name", "value"),
    [
        (Channel.EMAIL, "from_name", 7),
        (Channel.EMAIL, "from_name", ""),
        (Channel.EMAIL, "from_name", "two\nlines"),
        (Channel.EMAIL, "from_name", ["Acme"]),
        (Channel.EMAIL, "reply_to", "Ada <a@example.com>"),
        (Channel.EMAIL, "reply_to", []),
        (Channel.EMAIL, "reply_to", ["a@example.com", 7]),
        (Channel.SMS, "max_price", "0.05"),
        (Channel.SMS, "max_price", True),
        (Channel.SMS, "max_price", 0),
        (Channel.SMS, "max_price", 0.00001),
        (Channel.SMS, "max_price", 0.1234567),
        (Channel.SMS, "max_price", 100),
        (Channel.SMS, "max_price", float("inf")),
        (Channel.SMS, "max_price", float("nan")),
        (Channel.SMS, "max_segments", 0),
        (Channel.SMS, "max_segments", 2.5),
        (Channel.SMS, "max_segments", True),
        (Channel.SMS, "max_segments", "many"),
        (Channel.SMS, "protect_configuration_id", "protect 1"),
        (Channel.SMS, "keyword", "x" * 31),
        (Channel.SMS, "in_entity_id", 1101),
        (Channel.PUSH, "project_id", 7),
        (Channel.PUSH, "ttl_seconds", 0),
        (Channel.PUSH, "ttl_seconds", "60"),
        (Channel.PUSH, "collapse", "no"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(
    channel: Channel, name: str, value: Any
) -> None:
    with pytest.raises(RequestRefused) as refused:
        setting_of(channel, name, value)
    assert str(refused.value).startswith(f"{name}: It is ")


@pytest.mark.parametrize("value", ["Acme", None])
def test_an_unknown_setting_is_refused_with_the_known_ones(value: Any) -> None:
    with pytest.raises(RequestRefused) as refused:
        setting_of(Channel.EMAIL, "form_name", value)
    assert str(refused.value) == (
        "form_name: There is no such setting; a stream of email has from_name, reply_to."
    )
    with pytest.raises(RequestRefused, match="a stream of webhook has none"):
        setting_of(Channel.WEBHOOK, "from_name", value)
    assert setting_of(Channel.EMAIL, "from_name", None) is None


@pytest.mark.parametrize(
    ("channel", "identity", "kept"),
    [
        (Channel.EMAIL, "News@Example.com", "News@example.com"),
        (Channel.SMS, "+1 555 555 0100", "+15555550100"),
        (Channel.SMS, "12345", "12345"),
        (Channel.SMS, "ACME", "ACME"),
        (Channel.SMS, "3-ACME-SHOP", "3-ACME-SHOP"),
        (Channel.SMS, "pool-0123456789abcdef", "pool-0123456789abcdef"),
        (Channel.SMS, POOL, POOL),
        (Channel.PUSH, APPLICATION, APPLICATION),
    ],
)
def test_who_sends_is_kept_as_the_provider_takes_it(
    channel: Channel, identity: str, kept: str
) -> None:
    assert identity_of(channel, identity) == kept


@pytest.mark.parametrize(
    ("channel", "identity", "said"),
    [
        (Channel.EMAIL, "News <news@example.com>", "It is an email address alone"),
        (Channel.EMAIL, "news", "It is an email address alone"),
        (Channel.SMS, "+1555", "It is a number in international form"),
        (Channel.SMS, "15555550100", "It is a number in international form"),
        (Channel.SMS, "ACME-SHOP-24", "It is a number in international form"),
        (Channel.SMS, "Acme Shop", "It is a number in international form"),
        (Channel.SMS, APPLICATION, "It is a number in international form"),
        (Channel.PUSH, "shop", "It is the ARN of an SNS platform application."),
        (Channel.PUSH, f"{APPLICATION}/endpoint", "It is the ARN of an SNS platform application."),
        (Channel.PUSH, POOL, "It is the ARN of an SNS platform application."),
        (Channel.WEBHOOK, "https://example.com", "A stream of webhook has none."),
    ],
)
def test_who_cannot_send_is_refused(channel: Channel, identity: str, said: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        identity_of(channel, identity)
    assert str(refused.value).startswith(f"sender_identity: {said}")
