"""The state folder (`.sendoff/`): who holds it, its secrets, and what it tells other programs.

lock          held by the one supervisor of this folder, with its process id inside
local.json    how to reach the running stack; there only while it is ready
secrets.json  generated once, kept so that keys stay the same from start to start
cluster/      PostgreSQL's files
log/          of every process
synth/        the last cloud assemblies
temporary/    the emulator's, emptied at each start
"""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import string
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from functions.core.errors import SendoffError
from functions.core.signature import SECRET_PREFIX

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_FOLDER = REPOSITORY / ".sendoff"

_PROBES, _PROBE_SECONDS = 20, 0.05
_WEBHOOK_SECRET_LENGTH = 44  # base64 characters; 33 bytes


class FolderRefused(SendoffError):
    """The state folder cannot be used."""

    code = "folder_refused"


class FolderInUse(SendoffError):
    """Another stack already runs in this state folder."""

    code = "folder_in_use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    api: int = 8080
    simulator: int = 8081
    emulator: int = 4566
    database: int = 5499


DEFAULT_PORTS = Ports()


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """What a stack keeps secret, as it lies in ``secrets.json``."""

    hash: str
    callback: str
    gateway: str
    webhook: str = ""
    """What the secrets that sign webhooks derive from."""
    api_keys: dict[str, str] = field(default_factory=dict[str, str])
    """By their name in ``local.json``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """``local.json``: everything another program needs to use the running stack."""

    api_url: str
    api_key: str
    second_tenant_api_key: str
    admin_api_key: str
    simulator_url: str
    database_url: str
    aws_endpoint_url: str
    callback_secret: str
    webhook_secret: str
    functions: dict[str, str]
    queues: dict[str, str]
    state_dir: str


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The files of one local stack below ``path``."""

    path: Path

    @property
    def cluster(self) -> Path:
        return self.path / "cluster"

    @property
    def logs(self) -> Path:
        return self.path / "log"

    @property
    def synth(self) -> Path:
        return self.path / "synth"

    @property
    def temporary(self) -> Path:
        return self.path / "temporary"

    @property
    def bundles(self) -> Path:
        """Where ``infra.bundling`` keeps its own, in the default folder."""
        return self.path / "bundles"

    @property
    def _lock(self) -> Path:
        return self.path / "lock"

    @property
    def _local(self) -> Path:
        return self.path / "local.json"

    @property
    def _secrets(self) -> Path:
        return self.path / "secrets.json"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def create(self) -> None:
        """Create the folder, for its owner alone; raise FolderRefused if it is another's."""
        try:
            if self._holds_other_files():
                raise FolderRefused(
                    f"{self.path} holds other files. Name an empty or new folder with --state-dir."
                )
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.logs.mkdir(exist_ok=True)
            self._lock.touch(mode=0o600)
        except OSError as error:
            raise FolderRefused(
                f"{self.path} cannot be used: {error.strerror}. Name another with --state-dir."
            ) from error

    def _holds_other_files(self) -> bool:
        """Whether something is in the folder and no stack ever was."""
        if not self.path.exists() or self._lock.is_file():
            return False
        return any(path.name != self.bundles.name for path in self.path.iterdir())

    @contextlib.contextmanager
    def held(self) -> Generator[bool]:
        """Hold the folder; the value is whether the last holder ended without letting go.

        The kernel releases the lock however the holder ends. Raises FolderInUse.
        """
        descriptor = os.open(self._lock, os.O_RDWR)
        try:
            self._acquire(descriptor)
            was_killed = os.fstat(descriptor).st_size > 0
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
            try:
                yield was_killed
            finally:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def _acquire(self, descriptor: int) -> None:
        # More than once: a look by `holder` keeps it for a moment.
        for _ in range(_PROBES):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(_PROBE_SECONDS)
        raise FolderInUse(f"Another stack already runs in {self.path}.")

    def holder(self) -> int | None:
        """Return the process id of the running supervisor; None when there is none."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            text = os.pread(descriptor, 1000, 0)
            return int(json.loads(text)["pid"]) if text else 0
        finally:
            os.close(descriptor)

    def local(self) -> Local | None:
        """Return what the running stack says of itself; None unless one runs and is ready."""
        if self.holder() is None:
            return None
        try:
            return Local(**json.loads(self._local.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def published_at(self) -> float:
        """Return when a stack was last ready, in seconds of the clock of files; 0 for never."""
        try:
            return self._local.stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def publish(self, local: Local) -> None:
        _write_privately(self._local, asdict(local))

    def withdraw(self) -> None:
        """Take ``local.json`` away: from here on nothing may be expected to answer."""
        self._local.unlink(missing_ok=True)

    def secrets(self) -> Secrets:
        """Return this folder's secrets, generated at first use."""
        try:
            value: Any = json.loads(self._secrets.read_text(encoding="utf-8"))
            kept = Secrets(**value)
            if not kept.webhook:  # an older version made the folder
                kept = replace(kept, webhook=_webhook_secret())
                self.keep(kept)
            return kept
        except FileNotFoundError:
            fresh = Secrets(
                hash=secrets.token_hex(32),
                callback=_webhook_secret(),
                gateway=_webhook_secret(),
                webhook=_webhook_secret(),
            )
            self.keep(fresh)
            return fresh
        except (ValueError, TypeError) as error:
            raise FolderRefused(
                f"{self._secrets} is damaged. `sendoff reset` starts afresh."
            ) from error

    def keep(self, value: Secrets) -> None:
        _write_privately(self._secrets, asdict(value))

    def delete(self) -> bool:
        """Delete what a stack left here, and the folder if nothing else is in it.

        Raises FolderInUse. A folder where no stack ever was is left alone: False.
        """
        if not self._lock.is_file():
            return False
        with self.held():
            self._delete()
        return True

    def _delete(self) -> None:
        for path in (self.cluster, self.logs, self.synth, self.temporary, self.bundles):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self._local, self._secrets, self._lock):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()


def with_prefix(secret: str) -> str:
    """Return a stored secret as Standard Webhooks writes it."""
    return SECRET_PREFIX + secret


def _webhook_secret() -> str:
    alphabet = string.ascii_letters + string.digits  # valid base64 whatever the order
    return "".join(secrets.choice(alphabet) for _ in range(_WEBHOOK_SECRET_LENGTH))


def _write_privately(path: Path, value: dict[str, Any]) -> None:
    """Write ``value`` in one step, readable by the owner alone."""
    fresh = path.with_suffix(".fresh")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
    fresh.replace(path)
