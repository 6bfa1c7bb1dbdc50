"""The local target is the deployed definition, but for a listed set."""

from fnmatch import fnmatchcase

from infra.config import API_ID_TAG, api_id, assets_bucket
from infra.differences import LOCAL_DIFFERENCES
from tests.infra.conftest import Assembly
from tests.infra.template import Template

# Refused by the emulator, with the whole stack (LOCAL.md).
REFUSED_TYPES = (
    "AWS::CloudWatch::CompositeAlarm",
    "AWS::CodeDeploy::",
    "AWS::EC2::FlowLog",
    "AWS::EC2::NatGateway",
    "AWS::EC2::SecurityGroup",
    "AWS::RDS::DBProxy",
    "AWS::SMSVOICE::",
)


def differences(one: Template, other: Template) -> list[str]:
    """Return the paths whose values differ between two templates."""
    left, right = one.leaves(), other.leaves()
    absent = object()
    return sorted(
        path for path in left | right if left.get(path, absent) != right.get(path, absent)
    )


def unlisted(one: Template, other: Template) -> list[str]:
    return [
        path
        for path in differences(one, other)
        if not any(fnmatchcase(path, difference.where) for difference in LOCAL_DIFFERENCES)
    ]


def test_the_local_template_differs_only_in_the_listed_set(aws: Assembly, local: Assembly) -> None:
    assert unlisted(aws["ServiceStack"], local["ServiceStack"]) == []


def test_any_other_difference_is_found(aws: Assembly, local: Assembly) -> None:
    changed = local["ServiceStack"].copy()
    changed.functions["sendoff-claim"]["MemorySize"] = 128
    changed.functions["sendoff-ingest"]["Timeout"] = 5
    changed.queues["sendoff-sms"]["MessageRetentionPeriod"] = 60
    source = next(iter(changed.of_type("AWS::Lambda::EventSourceMapping").values()))
    source["Properties"].pop("FunctionResponseTypes")
    found = unlisted(aws["ServiceStack"], changed)
    assert {path.rsplit("/", 1)[-1] for path in found} == {
        "MemorySize",
        "Timeout",
        "MessageRetentionPeriod",
        "0",  # of FunctionResponseTypes
    }


def test_every_listed_difference_is_one(aws: Assembly, local: Assembly) -> None:
    found = differences(aws["ServiceStack"], local["ServiceStack"])
    for difference in LOCAL_DIFFERENCES:
        assert any(fnmatchcase(path, difference.where) for path in found), difference.where
        assert difference.why


def test_the_local_target_is_service_stack_alone(local: Assembly) -> None:
    assert list(local.templates) == ["ServiceStack"]


def test_the_emulator_takes_every_type_of_the_local_template(local: Assembly) -> None:
    types = {resource["Type"] for resource in local["ServiceStack"].text["Resources"].values()}
    assert not [kind for kind in types if kind.startswith(REFUSED_TYPES)]


def test_one_local_template_serves_every_port(local: Assembly) -> None:
    parameters = local["ServiceStack"].text["Parameters"]
    assert set(parameters) == {
        "DatabaseHost",
        "DatabasePort",
        "DatabaseName",
        "DatabaseUser",
        "OperatorDatabaseUser",
        "DatabaseAuth",
        "MigrateDatabaseUser",
        "HashSecretArn",
        "CallbackSecretArn",
        "GatewaySecretArn",
        "WebhookSecretArn",
        "PushSecretArn",
        "PublicUrl",
        "OwnNetworks",
        "GatewayUrl",
        "LocalWebhookOrigin",
        "EventSources",
        "EventDetailTypes",
    }


def test_both_targets_take_the_gateway_and_the_local_origin(aws: Assembly) -> None:
    parameters = aws["ServiceStack"].text["Parameters"]
    assert set(parameters) == {
        "GatewayUrl",
        "LocalWebhookOrigin",
        "PublicUrl",
        "OwnNetworks",
        "EventSources",
        "EventDetailTypes",
    }
    assert parameters["PublicUrl"]["Default"] == parameters["OwnNetworks"]["Default"] == ""
    assert parameters["LocalWebhookOrigin"]["Default"] == ""
    assert parameters["GatewayUrl"]["Default"] == "https://gateway.example/send"


def test_the_emulator_knows_the_api_and_the_bucket_by_name(local: Assembly) -> None:
    api = next(iter(local["ServiceStack"].of_type("AWS::ApiGatewayV2::Api").values()))
    assert api["Properties"]["Tags"] == {API_ID_TAG: api_id("sendoff")}
    assert len(bytes.fromhex(api_id("sendoff"))) == 4
    code = local["ServiceStack"].functions["sendoff-ingest"]["Code"]
    assert code["S3Bucket"] == assets_bucket("sendoff")
