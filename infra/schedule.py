"""A function that runs every minute."""

from typing import cast

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.config import LoopNumbers
from infra.function import ServiceFunction


class Schedule(Construct):
    """The rule ``<prefix>-<name>``: a run that cannot start within its minute is dropped."""

    def __init__(
        self,
        scope: Construct,
        *,
        prefix: str,
        function: ServiceFunction,
        numbers: LoopNumbers,
    ) -> None:
        name = function.node.id
        super().__init__(scope, f"{name}-schedule")
        target = targets.LambdaFunction(
            function.function,
            max_event_age=Duration.seconds(numbers.event_age_seconds),
            retry_attempts=0,
        )
        events.Rule(
            self,
            "Rule",
            rule_name=f"{prefix}-{name}",
            description=f"Starts {prefix}-{name} every minute.",
            schedule=events.Schedule.rate(Duration.minutes(numbers.schedule_minutes)),
            targets=[cast("events.IRuleTarget", target)],
        )
