"""The README says what is true: its tables come from the code, its commands are the real ones."""

import re

import typer

from functions.cli.main import app
from infra.local.synthesis import CDK
from tests.repo.readme import README, written_anew
from tests.repo.repository import ROOT

TEXT = README.read_text(encoding="utf-8")
FIRST_SCREEN = "\n".join(TEXT.splitlines()[:40])


def test_the_first_screen_has_the_two_commands() -> None:
    assert "python3 -m pip install -q uv && uv run sendoff demo\n" in FIRST_SCREEN
    assert "python3 -m pip install -q uv && uv run pytest\n" in FIRST_SCREEN


def test_the_gate_runs_the_test_command() -> None:
    assert "\nuv run pytest\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_configuration_is_that_of_the_settings() -> None:
    assert written_anew(TEXT) == TEXT, "run: uv run python -m tests.repo.readme"


def commands_of(group: typer.Typer) -> set[str]:
    return {
        command.name or (command.callback.__name__ if command.callback else "")
        for command in group.registered_commands
    } | {one.name for one in group.registered_groups if one.name}


def test_every_command_it_names_exists() -> None:
    groups = {
        group.name: commands_of(group.typer_instance)
        for group in app.registered_groups
        if group.name and group.typer_instance
    }
    named = set(re.findall(r"\bsendoff ([a-z]+)(?: ([a-z]+))?", TEXT))
    assert {first for first, _ in named} - commands_of(app) - set(groups) == set()
    for first, second in named:
        if first in groups and second:
            assert second in groups[first], f"sendoff {first} {second}"


def test_it_pins_the_cdk_that_the_local_stack_uses() -> None:
    assert set(re.findall(r"aws-cdk@[\d.]+", TEXT)) == {CDK}
