"""The cached cloud assembly, and the processes that make and deploy it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.local import synthesis
from infra.local.state import REPOSITORY
from infra.local.synthesis import DeploymentFailed
from tests.local import is_gone, until


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small tree of everything that the synthesis reads."""
    root = tmp_path / "repository"
    for name in ("functions/core/states.py", "infra/app.py", "migrations/0001_create_tenants.sql"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, root / name)
    for name in ("cdk.json", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, root / name)
    return root


@pytest.mark.parametrize(
    "name",
    ["functions/core/states.py", "infra/app.py", "migrations/0002_new.sql", "cdk.json"],
)
def test_every_input_changes_where_the_assembly_belongs(
    name: str, repository: Path, tmp_path: Path
) -> None:
    before = synthesis.assembly(tmp_path, repository=repository)
    assert synthesis.assembly(tmp_path, repository=repository) == before
    with (repository / name).open("a") as file:
        file.write("\n")
    assert synthesis.assembly(tmp_path, repository=repository) != before


def test_compiled_files_and_documents_change_nothing(repository: Path, tmp_path: Path) -> None:
    before = synthesis.assembly(tmp_path, repository=repository)
    (repository / "functions" / "__pycache__").mkdir()
    (repository / "functions" / "__pycache__" / "one.pyc").write_bytes(b"1")
    (repository / "README.md").write_text("words")
    assert synthesis.assembly(tmp_path, repository=repository) == before


def test_the_newest_few_assemblies_are_kept_and_an_unfinished_one_is_none(tmp_path: Path) -> None:
    for number in range(6):
        path = tmp_path / f"assembly {number}"
        unfinished = tmp_path / f"assembly {number}.unfinished"
        unfinished.mkdir()
        (unfinished / "manifest.json").write_text("{}")
        os.utime(unfinished, (number, number))
        assert not synthesis.is_complete(path)
        synthesis.keep(path)
        assert synthesis.is_complete(path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "assembly 3", "assembly 4", "assembly 5",
    ]  # fmt: skip


def test_the_wheels_node_comes_before_the_one_of_the_system() -> None:
    environment = synthesis.node_environment({"PATH": "/usr/bin", "HOME": "/somewhere"})
    first, *rest = environment["PATH"].split(os.pathsep)
    assert Path(first) == synthesis.node_binaries()
    assert rest == ["/usr/bin"]
    assert environment["HOME"] == "/somewhere"
    version = subprocess.run(
        [str(synthesis.node_binaries() / "node"), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.startswith("v24.")


def test_the_command_line_is_found_in_what_npx_printed(tmp_path: Path) -> None:
    script = tmp_path / "cache" / "cdk"
    script.parent.mkdir()
    script.write_text("")
    log = tmp_path / "npx.log"
    assert synthesis.found_cdk(log) is None
    log.write_text(f"npm warn Unknown user config\n{script}\n")
    assert synthesis.found_cdk(log) == script
    script.unlink()
    assert synthesis.found_cdk(log) is None


def task(code: str, log: Path) -> synthesis.Task:
    return synthesis.start_task(
        [sys.executable, "-c", code], what="The deployment", log=log, environment=os.environ
    )


def test_a_task_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    failing = task("print('first'); print('why'); raise SystemExit(1)", tmp_path / "log")
    with pytest.raises(DeploymentFailed, match=r"The deployment failed.*\nfirst\nwhy$"):
        failing.finish()


def test_a_task_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    waiting = task("import time; print('waiting', flush=True); time.sleep(600)", tmp_path / "log")
    with pytest.raises(DeploymentFailed, match="took more than 0 s"):
        waiting.finish(timeout_seconds=0)
    assert until(lambda: is_gone(waiting.process.pid))
