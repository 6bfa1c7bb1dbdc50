"""Where a URL that somebody gave us may lead: to public addresses, on ports where HTTPS is served.

``PublicOnly`` stands before a resolver. It judges a name by *every* address of the very answer that
is then connected to: no second resolution follows that could say something else, and one address
that is not public refuses the name as a whole. Every attempt asks and judges anew; how an address
is written (decimal, octal, hexadecimal, short) makes no difference to what it resolves to.

Ports: 443 and all from 1024 up, but for those known to serve something else. (The rule of most
senders of webhooks: it keeps ours from being led to mail, shells and file shares.)
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from functions.core.errors import Misconfigured
from functions.providers.dial import Address, Forbidden, Resolve

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

FORBIDDEN_ADDRESS = "forbidden_address"
FORBIDDEN_PORT = "forbidden_port"

HTTPS_PORT = 443
FIRST_UNPRIVILEGED_PORT = 1024

OTHER_PORTS = frozenset(
    {
        # What browsers refuse to fetch from (WHATWG Fetch, "port blocking"), above 1023.
        *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566),
        *(6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
        # Databases, caches, brokers, remote desktops, and what steers containers.
        *(1433, 1521, 3306, 5432, 5984, 7000, 7001, 9042, 9200, 9300, 27017, 27018, 27019),
        *(6379, 6380, 11211, 1883, 2181, 4369, 5671, 5672, 8883, 9092, 25672),
        *(3389, 5900, 5985, 5986),
        *(2375, 2376, 2379, 2380, 6443, 10250, 10255),
    }
)
"""Ports from 1024 up that serve something else than HTTPS."""

# Not for the public, by the special-purpose registries of IANA (RFC 6890 and after). Python's
# is_global is asked as well, but alone it lets pass multicast, what embeds another address, and
# whatever the registry of its release did not know.
NEVER: Sequence[IPNetwork] = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network, and "any address": Linux takes it for loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; a cloud's metadata (100.100.100.200)
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's host agent, on an address that looks public
        "169.254.0.0/16",  # link-local: metadata (169.254.169.254), credentials of containers
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; a cloud's metadata (192.0.0.192)
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
# Everything else in IPv6 is not assigned, or not for the public: unspecified, loopback, IPv4 in
# its deprecated form, local NAT64 (64:ff9b:1::/48), unique-local (fd00:ec2::254), link-local,
# site-local, multicast.
GLOBAL_UNICAST = IPv6Network("2000::/3")

NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicOnly:
    """Lets a resolver answer with public addresses only; immutable, for any number of threads.

    ``own_networks`` are ours although they are public: a VPC's IPv6 network, our own load
    balancers. What only looks like another address is judged by the one that it stands for.
    """

    own_networks: Sequence[IPNetwork] = ()

    def __call__(self, resolve: Resolve) -> Resolve:
        """Return ``resolve`` under guard: it raises Forbidden where a call may not go."""

        def guarded(host: str, port: int) -> Sequence[Address]:
            if not is_open_port(port):
                raise Forbidden(FORBIDDEN_PORT)
            if is_disguised(host):
                raise Forbidden(FORBIDDEN_ADDRESS)
            addresses = tuple(resolve(host, port))
            if not all(self.allows(address) for address in addresses):
                raise Forbidden(FORBIDDEN_ADDRESS)
            return addresses

        return guarded

    def allows(self, address: Address) -> bool:
        """Whether the socket address of a resolver's answer may be connected to."""
        family, _, _, _, place = address
        if family not in (socket.AF_INET, socket.AF_INET6):
            return False
        try:
            return self.is_public(ip_address(place[0]))
        except ValueError:  # no number: connecting would resolve it once more
            return False

    def is_public(self, address: IPAddress) -> bool:
        """Whether ``address``, and the one that it stands for, is somebody else's and public."""
        if any(address in network for network in self.own_networks):
            return False
        embedded = _embedded(address)
        if embedded is not None:
            return self.is_public(embedded)
        if isinstance(address, IPv6Address) and (
            address not in GLOBAL_UNICAST or address.scope_id is not None
        ):
            return False
        return address.is_global and not any(address in network for network in NEVER)


def is_open_port(port: int) -> bool:
    """Whether HTTPS may be spoken to ``port`` (see the module)."""
    return port == HTTPS_PORT or (port >= FIRST_UNPRIVILEGED_PORT and port not in OTHER_PORTS)


def is_disguised(host: str) -> bool:
    """Whether ``host`` is read as a number by some, and is no IPv4 address as all write it.

    ``127.1``, ``0x7f000001``, ``017700000001``, ``2130706433``, ``127.0.0.1.``: no name of the
    public Internet ends in a number (as the WHATWG's URL standard has it), so nothing is lost.
    """
    last = host.rstrip(".").rpartition(".")[2].lower()
    if not (last.isdigit() or last.startswith("0x")):
        return False
    try:
        IPv4Address(host)
    except ValueError:
        return True
    return False


def networks_of(text: str) -> tuple[IPNetwork, ...]:
    """Return the networks of a list like ``10.0.0.0/8, 2600:1f18::/56``; raise Misconfigured."""
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError:
        raise Misconfigured(f"It is not a list of networks in CIDR form: {text!r}.") from None


def _embedded(address: IPAddress) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for, where it stands for one."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour
