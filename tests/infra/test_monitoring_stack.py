"""The alarms ring when they should, stay quiet when they should, and somebody hears them."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from functions.core.metric import ChannelMetric, PriorityMetric, ServiceMetric
from functions.core.states import Channel, Priority
from infra.config import AWS, metric_namespace
from tests.infra.conftest import Assembly, synthesize
from tests.infra.template import Template

MISSING = None

NAMESPACE = metric_namespace("sendoff")

OBJECTIVES_SECONDS = {Priority.HIGH: 10, Priority.NORMAL: 300, Priority.LOW: 3600}


@pytest.fixture(scope="module")
def monitoring(aws: Assembly) -> Template:
    return aws["MonitoringStack"]


def state(alarm: dict[str, Any], minutes: Sequence[float | None]) -> str:
    """Return what CloudWatch makes of the last ``minutes``; MISSING is one without a data point."""
    compare: dict[str, Callable[[float, float], bool]] = {
        "GreaterThanThreshold": operator.gt,
        "LessThanThreshold": operator.lt,
    }
    breaches = compare[alarm["ComparisonOperator"]]
    assert alarm["Period"] == 60
    window = minutes[-alarm["EvaluationPeriods"] :]
    breaching = [
        alarm["TreatMissingData"] == "breaching"
        if value is None
        else breaches(value, alarm["Threshold"])
        for value in window
    ]
    return "ALARM" if sum(breaching) >= alarm["DatapointsToAlarm"] else "OK"


@pytest.mark.parametrize("channel", list(Channel))
def test_j1_one_dead_letter_rings_and_an_idle_queue_does_not(
    monitoring: Template, channel: Channel
) -> None:
    alarm = monitoring.alarms[f"sendoff-{channel}-dead-letters"]
    assert alarm["Namespace"] == "AWS/SQS"
    # Sent would not count what the redrive policy moves; not visible is what a reader holds.
    assert alarm["MetricName"] == "ApproximateNumberOfMessagesVisible"
    assert alarm["Statistic"] == "Maximum"
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": f"sendoff-{channel}-dlq"}]
    assert alarm["TreatMissingData"] == "notBreaching"
    assert state(alarm, [0, 0, 1]) == "ALARM"
    assert state(alarm, [1, 0]) == "OK"
    assert state(alarm, [MISSING] * 60) == "OK"


def test_j1_the_dead_letter_alarms_name_queues_that_exist(aws: Assembly) -> None:
    watched = {
        alarm["Dimensions"][0]["Value"]
        for alarm in aws["MonitoringStack"].alarms.values()
        if alarm["Namespace"] == "AWS/SQS"
    }
    assert watched == {name for name in aws["ServiceStack"].queues if name.endswith("-dlq")}


@pytest.mark.parametrize("loop", ["claim", "sweeper", "reconcile"])
def test_j1_a_stopped_schedule_rings(monitoring: Template, loop: str) -> None:
    alarm = monitoring.alarms[f"sendoff-{loop}-heartbeat"]
    assert alarm["Namespace"] == NAMESPACE
    assert alarm["MetricName"] == f"{loop.capitalize()}Heartbeat"
    assert alarm["TreatMissingData"] == "breaching"
    assert state(alarm, [1, 1, 1, 1, 1]) == "OK"
    assert state(alarm, [1] + [MISSING] * 4) == "OK"
    assert state(alarm, [1] + [MISSING] * 5) == "ALARM"


@pytest.mark.parametrize("priority", list(Priority))
@pytest.mark.parametrize("channel", list(Channel))
def test_j1_a_stall_is_seen_from_the_database_and_only_when_it_lasts(
    monitoring: Template, channel: Channel, priority: Priority
) -> None:
    alarm = monitoring.alarms[f"sendoff-{channel}-{priority}-oldest-eligible-age"]
    assert alarm["Namespace"] == NAMESPACE
    assert alarm["MetricName"] == "OldestEligibleAgeSeconds"
    assert alarm["Dimensions"] == [
        {"Name": "channel", "Value": channel},
        {"Name": "priority", "Value": priority},
    ]
    assert alarm["TreatMissingData"] == "notBreaching"
    late = AWS.alarm.oldest_eligible_age_seconds[priority] + 1
    assert late > OBJECTIVES_SECONDS[priority]
    assert state(alarm, [late] * 5) == "ALARM"
    assert state(alarm, [late, late, late, late, 3]) == "OK"
    assert state(alarm, [MISSING] * 60) == "OK"


def test_j1_every_alarm_calls_the_topic_and_cloudwatch_may_publish_to_it(
    monitoring: Template,
) -> None:
    (topic,) = monitoring.of_type("AWS::SNS::Topic")
    assert monitoring.text["Resources"][topic]["Properties"]["TopicName"] == "sendoff-on-call"
    for alarm in monitoring.alarms.values():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": topic}]
        assert alarm.get("ActionsEnabled", True) is True
        assert alarm["AlarmDescription"]
    (policy,) = monitoring.of_type("AWS::SNS::TopicPolicy").values()
    allowed = [
        statement
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    ]
    assert [(one["Principal"], one["Action"]) for one in allowed] == [
        ({"Service": "cloudwatch.amazonaws.com"}, "sns:Publish")
    ]


def test_j1_every_alarm_watches_a_metric_that_there_is(monitoring: Template) -> None:
    known = {*ServiceMetric, *ChannelMetric, *PriorityMetric}
    watched = {
        alarm["MetricName"]
        for alarm in monitoring.alarms.values()
        if alarm["Namespace"] == NAMESPACE
    }
    assert watched
    assert watched - {str(metric) for metric in known} == set()


@pytest.mark.parametrize("metric", [*ServiceMetric, *ChannelMetric, *PriorityMetric])
def test_every_metric_is_shown(monitoring: Template, metric: str) -> None:
    (dashboard,) = monitoring.of_type("AWS::CloudWatch::Dashboard").values()
    assert metric in str(dashboard["Properties"]["DashboardBody"])


def test_somebody_can_be_subscribed_by_context(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("on-call")
    named = synthesize(folder, target="aws", on_call_email="on-call@example.com")
    (subscription,) = named["MonitoringStack"].of_type("AWS::SNS::Subscription").values()
    assert subscription["Properties"]["Endpoint"] == "on-call@example.com"


def test_the_stack_stands_alone_and_comes_after_the_service(aws: Assembly) -> None:
    assert "ImportValue" not in str(aws["MonitoringStack"].text)
    assert len(aws["MonitoringStack"].of_type("AWS::CloudWatch::Dashboard")) == 1
