"""functions/requirements.txt: pinned by hash, in step with pyproject.toml, and read as a graph."""

import re
import tomllib
from typing import Any

import pytest

from infra import requirements
from infra.paths import ROOT
from infra.requirements import SHIPPED, Pin, closure


@pytest.fixture(scope="module")
def text() -> str:
    return requirements.PATH.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pins(text: str) -> dict[str, Pin]:
    return requirements.read(text)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_pin_carries_its_hashes_and_the_file_names_no_host(
    text: str, pins: dict[str, Pin]
) -> None:
    assert pins
    for pin in pins.values():
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", pin.text), pin.name
    assert "://" not in text
    assert "--index" not in text


def test_the_versions_are_those_of_pyproject(pins: dict[str, Pin], project: dict[str, Any]) -> None:
    for requirement in requirements.shipped(project):
        name, _, version = requirement.partition("==")
        assert pins[name.partition("[")[0]].version == version


def test_what_is_installed_here_is_what_ships(
    pins: dict[str, Pin], project: dict[str, Any]
) -> None:
    constraints: list[str] = (
        project.get("tool", {}).get("uv", {}).get("constraint-dependencies", [])
    )
    for constraint in constraints:
        name, _, version = constraint.partition(";")[0].strip().partition("==")
        if name in pins:
            assert pins[name].version == version


def test_the_graph_leads_from_a_package_to_all_it_needs(pins: dict[str, Pin]) -> None:
    assert closure(pins, ["botocore"]) == {
        "botocore",
        "jmespath",
        "python-dateutil",
        "six",
        "urllib3",
    }
    assert "psycopg-binary" in closure(pins, ["psycopg"])
    assert "pydantic-core" in closure(pins, ["pydantic"])
    assert closure(pins, ["orjson"]) == {"orjson"}
    assert closure(pins, SHIPPED) == set(pins)


def test_a_note_on_one_line_or_on_several_is_read_alike() -> None:
    pins = requirements.read(
        "# a header\n"
        "one==1.0 \\\n    --hash=sha256:aa\n    # via two\n"
        "three==3.0 ; sys_platform == 'win32' \\\n    --hash=sha256:bb\n"
        "    # via\n    #   one\n    #   two\n"
    )
    assert pins["one"].needed_by == {"two"}
    assert pins["three"].needed_by == {"one", "two"}
    assert pins["three"].version == "3.0"
