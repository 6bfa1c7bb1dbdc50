"""Functions in processes of their own, as the platform runs them: to be killed, and listened to."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from functions.core.login import Login
from tests.secrets_manager import SecretsManager

ROOT = Path(__file__).parents[1]
GATEWAY_ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:gateway-AbCdEf"
CALLBACK_ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:callback-AbCdEf"
HASH_ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:hash-AbCdEf"
WEBHOOK_ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:webhook-AbCdEf"
PUSH_ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:push-AbCdEf"


def environment_of(login: Login, **more: str) -> dict[str, str]:
    """Return the environment of a function with a database."""
    return {
        "DATABASE_HOST": login.host,
        "DATABASE_PORT": str(login.port),
        "DATABASE_NAME": login.name,
        "DATABASE_USER": login.user,
        "DATABASE_AUTH": "trust",
        **more,
    }


def sender_environment(login: Login, manager: SecretsManager, **more: str) -> dict[str, str]:
    return environment_of(
        login,
        **manager.environment,
        **{
            "CHANNEL": "email",
            "GATEWAY_SECRET_ARN": GATEWAY_ARN,
            "HASH_SECRET_ARN": HASH_ARN,
            "WEBHOOK_SECRET_ARN": WEBHOOK_ARN,
            "PUSH_SECRET_ARN": PUSH_ARN,
            **more,
        },
    )


def reconcile_environment(login: Login, manager: SecretsManager) -> dict[str, str]:
    return environment_of(login, **manager.environment, GATEWAY_SECRET_ARN=GATEWAY_ARN)


def callbacks_environment(login: Login, manager: SecretsManager) -> dict[str, str]:
    return environment_of(
        login,
        **manager.environment,
        CALLBACK_SECRET_ARN=CALLBACK_ARN,
        HASH_SECRET_ARN=HASH_ARN,
    )


class Died(Exception):
    """The process ended instead of answering."""


@dataclass(slots=True)
class FunctionProcess:
    """A running function; ``imported`` are the modules its import brought in."""

    process: subprocess.Popen[str]
    answers: IO[str]
    log: Path
    imported: frozenset[str]

    def start(self, event: Any, *, seconds: float = 20.0) -> None:
        """Invoke the function without waiting for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"event": event, "seconds": seconds}) + "\n")
        self.process.stdin.flush()

    def finish(self) -> Any:
        """Return the answer; raise Died when the process is gone, InvocationError if it failed."""
        line = self.answers.readline()
        if not line:
            raise Died
        reply = json.loads(line)
        if "error" in reply:
            raise InvocationError(reply["error"], reply["message"])
        return reply["answer"]

    def invoke(self, event: Any, *, seconds: float = 20.0) -> Any:
        self.start(event, seconds=seconds)
        return self.finish()

    @property
    def output(self) -> str:
        """Everything the function wrote: what the platform would log."""
        return self.log.read_text(encoding="utf-8")

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The log's lines that are neither metrics nor a traceback."""
        found = [json.loads(line) for line in self.output.splitlines() if line.startswith("{")]
        return [line for line in found if "_aws" not in line]

    @property
    def metrics(self) -> dict[str, float]:
        """The sum of each metric."""
        sums: dict[str, float] = {}
        for text in self.output.splitlines():
            if not text.startswith("{") or "_aws" not in (line := json.loads(text)):
                continue
            for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]:
                name = metric["Name"]
                sums[name] = sums.get(name, 0) + sum(line[name])
        return sums


class InvocationError(Exception):
    """The handler raised; its kind and its text, as the platform tells them."""


@contextlib.contextmanager
def function(name: str, environment: Mapping[str, str], folder: Path) -> Generator[FunctionProcess]:
    """Run ``functions.<name>.main`` in a process whose environment is exactly this."""
    reading, writing = os.pipe()
    log = folder / f"{name}-{writing}-{os.urandom(4).hex()}.log"
    with log.open("w", encoding="utf-8") as output, os.fdopen(reading) as answers:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.function_runner", f"functions.{name}.main", str(writing)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=(writing,),
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **environment},
        )
        os.close(writing)
        try:
            first = answers.readline()
            if not first:
                process.wait()
                raise Died(log.read_text(encoding="utf-8"))
            imported = frozenset(json.loads(first)["imported"])
            yield FunctionProcess(process, answers, log, imported)
        finally:
            process.kill()
            process.communicate()
