"""The ``ses`` provider: what it hands to SES for a submission, and what can never get into it."""

import dataclasses
import time
from collections.abc import Iterator
from email.header import decode_header, make_header
from email.utils import getaddresses
from typing import Any

import pytest

from functions.core.content import EmailContent, SmsContent
from functions.core.errors import Unreadable
from functions.core.outcome import Blocked, Scope, Unknown
from functions.core.stream import SenderIdentity
from functions.providers.aws import AwsCall, AwsClient
from functions.providers.provider import Submission
from functions.providers.ses import DECLARATION, SesProvider
from functions.providers.transport import Transport
from tests.conftest import free_port
from tests.submissions import ATTEMPT_ID, NOTIFICATION_ID, ORGANIZATION_ID, submission
from tests.wire import HOST

SENDER = SenderIdentity(identity="no-reply@notify.example", configuration_set="notify-tx")
CONTENT = EmailContent(subject="Your receipt", text="Thank you.", html=None)
URL = "https://api.example.com/v1/unsubscribe/eyJhbGciOiJIUzI1NiJ9.abc-_~"


@pytest.fixture(scope="module")
def provider() -> Iterator[SesProvider]:
    """A provider whose SES is not there: a client takes its time to be made, so one for all."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "testing")
        url = f"http://{HOST}:{free_port()}"
        client = AwsClient("sesv2", transport=Transport(), endpoint_url=url, region="eu-central-1")
        yield SesProvider(client=client)


def an_email(**members: Any) -> Submission:
    return dataclasses.replace(submission(), **({"sender": SENDER, "content": CONTENT} | members))


def prepared(provider: SesProvider, **members: Any) -> dict[str, Any]:
    """Return the parameters of the call for such an email."""
    call = provider.prepare(an_email(**members))
    assert isinstance(call, AwsCall)
    assert call.operation == "send_email"
    return call.parameters


def sender_with(**settings: Any) -> SenderIdentity:
    return dataclasses.replace(SENDER, settings=settings)


def test_ses_has_no_keys_and_gives_receipts() -> None:
    assert (DECLARATION.name, DECLARATION.keyed, DECLARATION.receipts) == ("ses", False, True)


def test_a_send_has_one_recipient_its_parts_and_its_tags(provider: SesProvider) -> None:
    content = EmailContent(subject="Grüße & <mehr>", text="Tom & Jerry", html="<p>Tom</p>")
    assert prepared(provider, content=content) == {
        "FromEmailAddress": "no-reply@notify.example",
        "ConfigurationSetName": "notify-tx",
        "Destination": {"ToAddresses": ["ok@example.com"]},
        "Content": {
            "Simple": {
                "Subject": {"Data": "Grüße & <mehr>", "Charset": "UTF-8"},
                "Body": {
                    "Text": {"Data": "Tom & Jerry", "Charset": "UTF-8"},
                    "Html": {"Data": "<p>Tom</p>", "Charset": "UTF-8"},
                },
            }
        },
        "EmailTags": [
            {"Name": "attempt_id", "Value": str(ATTEMPT_ID)},
            {"Name": "notification_id", "Value": str(NOTIFICATION_ID)},
            {"Name": "organization_id", "Value": str(ORGANIZATION_ID)},
        ],
    }


def test_a_stream_without_a_configuration_set_leaves_it_to_the_identity(
    provider: SesProvider,
) -> None:
    sender = SenderIdentity(identity="no-reply@notify.example")
    assert "ConfigurationSetName" not in prepared(provider, sender=sender)


def test_tags_have_only_what_ses_lets_them_have(provider: SesProvider) -> None:
    for tag in prepared(provider)["EmailTags"]:
        for text in tag.values():
            assert text.isascii()
            assert text.replace("_", "").replace("-", "").isalnum()
            assert len(text) <= 256


# Unsubscribing


def test_a_bulk_email_can_be_unsubscribed_with_one_click(provider: SesProvider) -> None:
    message = prepared(provider, unsubscribe_url=URL)["Content"]["Simple"]
    assert message["Headers"] == [
        {"Name": "List-Unsubscribe", "Value": f"<{URL}>"},
        {"Name": "List-Unsubscribe-Post", "Value": "List-Unsubscribe=One-Click"},
    ]


def test_an_email_without_such_a_url_has_no_such_headers(provider: SesProvider) -> None:
    assert "Headers" not in prepared(provider)["Content"]["Simple"]


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/\r\nBcc: b@example.com",
        "https://a.example/x>, <https://b.example",
        "https://a.example/ü",
        "https://a.example/a b",
        "https://a.example/" + "x" * 1000,
    ],
)
def test_g3_a_url_that_would_be_more_than_a_header_is_unreadable(
    url: str, provider: SesProvider
) -> None:
    with pytest.raises(Unreadable):
        prepared(provider, unsubscribe_url=url)


def test_the_longest_headers_are_within_the_limit_of_ses(provider: SesProvider) -> None:
    url = "https://a.example/" + "x" * (996 - len("List-Unsubscribe<https://a.example/>"))
    for header in prepared(provider, unsubscribe_url=url)["Content"]["Simple"]["Headers"]:
        assert len(header["Name"]) <= 126
        assert len(header["Name"]) + len(header["Value"]) <= 996
        assert len(header["Value"]) <= 995
    with pytest.raises(Unreadable):
        prepared(provider, unsubscribe_url=url + "x")


# Header injection (FAULTS G3)


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c"])
def test_g3_a_subject_of_several_lines_never_leaves(end: str, provider: SesProvider) -> None:
    for subject in (f"x{end}Bcc: b@example.com", f"x{end}", f"{end}x"):
        with pytest.raises(Unreadable):
            prepared(provider, content=dataclasses.replace(CONTENT, subject=subject))


def test_an_empty_subject_is_one(provider: SesProvider) -> None:
    content = EmailContent(subject="", text="Hi", html=None)
    assert prepared(provider, content=content)["Content"]["Simple"]["Subject"]["Data"] == ""


@pytest.mark.parametrize(
    "recipient",
    [
        "a@example.com, b@example.com",
        "a@example.com\r\nBcc: b@example.com",
        "a@example.com\n",
        "A <a@example.com>",
        "a@example.com ",
        "d\N{LATIN SMALL LETTER A WITH RING ABOVE}n@example.com",
        "a@b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example",
        "a",
        "@example.com",
        "a@",
    ],
)
def test_g3_a_row_that_names_anything_but_one_address_is_unreadable(
    recipient: str, provider: SesProvider
) -> None:
    with pytest.raises(Unreadable):
        prepared(provider, recipient=recipient)


def test_content_of_another_channel_is_unreadable(provider: SesProvider) -> None:
    with pytest.raises(Unreadable):
        prepared(provider, content=SmsContent(text="Hi"))


NAMES = (
    "Acme",
    'Acme, Inc "Q"',
    "Acme <b@example.com>",
    "b@example.com,",
    "back\\slash",
    "semi;colon: (comment)",
    "=?utf-8?q?Bcc=3A?=",
    "Café Zürich",
    "日本語" * 30,
    "Émile, b@example.com",
)


@pytest.mark.parametrize("name", NAMES)
def test_g3_a_display_name_is_one_name_of_one_address(name: str, provider: SesProvider) -> None:
    address = prepared(provider, sender=sender_with(from_name=name))["FromEmailAddress"]
    assert address.isascii()
    assert address.isprintable()
    ((named, addr_spec),) = getaddresses([address])
    assert (str(make_header(decode_header(named))), addr_spec) == (name, "no-reply@notify.example")
    assert all(len(word) <= 75 for word in address.split() if word.startswith("=?"))


@pytest.mark.parametrize(
    "name", ["x\r\nBcc: b@example.com", "x\ry", "x\ny", "x\u2028y", "x\x00y", 7, ["Acme"], {"a": 1}]
)
def test_g3_a_name_that_is_no_line_of_text_stops_the_stream_not_the_email(
    name: Any, provider: SesProvider
) -> None:
    answer = provider.prepare(an_email(sender=sender_with(from_name=name)))
    assert isinstance(answer, Blocked)
    assert (answer.code, answer.scope) == ("not_configured", Scope.SENDER_IDENTITY)
    assert "from_name" in (answer.detail or "")


# Replies


@pytest.mark.parametrize(
    ("setting", "addresses"),
    [
        ("help@notify.example", ["help@notify.example"]),
        (["a@notify.example", "b@notify.example"], ["a@notify.example", "b@notify.example"]),
    ],
)
def test_replies_go_where_the_stream_says(
    setting: Any, addresses: list[str], provider: SesProvider
) -> None:
    parameters = prepared(provider, sender=sender_with(reply_to=setting))
    assert parameters["ReplyToAddresses"] == addresses


@pytest.mark.parametrize("setting", [None, "", []])
def test_replies_go_to_the_sender_otherwise(setting: Any, provider: SesProvider) -> None:
    assert "ReplyToAddresses" not in prepared(provider, sender=sender_with(reply_to=setting))


@pytest.mark.parametrize("setting", [7, "nobody", "a@b.example, c@d.example", [""], [None]])
def test_replies_to_what_is_no_address_stop_the_stream(setting: Any, provider: SesProvider) -> None:
    answer = provider.prepare(an_email(sender=sender_with(reply_to=setting)))
    assert isinstance(answer, Blocked)
    assert (answer.code, answer.scope) == ("not_configured", Scope.SENDER_IDENTITY)


# Submitting


def test_what_keeps_a_stream_from_sending_is_the_outcome_and_nothing_is_called(
    provider: SesProvider,
) -> None:
    call = provider.prepare(an_email(sender=SenderIdentity()))
    assert isinstance(call, Blocked)
    assert provider.submit(call, deadline=time.monotonic() + 5) == call


def test_whatever_goes_wrong_within_is_unknown(provider: SesProvider) -> None:
    class Broken(AwsClient):
        def __init__(self) -> None:
            pass

        def call(self, call: AwsCall, *, deadline: float) -> Any:
            raise ZeroDivisionError

    broken = dataclasses.replace(provider, client=Broken())
    outcome = broken.submit(broken.prepare(an_email()), deadline=time.monotonic() + 5)
    assert outcome == Unknown(code="internal_error", detail="ZeroDivisionError")


def test_nobody_there_is_provably_not_sent(provider: SesProvider) -> None:
    outcome = provider.submit(provider.prepare(an_email()), deadline=time.monotonic() + 5)
    assert (outcome.name, outcome.code) == ("transient", "connection_refused")


def test_no_time_left_is_provably_not_sent_and_costs_nothing(provider: SesProvider) -> None:
    outcome = provider.submit(provider.prepare(an_email()), deadline=time.monotonic() - 1)
    assert (outcome.name, outcome.code, outcome.spends) == ("transient", "deadline", False)


def test_without_credentials_the_provider_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    url = f"http://{HOST}:{free_port()}"
    client = AwsClient("sesv2", transport=Transport(), endpoint_url=url, region="eu-central-1")
    provider = SesProvider(client=client)
    outcome = provider.submit(provider.prepare(an_email()), deadline=time.monotonic() + 5)
    assert outcome == Blocked(code="not_configured", detail="NoCredentialsError")
