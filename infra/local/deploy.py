"""ServiceStack on the emulator: its secrets, the deployment, and what was deployed."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from infra.config import DEFAULT_PREFIX, assets_bucket
from infra.local.emulator import ACCOUNT, CREDENTIALS, REGION, Clients
from infra.local.postgres import HOST, SUPERUSER
from infra.local.state import Ports, Secrets
from infra.local.synthesis import node_binaries, node_environment, start_task

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

STACK = "ServiceStack"
DATABASE = "sendoff"
SERVICE_ROLE, OPERATOR_ROLE = "sendoff_service", "sendoff_operator"
SENDER_ADDRESS = "no-reply@sendoff.example"
"""The emulator's SES sends for it, as it would for nobody else: what a stream may send as."""
STARTED_AT_ONCE = ("claim", "sweeper", "reconcile")
"""Scheduled each minute; a schedule first fires a minute after it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What the deployment made: {name: ARN} and {name: URL}."""

    functions: dict[str, str]
    queues: dict[str, str]


def gateway_url(ports: Ports) -> str:
    return f"{simulator_url(ports)}/gateway"


def api_url(ports: Ports) -> str:
    return f"http://{HOST}:{ports.api}"


def simulator_url(ports: Ports) -> str:
    return f"http://{HOST}:{ports.simulator}"


def create_surroundings(clients: Clients, secrets: Secrets) -> dict[str, str]:
    """Create what the stack stands on; return the ARNs of the secrets by parameter."""
    clients.s3().create_bucket(Bucket=assets_bucket(DEFAULT_PREFIX))
    clients.email().create_email_identity(EmailIdentity=SENDER_ADDRESS)
    values: dict[str, tuple[str, dict[str, str]]] = {
        "HashSecretArn": ("hash", {"current": secrets.hash}),
        "CallbackSecretArn": ("callback", _webhook_secret(secrets.callback)),
        "GatewaySecretArn": ("gateway", _webhook_secret(secrets.gateway)),
        "WebhookSecretArn": ("webhook", _webhook_secret(secrets.webhook)),
        "PushSecretArn": ("push", {}),
    }
    vault = clients.secrets()
    return {
        parameter: vault.create_secret(
            Name=f"{DEFAULT_PREFIX}/{name}", SecretString=json.dumps(value)
        )["ARN"]
        for parameter, (name, value) in values.items()
    }


def _webhook_secret(current: str) -> dict[str, str]:
    return {"current": current, "previous": "", "token": ""}


def deploy(
    assembly: Path,
    *,
    cdk: Path,
    clients: Clients,
    parameters: Mapping[str, str],
    log: Path,
    environment: Mapping[str, str],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Deploy the synthesized stack with ``parameters``; raise DeploymentFailed.

    ``meanwhile`` is called again and again until the end.
    """
    command = [
        str(node_binaries() / "node"), str(cdk), "deploy", STACK, "--app", str(assembly),
        "--require-approval", "never", "--method", "direct", "--progress", "events",
        "--no-notices", "--ci",
    ]  # fmt: skip
    for name, value in parameters.items():
        command += ["--parameters", f"{name}={value}"]
    task = start_task(
        command,
        what="The deployment to the emulator",
        log=log,
        environment={**node_environment(environment), **_account(clients.endpoint)},
    )
    stacks = clients.cloudformation()

    def is_done() -> bool:
        meanwhile()
        return _is_complete(stacks)

    try:
        task.finish(is_done=is_done)
    except BaseException:
        task.cancel()
        raise


def _is_complete(cloudformation: "CloudFormationClient") -> bool:
    """Whether the stack is created; the command line itself looks only every five seconds."""
    try:
        answer = cloudformation.describe_stacks(StackName=f"{DEFAULT_PREFIX}-service")
    except (ClientError, BotoCoreError):  # it does not exist yet, or the emulator has ended
        return False
    return [stack["StackStatus"] for stack in answer["Stacks"]] == ["CREATE_COMPLETE"]


def parameters(ports: Ports) -> dict[str, str]:
    """Return the parameters of the stack that follow from the ports."""
    return {
        "DatabaseHost": HOST,
        "DatabasePort": str(ports.database),
        "DatabaseName": DATABASE,
        "DatabaseUser": SERVICE_ROLE,
        "OperatorDatabaseUser": OPERATOR_ROLE,
        "DatabaseAuth": "trust",
        "MigrateDatabaseUser": SUPERUSER,
        "GatewayUrl": gateway_url(ports),
        "LocalWebhookOrigin": simulator_url(ports),
        "PublicUrl": api_url(ports),
    }


def _account(endpoint: str) -> dict[str, str]:
    """Return the environment that makes the emulator's account the only one there is."""
    return {
        "AWS_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_DEFAULT_ACCOUNT": ACCOUNT,
        "CDK_DEFAULT_REGION": REGION,
        "NO_PROXY": HOST,
        "no_proxy": HOST,
    }


def discover(clients: Clients) -> Deployed:
    """Return the functions and queues of the deployment, by their names and without the prefix."""
    functions = {
        function["FunctionName"]: function["FunctionArn"]
        for page in clients.functions().get_paginator("list_functions").paginate()
        for function in page["Functions"]
        if "FunctionName" in function and "FunctionArn" in function
    }
    urls = clients.sqs().list_queues().get("QueueUrls", [])
    queues = {url.rsplit("/", 1)[-1]: url for url in urls}
    return Deployed(functions=_own(functions), queues=_own(queues))


def _own(found: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{DEFAULT_PREFIX}-"
    own = {name: value for name, value in sorted(found.items()) if name.startswith(prefix)}
    return {**own, **{name.removeprefix(prefix): value for name, value in own.items()}}


def start_loops(clients: Clients) -> None:
    """Start what the schedules would start in a minute."""
    functions = clients.functions()
    for name in STARTED_AT_ONCE:
        functions.invoke(
            FunctionName=f"{DEFAULT_PREFIX}-{name}", InvocationType="Event", Payload=b"{}"
        )
