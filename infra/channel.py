"""One channel: its queue, the dead-letter queue behind it, and the sender that empties it."""

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.core.states import Channel
from infra.config import FunctionNumbers
from infra.function import Blueprint, Definition, ServiceFunction

RECEIVE_ACTIONS = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
)


class ChannelQueue(Construct):
    """``<prefix>-<channel>`` and ``<prefix>-<channel>-dlq``: a shallow buffer, never a backlog."""

    def __init__(self, scope: Construct, channel: Channel, *, blueprint: Blueprint) -> None:
        super().__init__(scope, f"{channel}-queue")
        numbers = blueprint.numbers
        name = f"{blueprint.prefix}-{channel}"
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=f"{name}-dlq",
            retention_period=Duration.seconds(numbers.queue.dead_letter_retention_seconds),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=name,
            visibility_timeout=Duration.seconds(numbers.sender.visibility_seconds),
            retention_period=Duration.seconds(numbers.queue.retention_seconds),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.dead_letters, max_receive_count=numbers.queue.receives
            ),
        )


class ChannelSender(Construct):
    """``<prefix>-sender-<channel>``, fed by the queue of the channel."""

    def __init__(
        self,
        scope: Construct,
        channel: Channel,
        *,
        blueprint: Blueprint,
        queue: sqs.IQueue,
        local_webhook_origin: str,
    ) -> None:
        super().__init__(scope, f"{channel}-sender")
        numbers = blueprint.numbers.sender
        gateway_secret = blueprint.surroundings.secrets.gateway
        definition = Definition(
            name=f"sender-{channel}",
            folder="sender",
            description=f"Opens, submits and closes one attempt per {channel} message.",
            numbers=FunctionNumbers(
                timeout_seconds=numbers.timeout_seconds,
                memory_megabytes=numbers.memory_megabytes,
                reserved_concurrency=numbers.reserved_concurrency,
            ),
            environment={
                "CHANNEL": channel,
                "GATEWAY_SECRET_ARN": gateway_secret,
                "LOCAL_WEBHOOK_ORIGIN": local_webhook_origin,
            },
            secret_arns=(gateway_secret,),
            rights={
                "queue": iam.PolicyStatement(
                    actions=list(RECEIVE_ACTIONS), resources=[queue.queue_arn]
                )
            },
        )
        self.sender = ServiceFunction(self, definition, blueprint=blueprint)
        self.source = lambda_.EventSourceMapping(
            self,
            "Source",
            target=self.sender.function,
            event_source_arn=queue.queue_arn,
            batch_size=numbers.batch_size,
            max_batching_window=Duration.seconds(numbers.window_seconds),
            max_concurrency=numbers.maximum_concurrency,
            report_batch_item_failures=True,
        )
