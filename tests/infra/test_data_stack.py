"""DataStack: what holds data is protected, encrypted, and reached by the functions alone."""

import json
from typing import Any

import pytest

from tests.infra.conftest import Assembly
from tests.infra.template import Template


@pytest.fixture(scope="module")
def data(aws: Assembly) -> Template:
    return aws["DataStack"]


def test_the_stack_is_protected_and_leaves_everything_behind(aws: Assembly, data: Template) -> None:
    manifest = json.loads((aws.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["artifacts"]["DataStack"]["properties"]["terminationProtection"] is True
    for resource in data.text["Resources"].values():
        assert resource["DeletionPolicy"] == "Retain"
        assert resource["UpdateReplacePolicy"] == "Retain"


def test_the_database_is_postgresql_18_in_two_zones(data: Template) -> None:
    instance = one(data, "AWS::RDS::DBInstance")
    assert (instance["Engine"], instance["EngineVersion"]) == ("postgres", "18")
    assert instance["MultiAZ"] is True
    assert instance["DeletionProtection"] is True
    assert instance["BackupRetentionPeriod"] >= 7
    assert instance["PubliclyAccessible"] is False
    assert instance["EnableIAMDatabaseAuthentication"] is True


def test_the_database_and_the_secrets_are_encrypted_with_our_key(data: Template) -> None:
    (key,) = data.of_type("AWS::KMS::Key")
    ours = {"Fn::GetAtt": [key, "Arn"]}
    instance = one(data, "AWS::RDS::DBInstance")
    assert instance["StorageEncrypted"] is True
    assert instance["KmsKeyId"] == ours
    assert instance["MasterUserSecret"]["KmsKeyId"] == ours
    for secret in data.of_type("AWS::SecretsManager::Secret").values():
        assert secret["Properties"]["KmsKeyId"] == ours


def test_the_owner_s_password_is_kept_by_rds_and_never_in_the_template(data: Template) -> None:
    instance = one(data, "AWS::RDS::DBInstance")
    assert instance["ManageMasterUserPassword"] is True
    assert instance["MasterUsername"] == "sendoff_owner"
    assert "MasterUserPassword" not in instance


def test_the_parameters_ask_for_tls_and_keep_rows_out_of_the_log(data: Template) -> None:
    parameters = one(data, "AWS::RDS::DBParameterGroup")["Parameters"]
    assert parameters["rds.force_ssl"] == "1"
    assert parameters["log_error_verbosity"] == "terse"
    assert int(parameters["idle_session_timeout"]) > 0


def test_only_the_functions_reach_the_database(data: Template) -> None:
    ingress = one(data, "AWS::EC2::SecurityGroupIngress")
    groups = data.of_type("AWS::EC2::SecurityGroup")
    (source,) = (name for name in groups if name.startswith("FunctionGroup"))
    (target,) = (name for name in groups if name.startswith("Database"))
    assert (ingress["IpProtocol"], ingress["FromPort"], ingress["ToPort"]) == ("tcp", 5432, 5432)
    assert ingress["SourceSecurityGroupId"] == {"Fn::GetAtt": [source, "GroupId"]}
    assert ingress["GroupId"] == {"Fn::GetAtt": [target, "GroupId"]}
    for group in groups.values():
        assert "SecurityGroupIngress" not in group["Properties"]


def test_senders_reach_the_internet_from_every_zone(data: Template) -> None:
    assert len(data.of_type("AWS::EC2::NatGateway")) == 2
    assert len(data.of_type("AWS::EC2::FlowLog")) == 1


def test_the_secrets_are_generated_in_the_shape_the_functions_read(data: Template) -> None:
    secrets = data.properties("AWS::SecretsManager::Secret", "Name")
    rests = {
        "sendoff/hash": {},
        "sendoff/callback": {"previous": "", "token": ""},
        "sendoff/gateway": {"previous": "", "token": ""},
        "sendoff/webhook": {"previous": ""},
        "sendoff/push": {},
    }
    assert set(secrets) == set(rests)
    for name, secret in secrets.items():
        generated = secret["GenerateSecretString"]
        assert generated["GenerateStringKey"] == "current"
        assert generated["PasswordLength"] == 44
        assert generated["ExcludePunctuation"] is True
        assert json.loads(generated["SecretStringTemplate"]) == rests[name]


def one(template: Template, kind: str) -> dict[str, Any]:
    """Return the properties of the only resource of ``kind``."""
    (resource,) = template.of_type(kind).values()
    return resource["Properties"]
