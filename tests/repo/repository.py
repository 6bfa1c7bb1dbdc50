"""The repository as its own rules see it: the files git tracks or would track, and their syntax."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def files() -> tuple[Path, ...]:
    """Return every file that is tracked, or neither tracked nor ignored, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(
        path for name in listed.split("\0") if name and (ROOT / (path := Path(name))).is_file()
    )


def python_files(*tops: str) -> list[Path]:
    """Return the Python files below the folders ``tops`` (all when none is named)."""
    return [
        path for path in files() if path.suffix == ".py" and (not tops or path.parts[0] in tops)
    ]


@cache
def text_of(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), filename=str(path))


def imports_of(path: Path) -> set[str]:
    """Return the dotted names of every module that ``path`` imports, wherever it does."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names
