"""Folders that are made once, appear whole or not at all, and go when nobody uses them."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

KEPT_SECONDS = 7 * 86_400
"""A folder that no synthesis has used for so long is removed when another one is made."""


def make_once(target: Path, fill: Callable[[Path], None]) -> Path:
    """Return ``target``, which ``fill`` writes if it is not there yet.

    Two syntheses at a time may each fill a folder of their own; the first to finish is kept.
    """
    if target.is_dir():
        os.utime(target)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    stage.chmod(0o755)
    try:
        fill(stage)
        with contextlib.suppress(OSError):
            stage.rename(target)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    if not target.is_dir():
        raise NotADirectoryError(f"{target} is no folder and cannot hold a bundle.")
    _forget_unused(target.parent)
    return target


def _forget_unused(cache: Path) -> None:
    oldest = time.time() - KEPT_SECONDS
    for folder in cache.iterdir():
        with contextlib.suppress(OSError):
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder)


def copy(files: Iterable[Path], *, root: Path, target: Path) -> None:
    """Copy ``files``, named relative to ``root``, to the same place below ``target``."""
    for file in files:
        destination = target / file
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, destination)


def link(files: Iterable[Path], *, root: Path, target: Path) -> None:
    """Do as ``copy`` does, but share the content where the disk can: nobody changes it."""
    for file in files:
        destination = target / file
        destination.parent.mkdir(parents=True, exist_ok=True)
        try:
            destination.hardlink_to(root / file)
        except OSError:
            shutil.copyfile(root / file, destination)
