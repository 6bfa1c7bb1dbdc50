"""One channel: its queue, the dead-letter queue behind it, and the sender that empties it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aws_cdk import Acknowledgment, Aws, Duration, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.core.states import Channel
from infra.config import FunctionNumbers
from infra.function import Blueprint, Definition, ServiceFunction
from infra.surroundings import Secrets

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """What a sender tells others, and where it may not go."""

    public_url: str
    own_networks: str
    local_webhook_origin: str


_SECRETS: Mapping[Channel, Callable[[Secrets], tuple[str, ...]]] = {
    Channel.EMAIL: lambda secrets: (secrets.hash,),
    Channel.SMS: lambda _: (),
    Channel.PUSH: lambda secrets: (secrets.push,),
    Channel.WEBHOOK: lambda secrets: (secrets.webhook,),
}
"""What the sender of a channel reads besides the gateway's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A service of AWS that a channel may send by, and the kinds of resources it sends as."""

    service: str
    actions: tuple[str, ...]
    kinds: tuple[str, ...]

    def statement(self) -> iam.PolicyStatement:
        here = f"{Aws.REGION}:{Aws.ACCOUNT_ID}"
        return iam.PolicyStatement(
            actions=list(self.actions),
            resources=[
                f"arn:{Aws.PARTITION}:{self.service}:{here}:{kind}/*" for kind in self.kinds
            ],
        )

    def acknowledgments(self) -> list[Acknowledgment]:
        here = "<AWS::Region>:<AWS::AccountId>"
        return [
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-IAM5"
                f"[Resource::arn:<AWS::Partition>:{self.service}:{here}:{kind}/*]",
                reason="Which of them is sent as is chosen at run time, per stream.",
            )
            for kind in self.kinds
        ]


SENDING: Mapping[Channel, Sending] = {
    Channel.EMAIL: Sending(
        service="ses", actions=("ses:SendEmail",), kinds=("identity", "configuration-set")
    ),
    Channel.SMS: Sending(
        service="sms-voice",
        actions=("sms-voice:SendTextMessage",),
        kinds=("phone-number", "pool", "sender-id"),
    ),
    Channel.PUSH: Sending(
        service="sns",
        actions=("sns:Publish", "sns:CreatePlatformEndpoint", "sns:SetEndpointAttributes"),
        kinds=("app", "endpoint"),
    ),
}


class ChannelSender(Construct):
    """``<prefix>-sender-<channel>``, fed by the queue of the channel."""

    def __init__(
        self,
        scope: Construct,
        channel: Channel,
        *,
        blueprint: Blueprint,
        queue: sqs.IQueue,
        addresses: Addresses,
    ) -> None:
        super().__init__(scope, f"{channel}-sender")
        numbers = blueprint.numbers.sender
        secrets = blueprint.surroundings.secrets
        sending = SENDING.get(channel)
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
                "GATEWAY_SECRET_ARN": secrets.gateway,
                "HASH_SECRET_ARN": secrets.hash,
                "WEBHOOK_SECRET_ARN": secrets.webhook,
                "PUSH_SECRET_ARN": secrets.push,
                "PUBLIC_URL": addresses.public_url,
                "OWN_NETWORKS": addresses.own_networks,
                "LOCAL_WEBHOOK_ORIGIN": addresses.local_webhook_origin,
            },
            secret_arns=(secrets.gateway, *_SECRETS[channel](secrets)),
            rights={
                "queue": iam.PolicyStatement(
                    actions=list(RECEIVE_ACTIONS), resources=[queue.queue_arn]
                ),
                **({"sending": sending.statement()} if sending else {}),
            },
        )
        self.sender = ServiceFunction(self, definition, blueprint=blueprint)
        if sending:
            Validations.of(self).acknowledge(*sending.acknowledgments())
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
