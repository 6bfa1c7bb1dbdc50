"""Folders that appear whole or not at all."""

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path


@contextlib.contextmanager
def staging(target: Path) -> Generator[Path]:
    """Give a folder to fill that becomes ``target`` at once, or nothing of it at all.

    Two syntheses at a time may fill their own; the first one to finish is kept.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    stage.chmod(0o755)
    try:
        yield stage
        with contextlib.suppress(OSError):
            stage.rename(target)
        if not target.is_dir():
            raise NotADirectoryError(f"{target} is no folder and cannot hold a bundle.")
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def copy(files: Iterable[Path], *, root: Path, target: Path) -> None:
    """Copy ``files``, named relative to ``root``, to the same place below ``target``."""
    for file in files:
        destination = target / file
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, destination)
