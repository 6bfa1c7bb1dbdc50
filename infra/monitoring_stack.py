"""MonitoringStack: what wakes people, and one screen to look at then.

It names queues and metrics and refers to no resource of the other stacks, so that it can be
deployed and changed alone. What the database knows, the sweeper publishes: a dead claim does not
blind it.
"""

from typing import cast

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from functions.core.metric import ChannelMetric, Metric, PriorityMetric, ServiceMetric
from functions.core.states import Channel, Priority
from infra.config import Numbers, metric_namespace

HEARTBEATS = {
    "Claim": ServiceMetric.CLAIM_HEARTBEAT,
    "Sweeper": ServiceMetric.SWEEPER_HEARTBEAT,
    "Reconcile": ServiceMetric.RECONCILE_HEARTBEAT,
}
GAUGES = ("Count", "Seconds")
"""Endings of what is measured at a moment, and shown at its highest; the rest is counted up."""

MINUTE = Duration.minutes(1)


class MonitoringStack(Stack):
    """Alarms on ``<prefix>-on-call``; ``on_call_email``, when given, is subscribed to it."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        prefix: str,
        numbers: Numbers,
        on_call_email: str | None,
    ) -> None:
        super().__init__(
            scope,
            name,
            stack_name=f"{prefix}-monitoring",
            description="Sendoff: alarms and the dashboard.",
        )
        self._prefix = prefix
        self._numbers = numbers
        self.topic = self._on_call(on_call_email)
        alarms = [
            *(self._dead_letters(channel) for channel in Channel),
            self._lost_events(),
            self._unforeseen_events(),
            self._lost_batches(),
            self._waiting_requests(),
            *(self._stalled(channel, priority) for channel in Channel for priority in Priority),
            *(self._silent(loop) for loop in HEARTBEATS),
            *(self._blocked(channel) for channel in Channel),
        ]
        self._dashboard(alarms)

    def _on_call(self, email: str | None) -> sns.ITopic:
        topic = sns.Topic(
            self, "OnCall", topic_name=f"{self._prefix}-on-call", display_name="Sendoff on call",
            enforce_ssl=True,
        )  # fmt: skip
        # A topic with a policy of its own no longer lets CloudWatch in: the alarm would never ring.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsOfThisAccount",
                principals=[
                    cast("iam.IPrincipal", iam.ServicePrincipal("cloudwatch.amazonaws.com"))
                ],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )
        if email:
            topic.add_subscription(
                cast("sns.ITopicSubscription", subscriptions.EmailSubscription(email))
            )
        return cast("sns.ITopic", topic)

    def _alarm(
        self,
        name: str,
        *,
        metric: cloudwatch.Metric,
        threshold: float,
        comparison: cloudwatch.ComparisonOperator,
        minutes: int,
        missing: cloudwatch.TreatMissingData,
        description: str,
    ) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._prefix}-{name}",
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison,
            evaluation_periods=minutes,
            datapoints_to_alarm=minutes,
            treat_missing_data=missing,
        )
        call = cast("cloudwatch.IAlarmAction", actions.SnsAction(self.topic))
        alarm.add_alarm_action(call)
        alarm.add_ok_action(call)
        return alarm

    def _dead_letters(self, channel: Channel) -> cloudwatch.Alarm:
        return self._not_empty(
            channel,
            f"A {channel} message went through all its receives. It is evidence, not work: the "
            "sweeper has taken its lease back. Read the sender's log for its notification_id.",
        )

    def _lost_events(self) -> cloudwatch.Alarm:
        return self._not_empty(
            "events",
            "What a service of AWS told went through all its receives and was not kept: for hours "
            "the database could not take it, or callbacks failed. Once it can, have SQS move the "
            "messages back to the queue; what is known already counts once.",
        )

    def _lost_batches(self) -> cloudwatch.Alarm:
        return self._not_empty(
            "ingest",
            "An event or a schedule asked for notifications that were not taken in, after all its "
            "retries: the log of ingest says why, by pointers. Put right what was wrong, and have "
            "ingest invoked with the message again: what was taken in meanwhile counts once.",
        )

    def _waiting_requests(self) -> cloudwatch.Alarm:
        numbers = self._numbers.alarm
        seconds = numbers.oldest_request_age_seconds
        return self._alarm(
            "oldest-request-age",
            metric=self._metric(ServiceMetric.OLDEST_REQUEST_AGE_SECONDS, statistic="Maximum"),
            threshold=seconds,
            comparison=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            minutes=numbers.oldest_request_minutes,
            missing=cloudwatch.TreatMissingData.NOT_BREACHING,
            description=(
                f"The oldest request made by SQL has been waiting for more than {seconds} s, and "
                "goes on waiting: look at the log of ingest, which drains them, and of the claim, "
                "which has it do so. A transaction that was open for long makes a request old."
            ),
        )

    def _not_empty(self, name: str, description: str) -> cloudwatch.Alarm:
        # An idle queue stops publishing, and that is well. Messages sent would not count what the
        # redrive policy moves, hence those that are visible.
        return self._alarm(
            f"{name}-dead-letters",
            metric=cloudwatch.Metric(
                namespace="AWS/SQS",
                metric_name="ApproximateNumberOfMessagesVisible",
                dimensions_map={"QueueName": f"{self._prefix}-{name}-dlq"},
                statistic="Maximum",
                period=MINUTE,
            ),
            threshold=0,
            comparison=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            minutes=1,
            missing=cloudwatch.TreatMissingData.NOT_BREACHING,
            description=description,
        )

    def _unforeseen_events(self) -> cloudwatch.Alarm:
        return self._alarm(
            "events-unforeseen",
            metric=self._metric(ServiceMetric.EVENT_UNFORESEEN, statistic="Sum"),
            threshold=0,
            comparison=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            minutes=1,
            missing=cloudwatch.TreatMissingData.NOT_BREACHING,
            description=(
                "A provider reported something that no table names. It is kept and proves nothing: "
                "add it to the table, deploy, and have the receipts replayed."
            ),
        )

    def _stalled(self, channel: Channel, priority: Priority) -> cloudwatch.Alarm:
        numbers = self._numbers.alarm
        seconds = numbers.oldest_eligible_age_seconds[priority]
        # Published from the database by the sweeper; without anything eligible there is no age. A
        # silent sweeper has an alarm of its own.
        return self._alarm(
            f"{channel}-{priority}-oldest-eligible-age",
            metric=self._metric(
                PriorityMetric.OLDEST_ELIGIBLE_AGE_SECONDS,
                statistic="Maximum",
                channel=channel,
                priority=priority,
            ),
            threshold=seconds,
            comparison=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            minutes=numbers.oldest_eligible_age_minutes,
            missing=cloudwatch.TreatMissingData.NOT_BREACHING,
            description=(
                f"The oldest due {channel} notification of {priority} priority has been waiting "
                f"for more than {seconds} s, and goes on waiting: look at the claim, the sender's "
                "errors and the channel's rate, in this order."
            ),
        )

    def _blocked(self, channel: Channel) -> cloudwatch.Alarm:
        minutes = self._numbers.alarm.breaker_minutes
        return self._alarm(
            f"{channel}-breaker-open",
            metric=self._metric(
                ChannelMetric.OPEN_BREAKER_COUNT, statistic="Maximum", channel=channel
            ),
            threshold=0,
            comparison=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            minutes=minutes,
            missing=cloudwatch.TreatMissingData.NOT_BREACHING,
            description=(
                f"For {minutes} minutes a provider, a sender identity or a country has taken "
                f"nothing of {channel}: what it concerns waits, unspent. `sendoff channel show "
                f"{channel}` tells which and why; it closes by itself once something gets through."
            ),
        )

    def _silent(self, loop: str) -> cloudwatch.Alarm:
        # A loop that is dead publishes nothing at all: missing is the fault.
        return self._alarm(
            f"{loop.lower()}-heartbeat",
            metric=self._metric(HEARTBEATS[loop], statistic="SampleCount"),
            threshold=1,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            minutes=self._numbers.alarm.heartbeat_minutes,
            missing=cloudwatch.TreatMissingData.BREACHING,
            description=(
                f"{self._prefix}-{loop.lower()} has not run for "
                f"{self._numbers.alarm.heartbeat_minutes} minutes: look at its schedule, its "
                "errors and the database."
            ),
        )

    def _metric(self, name: Metric, *, statistic: str, **dimensions: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=metric_namespace(self._prefix),
            metric_name=name,
            dimensions_map=dimensions,
            statistic=statistic,
            period=MINUTE,
        )

    def _dashboard(self, alarms: list[cloudwatch.Alarm]) -> None:
        waiting: list[dict[str, str]] = [
            {"channel": channel, "priority": priority}
            for channel in Channel
            for priority in Priority
        ]
        channels: list[dict[str, str]] = [{"channel": channel} for channel in Channel]
        # Every metric there is: what code counts, somebody can look at.
        rows: list[list[cloudwatch.IWidget]] = [
            [cloudwatch.AlarmStatusWidget(title="On call", alarms=alarms, width=24)],
            [self._graph(name, waiting, width=12) for name in PriorityMetric],
            [self._graph(name, channels, width=6) for name in ChannelMetric],
            [self._graph(name, [{}], width=6) for name in ServiceMetric],
        ]
        cloudwatch.Dashboard(self, "Dashboard", dashboard_name=self._prefix, widgets=rows)

    def _graph(
        self, name: Metric, dimensions: list[dict[str, str]], *, width: int
    ) -> cloudwatch.IWidget:
        statistic = "Maximum" if name.endswith(GAUGES) else "Sum"
        return cloudwatch.GraphWidget(
            title=name,
            width=width,
            left=[self._metric(name, statistic=statistic, **one) for one in dimensions],
        )
