"""A folder of templates as files: what it holds, or which file and line is at fault.

<folder>/<name>/template.toml                      default_locale = "en"
<folder>/<name>/<channel>.<locale>.<part>.liquid   email.en.subject.liquid, sms.de-AT.text.liquid, …

The line break that an editor puts at the end of a file is no part of the template. Hidden files and
folders and an editor's copies (``name~``) are left alone; anything else in a folder of a template
is one of its files, or a mistake.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functions.core.errors import Fault, SendoffError
from functions.templates.choice import NAME, PARTS, is_locale

SETTINGS = "template.toml"
SUFFIX = ".liquid"


class FilesRefused(SendoffError):
    """The files are not templates."""

    code = "files_refused"

    def __init__(self, lines: list[str]) -> None:
        self.lines = tuple(lines)
        """What is wrong, one file to a line."""
        super().__init__("\n".join(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFiles:
    """A template of the folder: its document, and the file of each part by its pointer."""

    name: str
    document: dict[str, Any]
    files: dict[str, Path]
    settings: Path

    def line_of(self, fault: Fault) -> str:
        """Return a fault of the document as what is wrong with a file."""
        file = self.files.get(fault.pointer)
        if file is None:
            about = f" ({fault.pointer})" if fault.pointer else ""
            return f"{self.settings}: {fault.detail}{about}"
        in_line = re.match(r"Line (\d+): ", fault.detail)
        if in_line is None:
            return f"{file}: {fault.detail}"
        return f"{file}:{in_line[1]}: {fault.detail[in_line.end() :]}"


def read_folder(folder: Path) -> list[TemplateFiles]:
    """Return the templates in ``folder``, checked; raise FilesRefused with all that is wrong."""
    from functions.templates.document import check_document  # costs 0.3 s, and only here

    try:
        held = {path: _seen(path) for path in _seen(folder) if path.is_dir()}
    except OSError as error:
        raise FilesRefused([f"{error.filename}: It cannot be read: {error.strerror}."]) from error
    places = [path for path, files in held.items() if path / SETTINGS in files]
    wrong = [
        f"{path}: It has templates and no {SETTINGS}."
        for path, files in held.items()
        if path not in places and any(file.suffix == SUFFIX for file in files)
    ]
    found: list[TemplateFiles] = []
    for place in places:
        read = _read_template(place, held[place], wrong)
        if read is not None:
            wrong += [read.line_of(fault) for fault in check_document(read.document)]
            found.append(read)
    if not places and not wrong:
        wrong.append(f"{folder}: There is no template in it, no <name>/{SETTINGS}.")
    if wrong:
        raise FilesRefused(wrong)
    return found


def _seen(folder: Path) -> list[Path]:
    """Return what lies in ``folder``, but for what is hidden and an editor's copies."""
    return sorted(path for path in folder.iterdir() if not re.match(r"\.|.*~$", path.name))


def _read_template(place: Path, held: Iterable[Path], wrong: list[str]) -> TemplateFiles | None:
    before = len(wrong)
    if re.fullmatch(NAME[1:-1], place.name, re.ASCII) is None:
        wrong.append(f"{place}: The name of a template matches {NAME}.")
    settings = place / SETTINGS
    document: dict[str, Any] = {**_read_settings(settings, wrong), "channels": {}}
    files: dict[str, Path] = {}
    for file in held:
        if file == settings:
            continue
        channel, _, rest = file.name.removesuffix(SUFFIX).partition(".")
        locale, _, part = rest.partition(".")
        is_part = part in PARTS.get(channel, ()) and is_locale(locale)
        if file.suffix != SUFFIX or not is_part:
            wrong.append(f"{file}: A file is called <channel>.<locale>.<part>{SUFFIX}.")
            continue
        parts = document["channels"].setdefault(channel, {}).setdefault(locale, {})
        parts[part] = _read_text(file, wrong).removesuffix("\n")
        files[f"/channels/{channel}/{locale}/{part}"] = file
    if len(wrong) > before:
        return None
    return TemplateFiles(name=place.name, document=document, files=files, settings=settings)


def _read_settings(file: Path, wrong: list[str]) -> dict[str, Any]:
    before = len(wrong)
    text = _read_text(file, wrong)
    if len(wrong) > before:
        return {}
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        wrong.append(f"{file}: It is not TOML: {error}.")
        return {}
    for name in settings.keys() - {"default_locale"}:
        wrong.append(f"{file}: There is no setting {name!r}; there is default_locale.")
    return {"default_locale": settings.get("default_locale")}


def _read_text(file: Path, wrong: list[str]) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")  # an editor may have marked it
    except UnicodeDecodeError:
        wrong.append(f"{file}: It is not UTF-8.")
    except OSError as error:
        wrong.append(f"{file}: It cannot be read: {error.strerror}.")
    return ""
