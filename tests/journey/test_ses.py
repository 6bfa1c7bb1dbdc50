"""Email through SES, as the emulator has it: sent, kept there, and delivered once an event says so.

The emulator publishes no events by itself, so this publishes the one that SES would have, to the
topic where SES would.
"""

import copy
import json
from collections.abc import Generator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest

from functions.core.states import Status
from infra.config import DEFAULT_PREFIX
from infra.local.deploy import SENDER_ADDRESS
from infra.local.emulator import ACCOUNT, CREDENTIALS, REGION
from tests.journey.conftest import sendoff
from tests.journey.deployment import Service, email, wait_for
from tests.ses_events import DELIVERY

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

COMMAND_SECONDS = 60.0


def operate(service: Service, *arguments: str) -> Any:
    """Run an operator's command; return its document."""
    done = sendoff(
        *arguments, "--json", "--state-dir", service.local.state_dir,
        timeout_seconds=COMMAND_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def email_by_ses(service: Service) -> Generator[Service]:
    """The running stack while its email goes out through SES."""
    before = operate(service, "channel", "show", "email")
    # First who sends: a stream that cannot tell blocks, and every email of it would wait.
    operate(
        service, "channel", "stream", "email", "transactional",
        "--identity", SENDER_ADDRESS,
        "--configuration-set", f"{DEFAULT_PREFIX}-transactional",
    )  # fmt: skip
    operate(service, "channel", "set", "email", "--provider", "ses")
    try:
        yield service
    finally:
        operate(
            service, "channel", "set", "email",
            "--provider", before["provider"], "--provider-url", before["provider_url"],
        )  # fmt: skip
        operate(
            service, "channel", "stream", "email", "transactional",
            "--clear", "identity", "--clear", "configuration-set",
        )  # fmt: skip
    assert operate(service, "channel", "show", "email") == before


def mails_to(service: Service, recipient: str) -> list[dict[str, Any]]:
    """Return what the emulator's SES took for ``recipient``."""
    answer = service.http.request(
        "GET", f"{service.local.aws_endpoint_url}/_ministack/ses/messages", retries=False
    )
    assert answer.status == 200, answer.data
    mails = answer.json()["messages"].get(ACCOUNT, [])
    return [mail for mail in mails if recipient in mail["To"]]


def publish(service: Service, event: dict[str, Any]) -> None:
    """Publish an event where the deployment says that SES has to."""
    stacks = service.aws.cloudformation().describe_stacks(StackName=f"{DEFAULT_PREFIX}-service")
    outputs = {
        output.get("OutputKey"): output.get("OutputValue", "")
        for output in stacks["Stacks"][0].get("Outputs", [])
    }
    client = cast("Any", boto3).client
    sns: SNSClient = client(
        "sns", endpoint_url=service.local.aws_endpoint_url, region_name=REGION, **CREDENTIALS
    )
    sns.publish(TopicArn=outputs["EventTopicArn"], Message=json.dumps(event))


def delivery_of(notification: dict[str, Any]) -> dict[str, Any]:
    """Return what SES would tell of the delivery of ``notification``."""
    (attempt,) = notification["attempts"]
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    event = copy.deepcopy(DELIVERY)
    event["mail"] |= {
        "timestamp": at,
        "messageId": attempt["reference"],
        "destination": [notification["recipient"]],
        "tags": {"notification_id": [notification["id"]], "attempt_id": [attempt["id"]]},
    }
    event["delivery"] |= {"timestamp": at, "recipients": [notification["recipient"]]}
    return event


def test_an_email_goes_out_through_ses_and_is_delivered_when_ses_says_so(
    email_by_ses: Service,
) -> None:
    service, item = email_by_ses, email()
    id = service.first.send_one(item)["id"]

    def submitted() -> dict[str, Any] | None:
        notification = service.first.notification(id)
        return notification if notification["status"] == Status.SUBMITTED else None

    notification = wait_for(submitted, what="the answer of SES")
    (attempt,) = notification["attempts"]
    assert (attempt["provider"], attempt["outcome"]) == ("ses", "accepted")
    (mail,) = mails_to(service, item["recipient"])
    assert mail["MessageId"] == attempt["reference"]
    assert mail["Source"] == SENDER_ADDRESS
    assert (mail["Subject"], mail["BodyText"]) == tuple(item["content"].values())
    assert service.requests(item["recipient"]) == []  # the simulated gateway was not asked

    publish(service, delivery_of(notification))
    ended = service.first.when_ended(id)
    assert ended["status"] == Status.DELIVERED
    (receipt,) = ended["receipts"]
    assert (receipt["type"], receipt["applied"]) == ("Delivery", True)
    assert receipt["reference"] == attempt["reference"]
    assert service.query("SELECT FROM breakers WHERE opened_at IS NOT NULL") == []
