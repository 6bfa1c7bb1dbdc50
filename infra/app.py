"""The CDK app. ``cdk deploy --all`` is the whole system on AWS; ``-c target=local`` is ServiceStack
alone, for the emulator.

Context: ``target`` (aws or local), ``prefix`` (names everything), ``gateway_url`` (default of the
parameter GatewayUrl), ``event_sources`` and ``event_detail_types`` (likewise of EventSources and
EventDetailTypes: which events of the default bus ask for notifications, separated by commas),
``on_call_email`` (subscribed to the alarms). Synthesis asks for no account and no Docker.
"""

from collections.abc import Callable

from aws_cdk import App, CliCredentialsStackSynthesizer, DefaultStackSynthesizer
from aws_cdk import aws_lambda as lambda_

from infra.bundling import aws_bundle, local_bundle
from infra.config import DEFAULT_PREFIX, NUMBERS, Target, assets_bucket, check
from infra.data_stack import DataStack
from infra.monitoring_stack import MonitoringStack
from infra.paths import ROOT
from infra.service_stack import ServiceProperties, ServiceStack

CodeOf = Callable[[str], lambda_.Code]


def build(app: App, *, code: CodeOf | None = None) -> None:
    """Add the stacks of the context's target to ``app``; ``code`` stands in for the bundles."""
    prefix = app.node.try_get_context("prefix") or DEFAULT_PREFIX
    gateway_url = app.node.try_get_context("gateway_url")
    match Target(app.node.try_get_context("target") or Target.AWS):
        case Target.LOCAL:
            add_local_stack(app, prefix=prefix, gateway_url=gateway_url, code=code or local_code())
        case Target.AWS:
            add_aws_stacks(app, prefix=prefix, gateway_url=gateway_url, code=code or aws_code)


def add_local_stack(app: App, *, prefix: str, gateway_url: str | None, code: CodeOf) -> None:
    """Add ServiceStack, which takes its surroundings as parameters."""
    ServiceStack(
        app,
        "ServiceStack",
        properties=ServiceProperties(
            prefix=prefix,
            numbers=check(NUMBERS[Target.LOCAL]),
            code=code,
            migrations=ROOT / "migrations",
            surroundings=None,
            gateway_url=gateway_url,
        ),
        synthesizer=CliCredentialsStackSynthesizer(
            file_assets_bucket_name=assets_bucket(prefix), bucket_prefix=""
        ),
    )


def add_aws_stacks(app: App, *, prefix: str, gateway_url: str | None, code: CodeOf) -> None:
    """Add DataStack, ServiceStack on top of it, and MonitoringStack beside them."""
    numbers = check(NUMBERS[Target.AWS])
    data = DataStack(app, "DataStack", prefix=prefix, numbers=numbers)
    service = ServiceStack(
        app,
        "ServiceStack",
        properties=ServiceProperties(
            prefix=prefix,
            numbers=numbers,
            code=code,
            migrations=ROOT / "migrations",
            surroundings=data.surroundings(),
            gateway_url=gateway_url,
        ),
        # The command line checks the bootstrap as well, and the local target has none to check.
        synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
    )
    monitoring = MonitoringStack(
        app,
        "MonitoringStack",
        prefix=prefix,
        numbers=numbers,
        on_call_email=app.node.try_get_context("on_call_email"),
    )
    # A heartbeat alarm without a service would ring at once.
    monitoring.add_stack_dependency(service)


def local_code() -> CodeOf:
    """Return the one bundle of the local target, for every folder."""
    bundle = lambda_.Code.from_asset(str(local_bundle()))
    return lambda _folder: bundle


def aws_code(folder: str) -> lambda_.Code:
    """Return the bundle of one function for AWS."""
    return lambda_.Code.from_asset(str(aws_bundle(folder)))


def main() -> None:
    app = App()
    build(app)
    app.synth()


if __name__ == "__main__":
    main()
