"""The HTTP API: everything goes to ingest behind the authorizer, but for callbacks and health."""

import json

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Tags, Validations
from aws_cdk import aws_apigatewayv2 as api
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.config import API_ID_TAG, api_id
from infra.function import Blueprint

BASE_PATHS = ("", "/api")
"""Every public route answers below ``/v1`` and below ``/api/v1``."""

# By route, never by path: a path can hold an unsubscribe token.
ACCESS_LOG = json.dumps(
    {
        "time": "$context.requestTimeEpoch",
        "request_id": "$context.requestId",
        "route": "$context.routeKey",
        "status": "$context.status",
        "bytes": "$context.responseLength",
        "milliseconds": "$context.responseLatency",
        "integration_error": "$context.integrationErrorMessage",
        "authorizer_error": "$context.authorizer.error",
    }
)


class NotificationApi(Construct):
    """``<prefix>``, an HTTP API. Its authorizer never denies: the functions answer problem+json."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        blueprint: Blueprint,
        ingest: lambda_.IFunction,
        callbacks: lambda_.IFunction,
        authorizer: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, name)
        self.api = api.HttpApi(
            self,
            "Http",
            api_name=blueprint.prefix,
            description="Sendoff: accepts notifications and reports on them.",
            create_default_stage=False,
        )
        Tags.of(self.api).add(API_ID_TAG, api_id(blueprint.prefix))
        to_ingest = integrations.HttpLambdaIntegration("Ingest", ingest)
        to_callbacks = integrations.HttpLambdaIntegration("Callbacks", callbacks)
        api.HttpRoute(
            self,
            "Default",
            http_api=self.api,
            route_key=api.HttpRouteKey.DEFAULT,
            integration=to_ingest,
            authorizer=authorizers.HttpLambdaAuthorizer(
                "Authorizer",
                authorizer,
                authorizer_name=f"{blueprint.prefix}-authorizer",
                response_types=[authorizers.HttpLambdaResponseType.SIMPLE],
                # With an identity source the gateway itself would refuse a request without a key.
                identity_source=[],
                results_cache_ttl=Duration.seconds(0),
            ),
        )
        for base in BASE_PATHS:
            self._open_route(f"{base}/v1/health", api.HttpMethod.GET, to_ingest)
            self._open_route(f"{base}/v1/callbacks/{{provider}}", api.HttpMethod.POST, to_callbacks)
        self._open_stage(blueprint)

    def _open_route(
        self, path: str, method: api.HttpMethod, integration: integrations.HttpLambdaIntegration
    ) -> None:
        """Add a route without the authorizer."""
        for route in self.api.add_routes(path=path, methods=[method], integration=integration):
            Validations.of(route).acknowledge(
                Acknowledgment(
                    id="AwsSolutions::AwsSolutions-APIG4",
                    reason="A callback proves itself by its signature; health tells no secret.",
                )
            )

    def _open_stage(self, blueprint: Blueprint) -> None:
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/apigateway/{blueprint.prefix}",
            retention=logs.RetentionDays[blueprint.numbers.log_retention],
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.stage = api.CfnStage(
            self,
            "Stage",
            api_id=self.api.api_id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=api.CfnStage.AccessLogSettingsProperty(
                destination_arn=log_group.log_group_arn, format=ACCESS_LOG
            ),
        )
