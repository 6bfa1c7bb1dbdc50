"""Which addresses and ports a webhook may be sent to: judged by number, never by spelling."""

import ipaddress
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.errors import Misconfigured
from functions.providers.dial import Address, Forbidden
from functions.providers.egress import (
    FORBIDDEN_ADDRESS,
    FORBIDDEN_PORT,
    OTHER_PORTS,
    PublicOnly,
    is_disguised,
    is_open_port,
    networks_of,
)
from tests.webhooks import PUBLIC, PUBLIC_V6, address_of, names

PRIVATE_V4 = {
    "this network": ["0.0.0.0", "0.0.0.1", "0.255.255.255"],
    "private": ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.1"],
    "carrier-grade NAT": ["100.64.0.0", "100.100.100.200", "100.127.255.255"],
    "loopback": ["127.0.0.1", "127.0.0.53", "127.255.255.254"],
    "link-local and metadata": ["169.254.0.1", "169.254.169.254", "169.254.170.2"],
    "protocol assignments": ["192.0.0.1", "192.0.0.8", "192.0.0.9", "192.0.0.170", "192.0.0.192"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.255"],
    "6to4 relay": ["192.88.99.1"],
    "benchmark": ["198.18.0.0", "198.19.255.255"],
    "multicast": ["224.0.0.1", "239.255.255.255"],
    "reserved": ["240.0.0.1", "255.255.255.254", "255.255.255.255"],
    "host agent of a cloud": ["168.63.129.16"],
}
PRIVATE_V6 = {
    "unspecified and loopback": ["::", "::1"],
    "IPv4-compatible": ["::127.0.0.1", "::8.8.8.8"],
    "IPv4-mapped": ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:0"],
    "IPv4-translated": ["::ffff:0:127.0.0.1"],
    "NAT64": ["64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::a00:1"],
    "local NAT64": ["64:ff9b:1::", "64:ff9b:1::8.8.8.8", "64:ff9b:1:7f00:0:1::"],
    "discard": ["100::1"],
    "Teredo": ["2001::1", "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe"],
    "protocol assignments": ["2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff:ffff::1"],
    "documentation": ["2001:db8::1", "3fff::1", "3fff:fff:ffff::1"],
    "6to4": ["2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:a00:1::1", "2002:c0a8:101::1"],
    "segment routing": ["5f00::1"],
    "unique-local and metadata": ["fc00::1", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"],
    "link-local": ["fe80::1", "fe80::1%lo", "fe80::a9fe:a9fe%1", "febf::1"],
    "site-local": ["fec0::1", "feff::1"],
    "multicast": ["ff00::1", "ff02::1", "ff0e::1"],
    "scoped": [f"{PUBLIC_V6}%lo", f"{PUBLIC_V6}%1"],
}


def numbers_of(kinds: dict[str, list[str]]) -> list[object]:
    return [
        pytest.param(number, id=f"{kind} {number}")
        for kind, numbers in kinds.items()
        for number in numbers
    ]


@pytest.mark.parametrize("number", [*numbers_of(PRIVATE_V4), *numbers_of(PRIVATE_V6)])
def test_an_address_that_is_not_public_is_refused(number: str) -> None:
    assert not PublicOnly().allows(address_of(number, 443))


@pytest.mark.parametrize("number", numbers_of(PRIVATE_V4))
@pytest.mark.parametrize("form", ["::ffff:{}", "64:ff9b::{}", "::{}", "64:ff9b:1::{}"])
def test_no_dress_makes_a_private_address_public(number: str, form: str) -> None:
    assert not PublicOnly().allows(address_of(form.format(number), 443))


@pytest.mark.parametrize("number", numbers_of(PRIVATE_V4))
def test_no_tunnel_leads_to_a_private_address(number: str) -> None:
    inside = int(ipaddress.IPv4Address(number))
    six_to_four = ipaddress.IPv6Address((0x2002 << 112) | (inside << 80) | 1)
    teredo_server = ipaddress.IPv6Address((0x20010000 << 96) | (inside << 64))
    teredo_client = ipaddress.IPv6Address((0x20010000 << 96) | (inside ^ 0xFFFFFFFF))
    for tunnel in (six_to_four, teredo_server, teredo_client):
        assert not PublicOnly().allows(address_of(str(tunnel), 443))


@pytest.mark.parametrize(
    "number",
    [
        *(PUBLIC, "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255"),
        *("172.32.0.0", "192.0.1.1", "198.17.255.255", "198.20.0.0", "223.255.255.255"),
        *(PUBLIC_V6, "2001:200::1", "2001:4860:4860::8888", "2600:1f18::1", "2a00:1450::1"),
        *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"),
    ],
)
def test_a_public_address_may_be_called_and_a_dressed_one_counts_as_what_it_hides(
    number: str,
) -> None:
    assert PublicOnly().allows(address_of(number, 443))


DRESSED = [ipaddress.ip_network("::ffff:0:0/96"), ipaddress.ip_network("64:ff9b::/96")]


@given(st.ip_addresses())
def test_nothing_that_python_knows_to_be_special_is_ever_allowed(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if PublicOnly().is_public(address) and not any(address in network for network in DRESSED):
        special = (address.is_multicast, address.is_reserved, address.is_unspecified)
        assert address.is_global
        assert not any(special)


def test_our_own_networks_are_nobodys_endpoint_however_they_are_written() -> None:
    own = networks_of("2600:1f18:44::/56, 18.200.0.0/16,")
    guard = PublicOnly(own_networks=own)
    for number in (
        *("2600:1f18:44::1", "18.200.7.7", "::ffff:18.200.7.7", "64:ff9b::18.200.7.7"),
        "2002:12c8:707::1",
    ):
        assert PublicOnly().allows(address_of(number, 443))
        assert not guard.allows(address_of(number, 443))
    for number in ("2600:1f18:44:100::1", "18.201.0.0", PUBLIC):
        assert guard.allows(address_of(number, 443))


def test_own_networks_are_read_from_a_list() -> None:
    assert networks_of("") == networks_of(" , ") == ()
    assert networks_of("10.0.0.0/16") == (ipaddress.ip_network("10.0.0.0/16"),)
    for text in ("10.0.0.1/16", "10.0.0.0/33", "vpc", "10.0.0.0/16;10.1.0.0/16"):
        with pytest.raises(Misconfigured, match="CIDR"):
            networks_of(text)


@pytest.mark.parametrize(
    "address",
    [
        (socket.AF_UNIX, socket.SOCK_STREAM, 0, "", "/run/control.sock"),
        (socket.AF_VSOCK, socket.SOCK_STREAM, 0, "", (0x08080808, 443)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("localhost", 443)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.1", 443)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("", 443)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("<broadcast>", 443)),
    ],
)
def test_what_a_socket_would_resolve_once_more_is_refused(address: Address) -> None:
    assert not PublicOnly().allows(address)


ANSWERS: list[Sequence[str]] = [
    ["127.0.0.1"],
    ["::1"],
    [PUBLIC, "127.0.0.1"],
    ["127.0.0.1", PUBLIC],
    [PUBLIC, PUBLIC_V6, "fd00:ec2::254"],
    [PUBLIC, PUBLIC, PUBLIC, "169.254.169.254", PUBLIC],
    [PUBLIC_V6, "::ffff:10.0.0.1"],
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_one_bad_address_refuses_the_name_as_a_whole(answer: Sequence[str]) -> None:
    resolver = names(answer)
    with pytest.raises(Forbidden) as raised:
        PublicOnly()(resolver)("hook.example", 443)
    assert raised.value.code == FORBIDDEN_ADDRESS
    assert resolver.asked == ["hook.example"]


def test_a_good_answer_is_passed_on_as_it_came() -> None:
    resolver = names([PUBLIC, PUBLIC_V6])
    answer = PublicOnly()(resolver)("hook.example", 443)
    assert [address[4][:2] for address in answer] == [(PUBLIC, 443), (PUBLIC_V6, 443)]
    assert resolver.asked == ["hook.example"]


def test_a_name_without_address_stays_one() -> None:
    def no_such_name(host: str, port: int) -> Sequence[Address]:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port}")

    with pytest.raises(socket.gaierror):
        PublicOnly()(no_such_name)("gone.example", 443)
    assert PublicOnly()(names([]))("gone.example", 443) == ()


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0x0.0x0.0x1", "0X7F.1", "0x7f.1"),
        *("017700000001", "0177.0.0.1", "0177.0.0.01", "127.0.0.01", "127.0.0.1.", "127.0.0.1.."),
        *(
            "0",
            "1",
            "0x",
            "0x0",
            "1.2.3",
            "1.2.3.4.5",
            "256.1.1.1",
            "999999999999",
            "a.b.1",
            "a.1.",
        ),
        *("127.0.0.0x1", "example.0x7f", "example.1", "１２７.１", "١٢٧.١"),
    ],
)
def test_a_number_in_another_form_is_no_name(host: str) -> None:
    assert is_disguised(host)
    resolver = names([PUBLIC])
    with pytest.raises(Forbidden):
        PublicOnly()(resolver)(host, 443)
    assert resolver.asked == []


@pytest.mark.parametrize(
    "host", [PUBLIC, "127.0.0.1", PUBLIC_V6, "::1", "1.example", "0x7f.example", "a1", "x.y0x1"]
)
def test_names_and_addresses_in_their_one_form_are_left_to_the_resolver(host: str) -> None:
    assert not is_disguised(host)


@pytest.mark.parametrize("port", [443, 1024, 3000, 4443, 8080, 8443, 9443, 10443, 65535])
def test_https_is_served_on_443_and_on_unprivileged_ports(port: int) -> None:
    assert is_open_port(port)
    assert PublicOnly()(names([PUBLIC]))("hook.example", port)


@pytest.mark.parametrize(
    "port", [0, 1, 21, 22, 23, 25, 53, 80, 110, 139, 389, 445, 465, 587, 636, 1023, *OTHER_PORTS]
)
def test_ports_of_other_services_are_refused_before_the_name_is_asked_for(port: int) -> None:
    resolver = names([PUBLIC])
    with pytest.raises(Forbidden) as raised:
        PublicOnly()(resolver)("hook.example", port)
    assert raised.value.code == FORBIDDEN_PORT
    assert resolver.asked == []
