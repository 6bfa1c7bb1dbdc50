"""What ServiceStack stands on: the database, its secrets, and on AWS the network and the keys.

On AWS they come from DataStack. On the local target they come in as parameters, so that one cached
synthesis serves every port.
"""

from dataclasses import dataclass

from aws_cdk import Acknowledgment, CfnParameter, Stack, Validations
from aws_cdk import aws_ec2 as ec2

SERVICE_ROLE = "sendoff_service"
"""The PostgreSQL role of the functions, made by the migrations."""

OPERATOR_ROLE = "sendoff_operator"
"""The PostgreSQL role of ``console``, made by the migrations: it also writes what operators do."""

OWNER_ROLE = "sendoff_owner"
"""The PostgreSQL role that owns the schema; only ``migrate`` logs in as it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How a function logs in to the database; ``connect_arn`` is the right to, by a token."""

    user: str
    auth: str
    secret_arn: str = ""
    connect_arn: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """ARNs of the JSON secrets that the functions read."""

    hash: str
    callback: str
    gateway: str
    webhook: str
    push: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Where the functions run on AWS, and the one right that network grants."""

    vpc: ec2.IVpc
    security_group: ec2.ISecurityGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything ServiceStack takes from outside; None where the local target has no such thing."""

    host: str
    port: str
    name: str
    service: Login
    operator: Login
    owner: Login
    secrets: Secrets
    network: Network | None = None
    key_arn: str | None = None


def from_parameters(stack: Stack) -> Surroundings:
    """Return the surroundings of the local target, declared as parameters of ``stack``."""

    def parameter(name: str, description: str, default: str | None = None) -> str:
        return CfnParameter(
            stack, name, type="String", description=description, default=default
        ).value_as_string

    Validations.of(stack).acknowledge(
        Acknowledgment(
            id="CloudFormation-Validate::W2509",
            reason="These parameters are the ARNs of secrets, not the secrets.",
        )
    )
    auth = parameter("DatabaseAuth", "How to log in: iam, secret or trust", "trust")
    return Surroundings(
        host=parameter("DatabaseHost", "PostgreSQL host", "127.0.0.1"),
        port=parameter("DatabasePort", "PostgreSQL port", "5499"),
        name=parameter("DatabaseName", "PostgreSQL database", "sendoff"),
        service=Login(
            user=parameter("DatabaseUser", "Role of the functions", SERVICE_ROLE), auth=auth
        ),
        operator=Login(
            user=parameter("OperatorDatabaseUser", "Role of the console", OPERATOR_ROLE), auth=auth
        ),
        owner=Login(
            user=parameter("MigrateDatabaseUser", "Role that owns the schema", "postgres"),
            auth=auth,
        ),
        secrets=Secrets(
            hash=parameter("HashSecretArn", "Secret that keys recipient hashes"),
            callback=parameter("CallbackSecretArn", "Secret that signs callbacks"),
            gateway=parameter("GatewaySecretArn", "Secret that signs requests to the gateway"),
            webhook=parameter("WebhookSecretArn", "Secret that webhooks' secrets derive from"),
            push=parameter("PushSecretArn", "Secret with the service account of FCM"),
        ),
    )
