"""The AWS emulator as one process with two ports: AWS calls on one, the HTTP API on the other.

``python -m infra.local.launcher --emulator-port 4566 --api-port 8080 --api-id 0123abcd``. A request
on the API port gets the emulator's path of that API in front of its own; nothing else is touched.
At the end every process of the group is killed: a function may be in a loop that would outlive us.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import hypercorn.asyncio
from hypercorn.config import Config

HOST = "127.0.0.1"
LARGEST_GRACE_SECONDS = 5.0
"""After the request to end, at most so long until everything is killed."""

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]


def with_api_port(application: Application, *, api_port: int, api_id: str) -> Application:
    """Return ``application`` with the requests on ``api_port`` sent to the API ``api_id``."""
    prefix = f"/_aws/execute-api/{api_id}/$default"

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and (scope.get("server") or ("", 0))[1] == api_port:
            raw_path: bytes = scope.get("raw_path") or b""
            scope = {
                **scope,
                "path": prefix + scope["path"],
                "raw_path": prefix.encode() + raw_path,
            }
        await application(scope, receive, send)

    return routed


async def serve(*, emulator_port: int, api_port: int, api_id: str) -> None:
    """Serve both ports until SIGTERM or SIGINT."""
    # Here and not above: it reads its environment at import and takes a second.
    from ministack import app as emulator

    application: Application = cast("Any", emulator).app
    hypercorn_serve = cast("Any", hypercorn.asyncio).serve

    config = Config()
    config.bind = [f"{HOST}:{emulator_port}", f"{HOST}:{api_port}"]
    config.keep_alive_timeout = 75
    config.graceful_timeout = 0.5
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _begin_to_stop, stopped)
    routed = with_api_port(application, api_port=api_port, api_id=api_id)
    try:
        await hypercorn_serve(routed, config, shutdown_trigger=stopped.wait)
    except OSError as error:
        sys.stderr.write(f"The emulator cannot serve: {error}\n")
        sys.stderr.flush()
    finally:
        _kill_everything()  # and not later: asyncio would wait for the threads of running functions


def _begin_to_stop(stopped: asyncio.Event) -> None:
    last_resort = threading.Timer(LARGEST_GRACE_SECONDS, _kill_everything)
    last_resort.daemon = True
    last_resort.start()
    stopped.set()


def _kill_everything() -> None:
    """Kill the process group: every function that still runs, and this process, its leader."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)  # started by hand, without a group of its own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulator-port", type=int, required=True)
    parser.add_argument("--api-port", type=int, required=True)
    parser.add_argument("--api-id", required=True)
    options = parser.parse_args()
    asyncio.run(
        serve(emulator_port=options.emulator_port, api_port=options.api_port, api_id=options.api_id)
    )


if __name__ == "__main__":
    main()
