"""Where the repository and the tools of a synthesis are."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".sendoff" / "bundles"


class ToolMissing(RuntimeError):
    """A program that the synthesis needs is not installed."""


def uv() -> str:
    """Return the path of uv; raise ToolMissing."""
    found = shutil.which("uv")
    if found is None:
        raise ToolMissing("uv is not on PATH; it fetches the packages for AWS: pip install uv")
    return found
