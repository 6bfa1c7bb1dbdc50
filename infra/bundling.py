"""What goes into a function's zip, put together without Docker.

Local: our own code and the migrations, nothing else; the emulator's workers bring the packages.
AWS: per function the modules it imports, the packages they import, and bytecode for Lambda's disk,
which is read-only, where a Python of Lambda's version is at hand.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from infra import requirements
from infra.imports import PACKAGE, needs_of
from infra.packages import LAMBDA, Platform, compile_bytecode, files_of, install, owners, python_of
from infra.paths import CACHE, ROOT
from infra.staging import copy, link, make_once

NEVER_SHIPPED = ("cli",)
"""Folders of ``functions/`` that no Lambda function may carry."""

MIGRATING = "migrate"
"""The one function that carries the migrations."""

_RULES = hashlib.sha256(
    b"".join((ROOT / "infra" / name).read_bytes() for name in ("bundling.py", "packages.py"))
).hexdigest()
"""Another rule makes another bundle of the same content."""


def local_bundle(*, root: Path = ROOT, cache: Path = CACHE) -> Path:
    """Return a folder with ``functions/`` and ``migrations/`` in it, made once per content."""
    files = _own_files(root)
    return make_once(
        cache / f"local-{_digest(files, root=root)}",
        lambda stage: copy(files, root=root, target=stage),
    )


def aws_bundle(
    folder: str, *, platform: Platform = LAMBDA, root: Path = ROOT, cache: Path = CACHE
) -> Path:
    """Return the bundle of ``functions/<folder>`` for ``platform``, made once per content."""
    text = (root / PACKAGE / "requirements.txt").read_text(encoding="utf-8")
    needs = needs_of(f"{PACKAGE}.{folder}.main", root=root)
    own = [*needs.files, *(_migrations(root) if folder == MIGRATING else ())]
    packages = install(text, platform, cache=cache)
    wanted = requirements.closure(requirements.read(text), owners(packages, needs.packages))
    salt = (_RULES, packages.name, *sorted(wanted), *sorted(needs.services))

    def fill(stage: Path) -> None:
        copy(own, root=root, target=stage)
        compile_bytecode(stage, python_of(platform.version))
        others = files_of(packages, wanted, services=needs.services)
        link(others, root=packages, target=stage)

    return make_once(cache / f"{folder}-{_digest(own, root=root, salt=salt)}", fill)


def _own_files(root: Path) -> list[Path]:
    """Return everything of ours that some function may need, relative to ``root``."""
    code = (path.relative_to(root) for path in (root / PACKAGE).rglob("*.py"))
    shipped = [path for path in code if path.parts[1] not in NEVER_SHIPPED]
    return [*sorted(shipped), *_migrations(root)]


def _migrations(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in (root / "migrations").glob("*.sql"))


def _digest(files: Iterable[Path], *, root: Path, salt: Iterable[str] = ()) -> str:
    """Return a digest of the names and contents of ``files``."""
    sha256 = hashlib.sha256("\n".join(salt).encode())
    for file in files:
        content = (root / file).read_bytes()
        sha256.update(f"\0{file.as_posix()}\0{len(content)}\0".encode())
        sha256.update(content)
    return sha256.hexdigest()[:16]
