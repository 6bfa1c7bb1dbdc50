"""Which of our modules a function needs, and what of others they use, read from their source.

Reading instead of running: a bundle is put together for another machine and another Python, and
imports inside functions count as well.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "functions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """``files`` of ours, relative to the root; the top-level ``packages`` of others that they
    import; and the AWS ``services`` that they ask boto3 for."""

    files: tuple[Path, ...]
    packages: frozenset[str]
    services: frozenset[str]


def needs_of(module: str, *, root: Path) -> Needs:
    """Return what ``module`` (``functions.claim.main``) needs, directly or not."""
    files: set[Path] = set()
    packages: set[str] = set()
    services: set[str] = set()
    todo = [module]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        file = _file_of(name, root=root)
        if file is None:
            continue
        files.add(file)
        todo += _parents(name)
        source = (root / file).read_text(encoding="utf-8")
        services.update(services_in(source))
        for imported in imports_in(source):
            top = imported.partition(".")[0]
            if top == PACKAGE:
                todo.append(imported)
            elif top not in sys.stdlib_module_names:
                packages.add(top)
    return Needs(
        files=tuple(sorted(files)), packages=frozenset(packages), services=frozenset(services)
    )


def imports_in(source: str) -> Iterator[str]:
    """Yield every module that ``source`` imports at run time, anywhere in it.

    ``from a import b`` yields ``a`` and ``a.b``: which of the two is meant only the files know.
    """
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=otherwise):
                todo += otherwise
            case _:
                todo += ast.iter_child_nodes(node)


def services_in(source: str) -> Iterator[str]:
    """Yield the AWS services for which ``source`` makes a client: ``boto3.client("sqs", …)``, or
    one that sends, ``AwsClient("sesv2", …)``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="client") | ast.Name(id="AwsClient"),
                args=[ast.Constant(value=str(service)), *_],
            ):
                yield service
            case _:
                pass


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _file_of(name: str, *, root: Path) -> Path | None:
    """Return the file of our module ``name``; None where the name is something inside a module."""
    path = Path(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if (root / candidate).is_file():
            return candidate
    return None
