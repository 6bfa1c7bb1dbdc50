"""The first run of the loops, started by the deploy itself."""

from collections.abc import Mapping
from typing import cast

from aws_cdk import CustomResource
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.function import ServiceFunction
from infra.migration import Migration

RESOURCE_TYPE = "Custom::Start"


class Start(Construct):
    """Starts ``loops`` whenever their code changed, when everything they need is there.

    A schedule first fires a minute after it was made, and a loop of the previous deploy would go on
    for as long: a started run takes over at once, in the new code.
    """

    def __init__(
        self, scope: Construct, *, migration: Migration, loops: Mapping[str, ServiceFunction]
    ) -> None:
        super().__init__(scope, "Start")
        functions = [loop.function for loop in loops.values()]
        started = CustomResource(
            self,
            "Started",
            resource_type=RESOURCE_TYPE,
            service_token=migration.migrate.function.function_arn,
            properties={
                "Functions": [function.function_name for function in functions],
                "Version": [_code_of(function) for function in functions],
            },
        )
        started.node.add_dependency(*functions)


def _code_of(function: lambda_.IFunction) -> str:
    """Return the name of the function's bundle, which is a digest of what is in it."""
    resource = cast("lambda_.CfnFunction", function.node.default_child)
    code = cast("lambda_.CfnFunction.CodeProperty", resource.code)
    return code.s3_key or ""
