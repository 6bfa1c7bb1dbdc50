"""The ports of a stack, looked at before anything starts."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from infra.local import ports
from infra.local.launcher import HOST
from infra.local.ports import PortTaken
from infra.local.state import Ports
from tests.conftest import free_port


def free_ports() -> Ports:
    numbers: set[int] = set()
    while len(numbers) < 4:
        numbers.add(free_port())
    api, simulator, emulator, database = numbers
    return Ports(api=api, simulator=simulator, emulator=emulator, database=database)


def listening(port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((HOST, port))
    server.listen()
    return server


def test_free_ports_pass() -> None:
    ports.check(free_ports())


@pytest.mark.parametrize("name", ["api", "simulator", "emulator", "database"])
def test_a_taken_port_is_named_with_its_use_and_its_option(name: str) -> None:
    wanted = free_ports()
    number = getattr(wanted, name)
    words = f"Port {number}, for {ports.USED_FOR[name]}, is taken by another program. "
    with (
        listening(number),
        pytest.raises(PortTaken, match=f"^{words}Choose another with --{name}-port.$"),
    ):
        ports.check(wanted)


def test_every_taken_port_is_named_at_once() -> None:
    wanted = free_ports()
    with (
        listening(wanted.api),
        listening(wanted.database),
        pytest.raises(PortTaken) as refused,
    ):
        ports.check(wanted)
    assert re.findall(r"--(\w+)-port", refused.value.detail) == ["api", "database"]


def test_one_number_for_two_uses_is_refused() -> None:
    port = free_port()
    with pytest.raises(PortTaken, match="must differ"):
        ports.check(Ports(api=port, simulator=port))


def test_a_port_that_is_being_given_up_is_waited_for() -> None:
    wanted = free_ports()
    with listening(wanted.api) as server, ThreadPoolExecutor(1) as thread:
        checking = thread.submit(ports.check, wanted, patience_seconds=20)
        server.close()
        checking.result()
