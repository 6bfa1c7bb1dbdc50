"""The provider simulator: a gateway, webhook recipients, a ledger and a live page.

POST /gateway                                  what the ``http`` provider sends
GET  /gateway/<key>                            what became of it
ANY  /hooks/<behaviour>[.<number>][/anything]  webhook recipients
GET  /ledger[?recipient=][&since=]             requests and effects; DELETE forgets everything
GET  /behaviour                                faults for everybody; POST sets, DELETE resets them
GET  /                                         the page, which polls /activity
GET  /health

Run as ``python -m infra.local.simulator``; binds to 127.0.0.1 only.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import orjson
import typer

from functions.core import signature
from infra.local.simulator_callbacks import Callbacks
from infra.local.simulator_faults import BadFault, Faults
from infra.local.simulator_gateway import Gateway, json_reply
from infra.local.simulator_http import Connection, Reply, Request
from infra.local.simulator_ledger import Ledger
from infra.local.simulator_page import PAGE, POLICY, activity

HOST = "127.0.0.1"
PORT = 8081
BACKLOG = 4096

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``port`` 0 takes any free one. Without a callback URL no callbacks are sent; without a
    gateway secret requests to the gateway need no signature."""

    port: int = PORT
    callback_url: str | None = None
    callback_secret: str | None = None
    gateway_secret: str | None = None


@dataclass(slots=True)
class Routes:
    """Which part of the simulator answers a request."""

    gateway: Gateway

    def answer(self, request: Request) -> Reply:
        path, method = request.path, request.method
        if path == "/gateway" or path.startswith("/gateway/"):
            key = path.removeprefix("/gateway").strip("/")
            if method == "POST" and not key:
                return self.gateway.submit(request)
            return self.gateway.look_up(key) if method == "GET" and key else _not_allowed()
        if path.startswith("/hooks/"):
            return self.gateway.receive(request)
        return self._look(request)

    def _look(self, request: Request) -> Reply:
        match request.path, request.method:
            case "/ledger", "GET":
                return self._ledger(request)
            case "/ledger", "DELETE":
                self.gateway.ledger.clear()
                return Reply(status=204)
            case "/behaviour", "POST":
                return self._change(request.body)
            case "/behaviour", "DELETE":
                self.gateway.faults = Faults()
                return json_reply(200, self.gateway.faults.as_json())
            case "/behaviour", "GET":
                return json_reply(200, self.gateway.faults.as_json())
            case "/activity", "GET":
                return json_reply(200, activity(self.gateway))
            case "/health", "GET":
                return json_reply(200, {"status": "ok"})
            case "/", "GET" | "HEAD":
                headers = ((b"content-security-policy", POLICY),)
                return Reply(body=PAGE, content_type=b"text/html; charset=utf-8", headers=headers)
            case (("/ledger" | "/behaviour" | "/activity" | "/health" | "/"), _):
                return _not_allowed()
            case _:
                return json_reply(404, {"code": "not_found", "detail": "There is no such page."})

    def _ledger(self, request: Request) -> Reply:
        since = request.parameter("since")
        try:
            moment = datetime.fromisoformat(since) if since else None
        except ValueError:
            moment = None
        if since and (moment is None or moment.tzinfo is None):
            detail = "since is a time with an offset."
            return json_reply(400, {"code": "invalid_parameter", "detail": detail})
        recipient = request.parameter("recipient")
        return json_reply(200, self.gateway.ledger.select(recipient=recipient, since=moment))

    def _change(self, body: bytes) -> Reply:
        try:
            self.gateway.faults = self.gateway.faults.changed(orjson.loads(body))
        except (BadFault, orjson.JSONDecodeError) as error:
            return json_reply(400, {"code": "invalid_request", "detail": str(error)})
        return json_reply(200, self.gateway.faults.as_json())


def _not_allowed() -> Reply:
    return json_reply(405, {"code": "method_not_allowed", "detail": "Not with this method."})


async def serve(settings: Settings, *, stop: asyncio.Event, ready: "Future[int] | None") -> None:
    """Serve until ``stop`` is set; ``ready`` receives the port."""
    callbacks = Callbacks(url=settings.callback_url, secret=settings.callback_secret)
    secrets = (settings.gateway_secret,) if settings.gateway_secret else ()
    routes = Routes(Gateway(ledger=Ledger(), callbacks=callbacks, secrets=secrets))
    connections: set[Connection] = set()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(routes.answer, connections), HOST, settings.port, backlog=BACKLOG
    )
    try:
        port = server.sockets[0].getsockname()[1]
        logger.info("The simulator answers at http://%s:%d.", HOST, port)
        if ready is not None:
            ready.set_result(port)
        await stop.wait()
    finally:
        server.close()
        for connection in tuple(connections):
            connection.reset()
        callbacks.close()


@contextmanager
def running(settings: Settings) -> Generator[str]:
    """Run a simulator on a thread of this process; yield its URL."""
    ready: Future[int] = Future()
    handles: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        stop = asyncio.Event()
        handles.append((asyncio.get_running_loop(), stop))
        await serve(settings, stop=stop, ready=ready)

    def work() -> None:
        try:
            asyncio.run(main())
        except OSError as error:
            ready.set_exception(error)

    thread = threading.Thread(target=work, name="simulator", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{ready.result()}"
    finally:
        for loop, stop in handles:
            if thread.is_alive():
                loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _serve_until_signalled(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(settings, stop=stop, ready=None)


def main(
    port: Annotated[int, typer.Option(help="Where to listen, on 127.0.0.1.")] = PORT,
    callback_url: Annotated[
        str | None, typer.Option(envvar="CALLBACK_URL", help="Where callbacks go; none without.")
    ] = None,
    callback_secret: Annotated[
        str | None,
        typer.Option(envvar="CALLBACK_SECRET", help="whsec_… that callbacks are signed with."),
    ] = None,
    gateway_secret: Annotated[
        str | None,
        typer.Option(envvar="GATEWAY_SECRET", help="whsec_… that requests are signed with."),
    ] = None,
) -> None:
    """Simulate the providers. Secrets belong in the environment: an argument shows in ps."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = Settings(
        port=port,
        callback_url=callback_url,
        callback_secret=callback_secret,
        gateway_secret=gateway_secret,
    )
    _check(settings)
    try:
        asyncio.run(_serve_until_signalled(settings))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        sys.exit(f"The simulator cannot listen on port {port}: {reason}.")


def _check(settings: Settings) -> None:
    """Say at the start what would otherwise fail with the first request."""
    if settings.callback_url and not settings.callback_secret:
        sys.exit("Callbacks need a secret: set CALLBACK_SECRET.")
    for secret in (settings.callback_secret, settings.gateway_secret):
        try:
            signature.key_of(secret or "")
        except ValueError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    typer.run(main)
