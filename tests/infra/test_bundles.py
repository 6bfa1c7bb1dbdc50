"""Each bundle holds what its function needs, and nothing a function never needs."""

import json
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from infra.bundling import aws_bundle, local_bundle
from infra.imports import imports_in
from infra.packages import LAMBDA, host, python_of
from infra.paths import ROOT
from tests.infra.conftest import Assembly
from tests.infra.template import Template
from tests.infra.test_service_stack import FOLDERS

folders = pytest.mark.parametrize("folder", sorted(set(FOLDERS.values())))
functions = pytest.mark.parametrize("name", list(FOLDERS))

AARCH64 = 183  # EM_AARCH64 in <elf.h>

IMPORT = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
module = importlib.import_module(sys.argv[2])
assert callable(module.handler)
ours = [one for one in sys.modules.values() if getattr(one, "__file__", None)]
foreign = [
    one.__file__ for one in ours
    if not one.__file__.startswith((sys.argv[1], sys.base_prefix))
    or "-packages" in one.__file__
]
print(json.dumps({"modules": sorted(sys.modules), "foreign": foreign}))
"""


def environment_of(service: Template, name: str) -> dict[str, str]:
    """Return what Lambda gives the function, with references as words."""
    settings = service.environment(f"sendoff-{name}")
    return {
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "LAMBDA_TASK_ROOT": "/var/task",
        **{key: service.resolved(value) for key, value in settings.items()},
    }


@cache
def imported(bundle: Path, *, folder: str, python: str, environment: str) -> frozenset[str]:
    """Import the handler in a process that sees the ``bundle`` alone; return all its modules."""
    command = [python, "-I", "-S", "-B", "-c", IMPORT, str(bundle), f"functions.{folder}.main"]
    done = subprocess.run(command, capture_output=True, text=True, env=json.loads(environment))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["foreign"] == []
    return frozenset(answer["modules"])


def modules_of(service: Template, name: str, python: str, version: tuple[int, int]) -> set[str]:
    """Return the modules that the function has after its import by ``python``."""
    folder = FOLDERS[name]
    return {
        *imported(
            aws_bundle(folder, platform=host(python, version)),
            folder=folder,
            python=python,
            environment=json.dumps(environment_of(service, name)),
        )
    }


@functions
def test_a_bundle_imports_in_a_clean_process_of_this_python(aws: Assembly, name: str) -> None:
    modules = modules_of(aws["ServiceStack"], name, sys.executable, sys.version_info[:2])
    assert f"functions.{FOLDERS[name]}.main" in modules


@functions
def test_a_bundle_imports_in_a_clean_process_of_lambda_s_python(aws: Assembly, name: str) -> None:
    python = python_of(LAMBDA.version)
    if python is not None:
        modules = modules_of(aws["ServiceStack"], name, python, LAMBDA.version)
        assert f"functions.{FOLDERS[name]}.main" in modules


@pytest.mark.parametrize(
    ("never", "names"),
    [
        ("pydantic", {*FOLDERS} - {"ingest", "callbacks"}),
        ("boto3", {*FOLDERS} - {"claim", "migrate", "console"}),
        ("aws_cdk", {*FOLDERS}),
    ],
)
def test_a_handler_never_imports_what_it_has_no_use_for(
    aws: Assembly, never: str, names: set[str]
) -> None:
    for name in sorted(names):
        modules = modules_of(aws["ServiceStack"], name, sys.executable, sys.version_info[:2])
        assert never not in modules, name


@folders
def test_every_native_file_is_built_for_lambda(folder: str) -> None:
    natives = [
        path
        for path in aws_bundle(folder).rglob("*")
        if path.suffix == ".so" or ".so." in path.name
    ]
    assert natives, "psycopg's own at the least"
    for path in natives:
        header = path.read_bytes()[:20]
        assert header[:4] == b"\x7fELF", path
        assert struct.unpack_from("<H", header, 18) == (AARCH64,), path
        if ".libs" not in path.parent.name:
            stable = path.name.endswith(".abi3.so")  # built once for every Python
            assert stable or ".cpython-313-aarch64-linux-gnu" in path.name, path


@folders
def test_every_import_of_ours_resolves_to_a_file_in_the_bundle(folder: str) -> None:
    bundle = aws_bundle(folder)
    for source in (bundle / "functions").rglob("*.py"):
        for module in imports_in(source.read_text(encoding="utf-8")):
            assert resolves(bundle, module), f"{source.relative_to(bundle)} imports {module}"


def resolves(bundle: Path, module: str) -> bool:
    """Whether ``module``, or the one that defines its last name, is in the bundle or in Python."""
    if module.partition(".")[0] in sys.stdlib_module_names:
        return True
    path = bundle.joinpath(*module.split("."))
    if (
        path.is_dir()
        or path.with_suffix(".py").is_file()
        or list(path.parent.glob(f"{path.name}.*.so"))
    ):
        return True
    return "." in module and defines(path.parent, path.name)


def defines(module: Path, name: str) -> bool:
    """Whether the source of ``module`` mentions ``name``."""
    file = (
        module.with_suffix(".py") if module.with_suffix(".py").is_file() else module / "__init__.py"
    )
    if not file.is_file():
        return False
    return name in file.read_text(encoding="utf-8")


@folders
def test_a_bundle_carries_only_its_own_folder_and_shared_code(folder: str) -> None:
    deployable = {path.parent.name for path in (ROOT / "functions").glob("*/main.py")}
    carried = {path.name for path in (aws_bundle(folder) / "functions").iterdir() if path.is_dir()}
    assert carried & deployable == {folder}
    assert "cli" not in carried


@folders
def test_migrations_travel_with_migrate_alone(folder: str) -> None:
    carried = sorted(path.name for path in aws_bundle(folder).glob("migrations/*.sql"))
    known = sorted(path.name for path in (ROOT / "migrations").glob("*.sql"))
    assert carried == (known if folder == "migrate" else [])


@folders
def test_bytecode_is_there_for_every_module_of_ours_where_it_can_be_compiled(folder: str) -> None:
    if python_of(LAMBDA.version) is None:
        return
    for source in (aws_bundle(folder) / "functions").rglob("*.py"):
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc"
        flags = struct.unpack_from("<I", compiled.read_bytes(), 4)
        assert flags == (0b01,), "hash-based, and checked by nobody"


def test_two_makings_of_a_bundle_are_the_same_to_the_byte(tmp_path: Path) -> None:
    first = aws_bundle("claim")
    second = aws_bundle("claim", cache=tmp_path)
    assert second.name == first.name
    assert contents(second) == contents(first)


def contents(bundle: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(bundle)): path.read_bytes()
        for path in sorted(bundle.rglob("*"))
        if path.is_file()
    }


def test_the_local_bundle_is_our_code_and_the_migrations_alone() -> None:
    bundle = local_bundle()
    assert {path.name for path in bundle.iterdir()} == {"functions", "migrations"}
    carried = {path.name for path in (bundle / "functions").iterdir() if path.is_dir()}
    assert set(FOLDERS.values()) < carried
    assert "cli" not in carried
    assert not [
        path for path in bundle.rglob("*") if path.is_file() and path.suffix not in (".py", ".sql")
    ]
