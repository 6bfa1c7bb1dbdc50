"""ServiceStack: the API, the functions, the queues between them, the schedules that drive them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import CfnCondition, CfnOutput, CfnParameter, Fn, IStackSynthesizer, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from functions.core.states import Channel
from infra.api import NotificationApi
from infra.channel import Addresses, ChannelQueue, ChannelSender
from infra.config import Numbers
from infra.console import OperatorConsole
from infra.doors import Doors, listened_to
from infra.events import EventQueue
from infra.function import Blueprint, Definition, Rights, ServiceFunction
from infra.migration import Migration
from infra.schedule import Schedule
from infra.start import Start
from infra.surroundings import Surroundings, from_parameters

SCHEDULED: tuple[str, ...] = ("claim", "sweeper", "reconcile")
"""Run every minute; ``up`` and a deploy start all three at once."""

GATEWAY_URL_PATTERN = r'^https?://[^\s"\\]+$'
PUBLIC_URL_PATTERN = r'^(https?://[^\s"\\]*[^/\s"\\])?$'
LOCAL_ORIGIN_PATTERN = r"^(http://127\.0\.0\.1:[0-9]{1,5})?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProperties:
    """What ServiceStack is made of.

    ``surroundings`` is None on the local target, which takes them as parameters. ``gateway_url`` is
    the default of the parameter GatewayUrl; without one a deploy has to name it.
    """

    prefix: str
    numbers: Numbers
    code: Callable[[str], lambda_.Code]
    migrations: Path
    surroundings: Surroundings | None
    gateway_url: str | None


class ServiceStack(Stack):
    """The service: see ``ServiceProperties``."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        properties: ServiceProperties,
        synthesizer: IStackSynthesizer | None = None,
    ) -> None:
        super().__init__(
            scope,
            name,
            stack_name=f"{properties.prefix}-service",
            description="Sendoff: the API, the functions, the queues and the schedules.",
            synthesizer=synthesizer,
        )
        self._blueprint = Blueprint(
            prefix=properties.prefix,
            numbers=properties.numbers,
            surroundings=properties.surroundings or from_parameters(self),
            code=properties.code,
        )
        self._local_webhook_origin = CfnParameter(
            self,
            "LocalWebhookOrigin",
            type="String",
            default="",
            allowed_pattern=LOCAL_ORIGIN_PATTERN,
            description="The one origin exempt from the https rule for webhooks; empty on AWS.",
        ).value_as_string
        gateway_url = CfnParameter(
            self,
            "GatewayUrl",
            type="String",
            default=properties.gateway_url,
            allowed_pattern=GATEWAY_URL_PATTERN,
            description="Where the http provider posts email, SMS and push.",
        ).value_as_string
        self._migration = Migration(
            self,
            "Migration",
            blueprint=self._blueprint,
            migrations=properties.migrations,
            gateway_url=gateway_url,
            started=SCHEDULED,
        )
        queues = {
            channel: ChannelQueue(self, channel, blueprint=self._blueprint) for channel in Channel
        }
        ingest = self._ingest()
        loops = self._loops(queues, ingest=ingest)
        self._senders(queues, api_url=self._api(ingest))
        self._console(queues)
        Start(self, migration=self._migration, loops=loops)

    def _function(
        self,
        name: str,
        description: str,
        *,
        environment: Mapping[str, str] | None = None,
        secret_arns: tuple[str, ...] = (),
        rights: Rights | None = None,
    ) -> ServiceFunction:
        """Return the function of the folder ``name``, updated only after the migration."""
        definition = Definition(
            name=name,
            folder=name,
            description=description,
            numbers=self._blueprint.numbers.functions[name],
            environment=environment or {},
            secret_arns=secret_arns,
            rights=rights or {},
            scheduled=name in SCHEDULED,
        )
        function = ServiceFunction(self, definition, blueprint=self._blueprint)
        function.function.node.add_dependency(self._migration.done)
        return function

    def _senders(self, queues: dict[Channel, ChannelQueue], *, api_url: str) -> None:
        addresses = Addresses(
            public_url=api_url,
            own_networks=CfnParameter(
                self,
                "OwnNetworks",
                type="String",
                default="",
                description="Networks of ours that no webhook may reach (CIDR, with commas).",
            ).value_as_string,
            local_webhook_origin=self._local_webhook_origin,
        )
        for channel, queue in queues.items():
            sender = ChannelSender(
                self, channel, blueprint=self._blueprint, queue=queue.queue, addresses=addresses
            )
            sender.sender.function.node.add_dependency(self._migration.done)
            sender.source.node.add_dependency(self._migration.done)

    def _public_url(self, api_endpoint: str) -> str:
        """Return where recipients reach the API: by a domain of its own, or by its own address."""
        given = CfnParameter(
            self,
            "PublicUrl",
            type="String",
            default="",
            allowed_pattern=PUBLIC_URL_PATTERN,
            description="Where recipients reach the API, without /v1; empty: by its own address.",
        ).value_as_string
        has_one = CfnCondition(
            self, "HasPublicUrl", expression=Fn.condition_not(Fn.condition_equals(given, ""))
        )
        return Fn.condition_if(has_one.logical_id, given, api_endpoint).to_string()

    def _ingest(self) -> ServiceFunction:
        """Return the function behind the API and the other doors, which it opens."""
        secrets = self._blueprint.surroundings.secrets
        doors = Doors(self, "Doors", blueprint=self._blueprint)
        ingest = self._function(
            "ingest",
            "Accepts notifications in one transaction and answers what became of them.",
            environment={
                "HASH_SECRET_ARN": secrets.hash,
                "LOCAL_WEBHOOK_ORIGIN": self._local_webhook_origin,
            },
            secret_arns=(secrets.hash,),
            rights={"failures": doors.keep_failures},
        )
        sources, detail_types = listened_to(self)
        doors.open(ingest.function, sources=sources, detail_types=detail_types)
        doors.node.add_dependency(self._migration.done)
        for name, value, description in (
            ("IngestArn", ingest.function.function_arn, "Target of schedules"),
            ("IngestDeadLettersArn", doors.dead_letters.queue_arn, "Where their failures go"),
            ("SchedulerRoleArn", doors.scheduler.role_arn, "Role of schedules"),
        ):
            CfnOutput(self, name, value=value, description=description)
        return ingest

    def _loops(
        self, queues: dict[Channel, ChannelQueue], *, ingest: ServiceFunction
    ) -> dict[str, ServiceFunction]:
        """Return the functions that run every minute, scheduled."""
        loop = self._blueprint.numbers.loop
        claim = self._function(
            "claim",
            "Leases what is due, a fair page at a time, and puts it on the queues.",
            environment={
                **{f"{name}_QUEUE_URL".upper(): q.queue.queue_url for name, q in queues.items()},
                "INGEST_FUNCTION": ingest.function.function_name,
                "RUN_SECONDS": str(loop.run_seconds),
                "IDLE_SECONDS": str(loop.idle_seconds),
            },
            rights={
                "queues": iam.PolicyStatement(
                    actions=["sqs:SendMessage"],
                    resources=[queue.queue.queue_arn for queue in queues.values()],
                ),
                "drain": iam.PolicyStatement(
                    actions=["lambda:InvokeFunction"], resources=[ingest.function.function_arn]
                ),
            },
        )
        sweeper = self._function("sweeper", "Takes back lapsed leases and publishes the gauges.")
        gateway = self._blueprint.surroundings.secrets.gateway
        reconcile = self._function(
            "reconcile",
            "Asks providers that can be asked, and settles what nobody confirmed in time.",
            environment={"GATEWAY_SECRET_ARN": gateway},
            secret_arns=(gateway,),
        )
        loops = dict(zip(SCHEDULED, (claim, sweeper, reconcile), strict=True))
        for function in loops.values():
            schedule = Schedule(
                self, prefix=self._blueprint.prefix, function=function, numbers=loop
            )
            schedule.node.add_dependency(self._migration.done)
        return loops

    def _api(self, ingest: ServiceFunction) -> str:
        """Add the API; return where recipients reach it."""
        secrets = self._blueprint.surroundings.secrets
        authorizer = self._function("authorizer", "Reads the API key; never denies.")
        events = EventQueue(self, "Events", blueprint=self._blueprint)
        callbacks = self._function(
            "callbacks",
            "Keeps and applies what providers report.",
            environment={
                "CALLBACK_SECRET_ARN": secrets.callback,
                "HASH_SECRET_ARN": secrets.hash,
                "EVENT_TOPIC_ARNS": events.topic_arn,
            },
            secret_arns=(secrets.callback, secrets.hash),
            rights={"queue": events.receive},
        )
        events.feed(callbacks.function).node.add_dependency(self._migration.done)
        api = NotificationApi(
            self,
            "Api",
            blueprint=self._blueprint,
            ingest=ingest.function,
            callbacks=callbacks.function,
            authorizer=authorizer.function,
        )
        CfnOutput(self, "ApiId", value=api.api.api_id, description="Id of the HTTP API")
        CfnOutput(self, "ApiUrl", value=api.api.api_endpoint, description="Base of /v1")
        CfnOutput(
            self,
            "EventTopicArn",
            value=events.topic_arn,
            description="Where SES, SMS and push are to publish their events",
        )
        return self._public_url(api.api.api_endpoint)

    def _console(self, queues: dict[Channel, ChannelQueue]) -> None:
        console = OperatorConsole(self, "Console", blueprint=self._blueprint, queues=queues)
        console.console.function.node.add_dependency(self._migration.done)
        CfnOutput(
            self,
            "OperatorPolicyArn",
            value=console.policy.managed_policy_arn,
            description="Lets people invoke the console",
        )
