"""The parts of the README that are made from the code. Run as a module, it writes them anew."""

import importlib
import re
from pathlib import Path

from functions.runtime.settings import variables
from tests.repo.repository import ROOT
from tests.repo.test_layout import DEPLOYABLE

README = ROOT / "README.md"
_BLOCK = re.compile(r"(<!-- configuration -->\n).*?(<!-- /configuration -->)", re.DOTALL)


def configuration_table() -> str:
    """Return the table of all environment variables, each with the functions that read it."""
    readers: dict[str, list[str]] = {}
    rows: dict[str, tuple[str, str]] = {}
    for name in sorted(DEPLOYABLE):
        settings = importlib.import_module(f"functions.{name}.settings").Settings
        for variable in variables(settings):
            readers.setdefault(variable.name, []).append(name)
            default = "required" if variable.required else f"`{variable.default}`"
            rows[variable.name] = ("–" if default == "``" else default, variable.meaning)
    lines = ["| variable | read by | default | meaning |", "|---|---|---|---|"]
    for name, (default, meaning) in rows.items():
        who = "all" if set(readers[name]) == DEPLOYABLE else ", ".join(readers[name])
        lines.append(f"| `{name}` | {who} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def written_anew(text: str) -> str:
    return _BLOCK.sub(lambda match: f"{match[1]}{configuration_table()}{match[2]}", text)


if __name__ == "__main__":
    path: Path = README
    path.write_text(written_anew(path.read_text(encoding="utf-8")), encoding="utf-8")
