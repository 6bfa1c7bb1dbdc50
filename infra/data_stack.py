"""DataStack: what must outlive every deploy. The network, PostgreSQL, the secrets and their key."""

import json
from typing import cast

from aws_cdk import (
    Acknowledgment,
    Aws,
    Duration,
    RemovalPolicies,
    RemovalPolicy,
    Stack,
    Validations,
)
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_rds as rds
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.config import Numbers
from infra.surroundings import (
    OPERATOR_ROLE,
    OWNER_ROLE,
    SERVICE_ROLE,
    Login,
    Network,
    Secrets,
    Surroundings,
)

DATABASE = "sendoff"
PORT = 5432
SECRET_LENGTH = 44
"""Letters and digits only, a multiple of 4: base64 as it stands, as Standard Webhooks wants it."""

ACKNOWLEDGED = (
    Acknowledgment(
        id="AwsSolutions::AwsSolutions-RDS11",
        reason="Only the functions' security group reaches the port; another number hides nothing.",
    ),
    Acknowledgment(
        id="AwsSolutions::AwsSolutions-SMG4",
        reason=(
            "The hash secret must outlive the hashes it keys. The other two are shared with the "
            "gateway and rotated by hand through `previous`. RDS rotates the owner's password."
        ),
    ),
)


class DataStack(Stack):
    """Protected against deletion; whatever is deleted all the same leaves its resources behind."""

    def __init__(self, scope: Construct, name: str, *, prefix: str, numbers: Numbers) -> None:
        super().__init__(
            scope,
            name,
            stack_name=f"{prefix}-data",
            description="Sendoff: the network, PostgreSQL and the secrets.",
            termination_protection=True,
        )
        self._prefix = prefix
        self._numbers = numbers
        self.key = cast(
            "kms.IKey",
            kms.Key(
                self,
                "Key",
                alias=f"alias/{prefix}",
                description="Encrypts the database and the secrets of Sendoff.",
                enable_key_rotation=True,
            ),
        )
        self.vpc = self._vpc()
        self.function_group = ec2.SecurityGroup(
            self,
            "FunctionGroup",
            vpc=self.vpc,
            description="The functions: anything out, nothing in.",
            allow_all_outbound=True,
        )
        self.instance = self._instance()
        self.instance.connections.allow_from(
            self.function_group, ec2.Port.tcp(PORT), "The functions, and nobody else"
        )
        self.hash_secret = self._secret("hash", "Keys recipient hashes, cursors and links.", {})
        shared = {"previous": "", "token": ""}
        self.callback_secret = self._secret("callback", "Signs callbacks of the gateway.", shared)
        self.gateway_secret = self._secret("gateway", "Signs requests to the gateway.", shared)
        self.webhook_secret = self._secret(
            "webhook", "What the secrets that sign webhooks derive from.", {"previous": ""}
        )
        self.push_secret = self._secret("push", "Service account of FCM; fill it in by hand.", {})
        RemovalPolicies.of(self).retain()
        Validations.of(self).acknowledge(*ACKNOWLEDGED)

    def _vpc(self) -> ec2.Vpc:
        network = self._numbers.network
        subnets = {
            "public": ec2.SubnetType.PUBLIC,
            "functions": ec2.SubnetType.PRIVATE_WITH_EGRESS,
            "database": ec2.SubnetType.PRIVATE_ISOLATED,
        }
        vpc = ec2.Vpc(
            self,
            "Vpc",
            vpc_name=self._prefix,
            max_azs=network.availability_zones,
            nat_gateways=network.nat_gateways,
            subnet_configuration=[
                ec2.SubnetConfiguration(name=name, subnet_type=kind)
                for name, kind in subnets.items()
            ],
        )
        vpc.add_flow_log(
            "FlowLog",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(
                self._log_group("FlowLogs", f"/aws/vpc/{self._prefix}")
            ),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )
        return vpc

    def _instance(self) -> rds.DatabaseInstance:
        numbers = self._numbers.database
        exported = self._log_group("Logs", f"/aws/rds/instance/{self._prefix}/postgresql")
        instance = rds.DatabaseInstance(
            self,
            "Database",
            instance_identifier=self._prefix,
            engine=rds.DatabaseInstanceEngine.postgres(version=rds.PostgresEngineVersion.VER_18),
            instance_type=ec2.InstanceType(numbers.instance_class),
            database_name=DATABASE,
            port=PORT,
            parameters={
                "max_connections": str(numbers.max_connections),
                "rds.force_ssl": "1",
                # A frozen environment of an old deploy gives its connection back.
                "idle_session_timeout": str(1000 * numbers.idle_session_seconds),
                # The detail of an error quotes the row: recipients do not belong in a log.
                "log_error_verbosity": "terse",
            },
            multi_az=True,
            vpc=self.vpc,
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            publicly_accessible=False,
            iam_authentication=True,
            manage_master_user_password=True,
            credentials=rds.Credentials.from_username(OWNER_ROLE, encryption_key=self.key),
            storage_encrypted=True,
            storage_encryption_key=self.key,
            storage_type=rds.StorageType.GP3,
            allocated_storage=numbers.storage_gibibytes,
            max_allocated_storage=numbers.storage_limit_gibibytes,
            backup_retention=Duration.days(numbers.backup_days),
            copy_tags_to_snapshot=True,
            delete_automated_backups=False,
            auto_minor_version_upgrade=True,
            enable_performance_insights=True,
            performance_insight_encryption_key=self.key,
            cloudwatch_logs_exports=["postgresql"],
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN,
        )
        instance.node.add_dependency(exported)
        return instance

    def _secret(self, name: str, description: str, rest: dict[str, str]) -> secretsmanager.Secret:
        return secretsmanager.Secret(
            self,
            f"{name}-secret",
            secret_name=f"{self._prefix}/{name}",
            description=description,
            encryption_key=self.key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template=json.dumps(rest),
                generate_string_key="current",
                password_length=SECRET_LENGTH,
                exclude_punctuation=True,
            ),
        )

    def _log_group(self, name: str, log_group_name: str) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            name,
            log_group_name=log_group_name,
            retention=logs.RetentionDays[self._numbers.log_retention],
        )

    def surroundings(self) -> Surroundings:
        """Return what ServiceStack stands on."""
        instance = self.instance
        owner = instance.secret
        if owner is None:
            raise LookupError("The database instance has no secret for its owner.")
        return Surroundings(
            host=instance.db_instance_endpoint_address,
            port=str(PORT),
            name=DATABASE,
            service=self._login(SERVICE_ROLE),
            operator=self._login(OPERATOR_ROLE),
            owner=Login(user=OWNER_ROLE, auth="secret", secret_arn=owner.secret_arn),
            secrets=Secrets(
                hash=self.hash_secret.secret_arn,
                callback=self.callback_secret.secret_arn,
                gateway=self.gateway_secret.secret_arn,
                webhook=self.webhook_secret.secret_arn,
                push=self.push_secret.secret_arn,
            ),
            network=Network(vpc=self.vpc, security_group=self.function_group),
            key_arn=self.key.key_arn,
        )

    def _login(self, role: str) -> Login:
        """Return the log-in as ``role`` by token, with the right to exactly that."""
        users = f"arn:{Aws.PARTITION}:rds-db:{Aws.REGION}:{Aws.ACCOUNT_ID}:dbuser"
        return Login(
            user=role,
            auth="iam",
            connect_arn=f"{users}:{self.instance.instance_resource_id}/{role}",
        )
