"""ServiceStack: names, rights, environments, routes and order, on both targets."""

from importlib import import_module
from typing import Any

import pytest

from functions.core.states import Channel
from functions.runtime.settings import Common, load, variables
from infra.service_stack import SCHEDULED
from tests.infra.conftest import Assembly, synthesize
from tests.infra.template import Resource, Template

FOLDERS = {
    "ingest": "ingest",
    "authorizer": "authorizer",
    "claim": "claim",
    "callbacks": "callbacks",
    "reconcile": "reconcile",
    "sweeper": "sweeper",
    "migrate": "migrate",
    "console": "console",
    **{f"sender-{channel}": "sender" for channel in Channel},
}
"""The functions of the service, and the folder each one runs."""

functions = pytest.mark.parametrize("name", list(FOLDERS))


def settings_class(name: str) -> type[Common]:
    return import_module(f"functions.{FOLDERS[name]}.settings").Settings


def test_the_functions_are_named_and_built_alike(service: Template) -> None:
    assert set(service.functions) == {f"sendoff-{name}" for name in FOLDERS}
    for name, folder in FOLDERS.items():
        function = service.functions[f"sendoff-{name}"]
        assert function["Handler"] == f"functions.{folder}.main.handler"
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["arm64"]


@functions
def test_the_environment_of_a_function_is_exactly_what_its_settings_read(
    service: Template, name: str
) -> None:
    environment = service.environment(f"sendoff-{name}")
    assert set(environment) == {variable.name for variable in variables(settings_class(name))}


@functions
def test_the_settings_of_a_function_can_be_read_from_its_environment(
    service: Template, name: str
) -> None:
    environment = service.environment(f"sendoff-{name}")
    read = load(
        settings_class(name), {key: service.resolved(value) for key, value in environment.items()}
    )
    assert read.service == "sendoff"


def test_a_sender_knows_its_channel(service: Template) -> None:
    for channel in Channel:
        assert service.environment(f"sendoff-sender-{channel}")["CHANNEL"] == channel


@functions
def test_every_function_has_a_role_of_its_own(service: Template, name: str) -> None:
    roles = [function["Role"]["Fn::GetAtt"][0] for function in service.functions.values()]
    assert len(set(roles)) == len(FOLDERS)
    role = service.role_of(f"sendoff-{name}")
    assert "ManagedPolicyArns" not in role
    assert role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {
        "Service": "lambda.amazonaws.com"
    }


def rights(service: Template, name: str) -> dict[str, dict[str, Any]]:
    """Return the statement of each inline policy of a function's role, by name."""
    found: dict[str, dict[str, Any]] = {}
    for policy in service.role_of(f"sendoff-{name}")["Policies"]:
        (statement,) = policy["PolicyDocument"]["Statement"]
        found[policy["PolicyName"]] = statement
    return found


@functions
def test_a_role_names_exactly_what_it_may_touch(service: Template, name: str) -> None:
    for policy, statement in rights(service, name).items():
        assert statement["Effect"] == "Allow"
        if policy == "network":
            assert all(action.startswith("ec2:") for action in statement["Action"])
        elif policy == "sending":  # of this account, and of the kinds that one sends as
            for resource in statement["Resource"]:
                parts = resource["Fn::Join"][1]
                assert {"Ref": "AWS::AccountId"} in parts
                assert parts[-1].count("*") == 1
        else:
            assert "*" not in str(statement["Resource"])
        assert "*" not in str(statement["Action"])


def test_the_roles_hold_only_the_rights_of_their_work(aws: Assembly) -> None:
    service = aws["ServiceStack"]
    everyone = {"log", "network", "database"}
    expected = {name: set(everyone) for name in FOLDERS}
    expected["ingest"] |= {"secrets", "key", "failures"}
    expected["callbacks"] |= {"secrets", "key", "queue"}
    expected["reconcile"] |= {"secrets", "key"}
    expected["claim"] |= {"queues", "drain"}
    expected["console"] |= {"secrets", "key", "dead-letters"}
    for channel in Channel:
        expected[f"sender-{channel}"] |= {"secrets", "key", "queue"}
        if channel is not Channel.WEBHOOK:
            expected[f"sender-{channel}"] |= {"sending"}
    expected["migrate"] = {"log", "network", "secrets", "key", "start"}
    assert {name: set(rights(service, name)) for name in FOLDERS} == expected


def test_a_function_logs_in_as_its_own_user_and_can_be_no_other(aws: Assembly) -> None:
    service = aws["ServiceStack"]
    for name in FOLDERS:
        if statement := rights(service, name).get("database"):
            user = "sendoff_operator" if name == "console" else "sendoff_service"
            assert service.environment(f"sendoff-{name}")["DATABASE_USER"] == user
            assert statement["Action"] == "rds-db:connect"
            assert statement["Resource"]["Fn::Join"][1][-1] == f"/{user}"


def test_the_console_receives_from_the_dead_letter_queues_alone(service: Template) -> None:
    resources = rights(service, "console")["dead-letters"]["Resource"]
    names = {service.named(one, "QueueName") for one in resources}
    assert names == {f"sendoff-{channel}-dlq" for channel in Channel}
    environment = service.environment("sendoff-console")
    for channel in Channel:
        url = environment[f"{channel.upper()}_DEAD_LETTERS_URL"]
        assert service.named(url, "QueueName") == f"sendoff-{channel}-dlq"


def test_an_operator_may_invoke_the_console_and_nothing_else(service: Template) -> None:
    policies = service.properties("AWS::IAM::ManagedPolicy", "ManagedPolicyName")
    assert set(policies) == {"sendoff-operator"}
    (statement,) = policies["sendoff-operator"]["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Allow", "lambda:InvokeFunction")
    assert service.named(statement["Resource"], "FunctionName") == "sendoff-console"
    (policy,) = service.of_type("AWS::IAM::ManagedPolicy")
    assert service.text["Outputs"]["OperatorPolicyArn"]["Value"] == {"Ref": policy}


def test_the_console_reads_what_keys_hashes_and_what_webhooks_secrets_derive_from(
    service: Template,
) -> None:
    (hash_secret, webhook_secret) = rights(service, "console")["secrets"]["Resource"]
    assert hash_secret == rights(service, "ingest")["secrets"]["Resource"]
    assert webhook_secret in rights(service, "sender-webhook")["secrets"]["Resource"]
    environment = service.environment("sendoff-console")
    assert environment["HASH_SECRET_ARN"] == hash_secret
    assert environment["WEBHOOK_SECRET_ARN"] == webhook_secret


def test_a_sender_receives_from_its_own_queue_alone(service: Template) -> None:
    for channel in Channel:
        resource = rights(service, f"sender-{channel}")["queue"]["Resource"]
        assert service.named(resource, "QueueName") == f"sendoff-{channel}"


def test_secrets_are_decrypted_through_secrets_manager_only(aws: Assembly) -> None:
    for name in FOLDERS:
        if statement := rights(aws["ServiceStack"], name).get("key"):
            assert statement["Action"] == "kms:Decrypt"
            assert "kms:ViaService" in statement["Condition"]["StringEquals"]


@functions
def test_the_log_of_a_function_is_kept_for_a_month(service: Template, name: str) -> None:
    group = service.properties("AWS::Logs::LogGroup", "LogGroupName")[f"/aws/lambda/sendoff-{name}"]
    assert group["RetentionInDays"] == 30
    logging = service.functions[f"sendoff-{name}"]["LoggingConfig"]["LogGroup"]
    assert service.named(logging, "LogGroupName") == f"/aws/lambda/sendoff-{name}"


def test_the_functions_run_in_private_subnets_with_one_security_group(aws: Assembly) -> None:
    for function in aws["ServiceStack"].functions.values():
        network = function["VpcConfig"]
        assert all("Vpcfunctions" in one["Fn::ImportValue"] for one in network["SubnetIds"])
        (group,) = network["SecurityGroupIds"]
        assert "FunctionGroup" in group["Fn::ImportValue"]


def test_every_channel_has_a_queue_and_a_dead_letter_queue(service: Template) -> None:
    assert set(service.queues) == {
        f"sendoff-{name}{suffix}" for name in (*Channel, "events") for suffix in ("", "-dlq")
    } | {"sendoff-ingest-dlq"}
    assert all(queue["SqsManagedSseEnabled"] for queue in service.queues.values())


def test_claim_is_given_the_queue_of_each_channel(service: Template) -> None:
    environment = service.environment("sendoff-claim")
    for channel in Channel:
        queue = environment[f"{channel.upper()}_QUEUE_URL"]
        assert service.named(queue, "QueueName") == f"sendoff-{channel}"


def routes(service: Template) -> dict[str, Resource]:
    return service.properties("AWS::ApiGatewayV2::Route", "RouteKey")


def function_behind(service: Template, route: Resource) -> str:
    integration = service.text["Resources"][route["Target"]["Fn::Join"][1][1]["Ref"]]
    return service.named(integration["Properties"]["IntegrationUri"], "FunctionName")


def test_the_routes_lead_where_the_contract_says(service: Template) -> None:
    assert {
        key: (function_behind(service, route), route["AuthorizationType"])
        for key, route in routes(service).items()
    } == {
        "$default": ("sendoff-ingest", "CUSTOM"),
        "GET /v1/health": ("sendoff-ingest", "NONE"),
        "GET /api/v1/health": ("sendoff-ingest", "NONE"),
        "POST /v1/callbacks/{provider}": ("sendoff-callbacks", "NONE"),
        "POST /api/v1/callbacks/{provider}": ("sendoff-callbacks", "NONE"),
    }


def test_the_authorizer_sees_every_request_even_without_a_key(service: Template) -> None:
    (authorizer,) = service.of_type("AWS::ApiGatewayV2::Authorizer").values()
    properties = authorizer["Properties"]
    assert properties["IdentitySource"] == []
    assert properties["AuthorizerResultTtlInSeconds"] == 0
    assert properties["AuthorizerPayloadFormatVersion"] == "2.0"
    assert properties["EnableSimpleResponses"] is True


def test_the_api_answers_before_its_gateway_gives_up(service: Template) -> None:
    assert service.functions["sendoff-ingest"]["Timeout"] < 30
    assert service.functions["sendoff-callbacks"]["Timeout"] < 30
    assert service.functions["sendoff-authorizer"]["Timeout"] < 10


def test_the_access_log_names_routes_and_never_paths(service: Template) -> None:
    (stage,) = service.of_type("AWS::ApiGatewayV2::Stage").values()
    written = stage["Properties"]["AccessLogSettings"]["Format"]
    assert "$context.routeKey" in written
    assert not [word for word in ("path", "query", "header", "identity") if word in written]


def test_claim_sweeper_and_reconcile_start_every_minute(service: Template) -> None:
    rules = service.properties("AWS::Events::Rule", "Name")
    scheduled = {name: rule for name, rule in rules.items() if "ScheduleExpression" in rule}
    assert set(scheduled) == {f"sendoff-{name}" for name in SCHEDULED}
    for name, rule in scheduled.items():
        assert rule["ScheduleExpression"] == "rate(1 minute)"
        (target,) = rule["Targets"]
        assert service.named(target["Arn"], "FunctionName") == name


def test_a_late_or_failed_start_is_dropped(service: Template) -> None:
    once = {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
    configured = {
        service.named(one["Properties"]["FunctionName"], "FunctionName"): one["Properties"]
        for one in service.of_type("AWS::Lambda::EventInvokeConfig").values()
    }
    for name in SCHEDULED:
        assert once.items() <= configured[f"sendoff-{name}"].items()
        rule = service.properties("AWS::Events::Rule", "Name")[f"sendoff-{name}"]
        assert rule["Targets"][0]["RetryPolicy"] == once


def test_the_claim_loop_ends_before_its_timeout_and_may_overlap_once(service: Template) -> None:
    function = service.functions["sendoff-claim"]
    assert float(service.environment("sendoff-claim")["RUN_SECONDS"]) == 150
    assert function["Timeout"] > 150
    assert function["ReservedConcurrentExecutions"] == 2


def waits_for(service: Template, resource: Resource) -> set[str]:
    """Return everything that is there before ``resource`` by its declared dependencies."""
    found: set[str] = set()
    todo = list(resource.get("DependsOn", []))
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += service.text["Resources"][name].get("DependsOn", [])
    return found


@pytest.mark.parametrize(
    "kind", ["AWS::Events::Rule", "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Function"]
)
def test_nothing_runs_on_tables_that_are_not_migrated(service: Template, kind: str) -> None:
    (migration,) = service.of_type("Custom::Migration")
    for resource in service.of_type(kind).values():
        migrating = resource["Properties"].get("FunctionName") == "sendoff-migrate"
        assert (migration in waits_for(service, resource)) is not migrating


def test_a_deploy_that_changes_a_migration_runs_it(service: Template) -> None:
    (migration,) = service.of_type("Custom::Migration").values()
    properties = migration["Properties"]
    assert service.named(properties["ServiceToken"], "FunctionName") == "sendoff-migrate"
    assert properties["Version"]
    assert int(properties["ServiceTimeout"]) > service.functions["sendoff-migrate"]["Timeout"], (
        "the function's own words must reach the operator first"
    )


def test_a_deploy_starts_the_loops_when_their_code_changes(aws: Assembly) -> None:
    service = aws["ServiceStack"]
    (started,) = service.of_type("Custom::Start").values()
    properties = started["Properties"]
    assert service.named(properties["ServiceToken"], "FunctionName") == "sendoff-migrate"
    names = [service.named(one, "FunctionName") for one in properties["Functions"]]
    assert names == ["sendoff-claim", "sendoff-sweeper", "sendoff-reconcile"]
    assert properties["Version"] == [service.functions[name]["Code"]["S3Key"] for name in names], (
        "another bundle runs it again"
    )
    allowed = rights(service, "migrate")["start"]
    assert allowed["Action"] == "lambda:InvokeFunction"
    may = {one["Fn::Join"][1][-1].rpartition(":")[2] for one in allowed["Resource"]}
    assert may == set(names)


def test_the_prefix_names_everything(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("prefix")
    named = synthesize(folder, target="local", prefix="blue")["ServiceStack"]
    for kind, name_property in (
        ("AWS::Lambda::Function", "FunctionName"),
        ("AWS::SQS::Queue", "QueueName"),
        ("AWS::Events::Rule", "Name"),
        ("AWS::Logs::LogGroup", "LogGroupName"),
        ("AWS::ApiGatewayV2::Api", "Name"),
        ("AWS::IAM::ManagedPolicy", "ManagedPolicyName"),
    ):
        names = named.properties(kind, name_property)
        assert names
        assert all("blue" in name and "sendoff" not in name for name in names)
    assert named.environment("blue-ingest")["SERVICE"] == "blue"
