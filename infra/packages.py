"""The packages of others for one platform: installed once by hash, then copied by distribution."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PathDistribution
from pathlib import Path

from infra.paths import CACHE, uv
from infra.staging import make_once

LAMBDA_ROOT = "/var/task"
"""Where Lambda unpacks a bundle: what tracebacks of compiled code name."""

# Written at install, different each time or of no use at run time.
_LEFT_OUT = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """For whom packages are chosen: ``arguments`` of uv; bytecode for a Python of ``version``."""

    name: str
    version: tuple[int, int]
    arguments: tuple[str, ...]


LAMBDA = Platform(
    name="arm64",
    version=(3, 13),
    arguments=("--python-platform", "aarch64-manylinux_2_28", "--python-version", "3.13"),
)


def host(python: str = sys.executable, version: tuple[int, int] = sys.version_info[:2]) -> Platform:
    """Return the platform of a ``python`` on this machine: what tests can import."""
    return Platform(
        name=f"host-{version[0]}.{version[1]}", version=version, arguments=("--python", python)
    )


def install(requirements: str, platform: Platform, *, cache: Path = CACHE) -> Path:
    """Return a folder with all of ``requirements``, a file's text, installed for ``platform``."""
    compiler = python_of(platform.version)
    key = f"{requirements}\0{platform.arguments}\0{compiler is not None}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]

    def fill(stage: Path) -> None:
        _fetch(requirements, platform, stage)
        compile_bytecode(stage, compiler)

    return make_once(cache / f"packages-{platform.name}-{digest}", fill)


def _fetch(requirements: str, platform: Platform, stage: Path) -> None:
    command = [
        uv(), "pip", "install", "--quiet", *platform.arguments, "--only-binary", ":all:",
        "--require-hashes", "--no-compile", "--no-deps", "--link-mode", "copy",
        "--target", str(stage), "--requirements", "-",
    ]  # fmt: skip
    done = subprocess.run(command, input=requirements, capture_output=True, text=True)
    if done.returncode != 0:
        raise PackagesUnavailable(f"uv cannot install the packages: {done.stderr.strip()[-2000:]}")


class PackagesUnavailable(RuntimeError):
    """The packages could not be fetched or do not match their hashes."""


def compile_bytecode(folder: Path, python: str | None) -> None:
    """Compile what lies in ``folder`` for Lambda's read-only disk; without a ``python`` do nothing.

    Checked by nobody at run time (``unchecked-hash``), and the same bytes from the same source.
    """
    if python is None:
        return
    command = [
        python, "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash",
        "-s", str(folder), "-p", LAMBDA_ROOT, str(folder),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)


@cache
def python_of(version: tuple[int, int]) -> str | None:
    """Return a Python of exactly ``version`` on this machine, or None."""
    if version == sys.version_info[:2]:
        return sys.executable
    for candidate in _candidates(f"{version[0]}.{version[1]}"):
        # A name on PATH can be a stub that only says that there is no such version.
        ask = [str(candidate), "-c", "import sys; print(tuple(sys.version_info[:2]))"]
        answer = subprocess.run(ask, capture_output=True, text=True)
        if answer.returncode == 0 and answer.stdout.strip() == str(version):
            return str(candidate)
    return None


def _candidates(version: str) -> list[Path]:
    home = Path.home()
    found = shutil.which(f"python{version}")
    return [
        *([Path(found)] if found else []),
        *sorted((home / ".local/share/uv/python").glob(f"cpython-{version}*/bin/python{version}")),
        *sorted((home / ".pyenv/versions").glob(f"{version}.*/bin/python{version}")),
    ]


def files_of(packages: Path, names: Iterable[str], *, services: Collection[str]) -> list[Path]:
    """Return the files of the distributions ``names``, relative to the folder ``packages``.

    Of the descriptions of all AWS services, the greater part of boto3, only those of ``services``;
    of Babel, which liquid imports, no locales: no filter of our templates formats by them.
    """
    known = catalogue(packages)
    files = (file for name in names for file in known.get(name, ()))
    return sorted(file for file in files if not _is_left_out(file, services))


def _is_left_out(file: Path, services: Collection[str]) -> bool:
    match file.parts:
        case ("botocore", "data", service, _, *_):
            return service not in services
        case ("boto3", "data" | "examples", *_):  # of the resource interface, which nobody uses
            return True
        case ("babel", "locale-data", *_):
            return True
        case _:
            return False


def owners(packages: Path, top_levels: Iterable[str]) -> set[str]:
    """Return the distributions that bring the modules ``top_levels``, every one of them."""
    bringing = {
        file.parts[0].partition(".")[0]: name
        for name, files in catalogue(packages).items()
        for file in files
        if not file.parts[0].endswith(".dist-info")
    }
    wanted = set(top_levels)
    if missing := wanted - bringing.keys():
        raise PackagesUnavailable(
            f"functions/requirements.txt brings no {', '.join(sorted(missing))}."
        )
    return {bringing[top_level] for top_level in wanted}


@cache
def catalogue(packages: Path) -> Mapping[str, tuple[Path, ...]]:
    """Return what is installed in ``packages``: the files of each distribution by its name.

    Relative to the folder, bytecode included; without scripts and what only installers read.
    """
    compiled: dict[Path, list[Path]] = {}
    for path in packages.rglob("__pycache__/*.pyc"):
        source = path.parent.parent / f"{path.name.partition('.')[0]}.py"
        compiled.setdefault(source.relative_to(packages), []).append(path.relative_to(packages))
    found: dict[str, tuple[Path, ...]] = {}
    for folder in packages.glob("*.dist-info"):
        distribution = PathDistribution(folder)
        recorded = (Path(*entry.parts) for entry in distribution.files or ())
        kept = [file for file in recorded if _is_of_use(file)]
        bytecode = [path for file in kept for path in compiled.get(file, ())]
        found[distribution.name.lower().replace("_", "-")] = (*kept, *bytecode)
    return found


def _is_of_use(file: Path) -> bool:
    return ".." not in file.parts and file.parts[0] != "bin" and file.name not in _LEFT_OUT


if __name__ == "__main__":
    major, _, minor = sys.argv[1].partition(".")
    found = python_of((int(major), int(minor)))
    sys.stdout.write(f"{found}\n" if found else "")
    sys.exit(0 if found else 1)
