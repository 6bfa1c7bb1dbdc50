"""One function of the service: its role with exact rights, its log group and its limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from aws_cdk import Acknowledgment, Aws, Duration, RemovalPolicy, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.config import FunctionNumbers, Numbers
from infra.surroundings import Login, Network, Surroundings

Rights = Mapping[str, iam.PolicyStatement]
"""What a function may do, by the name of the inline policy that says so."""

NETWORK_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What all functions of one deployment share. ``code`` gives the bundle of a folder."""

    prefix: str
    numbers: Numbers
    surroundings: Surroundings
    code: Callable[[str], lambda_.Code]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One function, ``<prefix>-<name>``, running ``functions/<folder>``.

    ``environment`` and ``rights`` come on top of what every function has: its log and the
    database. A ``scheduled`` one is started asynchronously, and again in a minute.
    """

    name: str
    folder: str
    description: str
    numbers: FunctionNumbers
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    secret_arns: tuple[str, ...] = ()
    rights: Rights = field(default_factory=dict[str, iam.PolicyStatement])
    login: Login | None = None
    scheduled: bool = False


class ServiceFunction(Construct):
    """The resources of one ``Definition``."""

    def __init__(self, scope: Construct, definition: Definition, *, blueprint: Blueprint) -> None:
        super().__init__(scope, definition.name)
        surroundings = blueprint.surroundings
        login = definition.login or surroundings.service
        function_name = f"{blueprint.prefix}-{definition.name}"
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{function_name}",
            retention=logs.RetentionDays[blueprint.numbers.log_retention],
            removal_policy=RemovalPolicy.DESTROY,
        )
        function = lambda_.Function(
            self,
            "Function",
            function_name=function_name,
            description=definition.description,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"functions.{definition.folder}.main.handler",
            code=blueprint.code(definition.folder),
            timeout=Duration.seconds(definition.numbers.timeout_seconds),
            memory_size=definition.numbers.memory_megabytes,
            reserved_concurrent_executions=definition.numbers.reserved_concurrency,
            environment={
                **_common(blueprint.prefix, surroundings, login),
                **definition.environment,
            },
            log_group=log_group,
            role=self._role(function_name, definition, login, surroundings, log_group),
            **_placement(surroundings.network),
            **_asynchrony(definition, blueprint.numbers),
        )
        self.function = cast("lambda_.IFunction", function)
        Validations.of(self).acknowledge(
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-L1",
                reason="Python 3.13 is what the packages are pinned, compiled and tested for.",
            )
        )

    def _role(
        self,
        function_name: str,
        definition: Definition,
        login: Login,
        surroundings: Surroundings,
        log_group: logs.LogGroup,
    ) -> iam.IRole:
        """Return a role with one inline policy per right, so that each is found by its name."""
        secrets = definition.secret_arns + ((login.secret_arn,) if login.secret_arn else ())
        rights: Rights = {
            "log": _write(log_group),
            **_reach_database(surroundings, login),
            **_read(secrets, surroundings.key_arn),
            **definition.rights,
        }
        role = iam.Role(
            self,
            "Role",
            description=f"What {function_name} may do",
            assumed_by=cast("iam.IPrincipal", iam.ServicePrincipal("lambda.amazonaws.com")),
            inline_policies={
                name: iam.PolicyDocument(statements=[statement])
                for name, statement in rights.items()
            },
        )
        Validations.of(role).acknowledge(
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-IAM5[Resource::*]",
                reason="The interfaces that Lambda makes in the network have no names beforehand.",
            )
        )
        return cast("iam.IRole", role)


def _common(prefix: str, surroundings: Surroundings, login: Login) -> dict[str, str]:
    """Return the environment that every function reads (functions.runtime.settings)."""
    return {
        "SERVICE": prefix,
        "LOG_LEVEL": "INFO",
        "DATABASE_HOST": surroundings.host,
        "DATABASE_PORT": surroundings.port,
        "DATABASE_NAME": surroundings.name,
        "DATABASE_USER": login.user,
        "DATABASE_AUTH": login.auth,
        "DATABASE_SECRET_ARN": login.secret_arn,
    }


def _placement(network: Network | None) -> dict[str, Any]:
    """Return where the function runs: in private subnets, with the internet behind a NAT."""
    if network is None:
        return {}
    return {
        "vpc": network.vpc,
        "vpc_subnets": ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
        "security_groups": [network.security_group],
    }


def _asynchrony(definition: Definition, numbers: Numbers) -> dict[str, Any]:
    """Return that a start which failed or came late is dropped: the next one is a minute away."""
    if not definition.scheduled:
        return {}
    age = Duration.seconds(numbers.loop.event_age_seconds)
    return {"max_event_age": age, "retry_attempts": 0}


def _write(log_group: logs.LogGroup) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=["logs:CreateLogStream", "logs:PutLogEvents"],
        resources=[log_group.log_group_arn],
    )


def _reach_database(surroundings: Surroundings, login: Login) -> dict[str, iam.PolicyStatement]:
    """Return the rights to sit in the network and to log in by token, where there are such."""
    rights: dict[str, iam.PolicyStatement] = {}
    if surroundings.network:
        rights["network"] = iam.PolicyStatement(actions=list(NETWORK_ACTIONS), resources=["*"])
    if login.connect_arn:
        rights["database"] = iam.PolicyStatement(
            actions=["rds-db:connect"], resources=[login.connect_arn]
        )
    return rights


def _read(secret_arns: tuple[str, ...], key_arn: str | None) -> dict[str, iam.PolicyStatement]:
    """Return the rights to read exactly these secrets, decrypted by Secrets Manager only."""
    if not secret_arns:
        return {}
    rights = {
        "secrets": iam.PolicyStatement(
            actions=["secretsmanager:GetSecretValue"], resources=list(secret_arns)
        )
    }
    if key_arn:
        rights["key"] = iam.PolicyStatement(
            actions=["kms:Decrypt"],
            resources=[key_arn],
            conditions={
                "StringEquals": {"kms:ViaService": f"secretsmanager.{Aws.REGION}.amazonaws.com"}
            },
        )
    return rights
