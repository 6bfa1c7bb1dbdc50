"""Which way a push goes, and the life of an SNS endpoint."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from functions.core.errors import Unreadable
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)
from functions.core.stream import SenderIdentity
from functions.core.suppression import SuppressionReason
from functions.providers import fcm, sns_push
from functions.providers.aws_answer import Rule
from functions.providers.provider import Submission
from functions.providers.push import PushProvider
from functions.providers.push_message import MAX_PAYLOAD_BYTES, MAX_TTL_SECONDS
from tests.pushing import (
    APPLE_ENDPOINT,
    APPLICATION,
    BY_FCM,
    BY_SNS,
    ENDPOINT,
    TOKEN,
    Fcm,
    Reply,
    Sns,
    action_of,
    attributes_of,
    error,
    google,
    hanging,
    parameters_of,
    provider_at,
    replying,
    resetting,
    result,
    set_credentials,
)
from tests.submissions import NOTIFICATION_ID, submission, submit
from tests.wire import Received, peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """SNS and the provider that calls it, one for all tests: a client of boto3 takes its time."""

    sns: Sns
    provider: PushProvider

    def submit(self, what: Submission, **replies: Reply) -> tuple[Outcome, list[Received]]:
        """Return what a push comes to and what was asked, where SNS answers ``replies``."""
        self.sns.asked.clear()
        self.sns.replies = replies
        return submit(self.provider, what), [*self.sns.asked]


@pytest.fixture(scope="module")
def service() -> Generator[Service]:
    sns = Sns()
    with pytest.MonkeyPatch.context() as patch, peer(sns.serve) as server:
        set_credentials(patch)
        yield Service(sns=sns, provider=provider_at(server.url))


def push(
    recipient: str,
    content: Any = "Hello",
    *,
    sender: SenderIdentity = BY_SNS,
    remaining_seconds: float | None = None,
) -> Submission:
    what = submission(channel="push", recipient=recipient, content=content)
    return dataclasses.replace(what, sender=sender, remaining_seconds=remaining_seconds)


def published(
    service: Service, recipient: str = ENDPOINT, content: Any = "Hello", **more: Any
) -> Received:
    """Return the Publish that a push comes to."""
    outcome, requests = service.submit(push(recipient, content, **more))
    assert outcome == Accepted(reference="push-m1", http_status=200)
    assert action_of(requests[-1]) == "Publish"
    return requests[-1]


def payload_of(request: Received, platform: str) -> Any:
    """Return the platform's payload of a Publish, from its text in a text."""
    message = json.loads(parameters_of(request)["Message"])
    assert set(message) == {"default", platform}
    assert message["default"]
    assert len(message[platform].encode()) <= MAX_PAYLOAD_BYTES
    return json.loads(message[platform])


def test_an_endpoint_of_fcm_gets_a_message_of_fcm_s(service: Service) -> None:
    request = published(service, content={"title": "T", "body": "é", "data": {"a": 1}})
    parameters = parameters_of(request)
    assert (parameters["TargetArn"], parameters["MessageStructure"]) == (ENDPOINT, "json")
    message = payload_of(request, "GCM")["fcmV1Message"]["message"]
    assert message["notification"] == {"title": "T", "body": "é"}
    assert message["data"] == {"a": "1"}
    assert message["android"]["collapse_key"] == str(NOTIFICATION_ID)
    assert "token" not in message


@pytest.mark.parametrize("platform", ["APNS", "APNS_SANDBOX"])
def test_an_endpoint_of_apple_s_gets_aps(service: Service, platform: str) -> None:
    endpoint = ENDPOINT.replace("GCM", platform)
    request = published(service, endpoint, {"title": "T", "body": "B", "data": {"a": 1}})
    assert payload_of(request, platform) == {
        "aps": {"alert": {"title": "T", "body": "B"}, "sound": "default"},
        "a": 1,
    }
    assert attributes_of(request) == {
        f"AWS.SNS.MOBILE.{platform}.TTL": "86400",
        "AWS.SNS.MOBILE.APNS.COLLAPSE_ID": str(NOTIFICATION_ID),
        "AWS.SNS.MOBILE.APNS.PUSH_TYPE": "alert",
        "AWS.SNS.MOBILE.APNS.PRIORITY": "10",
    }


def test_data_alone_reaches_apple_s_devices_in_the_background(service: Service) -> None:
    attributes = attributes_of(published(service, APPLE_ENDPOINT, {"data": {"a": 1}}))
    assert attributes["AWS.SNS.MOBILE.APNS.PUSH_TYPE"] == "background"
    assert attributes["AWS.SNS.MOBILE.APNS.PRIORITY"] == "5"


@pytest.mark.parametrize(
    ("remaining", "seconds"), [(None, "86400"), (90.5, "90"), (1e9, str(MAX_TTL_SECONDS))]
)
def test_there_is_always_a_time_to_live(
    service: Service, remaining: float | None, seconds: str
) -> None:
    request = published(service, remaining_seconds=remaining)
    assert attributes_of(request) == {"AWS.SNS.MOBILE.FCM.TTL": seconds}
    android = payload_of(request, "GCM")["fcmV1Message"]["message"]["android"]
    assert android["ttl"] == f"{seconds}s"


@pytest.mark.parametrize("body", ["é" * 3000, "😀" * 1500, '"' * 3000])
@pytest.mark.parametrize(("endpoint", "platform"), [(ENDPOINT, "GCM"), (APPLE_ENDPOINT, "APNS")])
def test_h3_a_platform_payload_has_4096_bytes_before_it_is_nested(
    service: Service, endpoint: str, platform: str, body: str
) -> None:
    payload = payload_of(published(service, endpoint, body), platform)
    if platform == "GCM":
        shown = payload["fcmV1Message"]["message"]["notification"]["body"]
    else:
        shown = payload["aps"]["alert"]["body"]
    assert shown.endswith("…")
    assert set(shown) == {body[0], "…"}


@pytest.mark.parametrize("recipient", [ENDPOINT, APPLE_ENDPOINT, TOKEN])
@pytest.mark.parametrize("sender", [BY_SNS, BY_FCM])
def test_h3_data_that_is_too_large_is_rejected_without_a_request(
    service: Service, recipient: str, sender: SenderIdentity
) -> None:
    content = {"body": "B", "data": {"a": "x" * 5000}}
    outcome, requests = service.submit(push(recipient, content, sender=sender))
    assert isinstance(outcome, Rejected)
    assert (outcome.code, requests) == ("payload_too_large", [])


def test_a_token_gets_an_endpoint_of_the_stream_s_application(service: Service) -> None:
    outcome, (create, publish) = service.submit(push(TOKEN))
    assert isinstance(outcome, Accepted)
    parameters = parameters_of(create)
    assert action_of(create) == "CreatePlatformEndpoint"
    assert (parameters["PlatformApplicationArn"], parameters["Token"]) == (APPLICATION, TOKEN)
    assert parameters_of(publish)["TargetArn"] == ENDPOINT


def existing(arn: str = ENDPOINT) -> Reply:
    text = (
        f"Invalid parameter: Token Reason: Endpoint {arn} already exists with the same Token, "
        "but different attributes."
    )
    return replying(400, error("InvalidParameter", text))


def test_an_endpoint_with_other_attributes_is_found_and_enabled(service: Service) -> None:
    outcome, requests = service.submit(push(TOKEN), CreatePlatformEndpoint=existing())
    assert isinstance(outcome, Accepted)
    assert [action_of(one) for one in requests] == [
        "CreatePlatformEndpoint",
        "SetEndpointAttributes",
        "Publish",
    ]
    change = parameters_of(requests[1])
    assert change["EndpointArn"] == ENDPOINT
    entries = {
        change[f"Attributes.entry.{number}.key"]: change[f"Attributes.entry.{number}.value"]
        for number in (1, 2)
    }
    assert entries == {"Token": TOKEN, "Enabled": "true"}


GONE = replying(404, error("NotFound", "Endpoint does not exist"))


@pytest.mark.parametrize(
    "reply",
    [{"Publish": GONE}, {"CreatePlatformEndpoint": existing(), "SetEndpointAttributes": GONE}],
)
def test_an_endpoint_that_is_deleted_meanwhile_leaves_the_token_alone(
    service: Service, reply: dict[str, Reply]
) -> None:
    outcome, _ = service.submit(push(TOKEN), **reply)
    assert isinstance(outcome, Transient)
    assert outcome.code == "NotFound"


def test_an_endpoint_that_we_were_given_and_is_gone_is_dead(service: Service) -> None:
    outcome, requests = service.submit(push(ENDPOINT), Publish=GONE)
    assert isinstance(outcome, Refused)
    assert (outcome.reason, outcome.source) == (SuppressionReason.INVALID, "sns:publish")
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (404, "NotFound", "PlatformApplication does not exist", Blocked),
        (400, "InvalidParameter", "Invalid parameter: PlatformApplicationArn Reason: x", Blocked),
        (400, "InvalidParameter", "Invalid parameter: Token Reason: iOS device tokens must be x",
         Refused),
        (400, "InvalidParameter", "Invalid parameter: Attributes Reason: x", Rejected),
        (400, "PlatformApplicationDisabled", "", Blocked),
        (403, "AuthorizationError", "", Blocked),
        (403, "InvalidClientTokenId", "", Blocked),
        (400, "Throttling", "Rate exceeded", Throttled),
        (500, "InternalError", "", Transient),
        (503, "MadeUpYesterday", "", Transient),
    ],
)  # fmt: skip
def test_without_an_endpoint_nothing_is_published(
    service: Service, status: int, code: str, message: str, expected: type[Outcome]
) -> None:
    reply = replying(status, error(code, message))
    outcome, requests = service.submit(push(TOKEN), CreatePlatformEndpoint=reply)
    assert isinstance(outcome, expected)
    assert (outcome.code, outcome.http_status) == (code, status)
    assert outcome.unforeseen == (code == "MadeUpYesterday")
    assert [action_of(one) for one in requests] == ["CreatePlatformEndpoint"]


@pytest.mark.parametrize(
    "create",
    [
        replying(200, result("CreatePlatformEndpoint")),
        replying(200, b""),
        replying(200, b"<html>"),
        resetting,
    ],
)
def test_an_answer_about_an_endpoint_that_is_none_is_no_doubt_about_the_message(
    service: Service, create: Reply
) -> None:
    # A provider of its own: after no answer at all it would not ask again for some seconds.
    sns = Sns(replies={"CreatePlatformEndpoint": create})
    with peer(sns.serve) as server:
        outcome = submit(provider_at(server.url), push(TOKEN))
    assert isinstance(outcome, Transient)
    assert sns.actions == ["CreatePlatformEndpoint"]


def test_a_set_waits_once_for_an_sns_that_makes_no_endpoints(service: Service) -> None:
    sns = Sns(replies={"CreatePlatformEndpoint": hanging})
    with peer(sns.serve) as server:
        provider = provider_at(server.url)
        outcomes = [submit(provider, push(f"token-{number}")) for number in range(10)]
        assert sns.actions == ["CreatePlatformEndpoint"]
        assert isinstance(submit(provider, push(ENDPOINT)), Accepted), "that needs no endpoint"
    assert {(type(outcome), outcome.code) for outcome in outcomes} == {(Transient, "timeout")}


@pytest.mark.parametrize(
    ("sender", "detail"),
    [
        (SenderIdentity(), "project_id or identity"),
        (SenderIdentity(identity="", settings={"project_id": ""}), "project_id or identity"),
        (SenderIdentity(settings={"project_id": 7}), "project_id"),
        (SenderIdentity(identity="a From address"), "identity"),
        (SenderIdentity(identity=APPLICATION.replace("GCM", "ADM")), "identity"),
        (SenderIdentity(identity=APPLICATION, settings={"ttl_seconds": "1h"}), "ttl_seconds"),
        (SenderIdentity(settings={"project_id": "p", "collapse": 1}), "collapse"),
    ],
)
def test_what_is_not_configured_waits_and_asks_nobody(
    service: Service, sender: SenderIdentity, detail: str
) -> None:
    outcome, requests = service.submit(push(TOKEN, sender=sender))
    assert requests == []
    # What only tokens lack does not stop what is for an endpoint's ARN.
    scope = Scope.DESTINATION if " or " in detail else Scope.SENDER_IDENTITY
    assert outcome == Blocked(code="not_configured", detail=detail, scope=scope)


def test_surroundings_without_a_region_are_no_fault_of_the_notification(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    outcome = submit(provider_at("http://127.0.0.1:1"), push(ENDPOINT))
    assert outcome == Blocked(
        code="not_configured", detail="NoRegionError", scope=Scope.SENDER_IDENTITY
    )


@pytest.mark.parametrize("platform", ["ADM", "BAIDU", "WNS", "APNS_VOIP"])
def test_an_endpoint_of_another_platform_can_never_pass(service: Service, platform: str) -> None:
    outcome, requests = service.submit(push(ENDPOINT.replace("GCM", platform)))
    assert requests == []
    assert outcome == Rejected(code="platform_not_supported", detail=platform)


def test_an_endpoint_goes_by_sns_whatever_the_stream_has(service: Service) -> None:
    both = SenderIdentity(identity=APPLICATION, settings={"project_id": "p"})
    for sender in (SenderIdentity(), both, BY_FCM):
        assert action_of(published(service, sender=sender)) == "Publish"


def test_a_token_goes_by_fcm_where_there_is_a_project() -> None:
    both = SenderIdentity(identity=APPLICATION, settings={"project_id": "p"})
    served = Fcm()
    with google() as tokens, peer(served.serve) as server:
        provider = provider_at(server.url, account=tokens.account)
        assert isinstance(submit(provider, push(TOKEN, sender=both)), Accepted)
    assert served.times(TOKEN) == 1


def test_content_of_another_channel_is_unreadable(service: Service) -> None:
    with pytest.raises(Unreadable):
        service.provider.prepare(dataclasses.replace(submission(), sender=BY_SNS))
    apple = push(APPLE_ENDPOINT, {"data": {"aps": 1}})
    with pytest.raises(Unreadable):
        service.provider.prepare(apple)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", result("Publish"), result("Publish", MessageId=""),
     result("Publish", MessageId="m" * 300)],
)  # fmt: skip
def test_a_2xx_without_a_usable_id_is_unknown(service: Service, body: bytes) -> None:
    outcome, requests = service.submit(push(ENDPOINT), Publish=replying(200, body))
    assert isinstance(outcome, Unknown)
    assert outcome.code == "unreadable_answer"
    assert len(requests) == 1


@pytest.mark.parametrize("rules", [fcm.RULES, sns_push.RULES])
def test_each_rule_can_be_met(rules: Sequence[Rule]) -> None:
    """A rule after one that takes all of its code is dead text."""
    taken: set[str] = set()
    for rule in rules:
        assert rule.code not in taken, rule
        if not rule.text and not rule.field:
            taken.add(rule.code)


IMPORTS = """
import sys
from functions.providers.push import DECLARATION, PushProvider
from functions.providers import push_event
print(sorted({"boto3", "botocore", "google", "cryptography"} & set(sys.modules)))
"""


def test_whoever_only_knows_of_push_pays_for_no_library_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_sns_alone_needs_no_google() -> None:
    script = "import sys, functions.providers.sns_push; print('google' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "False"
