"""Commands that use the HTTP API as any client does: by its address and a key."""

import contextlib
import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer
import urllib3

from functions.cli.console_error import ConsoleError, Refused, Unreachable
from functions.cli.listing import printable, write_json
from functions.cli.stack import state_folder
from functions.core.errors import Fault

TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)

ApiUrl = Annotated[
    str | None,
    typer.Option(
        "--api-url",
        envvar="SENDOFF_API_URL",
        help="Address of the API of a deployment; without it that of the local stack.",
        show_default=False,
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="SENDOFF_API_KEY",
        help="A key with the scope admin; best given in the environment.",
        show_default=False,
    ),
]


class ApiRefused(Refused):
    """The API said no."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.faults = tuple(
            Fault(one["pointer"], one["code"], one["detail"]) for one in problem.get("errors", ())
        )
        words = printable(problem.get("detail") or problem.get("title") or f"HTTP {status}.")
        super().__init__(words, code=problem.get("code") or f"http_{status}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiClient:
    """An API, and the key that its requests carry."""

    url: str
    key: str
    http: urllib3.PoolManager

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and JSON of a good answer; raise ApiRefused or Unreachable."""
        headers = {"Authorization": f"Bearer {self.key}"}
        try:
            answer = self.http.request(
                method,
                f"{self.url}{path}",
                headers=headers | ({} if body is None else {"Content-Type": "application/json"}),
                body=None if body is None else json.dumps(body).encode(),
                timeout=TIMEOUT,
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise Unreachable(f"{self.url} gave no answer ({type(error).__name__}).") from error
        value = _json_of(answer)
        if answer.status >= 500 or value is None:
            raise Unreachable(f"{self.url} answered HTTP {answer.status}.")
        if answer.status >= 300:
            raise ApiRefused(answer.status, value)
        return answer.status, value


def _json_of(answer: urllib3.BaseHTTPResponse) -> dict[str, Any] | None:
    """Return the object of an answer; None for one that the API would not give."""
    try:
        value = json.loads(answer.data)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


@contextlib.contextmanager
def using_api(
    state_dir: Path, *, api_url: str | None, api_key: str | None, as_json: bool
) -> Generator[ApiClient]:
    """Give the API; what goes wrong is said on standard error, and in JSON if that is asked."""
    try:
        yield _client(state_dir, api_url=api_url, api_key=api_key)
    except ConsoleError as error:
        if as_json:
            write_json(error.document())
        typer.echo(error.detail, err=True)
        raise typer.Exit(error.exit_status) from None


def _client(state_dir: Path, *, api_url: str | None, api_key: str | None) -> ApiClient:
    if api_url is None:
        folder = state_folder(state_dir)
        local = folder.local()
        if local is None:
            raise Unreachable(
                f"No stack is ready in {folder.path}. Start one with `sendoff up`, or name an API "
                "with --api-url."
            )
        api_url, api_key = local.api_url, api_key or local.admin_api_key
    if not api_key:
        raise typer.BadParameter("An API needs a key.", param_hint="--api-key")
    url = api_url.rstrip("/").removesuffix("/v1")
    return ApiClient(url=url, key=api_key, http=urllib3.PoolManager())
