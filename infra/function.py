"""One function of the service: its role with exact rights, its log group and its limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.config import FunctionNumbers, Numbers
from infra.surroundings import Login, Surroundings

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


class ServiceFunction(Construct):
    """``<prefix>-<name>``, running ``functions/<folder>`` with a log-in to the database.

    ``rights`` is what it may do besides writing its log and reaching the database; ``secret_arns``
    are the secrets it may read. The folder is the name, except for the senders.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        blueprint: Blueprint,
        numbers: FunctionNumbers,
        description: str,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        secret_arns: tuple[str, ...] = (),
        rights: Rights | None = None,
        login: Login | None = None,
        asynchronous: bool = False,
    ) -> None:
        super().__init__(scope, name)
        folder = folder or name
        surroundings = blueprint.surroundings
        login = login or surroundings.service
        function_name = f"{blueprint.prefix}-{name}"
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{function_name}",
            retention=logs.RetentionDays[blueprint.numbers.log_retention],
            removal_policy=RemovalPolicy.DESTROY,
        )
        network = surroundings.network
        secrets = (*secret_arns, login.secret_arn) if login.secret_arn else secret_arns
        function = lambda_.Function(
            self,
            "Function",
            function_name=function_name,
            description=description,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"functions.{folder}.main.handler",
            code=blueprint.code(folder),
            timeout=Duration.seconds(numbers.timeout_seconds),
            memory_size=numbers.memory_megabytes,
            reserved_concurrent_executions=numbers.reserved_concurrency,
            environment={
                **_common(blueprint.prefix, surroundings, login),
                **(environment or {}),
            },
            log_group=log_group,
            role=_role(
                self,
                description=f"What {function_name} may do",
                rights={
                    "log": _write(log_group),
                    **_reach_database(surroundings, login),
                    **_read(secrets, surroundings.key_arn),
                    **(rights or {}),
                },
            ),
            vpc=network.vpc if network else None,
            vpc_subnets=(
                ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)
                if network
                else None
            ),
            security_groups=[network.security_group] if network else None,
            # What is started by a schedule is started again in a minute: a late or repeated run
            # would only compete with the next.
            max_event_age=(
                Duration.seconds(blueprint.numbers.loop.event_age_seconds) if asynchronous else None
            ),
            retry_attempts=0 if asynchronous else None,
        )
        self.function = cast("lambda_.IFunction", function)


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


def _role(scope: Construct, *, description: str, rights: Rights) -> iam.IRole:
    """Return a role with one inline policy per right, so that a reader finds each by its name."""
    role = iam.Role(
        scope,
        "Role",
        description=description,
        assumed_by=cast("iam.IPrincipal", iam.ServicePrincipal("lambda.amazonaws.com")),
        inline_policies={
            name: iam.PolicyDocument(statements=[statement]) for name, statement in rights.items()
        },
    )
    return cast("iam.IRole", role)


def _write(log_group: logs.LogGroup) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=["logs:CreateLogStream", "logs:PutLogEvents"],
        resources=[log_group.log_group_arn],
    )


def _reach_database(surroundings: Surroundings, login: Login) -> dict[str, iam.PolicyStatement]:
    """Return the rights to sit in the network and to log in by token, where there are such."""
    rights: dict[str, iam.PolicyStatement] = {}
    if surroundings.network:
        # Lambda manages the interfaces with this role; their ids are not known beforehand.
        rights["network"] = iam.PolicyStatement(actions=list(NETWORK_ACTIONS), resources=["*"])
    if surroundings.connect_arn and login.auth == "iam":
        rights["database"] = iam.PolicyStatement(
            actions=["rds-db:connect"], resources=[surroundings.connect_arn]
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
