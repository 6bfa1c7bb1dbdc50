"""The AWS emulator as a process of ours (launcher.py), and boto3 clients that talk to it."""

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import boto3
import urllib3
from botocore.config import Config

from functions.core.errors import SendoffError
from infra.local import dependent
from infra.local.launcher import HOST
from infra.local.state import REPOSITORY

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sesv2 import SESV2Client
    from mypy_boto3_sqs import SQSClient

REGION = "us-east-1"
ACCOUNT = "000000000000"
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
_THREADS = "128"  # one per running function: four channels of 20 senders, and the rest


class EmulatorFailed(SendoffError):
    """The AWS emulator did not start."""

    code = "emulator_failed"


@dataclass(frozen=True, slots=True)
class Clients:
    """boto3 clients for the emulator at ``endpoint``, whatever the caller's own settings are."""

    endpoint: str

    def _client(self, service: str) -> Any:
        client = cast("Any", boto3).client  # one overload per service: nothing to be gained
        return client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            config=Config(
                retries={"total_max_attempts": 2, "mode": "standard"},
                connect_timeout=2,
                read_timeout=30,
                proxies={},
            ),
            **CREDENTIALS,
        )

    def cloudformation(self) -> "CloudFormationClient":
        return self._client("cloudformation")

    def email(self) -> "SESV2Client":
        return self._client("sesv2")

    def event_bus(self) -> Any:
        return self._client("events")

    def functions(self) -> "LambdaClient":
        return self._client("lambda")

    def logs(self) -> "CloudWatchLogsClient":
        return self._client("logs")

    def s3(self) -> "S3Client":
        return self._client("s3")

    def secrets(self) -> "SecretsManagerClient":
        return self._client("secretsmanager")

    def sqs(self) -> "SQSClient":
        return self._client("sqs")


@dataclass(slots=True, kw_only=True)
class Emulator:
    """The emulator on ``port``, with the API ``api_id`` on ``api_port``; its state is in memory."""

    port: int
    api_port: int
    api_id: str
    log: Path
    temporary: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process, empty; ``wait`` says when it answers."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(parents=True)
        command = [
            sys.executable, "-m", "infra.local.launcher", "--emulator-port", str(self.port),
            "--api-port", str(self.api_port), "--api-id", self.api_id,
        ]  # fmt: skip
        with self.log.open("wb") as log:
            self.process = dependent.start(
                command,
                signal_at_death=signal.SIGTERM,
                output=log,
                environment=self._environment(),
                directory=REPOSITORY,
            )

    def _environment(self) -> dict[str, str]:
        """Return a clean environment: every function inherits it."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(self.temporary),
            "TMPDIR": str(self.temporary),
            "STATE_DIR": str(self.temporary / "state"),
            "S3_DATA_DIR": str(self.temporary / "s3"),
            "BIND_HOST": HOST,
            "MINISTACK_HOST": HOST,  # and not localhost, which may mean ::1
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_REGION": REGION,
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            "MINISTACK_WORKER_THREADS": _THREADS,
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
        }

    def wait(self, *, timeout_seconds: float = 60.0) -> None:
        """Wait until the emulator answers; raise EmulatorFailed when it ends or takes too long."""
        deadline = time.monotonic() + timeout_seconds
        # In this order: on a port that was taken, somebody else may answer.
        while not (self.is_running and answers(f"{self.endpoint}/_ministack/health")):
            if not self.is_running or time.monotonic() > deadline:
                self.stop()
                raise EmulatorFailed(
                    f"The AWS emulator did not start: {last_line(self.log)} (log: {self.log})"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        """End the emulator and every function that runs in it."""
        process, self.process = self.process, None
        if process is not None:
            dependent.stop(process, by=signal.SIGTERM, timeout_seconds=3.0)

    def clear(self) -> None:
        """Delete what it left on disk: a copy of the code per function process, some seconds."""
        shutil.rmtree(self.temporary, ignore_errors=True)


def answers(url: str) -> bool:
    """Whether a GET of ``url`` is answered with 200."""
    try:
        return urllib3.request("GET", url, timeout=5.0, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def last_line(log: Path, *, with_word: str = "") -> str:
    """Return the last line of a log file that says anything, or that says ``with_word``."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    telling = [line for line in lines if with_word in line]
    return telling[-1][-300:] if telling else "nothing was logged"
