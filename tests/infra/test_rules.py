"""The rules of others: cdk-nag and cfn-lint, with a reason for everything that is let pass."""

import subprocess
import sys
from pathlib import Path

from infra.channel import SENDING
from tests.infra.conftest import Assembly

ACKNOWLEDGED = {
    "AwsSolutions::AwsSolutions-APIG4",
    "AwsSolutions::AwsSolutions-IAM5[Resource::*]",
    "AwsSolutions::AwsSolutions-L1",
    "AwsSolutions::AwsSolutions-RDS11",
    "AwsSolutions::AwsSolutions-SMG4",
    "AwsSolutions::AwsSolutions-SQS3",
    *(acknowledgment.id for one in SENDING.values() for acknowledgment in one.acknowledgments()),
}

LET_PASS = {
    "W3005": "CDK writes out that a function depends on its role, which the ARN implies.",
}


def test_cdk_nag_finds_nothing_that_is_not_acknowledged_with_a_reason(
    aws: Assembly, local: Assembly
) -> None:
    for assembly in (aws, local):
        assert assembly.nag["violations"] == []
        assert assembly.nag["conclusion"] == "success"
        assert all(one["reason"].endswith(".") for one in assembly.nag["suppressedViolations"])


def test_nothing_is_acknowledged_that_does_not_occur(aws: Assembly) -> None:
    occurring = {one["acknowledgedId"] for one in aws.nag["suppressedViolations"]}
    assert occurring == ACKNOWLEDGED


def test_cfn_lint_passes_every_template(aws: Assembly, local: Assembly) -> None:
    templates = [
        str(path)
        for assembly in (aws, local)
        for path in sorted(assembly.folder.glob("*.template.json"))
    ]
    assert len(templates) == 4
    command = [
        str(Path(sys.executable).with_name("cfn-lint")),
        "--ignore-checks",
        *LET_PASS,
        "--",
        *templates,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
