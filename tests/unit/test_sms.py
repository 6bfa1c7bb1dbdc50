"""The ``sms`` provider: what SendTextMessage is asked for, and what is never asked at all."""

import json
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from functions.core.errors import Unreadable
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Rejected,
    Scope,
    Transient,
    Unknown,
)
from functions.core.stream import SenderIdentity
from functions.providers.aws import AwsCall, AwsClient
from functions.providers.provider import Submission
from functions.providers.sms import DECLARATION, SERVICE, SmsProvider
from functions.providers.transport import Transport
from tests.submissions import ATTEMPT_ID, NOTIFICATION_ID, ORGANIZATION_ID, submission, submit
from tests.wire import Peer, answering, peer

NUMBER = "+15550100123"


@pytest.fixture(scope="module")
def environment() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        yield


@pytest.fixture(scope="module")
def server(environment: None) -> Generator[Peer]:
    """A service that accepts everything."""
    with peer(answering(200, b'{"MessageId":"sms-1"}')) as served:
        yield served


@pytest.fixture(scope="module")
def provider(server: Peer) -> SmsProvider:
    client = AwsClient(SERVICE, transport=Transport(), endpoint_url=server.url)
    return SmsProvider(client=client)


def text_message(content: str = "Your code is 123456.", **changes: Any) -> Submission:
    """Return an SMS to be sent; ``identity``, ``configuration_set`` and ``settings`` are its
    stream's."""
    sender = {
        name: changes.pop(name)
        for name in ("identity", "configuration_set", "settings")
        if name in changes
    }
    message = submission(channel="sms", recipient=NUMBER, content=content)
    return replace(message, sender=SenderIdentity(**sender), **changes)


def parameters_of(provider: SmsProvider, **changes: Any) -> dict[str, Any]:
    call = provider.prepare(text_message(**changes))
    assert isinstance(call, AwsCall), call
    assert call.operation == "send_text_message"
    return call.parameters


def refusal_of(provider: SmsProvider, server: Peer, **changes: Any) -> Outcome:
    """Return what comes of a message that is not sent."""
    before = len(server.requests)
    outcome = submit(provider, text_message(**changes))
    assert len(server.requests) == before
    return outcome


def test_it_knows_no_keys_and_gives_receipts() -> None:
    assert (DECLARATION.name, DECLARATION.keyed, DECLARATION.receipts) == ("sms", False, True)
    assert not DECLARATION.looks_up


def test_one_request_says_everything(provider: SmsProvider, server: Peer) -> None:
    before = len(server.requests)
    message = text_message(
        "Grüße, 漢 😀",
        identity="pool-0123",
        configuration_set="notify-tx",
        remaining_seconds=600.9,
        settings={
            "max_price": "0.05",
            "protect_configuration_id": "protect-0123",
            "keyword": "JOIN US",
            "in_entity_id": "1101",
            "in_template_id": "2202",
            "max_segments": 2,
        },
    )
    assert submit(provider, message) == Accepted(reference="sms-1", http_status=200)
    (request,) = server.requests[before:]
    assert request.headers["x-amz-target"] == "PinpointSMSVoiceV2.SendTextMessage"
    assert "/sms-voice/" in request.headers["authorization"]
    assert json.loads(request.body) == {
        "DestinationPhoneNumber": NUMBER,
        "OriginationIdentity": "pool-0123",
        "MessageBody": "Grüße, 漢 😀",
        "MessageType": "TRANSACTIONAL",
        "ConfigurationSetName": "notify-tx",
        "Keyword": "JOIN US",
        "MaxPrice": "0.05",
        "TimeToLive": 600,
        "Context": {
            "attempt_id": str(ATTEMPT_ID),
            "notification_id": str(NOTIFICATION_ID),
            "organization_id": str(ORGANIZATION_ID),
        },
        "DestinationCountryParameters": {"IN_ENTITY_ID": "1101", "IN_TEMPLATE_ID": "2202"},
        "ProtectConfigurationId": "protect-0123",
    }


def test_what_a_stream_does_not_say_is_left_to_the_service(provider: SmsProvider) -> None:
    plain = parameters_of(provider, identity=None, configuration_set="", settings={"max_price": ""})
    assert set(plain) == {
        "DestinationPhoneNumber", "MessageBody", "MessageType", "Context", "TimeToLive",
    }  # fmt: skip
    assert len(plain["Context"]) <= 5


@pytest.mark.parametrize(
    ("stream", "message_type"), [("transactional", "TRANSACTIONAL"), ("bulk", "PROMOTIONAL")]
)
def test_the_message_type_is_the_stream_s(
    provider: SmsProvider, stream: str, message_type: str
) -> None:
    assert parameters_of(provider, stream=stream)["MessageType"] == message_type


@pytest.mark.parametrize(
    ("remaining", "lifetime"),
    [(None, 259_200), (5.0, 5), (5.99, 5), (3600.5, 3600), (259_200.0, 259_200), (1e9, 259_200)],
)
def test_a_message_lives_as_long_as_it_may_and_no_longer(
    provider: SmsProvider, remaining: float | None, lifetime: int
) -> None:
    assert parameters_of(provider, remaining_seconds=remaining)["TimeToLive"] == lifetime


@pytest.mark.parametrize("remaining", [4.99, 1.0, 0.0, -7.0])
def test_what_would_outlive_its_time_is_not_sent_and_is_due_only_when_that_is_over(
    provider: SmsProvider, server: Peer, remaining: float
) -> None:
    outcome = refusal_of(provider, server, remaining_seconds=remaining)
    assert isinstance(outcome, Transient)
    assert (outcome.code, outcome.begun, outcome.spends) == ("too_little_time", False, False)
    assert outcome.retry_after_seconds is not None
    assert outcome.retry_after_seconds > remaining


@pytest.mark.parametrize(
    ("text", "settings", "detail"),
    [
        ("a" * 1531, {}, "11 of at most 10"),
        ("漢" * 671, {}, "11 of at most 10"),
        ("a" * 161, {"max_segments": 1}, "2 of at most 1"),
        ("ç" * 71, {"max_segments": 1}, "2 of at most 1"),
    ],
)
def test_more_parts_than_are_paid_for_are_rejected_before_any_request(
    provider: SmsProvider, server: Peer, text: str, settings: dict[str, Any], detail: str
) -> None:
    outcome = refusal_of(provider, server, content=text, settings=settings)
    assert outcome == Rejected(code="too_many_segments", detail=detail)


@pytest.mark.parametrize(
    ("text", "settings"),
    [("a" * 1530, {}), ("漢" * 670, {}), ("a" * 1600, {"max_segments": 11})],
)
def test_as_many_parts_as_may_be_are_sent(
    provider: SmsProvider, text: str, settings: dict[str, Any]
) -> None:
    assert parameters_of(provider, content=text, settings=settings)["MessageBody"] == text


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_price", "1"),
        ("max_price", "0.05 USD"),
        ("max_price", "-0.05"),
        ("max_price", 1e-7),
        ("max_price", True),
        ("max_price", ["0.05"]),
        ("max_segments", 0),
        ("max_segments", "3"),
        ("max_segments", True),
        ("max_segments", 2.5),
        ("protect_configuration_id", "protect 1"),
        ("keyword", "x" * 31),
        ("in_entity_id", "11 01"),
        ("in_template_id", "x" * 65),
        ("identity", "+1 555 0100"),
        ("configuration_set", "notify tx"),
    ],
)
def test_a_setting_that_cannot_be_holds_its_stream_and_uses_no_notification_up(
    provider: SmsProvider, server: Peer, setting: str, value: Any
) -> None:
    of_sender = setting in ("identity", "configuration_set")
    changes = {setting: value} if of_sender else {"settings": {setting: value}}
    assert refusal_of(provider, server, **changes) == Blocked(
        code="not_configured", detail=setting, scope=Scope.SENDER_IDENTITY
    )


def test_a_price_may_be_a_number_and_settings_of_others_are_left_alone(
    provider: SmsProvider,
) -> None:
    settings = {"max_price": 0.05, "from_name": ["Acme"]}
    assert parameters_of(provider, settings=settings)["MaxPrice"] == "0.05"


@pytest.mark.parametrize(
    "recipient", ["15550100123", "+05550100", "+1 555 0100", "+" + "1" * 16, "+1\n", "", "a@b.c"]
)
def test_only_a_telephone_number_is_called(provider: SmsProvider, recipient: str) -> None:
    with pytest.raises(Unreadable):
        provider.prepare(replace(text_message(), recipient=recipient))


def test_only_a_text_can_be_sent(provider: SmsProvider) -> None:
    with pytest.raises(Unreadable):
        provider.prepare(replace(submission(), channel="sms", recipient=NUMBER))


def test_what_the_service_s_model_refuses_is_rejected_without_a_request(
    provider: SmsProvider, server: Peer
) -> None:
    outcome = submit(provider, text_message("a" * 1600, settings={"max_segments": 20}))
    assert isinstance(outcome, Accepted)
    before = len(server.requests)
    call = AwsCall(operation="send_text_message", parameters={"MessageBody": "no number"})
    outcome = provider.submit(call, deadline=float("inf"))
    assert (type(outcome), outcome.code) == (Rejected, "invalid_parameters")
    assert len(server.requests) == before


def test_whatever_is_raised_once_a_call_may_have_begun_is_unknown(provider: SmsProvider) -> None:
    class Broken(AwsClient):
        def __init__(self) -> None:
            pass

        def call(self, call: AwsCall, *, deadline: float) -> Any:
            raise KeyError("MessageId")

    outcome = submit(SmsProvider(client=Broken()), text_message())
    assert outcome == Unknown(code="internal_error", detail="KeyError")
