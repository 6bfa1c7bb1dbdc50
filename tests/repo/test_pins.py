"""Every dependency is pinned: directly, or by a constraint; what ships is pinned with hashes."""

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from tests.repo.repository import text_of

PROJECT: dict[str, Any] = tomllib.loads(text_of(Path("pyproject.toml")))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)(?:\s*;.*)?", line)
        assert match, f"{line!r} is not pinned to one version"
        found[canonical(match[1])] = match[2]
    return found


def test_direct_dependencies_name_one_version() -> None:
    assert pins(PROJECT["project"]["dependencies"])
    assert pins(PROJECT["dependency-groups"]["dev"])
    assert pins(PROJECT["build-system"]["requires"])


def test_everything_installed_is_pinned() -> None:
    known = (
        pins(PROJECT["project"]["dependencies"])
        | pins(PROJECT["dependency-groups"]["dev"])
        | pins(PROJECT["tool"]["uv"]["constraint-dependencies"])
    )
    installed = {
        canonical(distribution.metadata["Name"]): distribution.version
        for distribution in distributions()
    }
    loose = {
        name: version
        for name, version in installed.items()
        if name not in ("sendoff", "pip", "uv") and known.get(name) != version
    }
    assert loose == {}


def test_what_ships_has_the_versions_of_the_project() -> None:
    text = text_of(Path("functions/requirements.txt"))
    for_linux = re.sub(r"^.*; sys_platform == 'win32'.*$", "", text, flags=re.MULTILINE)
    shipped = dict(re.findall(r"^([a-z0-9-]+)==([^\s;\\]+)", for_linux, re.MULTILINE))
    assert shipped
    assert text.count("--hash=sha256:") >= len(shipped)
    assert "index-url" not in text
    known = pins(PROJECT["project"]["dependencies"]) | pins(
        PROJECT["tool"]["uv"]["constraint-dependencies"]
    )
    assert {name: known.get(name) for name in shipped} == shipped
