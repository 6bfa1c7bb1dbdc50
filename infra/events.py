"""What the services of AWS tell: a topic that only they may publish to, and the queue behind it.

SES, End User Messaging SMS and mobile push are pointed at the topic; `callbacks` empties the queue.
A message is believed because it is there: the topic lets in two services, for this account only,
and the queue lets in nobody but the topic.
"""

from typing import cast

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ses as ses
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.core.states import Stream
from infra.channel import RECEIVE_ACTIONS
from infra.function import Blueprint

PUBLISHERS = ("ses.amazonaws.com", "sms-voice.amazonaws.com")

# Opens and clicks say nothing of delivery; preferences are ours, not SES's.
SES_EVENTS = (
    "send", "reject", "bounce", "complaint", "delivery", "renderingFailure", "deliveryDelay",
)  # fmt: skip


class EventQueue(Construct):
    """``<prefix>-events``: topic, queue and dead letters, and an SES configuration set per stream,
    ``<prefix>-transactional`` and ``<prefix>-bulk``, that publishes to the topic."""

    def __init__(self, scope: Construct, name: str, *, blueprint: Blueprint) -> None:
        super().__init__(scope, name)
        self._blueprint = blueprint
        self._name = f"{blueprint.prefix}-events"
        self._topic = self._make_topic()
        self._queue = self._make_queue()
        self._topic.add_subscription(
            cast("sns.ITopicSubscription", subscriptions.SqsSubscription(self._queue))
        )
        self._configuration_sets()

    @property
    def topic_arn(self) -> str:
        return self._topic.topic_arn

    @property
    def receive(self) -> iam.PolicyStatement:
        """What empties the queue may do there."""
        return iam.PolicyStatement(actions=list(RECEIVE_ACTIONS), resources=[self._queue.queue_arn])

    def feed(self, function: lambda_.IFunction) -> lambda_.EventSourceMapping:
        """Let ``function`` empty the queue."""
        numbers = self._blueprint.numbers.events
        return lambda_.EventSourceMapping(
            self,
            "Source",
            target=function,
            event_source_arn=self._queue.queue_arn,
            batch_size=numbers.batch_size,
            max_concurrency=numbers.maximum_concurrency,
            report_batch_item_failures=True,
        )

    def _make_topic(self) -> sns.Topic:
        services = [
            cast("iam.IPrincipal", iam.ServicePrincipal(publisher)) for publisher in PUBLISHERS
        ]
        of_this_account = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        # A key of its own: that of SNS itself lets no other service in.
        key = kms.Key(
            self,
            "Key",
            description=f"Encrypts {self._name}, where addresses are told of",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,  # nothing stays that it encrypts
        )
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="PublishersOfThisAccount",
                principals=services,
                actions=["kms:GenerateDataKey*", "kms:Decrypt"],
                resources=["*"],
                conditions=of_this_account,
            )
        )
        topic = sns.Topic(
            self,
            "Topic",
            topic_name=self._name,
            display_name="Sendoff events",
            master_key=cast("kms.IKey", key),
            enforce_ssl=True,
            signature_version="2",  # for those who have it delivered over HTTP
        )
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="PublishersOfThisAccount",
                principals=services,
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions=of_this_account,
            )
        )
        return topic

    def _make_queue(self) -> sqs.Queue:
        numbers = self._blueprint.numbers
        dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=f"{self._name}-dlq",
            retention_period=Duration.seconds(numbers.queue.dead_letter_retention_seconds),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        return sqs.Queue(
            self,
            "Queue",
            queue_name=self._name,
            visibility_timeout=Duration.seconds(numbers.event_visibility_seconds),
            retention_period=Duration.seconds(numbers.queue.retention_seconds),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=dead_letters, max_receive_count=numbers.events.receives
            ),
        )

    def _configuration_sets(self) -> None:
        """One per stream, so that what pauses the one leaves the other alone."""
        for stream in Stream:
            name = f"{self._blueprint.prefix}-{stream}"
            made = ses.CfnConfigurationSet(
                self,
                f"{stream}-configuration-set",
                name=name,
                reputation_options=ses.CfnConfigurationSet.ReputationOptionsProperty(
                    reputation_metrics_enabled=True
                ),
            )
            destination = ses.CfnConfigurationSetEventDestination(
                self,
                f"{stream}-events",
                configuration_set_name=name,
                event_destination=ses.CfnConfigurationSetEventDestination.EventDestinationProperty(
                    name=self._name,
                    enabled=True,
                    matching_event_types=list(SES_EVENTS),
                    sns_destination=ses.CfnConfigurationSetEventDestination.SnsDestinationProperty(
                        topic_arn=self._topic.topic_arn
                    ),
                ),
            )
            destination.add_resource_dependency(made)
            # SES publishes a first message at once, to see whether it may.
            destination.node.add_dependency(self._topic)
