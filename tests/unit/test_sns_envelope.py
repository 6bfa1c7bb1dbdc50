"""SNS envelopes: what is signed, whom a certificate may come from, and what is fetched for it."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from functions.core.errors import Unavailable, Unreadable
from functions.providers.sns_envelope import (
    KEPT_CERTIFICATES,
    Forged,
    Proved,
    Verifier,
    read,
    signed_text,
)
from functions.providers.transport import Lost, Response
from tests.sns import (
    CERTIFICATE_URL,
    HOST,
    TOPIC,
    FakeSns,
    certificate,
    confirmation,
    envelope,
    fake_sns,
    key,
    sign,
    stamp,
)

PATH = CERTIFICATE_URL.removeprefix(f"https://{HOST}")


@pytest.fixture
def sns() -> Iterator[FakeSns]:
    with fake_sns() as fake:
        yield fake


def prove(sns: FakeSns, made: dict[str, str], *topics: str) -> Proved:
    body = json.dumps(made, ensure_ascii=False).encode()
    proved = Verifier(sns.fetch).prove(read(body), topics=topics or (TOPIC,))
    proved.check_times(datetime.now(UTC))
    return proved


MESSAGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "with a subject": {"Subject": "Amazon SES Email Event Notification"},
    "with an empty subject": {"Subject": ""},
    "beyond ASCII": {
        "Message": 'Grüße, 你好 😀\n\t"quoted" \\ and / and \u2028',
        "Subject": "Ünïcode",
    },
    "empty": {"Message": ""},
}


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("case", MESSAGES)
def test_e4_a_true_message_is_proved(sns: FakeSns, case: str, version: str) -> None:
    made = sign(envelope("hello", SignatureVersion=version, **MESSAGES[case]))
    assert prove(sns, made).envelope.message == made["Message"]
    assert sns.asked == [CERTIFICATE_URL]


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
def test_e4_a_true_confirmation_is_proved(sns: FakeSns, kind: str, version: str) -> None:
    made = sign(confirmation(kind, SignatureVersion=version))
    assert prove(sns, made).envelope.type == kind


def test_what_is_signed_is_what_the_guide_of_aws_says() -> None:
    made = envelope(
        "Hello", Subject="My Subject", MessageId="m-1", Timestamp="2012-05-02T00:54:06.655Z"
    )
    assert signed_text(read(json.dumps(made).encode())) == (
        b"Message\nHello\nMessageId\nm-1\nSubject\nMy Subject\n"
        b"Timestamp\n2012-05-02T00:54:06.655Z\nTopicArn\n" + TOPIC.encode() + b"\n"
        b"Type\nNotification\n"
    )


@pytest.mark.parametrize("name", ["Message", "MessageId", "Subject", "Timestamp"])
def test_e4_one_changed_character_of_what_is_signed_fails(sns: FakeSns, name: str) -> None:
    made = sign(envelope("hello", Subject="Subject"))
    changed = stamp(timedelta(seconds=5)) if name == "Timestamp" else made[name] + " "
    with pytest.raises(Forged):
        prove(sns, {**made, name: changed})


@pytest.mark.parametrize("name", ["SubscribeURL", "Token"])
def test_e4_one_changed_character_of_a_confirmation_fails(sns: FakeSns, name: str) -> None:
    made = sign(confirmation())
    with pytest.raises(Forged):
        prove(sns, {**made, name: made[name] + "0"})


def test_e4_a_subject_that_is_added_or_taken_away_fails(sns: FakeSns) -> None:
    with pytest.raises(Forged):
        prove(sns, {**sign(envelope("hello")), "Subject": "added"})
    signed = sign(envelope("hello", Subject="Subject"))
    del signed["Subject"]
    with pytest.raises(Forged):
        prove(sns, signed)


BAD_URLS = [
    "https://s3.amazonaws.com/bucket/SimpleNotificationService-0a.pem",
    f"http://{HOST}{PATH}",
    f"https://{HOST}.example.com{PATH}",
    f"https://sns.us-east-1.amazonaws.com.example.com{PATH}",
    f"https://evil.example/{HOST}{PATH}",
    f"https://user@{HOST}{PATH}",
    f"https://{HOST}@evil.example{PATH}",
    f"https://{HOST}:443{PATH}",
    f"https://{HOST}:8443{PATH}",
    f"https://{HOST}{PATH}?x=1",
    f"https://{HOST}{PATH}?",
    f"https://{HOST}{PATH}#x",
    f"https://{HOST}/other.pem",
    f"https://{HOST}/a/../SimpleNotificationService-0a.pem",
    f"https://{HOST}/SimpleNotificationService-zz.pem",
    f"https://{HOST}//SimpleNotificationService-0a.pem",
    f"https://{HOST}/SimpleNotificationService-0a.pem/x",
    f"https://{HOST.upper()}{PATH}",
    f"https://{HOST}\\@evil.example{PATH}",
    f"https://{HOST}\t{PATH}",
    f" https://{HOST}{PATH}",
    f"//{HOST}{PATH}",
    f"https://sns.eu-central-1.amazonaws.com.cn{PATH}",
    f"https://sns-eu-central-1.amazonaws.com{PATH}",
    f"https://x.{HOST}{PATH}",
    f"https://sns.eu-west-1.amazonaws.com{PATH}",
    f"https://127.0.0.1{PATH}",
    f"ftp://{HOST}{PATH}",
    "file:///etc/passwd",
    "",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_e4_a_certificate_from_elsewhere_is_refused_without_a_look(sns: FakeSns, url: str) -> None:
    with pytest.raises(Forged):
        prove(sns, sign(envelope("hello", SigningCertURL=url)))
    assert sns.asked == []


@pytest.mark.parametrize(
    "topic",
    [
        "arn:aws:sns:eu-central-1:999999999999:sendoff-events",
        TOPIC + "-2",
        TOPIC.upper(),
        TOPIC + "\n",
        "sendoff-events",
    ],
)
def test_e4_a_foreign_topic_is_refused_before_anything_is_fetched(sns: FakeSns, topic: str) -> None:
    for made in (envelope("hello", TopicArn=topic), confirmation(TopicArn=topic)):
        with pytest.raises(Forged):
            prove(sns, sign(made))
    assert sns.asked == []


def test_without_topics_nobody_is_listened_to(sns: FakeSns) -> None:
    body = json.dumps(sign(envelope("hello"))).encode()
    with pytest.raises(Forged):
        Verifier(sns.fetch).prove(read(body), topics=())
    assert sns.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/",
        "https://localhost/?Action=ConfirmSubscription&TopicArn={topic}&Token=t",
        "http://{host}/?Action=ConfirmSubscription&TopicArn={topic}&Token=t",
        "https://{host}.example.com/?Action=ConfirmSubscription&TopicArn={topic}&Token=t",
        "https://{host}@evil.example/?Action=ConfirmSubscription&TopicArn={topic}&Token=t",
        "https://{host}:444/?Action=ConfirmSubscription&TopicArn={topic}&Token=t",
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={topic}&Token=t",
        "https://{host}/?Action=DeleteTopic&TopicArn={topic}&Token=t",
        "https://{host}/?Action=ConfirmSubscription&TopicArn={topic}x&Token=t",
        "https://{host}/?Action=DeleteTopic&Action=ConfirmSubscription&TopicArn={topic}&Token=t",
        "https://{host}/else?Action=ConfirmSubscription&TopicArn={topic}&Token=t",
        "https://{host}/?Action=ConfirmSubscription&TopicArn={topic}&Token=t#x",
        "https://{host}/",
        "",
    ],
)
def test_e4_a_subscription_to_be_confirmed_elsewhere_is_refused_without_a_look(
    sns: FakeSns, url: str
) -> None:
    made = confirmation(SubscribeURL=url.format(host=HOST, topic=TOPIC))
    with pytest.raises(Forged):
        prove(sns, sign(made))
    assert sns.asked == []


@pytest.mark.parametrize("version", ["", "0", "3", "1 ", "one"])
def test_a_version_that_nobody_knows_is_refused(sns: FakeSns, version: str) -> None:
    with pytest.raises(Forged):
        prove(sns, {**sign(envelope("hello")), "SignatureVersion": version})
    assert sns.asked == []


def test_e4_a_signature_of_another_version_fails(sns: FakeSns) -> None:
    for signed, claimed in (("1", "2"), ("2", "1")):
        made = sign(envelope("hello", SignatureVersion=signed))
        with pytest.raises(Forged):
            prove(sns, {**made, "SignatureVersion": claimed})


@pytest.mark.parametrize(
    "signature", ["", "not base64!", "AAAA", base64.b64encode(b"x" * 256).decode()]
)
def test_a_signature_that_is_none_fails(sns: FakeSns, signature: str) -> None:
    with pytest.raises(Forged):
        prove(sns, {**sign(envelope("hello")), "Signature": signature})


def test_a_message_without_a_signature_or_a_certificate_fails(sns: FakeSns) -> None:
    for name in ("Signature", "SignatureVersion", "SigningCertURL"):
        made = sign(envelope("hello"))
        del made[name]
        with pytest.raises(Forged):
            prove(sns, made)


def test_e4_a_message_signed_with_ones_own_key_fails(sns: FakeSns) -> None:
    with pytest.raises(Forged):
        prove(sns, sign(envelope("hello"), key(2)))


CERTIFICATES: dict[str, Callable[[], bytes]] = {
    "of another name": lambda: certificate(
        key(), names=("sns.example.com",), common_name="sns.example.com"
    ),
    "whose common name alone is right": lambda: certificate(key(), names=("evil.example",)),
    "of another region": lambda: certificate(
        key(), names=("sns-signing.af-south-1.amazonaws.com",)
    ),
    "over": lambda: certificate(key(), valid_until=timedelta(days=-1)),
    "to come": lambda: certificate(key(), valid_from=timedelta(days=1)),
    "no certificate": lambda: b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "a page": lambda: b"<html></html>",
    "empty": lambda: b"",
    "of a short key": lambda: certificate(key(3, 1024)),
    "of an elliptic key": lambda: certificate(ec.generate_private_key(ec.SECP256R1())),
}


@pytest.mark.parametrize("case", CERTIFICATES)
def test_a_certificate_that_is_not_sns_s_own_proves_nothing(sns: FakeSns, case: str) -> None:
    sns.files[PATH] = CERTIFICATES[case]()
    signer = key(3, 1024) if case == "of a short key" else key()
    with pytest.raises(Forged):
        prove(sns, sign(envelope("hello"), signer))


@pytest.mark.parametrize(
    ("names", "common_name"),
    [
        (
            ("sns-signing.eu-central-1.amazonaws.com", HOST),
            "sns-signing.eu-central-1.amazonaws.com",
        ),
        ((), "sns.amazonaws.com"),
        (("example.com", "sns.amazonaws.com"), "example.com"),
    ],
)
def test_a_certificate_may_have_any_name_that_sns_signs_by(
    sns: FakeSns, names: tuple[str, ...], common_name: str
) -> None:
    sns.files[PATH] = certificate(key(), names=names, common_name=common_name)
    prove(sns, sign(envelope("hello")))


@pytest.mark.parametrize(
    ("region", "partition", "host", "name"),
    [
        (
            "cn-north-1",
            "aws-cn",
            "sns.cn-north-1.amazonaws.com.cn",
            "sns-cn-north-1.amazonaws.com.cn",
        ),
        (
            "us-gov-east-1",
            "aws-us-gov",
            "sns.us-gov-east-1.amazonaws.com",
            "sns-us-gov-west-1.amazonaws.com",
        ),
        ("us-east-1", "aws", "sns.us-east-1.amazonaws.com", "sns.amazonaws.com"),
    ],
)
def test_a_true_message_of_another_part_of_the_world_is_proved(
    sns: FakeSns, region: str, partition: str, host: str, name: str
) -> None:
    topic = f"arn:{partition}:sns:{region}:123456789012:sendoff-events"
    sns.files[PATH] = certificate(key(), names=(name,), common_name=name)
    made = envelope("hello", TopicArn=topic, SigningCertURL=f"https://{host}{PATH}")
    prove(sns, sign(made), topic)
    assert sns.asked == [f"https://{host}{PATH}"]


@pytest.mark.parametrize(
    ("age", "fits"),
    [(0, True), (59, True), (61, False), (24 * 60, False), (-4, True), (-6, False)],
)
def test_a_message_is_not_older_than_an_hour(sns: FakeSns, age: float, fits: bool) -> None:
    made = sign(envelope("hello", Timestamp=stamp(timedelta(minutes=age))))
    if fits:
        prove(sns, made)
    else:
        with pytest.raises(Forged):
            prove(sns, made)


def test_a_certificate_is_fetched_once(sns: FakeSns) -> None:
    verifier = Verifier(sns.fetch)
    for number in range(3):
        body = json.dumps(sign(envelope(f"hello {number}"))).encode()
        verifier.prove(read(body), topics=[TOPIC])
    assert sns.asked == [CERTIFICATE_URL]


def test_no_more_certificates_are_kept_than_there_can_be(sns: FakeSns) -> None:
    verifier = Verifier(sns.fetch)
    urls = [f"https://{HOST}/SimpleNotificationService-{number:02x}.pem" for number in range(20)]
    for url in [*urls, urls[-1], urls[0]]:
        sns.files[url.removeprefix(f"https://{HOST}")] = sns.files[PATH]
        body = json.dumps(sign(envelope("hello", SigningCertURL=url))).encode()
        verifier.prove(read(body), topics=[TOPIC])
    assert len(urls) > KEPT_CERTIFICATES
    assert sns.asked == [*urls, urls[0]], "the last is kept, the first is not"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_certificate_that_cannot_be_had_now_is_asked_for_again(sns: FakeSns, status: int) -> None:
    sns.statuses[PATH] = status
    with pytest.raises(Unavailable):
        prove(sns, sign(envelope("hello")))
    sns.statuses.clear()
    prove(sns, sign(envelope("hello")))


@pytest.mark.parametrize("status", [301, 403, 404])
def test_a_certificate_that_there_is_not_proves_nothing(sns: FakeSns, status: int) -> None:
    sns.statuses[PATH] = status
    with pytest.raises(Forged):
        prove(sns, sign(envelope("hello")))
    assert sns.asked == [CERTIFICATE_URL], "nothing is followed"


def test_a_certificate_whose_body_was_cut_off_proves_nothing_and_is_not_kept(sns: FakeSns) -> None:
    complete = [False, True]

    def fetch(url: str, deadline: float) -> Response | Lost:
        answer = sns.fetch(url, deadline)
        assert isinstance(answer, Response)
        return replace(answer, complete=complete.pop(0))  # what there is of it can be read

    verifier = Verifier(fetch)
    made = read(json.dumps(sign(envelope("hello"))).encode())
    with pytest.raises(Forged):
        verifier.prove(made, topics=[TOPIC])
    verifier.prove(made, topics=[TOPIC])
    assert complete == []


def test_a_certificate_server_that_is_gone_is_no_forgery() -> None:
    def fetch(url: str, deadline: float) -> Response | Lost:
        assert deadline > time.monotonic()
        return Lost(begun=False, code="connection_refused", detail=url)

    body = json.dumps(sign(envelope("hello"))).encode()
    with pytest.raises(Unavailable):
        Verifier(fetch).prove(read(body), topics=[TOPIC])


@pytest.mark.parametrize("status", [400, 403, 500])
def test_a_subscription_that_is_not_confirmed_is_announced_again(sns: FakeSns, status: int) -> None:
    sns.statuses["/"] = status
    proved = prove(sns, sign(confirmation()))
    with pytest.raises(Unavailable):
        Verifier(sns.fetch).confirm(proved)


NOT_ENVELOPES: list[Any] = [
    b"",
    b"not json",
    b"[]",
    b"null",
    b'{"Type": "Notification"}',
    b"\xff",
    b'{"Type": "Notification", "Type": "Notification"}',
    {**envelope("hello"), "Type": "Else"},
    {**envelope("hello"), "Type": ["Notification"]},
    {**envelope("hello"), "Message": {"a": 1}},
    {**envelope("hello"), "MessageId": ""},
    {**envelope("hello"), "Timestamp": "yesterday"},
    {**envelope("hello"), "Timestamp": "2026-01-02T03:04:05"},
    {**envelope("hello"), "Timestamp": 1},
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", NOT_ENVELOPES)
def test_what_is_no_envelope_is_unreadable(body: Any) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(Unreadable):
        read(raw)
