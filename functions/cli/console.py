"""The console function as the command line calls it: by whom, and once.

Without a profile it is the one of the local stack; with one, the console of that AWS account. What
changes something is invoked once: after an answer that was lost nobody knows whether it was done,
so it is told, not repeated. Only what reads is tried again, and what was turned away at the door.
"""

import getpass
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from functions.cli.console_error import Refused, Unreachable, code_of, in_words, unanswered
from functions.cli.stack import state_folder
from functions.cli.supervise import caller_environment
from infra.config import DEFAULT_PREFIX
from infra.local.emulator import CREDENTIALS, REGION

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

VERSION = 1
READING = frozenset(
    {
        "explain",
        "policy",
        "dead.list",
        "uncertain.list",
        "dlq.preview",
        "tenant.list",
        "keys.list",
        "category.list",
        "channel.list",
        "channel.show",
        "endpoints.list",
        "hold.list",
        "sms.show",
        "sms.prices",
        "suppressions.export",
    }
)
MAX_ACTOR_CHARACTERS = 256
CONNECT_SECONDS, ANSWER_SECONDS = 5, 60
"""An invocation of the console ends within 30 s; a cold start comes before it."""

BUSY_WAITS_SECONDS = (0.5, 1.0, 2.0, 4.0)
"""The console runs few at once. What it turns away was not begun, so it may be asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the console is: in the local stack of ``state_dir``, or in a profile's account."""

    state_dir: Path
    profile: str | None = None
    region: str | None = None
    prefix: str | None = None

    def connect(self) -> "Console":
        """Return the console; raise Unreachable when there is none to talk to."""
        return _local(self) if self.profile is None else _deployed(self)


@dataclass(slots=True, kw_only=True)
class Console:
    """The console function ``name``; ``client_with`` makes a Lambda client by its number of tries.

    ``identify`` says who asks, as the account knows them; it is asked once.
    """

    name: str
    client_with: Callable[[int], "LambdaClient"]
    identify: Callable[[], str]
    sleep: Callable[[float], None] = time.sleep
    _clients: dict[int, "LambdaClient"] = field(default_factory=dict[int, "LambdaClient"])
    _actor: str = ""

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Return the result of ``command``; arguments of None are left out.

        Raises Refused and Unreachable.
        """
        changes = command not in READING
        event = {
            "v": VERSION,
            "command": command,
            "arguments": {name: value for name, value in arguments.items() if value is not None},
            "actor": self._who(),
        }
        with in_words(name=self.name, changes=changes):
            answer = self._invoke(json.dumps(event).encode(), tries=1 if changes else 2)
        match answer:
            case {"ok": True, "result": dict()}:
                return answer["result"]
            case {"ok": False, "code": "unavailable", "detail": str(detail)}:
                raise Unreachable(detail, code="unavailable", maybe_done=changes)
            case {"ok": False, "code": str(code), "detail": str(detail)}:
                raise Refused(detail, code=code)
            case None:
                words = f"{self.name} failed; its log says where."
            case _:
                words = f"The answer of {self.name} makes no sense to this version."
        raise unanswered(words, maybe_done=changes)

    def _who(self) -> str:
        if not self._actor:
            with in_words(name=self.name, changes=False):
                self._actor = self.identify()[:MAX_ACTOR_CHARACTERS]
        return self._actor

    def _invoke(self, event: bytes, *, tries: int) -> Any:
        """Return what the function answered; None when it failed."""
        if tries not in self._clients:
            self._clients[tries] = self.client_with(tries)
        for wait in (*BUSY_WAITS_SECONDS, None):
            try:
                invoked = self._clients[tries].invoke(FunctionName=self.name, Payload=event)
            except ClientError as error:
                if wait is None or code_of(error) != "TooManyRequestsException":
                    raise
                self.sleep(wait)
                continue
            payload = invoked["Payload"].read()
            return None if "FunctionError" in invoked else _read(payload)
        raise AssertionError("The last round returns or raises.")


def _read(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except ValueError:
        return payload


def _local(target: Target) -> Console:
    folder = state_folder(target.state_dir)
    local = folder.local()
    if local is None:
        raise Unreachable(
            f"No stack is ready in {folder.path}. Start one with `sendoff up`, or name the AWS "
            "profile of a deployment with --profile."
        )
    caller_environment()

    def client_with(tries: int) -> "LambdaClient":
        make = cast("Any", boto3).client  # one overload per service: nothing to be gained
        return make(
            "lambda",
            endpoint_url=local.aws_endpoint_url,
            region_name=REGION,
            config=_config(tries, proxies={}),
            **CREDENTIALS,
        )

    return Console(
        name=f"{DEFAULT_PREFIX}-console",
        client_with=client_with,
        identify=lambda: f"{_user()}@{socket.gethostname()}",
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in a container
        return str(os.getuid())


def _deployed(target: Target) -> Console:
    name = f"{target.prefix or DEFAULT_PREFIX}-console"
    with in_words(name=name, changes=False):
        session = boto3.Session(profile_name=target.profile, region_name=target.region)
    make = cast("Any", session).client

    def client_with(tries: int) -> "LambdaClient":
        return make("lambda", config=_config(tries))

    def identify() -> str:
        return str(make("sts", config=_config(2)).get_caller_identity()["Arn"])

    return Console(name=name, client_with=client_with, identify=identify)


def _config(tries: int, *, proxies: Mapping[str, str] | None = None) -> Config:
    return Config(
        retries={"total_max_attempts": tries, "mode": "standard"},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=ANSWER_SECONDS,
        proxies=None if proxies is None else dict(proxies),
    )
