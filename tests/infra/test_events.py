"""Events in: who may publish, who may put on the queue, and what becomes of what is not kept."""

import dataclasses
from typing import Any

import pytest

from functions.core.states import Stream
from infra.config import AWS, VISIBILITY_FACTOR, EventNumbers, faults
from tests.infra.conftest import Assembly
from tests.infra.template import Template

PUBLISHERS = ["ses.amazonaws.com", "sms-voice.amazonaws.com"]
THIS_ACCOUNT = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


def only(template: Template, kind: str) -> tuple[str, dict[str, Any]]:
    """Return the logical id and the properties of the one resource of a type."""
    ((name, resource),) = template.of_type(kind).items()
    return name, resource["Properties"]


def allowed(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in document["Statement"] if one["Effect"] == "Allow"]


def test_only_the_services_that_tell_and_only_of_this_account_may_publish(
    service: Template,
) -> None:
    topic, properties = only(service, "AWS::SNS::Topic")
    assert properties["TopicName"] == "sendoff-events"
    _, policy = only(service, "AWS::SNS::TopicPolicy")
    assert policy["Topics"] == [{"Ref": topic}]
    (statement,) = allowed(policy["PolicyDocument"])
    assert statement["Principal"] == {"Service": PUBLISHERS}
    assert (statement["Action"], statement["Condition"]) == ("sns:Publish", THIS_ACCOUNT)
    assert statement["Resource"] == {"Ref": topic}


def test_the_topic_is_encrypted_by_a_key_that_its_publishers_may_use(service: Template) -> None:
    key, properties = only(service, "AWS::KMS::Key")
    _, topic = only(service, "AWS::SNS::Topic")
    assert topic["KmsMasterKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
    assert properties["EnableKeyRotation"] is True
    publishing = [one for one in allowed(properties["KeyPolicy"]) if "Sid" in one]
    assert [one["Principal"] for one in publishing] == [{"Service": PUBLISHERS}]
    assert set(publishing[0]["Action"]) == {"kms:GenerateDataKey*", "kms:Decrypt"}
    assert publishing[0]["Condition"] == THIS_ACCOUNT


def test_nothing_but_the_topic_puts_anything_on_the_queue(service: Template) -> None:
    topic, _ = only(service, "AWS::SNS::Topic")
    for policy in service.of_type("AWS::SQS::QueuePolicy").values():
        document = policy["Properties"]["PolicyDocument"]
        queue = service.named(policy["Properties"]["Queues"][0], "QueueName")
        if queue == "sendoff-ingest-dlq":
            continue  # the bus keeps there what it could not deliver: see test_doors
        if queue != "sendoff-events":
            assert allowed(document) == [], queue
            continue
        (statement,) = allowed(document)
        assert statement["Principal"] == {"Service": "sns.amazonaws.com"}
        assert statement["Action"] == "sqs:SendMessage"
        assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": {"Ref": topic}}}


def test_the_queue_is_subscribed_and_its_messages_keep_their_envelope(service: Template) -> None:
    topic, _ = only(service, "AWS::SNS::Topic")
    _, subscription = only(service, "AWS::SNS::Subscription")
    assert subscription["Protocol"] == "sqs"
    assert subscription["TopicArn"] == {"Ref": topic}
    assert service.named(subscription["Endpoint"], "QueueName") == "sendoff-events"
    assert subscription.get("RawMessageDelivery", False) is False


def source_of(service: Template) -> dict[str, Any]:
    (source,) = (
        one["Properties"]
        for one in service.of_type("AWS::Lambda::EventSourceMapping").values()
        if service.named(one["Properties"]["EventSourceArn"], "QueueName") == "sendoff-events"
    )
    return source


def test_callbacks_empties_the_queue_and_says_what_shall_come_again(service: Template) -> None:
    source = source_of(service)
    assert service.named(source["FunctionName"], "FunctionName") == "sendoff-callbacks"
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["BatchSize"] == 10
    (right,) = (
        one["PolicyDocument"]["Statement"][0]
        for one in service.role_of("sendoff-callbacks")["Policies"]
        if one["PolicyName"] == "queue"
    )
    assert service.named(right["Resource"], "QueueName") == "sendoff-events"


def test_i1_i2_the_numbers_of_the_events_queue_fit_together(service: Template) -> None:
    function = service.functions["sendoff-callbacks"]
    queue, dead = service.queues["sendoff-events"], service.queues["sendoff-events-dlq"]
    assert queue["VisibilityTimeout"] >= VISIBILITY_FACTOR * function["Timeout"]
    receives = queue["RedrivePolicy"]["maxReceiveCount"]
    assert receives * queue["VisibilityTimeout"] > 3600, "an outage makes no dead letters"
    assert service.named(queue["RedrivePolicy"]["deadLetterTargetArn"], "QueueName") == (
        "sendoff-events-dlq"
    )
    assert dead["MessageRetentionPeriod"] > queue["MessageRetentionPeriod"]
    assert receives * queue["VisibilityTimeout"] < queue["MessageRetentionPeriod"]
    concurrency = source_of(service)["ScalingConfig"]["MaximumConcurrency"]
    assert 2 <= concurrency < function["ReservedConcurrentExecutions"]


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        (EventNumbers(receives=40), "An event comes again"),
        (EventNumbers(maximum_concurrency=20), "The events leave a part of callbacks"),
        (EventNumbers(maximum_concurrency=1), "The events leave a part of callbacks"),
    ],
)
def test_a_number_of_the_events_that_does_not_fit_is_named(
    numbers: EventNumbers, fault: str
) -> None:
    (found,) = faults(dataclasses.replace(AWS, events=numbers))
    assert found.startswith(fault)


def test_each_stream_has_a_configuration_set_that_publishes_to_the_topic(
    service: Template,
) -> None:
    topic, _ = only(service, "AWS::SNS::Topic")
    names = service.properties("AWS::SES::ConfigurationSet", "Name")
    assert set(names) == {f"sendoff-{stream}" for stream in Stream}
    destinations = service.properties(
        "AWS::SES::ConfigurationSetEventDestination", "ConfigurationSetName"
    )
    assert set(destinations) == set(names)
    for destination in destinations.values():
        wanted = destination["EventDestination"]
        assert wanted["Enabled"] is True
        assert wanted["SnsDestination"] == {"TopicARN": {"Ref": topic}}
        assert {"bounce", "complaint", "delivery", "send", "reject"} <= set(
            wanted["MatchingEventTypes"]
        )


def test_the_topic_is_named_for_who_points_a_provider_at_it(service: Template) -> None:
    topic, _ = only(service, "AWS::SNS::Topic")
    assert service.text["Outputs"]["EventTopicArn"]["Value"] == {"Ref": topic}
    assert service.environment("sendoff-callbacks")["EVENT_TOPIC_ARNS"] == {"Ref": topic}


def test_one_event_that_is_lost_or_unforeseen_rings(aws: Assembly) -> None:
    alarms = aws["MonitoringStack"].alarms
    lost = alarms["sendoff-events-dead-letters"]
    assert lost["Dimensions"] == [{"Name": "QueueName", "Value": "sendoff-events-dlq"}]
    unforeseen = alarms["sendoff-events-unforeseen"]
    assert (unforeseen["MetricName"], unforeseen["Threshold"]) == ("EventUnforeseen", 0)
    for alarm in (lost, unforeseen):
        assert alarm["TreatMissingData"] == "notBreaching"
        assert alarm["ComparisonOperator"] == "GreaterThanThreshold"
