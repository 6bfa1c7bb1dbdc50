"""The ways to ingest besides the API: events, schedules, and where what fails there is kept.

Requests made by SQL need nothing here but the claim's right to have them drained.
"""

from typing import cast

from aws_cdk import Acknowledgment, Aws, CfnParameter, Duration, Stack, Validations
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.function import Blueprint

DEFAULT_SOURCES, DEFAULT_DETAIL_TYPES = "billing", "PaymentSettled"


def listened_to(stack: Stack) -> tuple[list[str], list[str]]:
    """Return the sources and detail types of events that ask for notifications, as parameters.

    Their defaults are the context's ``event_sources`` and ``event_detail_types``.
    """

    def parameter(name: str, default: str, what: str) -> list[str]:
        return CfnParameter(
            stack,
            name,
            type="CommaDelimitedList",
            default=default,
            description=f"{what} of the default bus that ask for notifications (with commas).",
        ).value_as_list

    context = stack.node.try_get_context
    return (
        parameter("EventSources", context("event_sources") or DEFAULT_SOURCES, "Sources"),
        parameter(
            "EventDetailTypes",
            context("event_detail_types") or DEFAULT_DETAIL_TYPES,
            "Detail types of events",
        ),
    )


class Doors(Construct):
    """``<prefix>-ingest-dlq`` and, once ``open`` was called, the rule ``<prefix>-ingest`` and the
    role ``<prefix>-scheduler``."""

    def __init__(self, scope: Construct, name: str, *, blueprint: Blueprint) -> None:
        super().__init__(scope, name)
        self._blueprint = blueprint
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=f"{blueprint.prefix}-ingest-dlq",
            retention_period=Duration.seconds(
                blueprint.numbers.queue.dead_letter_retention_seconds
            ),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        Validations.of(self.dead_letters).acknowledge(
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-SQS3",
                reason="It is where dead letters end: of a function, a rule and schedules.",
            )
        )

    @property
    def keep_failures(self) -> iam.PolicyStatement:
        """What lets somebody put there what failed."""
        return iam.PolicyStatement(
            actions=["sqs:SendMessage"], resources=[self.dead_letters.queue_arn]
        )

    def open(
        self, ingest: lambda_.IFunction, *, sources: list[str], detail_types: list[str]
    ) -> None:
        """Lead events of ``sources`` and ``detail_types``, and schedules, to ``ingest``."""
        self._keep_what_fails(ingest)
        self._listen(ingest, sources, detail_types)
        self.scheduler = self._let_schedules_in(ingest)

    def _keep_what_fails(self, ingest: lambda_.IFunction) -> None:
        numbers = self._blueprint.numbers.doors
        lambda_.CfnEventInvokeConfig(
            self,
            "Asynchrony",
            function_name=ingest.function_name,
            qualifier="$LATEST",
            maximum_retry_attempts=numbers.retries,
            maximum_event_age_in_seconds=numbers.event_age_seconds,
            destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
                on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(
                    destination=self.dead_letters.queue_arn
                )
            ),
        )

    def _listen(
        self, ingest: lambda_.IFunction, sources: list[str], detail_types: list[str]
    ) -> None:
        numbers = self._blueprint.numbers.doors
        target = targets.LambdaFunction(
            ingest,
            dead_letter_queue=cast("sqs.IQueue", self.dead_letters),
            max_event_age=Duration.seconds(numbers.delivery_age_seconds),
            retry_attempts=numbers.delivery_retries,
        )
        events.Rule(
            self,
            "Rule",
            rule_name=f"{self._blueprint.prefix}-ingest",
            description="Leads the domain's events that ask for notifications to ingest.",
            event_pattern=events.EventPattern(source=sources, detail_type=detail_types),
            targets=[cast("events.IRuleTarget", target)],
        )

    def _let_schedules_in(self, ingest: lambda_.IFunction) -> iam.Role:
        """Return the role of schedules: they invoke ingest, and keep what they could not."""
        invoke = iam.PolicyStatement(
            actions=["lambda:InvokeFunction"], resources=[ingest.function_arn]
        )
        principal = iam.ServicePrincipal(
            "scheduler.amazonaws.com",
            conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
        )
        return iam.Role(
            self,
            "Scheduler",
            role_name=f"{self._blueprint.prefix}-scheduler",
            description=f"What schedules of {self._blueprint.prefix} may do",
            assumed_by=cast("iam.IPrincipal", principal),
            inline_policies={
                "invoke": iam.PolicyDocument(statements=[invoke]),
                "failures": iam.PolicyDocument(statements=[self.keep_failures]),
            },
        )
