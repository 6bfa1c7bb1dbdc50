"""The function ``migrate`` as a custom resource, run by each deploy that changes what it does."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from aws_cdk import Aws, CustomResource, Duration
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.config import channels
from infra.function import Blueprint, Definition, ServiceFunction

RESOURCE_TYPE = "Custom::Migration"


def version(folder: Path) -> str:
    """Return a digest of the migrations in ``folder``: another one runs the migration again."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.sql")):
        digest.update(f"{path.name}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Migration(Construct):
    """Applies ``migrations/`` and the channel numbers, as the owner of the schema.

    Everything that uses the tables depends on ``done``. Migrations are expand/contract, so the
    code of the previous deploy runs on while and after they are applied. The same function starts
    the functions ``started`` for the resource in start.py.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        blueprint: Blueprint,
        migrations: Path,
        gateway_url: str,
        started: Sequence[str],
    ) -> None:
        super().__init__(scope, name)
        numbers = blueprint.numbers.functions["migrate"]
        definition = Definition(
            name="migrate",
            folder="migrate",
            description="Applies the migrations and the channel numbers on each deploy.",
            numbers=numbers,
            login=blueprint.surroundings.owner,
            rights={"start": _start(blueprint.prefix, started)},
        )
        self.migrate = ServiceFunction(self, definition, blueprint=blueprint)
        self.done = CustomResource(
            self,
            "Done",
            resource_type=RESOURCE_TYPE,
            service_token=self.migrate.function.function_arn,
            # Longer than the function may live, so that its own words reach the operator.
            service_timeout=Duration.seconds(numbers.timeout_seconds + 60),
            properties={
                "Version": version(migrations),
                "Channels": json.dumps(
                    channels(blueprint.numbers, gateway_url=gateway_url), sort_keys=True
                ),
            },
        )


def _start(prefix: str, names: Sequence[str]) -> iam.PolicyStatement:
    """Return the right to start functions, by name: they depend on the migration in their turn."""
    functions = f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function"
    return iam.PolicyStatement(
        actions=["lambda:InvokeFunction"],
        resources=[f"{functions}:{prefix}-{name}" for name in names],
    )
