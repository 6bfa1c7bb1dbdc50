"""Whether the four ports of a stack are free, said before anything is started."""

import dataclasses
import errno
import socket
import time

from functions.core.errors import SendoffError
from infra.local.launcher import HOST
from infra.local.state import Ports

USED_FOR = {
    "api": "the API",
    "simulator": "the provider simulator",
    "emulator": "the AWS emulator",
    "database": "PostgreSQL",
}
_RETRY_SECONDS = 0.1


class PortTaken(SendoffError):
    """A port of the stack cannot be used."""

    code = "port_taken"


def check(ports: Ports, *, patience_seconds: float = 0.0) -> None:
    """Raise PortTaken, naming every port that cannot be used and the option that moves it.

    For ``patience_seconds`` processes of a stack that was killed are given time to end.
    """
    numbers = dataclasses.asdict(ports)
    if len(set(numbers.values())) < len(numbers):
        raise PortTaken("The four ports of a stack must differ.")
    deadline = time.monotonic() + patience_seconds
    while taken := {name: number for name, number in numbers.items() if not _is_free(number)}:
        if time.monotonic() > deadline:
            raise PortTaken("\n".join(_sentence(name, port) for name, port in taken.items()))
        time.sleep(_RETRY_SECONDS)


def _sentence(name: str, port: int) -> str:
    return (
        f"Port {port}, for {USED_FOR[name]}, is taken by another program. "
        f"Choose another with --{name}-port."
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do, so that closed connections that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EACCES:
                raise PortTaken(f"Port {port} is only for root. Choose one above 1023.") from error
            return False
    return True
