"""A console behind the Lambda API on a real socket: it answers as a test says, and keeps what came.

Locally a state folder names its address; as on AWS a profile does, with an STS beside it.
"""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from infra.local.state import StateFolder
from tests.local import LOCAL
from tests.simulated import serving

ARN = "arn:aws:sts::123456789012:assumed-role/Operator/ada"
IDENTITY = f"""\
<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <GetCallerIdentityResult><Arn>{ARN}</Arn><UserId>A</UserId><Account>123456789012</Account>
  </GetCallerIdentityResult>
  <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>
</GetCallerIdentityResponse>"""


def ok(result: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with ``result``, which may be an answer already."""
    return result if "ok" in result else {"ok": True, "result": result}


def no(code: str, detail: str = "It cannot be.") -> dict[str, Any]:
    return {"ok": False, "code": code, "detail": detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something else than an answer: an error of AWS, of the function, or a closed connection."""

    status: int = 200
    error: str = ""
    body: bytes = b"{}"
    function_error: bool = False
    closes: bool = False


@dataclass(slots=True)
class FakeConsole:
    """Answers each command with the next of its answers; the last one stays."""

    answers: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    functions: list[str] = field(default_factory=list[str])
    url: str = ""

    def will(self, command: str, *answers: Any) -> None:
        """Answer ``command`` so: a result, a refusal, a Trouble, or a function of the arguments."""
        self.answers[command] = list(answers)

    def asked(self, command: str) -> list[dict[str, Any]]:
        """Return the arguments that ``command`` was given, call by call."""
        return [event["arguments"] for event in self.events if event["command"] == command]

    def take(self, function: str, event: dict[str, Any]) -> Any:
        self.functions.append(function)
        self.events.append(event)
        answers = self.answers.get(event["command"], [no("invalid", "There is no such command.")])
        answer: Any = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer):
            answer = answer(event["arguments"])
        return answer if isinstance(answer, Trouble) else ok(answer)


@contextmanager
def fake_console() -> Generator[FakeConsole]:
    console = FakeConsole()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            if self.path == "/":
                self._answer(200, IDENTITY.encode(), {"content-type": "text/xml"})
                return
            function = self.path.split("/")[3]
            answer = console.take(function, json.loads(body))
            if not isinstance(answer, Trouble):
                self._answer(200, json.dumps(answer).encode(), {})
            elif answer.closes:
                self.close_connection = True
            else:
                headers = {"x-amzn-ErrorType": answer.error} if answer.error else {}
                if answer.function_error:
                    headers["X-Amz-Function-Error"] = "Unhandled"
                self._answer(answer.status, answer.body, headers)

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    with serving(Handler) as origin:
        console.url = origin
        yield console


@contextmanager
def local_stack(path: Path, *, aws_endpoint_url: str) -> Generator[None]:
    """Let ``path`` be the state folder of a stack that is ready, at this address."""
    folder = StateFolder(path)
    folder.create()
    with folder.held():
        folder.publish(replace(LOCAL, aws_endpoint_url=aws_endpoint_url, state_dir=str(path)))
        yield


@contextmanager
def own_environment(**variables: str) -> Generator[None]:
    """Let what a command does to the environment end with it."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def aws_profile(folder: Path, *, url: str) -> Generator[None]:
    """Let the profile ``operator`` name an account whose services are all at ``url``."""
    config, credentials = folder / "config", folder / "credentials"
    config.write_text(f"[profile operator]\nregion = eu-central-1\nendpoint_url = {url}\n")
    credentials.write_text(
        "[operator]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = example\n"
    )
    with own_environment(
        AWS_CONFIG_FILE=str(config),
        AWS_SHARED_CREDENTIALS_FILE=str(credentials),
        AWS_EC2_METADATA_DISABLED="true",
        NO_PROXY="127.0.0.1",
    ):
        yield
