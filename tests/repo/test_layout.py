"""The fixed layout of the repository, and what may not stand in it."""

import ast
import re
import subprocess
from pathlib import Path

from tests.repo.repository import ROOT, files, imports_of, python_files, text_of, tree_of

TOP_LEVEL = {
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "cdk.json",
    "functions",
    "infra",
    "migrations",
    "events",
    "tests",
}
DEPLOYABLE = {
    "ingest",
    "authorizer",
    "claim",
    "sender",
    "callbacks",
    "reconcile",
    "sweeper",
    "migrate",
    "console",
}
SHARED = {"core", "store", "providers", "templates", "runtime", "cli"}
MAX_LINES = 330


def test_only_the_named_entries_stand_at_the_top() -> None:
    extra = {path.parts[0] for path in files()} - TOP_LEVEL
    assert {name for name in extra if not name.startswith(".")} == set()


def test_nothing_in_functions_is_deeper_than_one_folder() -> None:
    assert [path for path in python_files("functions") if len(path.parts) > 3] == []


def test_a_folder_is_deployable_exactly_when_it_has_a_main() -> None:
    folders = {path.parts[1] for path in python_files("functions") if len(path.parts) == 3}
    with_main = {path.parts[1] for path in files() if path.match("functions/*/main.py")}
    assert folders == DEPLOYABLE | SHARED
    assert with_main == DEPLOYABLE | {"cli"}


def test_every_deployable_declares_its_settings() -> None:
    with_settings = {path.parts[1] for path in files() if path.match("functions/*/settings.py")}
    assert with_settings == DEPLOYABLE | {"runtime"}  # runtime has what reads them


def test_handlers_stay_thin() -> None:
    for path in files():
        if path.match("functions/*/main.py") and path.parts[1] in DEPLOYABLE:
            code = [
                node
                for node in tree_of(path).body[1:]
                if not isinstance(node, ast.Import | ast.ImportFrom)
            ]
            lines = sum((node.end_lineno or 0) - node.lineno + 1 for node in code)
            assert lines <= 40, f"{path} has {lines} lines of code"


def test_modules_stay_readable() -> None:
    long = {
        str(path): count
        for path in python_files("functions", "infra")
        if (count := text_of(path).count("\n")) > MAX_LINES
    }
    assert long == {}


def test_every_module_opens_with_its_responsibility() -> None:
    silent = [
        str(path)
        for path in python_files("functions", "infra", "tests")
        if text_of(path).strip() and not text_of(path).lstrip().startswith(('"""', 'r"""'))
    ]
    assert silent == []


def test_no_module_is_named_for_nothing() -> None:
    empty_names = {"utils", "common", "helpers", "manager", "service", "base", "misc"}
    assert [path for path in python_files() if path.stem in empty_names] == []


def test_the_environment_is_read_at_the_edges_only() -> None:
    def may_read(path: Path) -> bool:
        return (
            path.parts[0] == "tests"
            or path.parts[:2] in (("functions", "cli"), ("infra", "local"))
            or path.match("functions/*/main.py")
            or path == Path("infra/app.py")
        )

    readers = [
        str(path)
        for path in python_files()
        if re.search(r"\bos\.(environ|getenv)\b", text_of(path)) and not may_read(path)
    ]
    assert readers == []


def test_the_stacks_read_functions_as_files() -> None:
    allowed = re.compile(
        r"functions\.(\w+\.settings|runtime\.settings|core\.(states|metric))(\.\w+)?|functions\.core"
    )
    for path in python_files("infra"):
        if path.parts[1] != "local":
            used = {name for name in imports_of(path) if name.split(".")[0] == "functions"}
            assert [name for name in used if not allowed.fullmatch(name)] == [], path


def test_no_product_code_is_replaced_in_tests() -> None:
    patched = [
        str(path)
        for path in python_files("tests")
        if re.search(r"\bmock\.patch|\bmocker\b|unittest\.mock|monkeypatch\.setattr", text_of(path))
        and path != Path("tests/repo/test_layout.py")
    ]
    assert patched == []


def test_sql_is_a_constant_never_a_built_string() -> None:
    for path in python_files("functions"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(part.value) for part in node.values if isinstance(part, ast.Constant)
                )
                keyword = r"\b(SELECT .* FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM)\b"
                assert not re.search(keyword, text), f"{path}:{node.lineno}"


def test_no_host_of_a_registry_and_no_path_of_a_machine_is_named() -> None:
    hosts = r"pythonhosted\.|pypi\.o[r]g|registry\.npmj[s]|deb\.debia[n]\.org"
    paths = r"(?:^|[^A-Za-z0-9_./-])/(?:wor[k]|far[m]|roo[t]|hom[e])/"
    pattern = f"{hosts}|{paths}"
    found = subprocess.run(
        ["git", "grep", "--untracked", "-nIP", pattern, "--", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert found.stdout == ""


def test_there_is_no_lock_file() -> None:
    assert Path("uv.lock") not in files()
    assert Path(".python-version") not in files()
