"""functions/requirements.txt: everything the functions ship, pinned by hash, and who needs whom.

``python -m infra.requirements`` writes it anew from the versions in pyproject.toml. The annotations
that uv writes (``# via``) are read back as the graph, so a bundle takes only what its code needs.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.paths import ROOT, uv

PATH = ROOT / "functions" / "requirements.txt"

SHIPPED = (
    "aws-lambda-powertools",
    "boto3",
    "cryptography",
    "email-validator",
    "google-auth",
    "orjson",
    "phonenumberslite",
    "psycopg",
    "pydantic",
    "python-liquid",
    "tzdata",
    "urllib3",
)
"""What the functions import; the rest of pyproject.toml serves the command line and the deploy."""

HEADER = "# Written by `uv run python -m infra.requirements`; the versions are pyproject.toml's.\n"
_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ;\\]+)")
_VIA = re.compile(r"#(?: via)?\s+(?!via$)(?P<name>[a-z0-9-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One distribution of the file; ``text`` is its lines as they stand, hashes included."""

    name: str
    version: str
    needed_by: frozenset[str]
    text: str


def read(text: str) -> dict[str, Pin]:
    """Return the pins in the ``text`` of a requirements file, by name."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if _PIN.match(line):
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
    return {pin.name: pin for pin in map(_pin, blocks)}


def _pin(block: list[str]) -> Pin:
    match = _PIN.match(block[0])
    if match is None:
        raise ValueError(f"This is no pinned requirement: {block[0]}")
    notes = (_VIA.fullmatch(line.strip()) for line in block[1:])
    return Pin(
        name=match["name"],
        version=match["version"],
        needed_by=frozenset(note["name"] for note in notes if note),
        text="\n".join(block) + "\n",
    )


def closure(pins: Mapping[str, Pin], names: Iterable[str]) -> set[str]:
    """Return ``names`` and everything they need, directly or not."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        todo += [pin.name for pin in pins.values() if name in pin.needed_by]
    return found


def shipped(project: Mapping[str, Any]) -> list[str]:
    """Return the requirements in pyproject.toml of what the functions import."""
    wanted = {
        re.split(r"[\[=<>~! ]", requirement, maxsplit=1)[0]: requirement
        for requirement in project["project"]["dependencies"]
    }
    return [wanted[name] for name in SHIPPED]


def compile_pins(requirements: Iterable[str]) -> str:
    """Return the text of the file for ``requirements``; asks the package index."""
    command = [
        uv(), "pip", "compile", "--universal", "--python-version", "3.11", "--generate-hashes",
        "--no-emit-index-url", "--no-header", "--quiet", "-",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        input="\n".join(requirements),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return HEADER + done.stdout


def write(path: Path = PATH) -> None:
    """Write the file anew."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    path.write_text(compile_pins(shipped(project)), encoding="utf-8")


if __name__ == "__main__":
    write()
