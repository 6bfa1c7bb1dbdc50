"""Both targets, synthesized once per test process: no account, no network, no bundle."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Validations
from aws_cdk import aws_lambda as lambda_
from cdk_nag import AwsSolutionsChecks

from infra.app import build
from infra.paths import ROOT
from tests.infra.template import Template

GATEWAY_URL = "https://gateway.example/send"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What one synthesis wrote: the templates by stack, and what cdk-nag said."""

    folder: Path
    templates: dict[str, Template]
    nag: dict[str, Any]

    def __getitem__(self, stack: str) -> Template:
        return self.templates[stack]


def synthesize(folder: Path, **context: str) -> Assembly:
    """Synthesize the app into ``folder`` with one empty folder in place of every bundle."""
    bundle = folder / "bundle"
    bundle.mkdir(parents=True)
    (bundle / "empty.py").touch()
    settings = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))
    app = App(
        outdir=str(folder / "out"),
        context={**settings["context"], "gateway_url": GATEWAY_URL, **context},
    )
    build(app, code=lambda _folder: lambda_.Code.from_asset(str(bundle)))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    report = json.loads((folder / "out" / "validation-report.json").read_text(encoding="utf-8"))
    return Assembly(
        folder=folder / "out",
        templates={
            path.name.removesuffix(".template.json"): Template.read(path)
            for path in sorted((folder / "out").glob("*.template.json"))
        },
        nag=next(one for one in report["pluginReports"] if one["pluginName"] == "AwsSolutions"),
    )


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize(tmp_path_factory.mktemp("aws"), target="aws")


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize(tmp_path_factory.mktemp("local"), target="local")


@pytest.fixture(scope="session", params=["aws", "local"])
def service(request: pytest.FixtureRequest) -> Template:
    """ServiceStack of each target in turn."""
    return request.getfixturevalue(request.param)["ServiceStack"]
