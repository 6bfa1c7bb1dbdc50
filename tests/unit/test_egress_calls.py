"""No URL, name server or redirect leads a webhook to this machine; a good URL works.

The servers here listen on loopback, for real; whoever connects to them is counted.
"""

import itertools
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from functions.core.errors import SendoffError
from functions.core.outcome import Accepted, Outcome, Rejected, Transient
from functions.providers.dial import Address, Guard, system_resolve
from functions.providers.egress import PublicOnly, networks_of
from functions.providers.transport import Lost, Response, Transport
from functions.providers.webhook import WebhookProvider
from tests.submissions import submit
from tests.webhooks import (
    NAME,
    PUBLIC,
    PUBLIC_V6,
    endpoint,
    hook,
    names,
    provider_at,
    secrets_for,
)
from tests.wire import HOST, Peer, Wire, answering, peer

NUMBERS = [
    # IPv4 as the system's resolver takes it, in all its forms
    *("127.0.0.1", "127.0.0.2", "127.255.255.254", "127.1", "127.0.1", "127.00.00.01"),
    *("2130706433", "017700000001", "0x7f000001", "0X7F000001", "0x7F.0x0.0x0.0x1", "0x7f.1"),
    *("0177.0.0.1", "0177.0.0.01", "0177.1", "00000177.0.0.1", "127.0x0.0.1", "127.0.0x1"),
    *("0x7f.0.0.01", "0177.0x0.0.1", "127.65537", "0x0000007f.1"),
    # what is not loopback, and leads home all the same
    *("0.0.0.0", "0", "0x0", "00", "0.0", "0x0.0x0.0x0.0x0"),
    # metadata, in all its forms
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "025177524776"),
    *("0251.0376.0251.0376", "169.254.43518", "169.16689662", "169.254.169.0376"),
    *("169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
    # other networks
    *("10.0.0.1", "10.1", "0xa.1", "167772161", "172.16.0.1", "192.168.1.1", "192.168.257"),
    *("100.64.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1"),
]
BRACKETED = [
    *("::1", "::", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::0001"),
    *("::ffff:127.0.0.1", "::FFFF:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:7f00:0001"),
    *("::127.0.0.1", "::7f00:1", "::ffff:0:127.0.0.1", "::ffff:169.254.169.254"),
    *("64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::127.0.0.1"),
    *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::", "2001::80ff:fffe"),
    *("fd00:ec2::254", "FD00:EC2::254", "fe80::1", "fec0::1", "fc00::1", "ff02::1", "2001:db8::1"),
]
AUTHORITIES = [
    *("localhost", "LOCALHOST", "LocalHost", "localhost.", "127.0.0.1.", "127.0.0.1..", "127.1."),
    *("１２７.０.０.１", "①②⑦.⓪.⓪.①", "127。0。0。1", "127．0．0．1", "𝟏𝟐𝟕.𝟎.𝟎.𝟏", "loc𝐚lhost"),
    *("ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "127.0.0.١", "%31%32%37.0.0.1", "127%2e0%2e0%2e1", "127.0.0.%31"),
    *("%6c%6f%63%61%6c%68%6f%73%74", "127.0.0.1%00.example", "127.0.0.1%00", "127.0.0.1%09"),
    *(
        "[::1%lo]",
        "[::1%25lo]",
        "[fe80::1%25lo]",
        "[::ffff:127.0.0.1%251]",
        "[::1].",
        "[127.0.0.1]",
    ),
    *("user@127.0.0.1", "user:pass@127.0.0.1", "hook.example@127.0.0.1", "@127.0.0.1", ":@[::1]"),
    *("hook.example:443@127.0.0.1", "hook.example%40127.0.0.1", "a@b@127.0.0.1"),
    *("127.0.0.1\\@hook.example", "hook.example\\@127.0.0.1", "\\127.0.0.1", "/127.0.0.1"),
    *("127.0.0.1\t", "\t127.0.0.1", "127.0\t.0.1", "127.0.0\n.1", "127.0.0.1\r\n", " 127.0.0.1"),
    *("hook.example#@127.0.0.1", "127.0.0.1#.hook.example", "127.0.0.1?@hook.example"),
    *(
        "127.0.0.1;hook.example",
        "127.0.0.1,hook.example",
        "localhost\x00.hook.example",
        "-127.0.0.1",
    ),
    *("127.0.0.1_", "_127.0.0.1", "127..1", ".127.0.0.1", "+127.0.0.1", "127.0.0.1e0"),
]
SCHEMES = [
    *(
        "http://127.0.0.1:{port}/",
        "HTTP://127.0.0.1:{port}/",
        "//127.0.0.1:{port}/",
        "127.0.0.1:{port}",
    ),
    *("ftp://127.0.0.1:{port}/", "gopher://127.0.0.1:{port}/_x", "file://127.0.0.1/etc/passwd"),
    *("dict://127.0.0.1:{port}/", "https:127.0.0.1:{port}/", "https:////127.0.0.1:{port}/"),
    *("https:/127.0.0.1:{port}/", "https:\\\\127.0.0.1:{port}\\", "http+unix://127.0.0.1:{port}/"),
    *("jar:https://127.0.0.1:{port}!/", "ws://127.0.0.1:{port}/", "hTTps://127.0.0.1:{port}/"),
    *("https://127.0.0.1:0{port}/", "https://127.0.0.1:+{port}/", "https://127.0.0.1:{port}:80/"),
]
SPELLINGS = [
    *(f"https://{number}:{{port}}/" for number in NUMBERS),
    *(f"https://[{number}]:{{port}}/" for number in BRACKETED),
    *(f"https://{authority}:{{port}}/" for authority in AUTHORITIES),
    *SCHEMES,
]


def only_numbers(host: str, port: int) -> Sequence[Address]:
    """The system's resolver for what it answers without asking anybody."""
    if host.lower() == "localhost" or ":" in host or host[0].isdigit():
        return system_resolve(host, port)
    raise socket.gaierror(socket.EAI_NONAME, "no name server is asked in this test")


def strict(resolve: Callable[[str, int], Sequence[Address]]) -> WebhookProvider:
    """The product's provider, with nothing exempt."""
    return WebhookProvider(transport=Transport(resolve=resolve), secrets=secrets_for)


def hang_up(wire: Wire) -> None:
    """What a listener does with whoever gets to it: the counting is done."""


def outcome_of(url: str, provider: WebhookProvider) -> Outcome | SendoffError:
    try:
        call = provider.prepare(hook(url))
    except SendoffError as error:
        return error
    return submit(provider, hook(call.url), seconds=3.0)


def test_there_are_spellings_enough() -> None:
    assert len(set(SPELLINGS)) == len(SPELLINGS) >= 60


def test_no_spelling_of_an_address_gets_to_this_machine(subtests: pytest.Subtests) -> None:
    provider = strict(only_numbers)
    with peer(hang_up) as listener:
        for spelling in SPELLINGS:
            with subtests.test(spelling):
                outcome = outcome_of(spelling.format(port=listener.port), provider)
                match outcome:
                    case Rejected():
                        assert outcome.code == "forbidden_address"
                    case Transient():  # its name is nobody's
                        assert outcome.code == "name_resolution"
                    case _:  # it is no URL of ours
                        assert isinstance(outcome, SendoffError)
                assert listener.connections == 0


def test_without_the_guard_many_of_them_would() -> None:
    """The listener can be reached, and is, by whatever has no guard before it."""
    transport = Transport(resolve=only_numbers)
    with peer(hang_up) as listener:
        arrived = [number for number in NUMBERS if _gets_there(number, transport, listener)]
    assert len(arrived) >= 20
    assert {"127.0.0.1", "2130706433", "0x7f.1", "0177.1", "0"} <= set(arrived)


def _gets_there(host: str, transport: Transport, listener: Peer) -> bool:
    before = listener.connections
    provider = WebhookProvider(
        transport=transport, secrets=secrets_for, guard=lambda resolve: resolve
    )
    resolved = {address[4][0] for address in only_numbers(host, 443)}
    if not resolved <= {HOST, "0.0.0.0"}:  # elsewhere: nothing of this test listens there
        return False
    outcome_of(f"https://{host}:{listener.port}/", provider)
    return listener.connections > before


def test_every_number_is_refused_by_its_address_too(subtests: pytest.Subtests) -> None:
    """Were the forms of a number not known as such, what they resolve to would be."""
    for number in (*NUMBERS, *BRACKETED):
        with subtests.test(number):
            for address in only_numbers(number, 443):
                assert not PublicOnly().allows(address)


@pytest.mark.parametrize(
    "answer",
    [
        [HOST],
        ["::1"],
        [PUBLIC, HOST],
        [HOST, PUBLIC],
        [PUBLIC_V6, PUBLIC, "::ffff:127.0.0.1"],
        ["64:ff9b::127.0.0.1", PUBLIC],
        ["2002:7f00:1::"],
        [PUBLIC, "169.254.169.254"],
        [PUBLIC, "fd00:ec2::254"],
        ["0.0.0.0"],
    ],
)
def test_a_name_with_one_bad_address_is_refused_and_not_a_byte_is_written(
    answer: Sequence[str],
) -> None:
    with peer(hang_up) as listener:
        outcome = outcome_of(f"https://{NAME}:{listener.port}/", strict(names(answer)))
        assert listener.connections == 0
    assert outcome == Rejected(
        code="forbidden_address", detail="the URL leads to an address that may not be called"
    )


def test_a_name_that_is_bound_anew_between_two_attempts_is_judged_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = names([PUBLIC], [HOST], [PUBLIC, HOST], [PUBLIC])
    with peer(hang_up) as listener, endpoint(answering(), tmp_path) as good:
        monkeypatch.setenv("SSL_CERT_FILE", str(good.authority))
        provider = good.provider(resolver)
        url = f"https://{NAME}:{listener.port}/hook"
        outcomes = [type(submit(provider, hook(url))) for _ in range(4)]
        assert listener.connections == 0
        assert len(good.server.requests) == 2
    assert outcomes == [Accepted, Rejected, Rejected, Accepted]
    assert len(resolver.asked) == 4


def test_a_name_that_is_bound_anew_within_an_attempt_is_asked_for_once_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in (PUBLIC, PUBLIC_V6):
        resolver = names([first], [HOST])
        with peer(hang_up) as listener, endpoint(answering(), tmp_path) as good:
            monkeypatch.setenv("SSL_CERT_FILE", str(good.authority))
            provider = good.provider(resolver)
            url = f"https://{NAME}:{listener.port}/"
            assert isinstance(submit(provider, hook(url)), Accepted)
            assert listener.connections == 0
        assert resolver.asked == [NAME]


def test_a_good_url_works_under_its_name_by_host_certificate_and_sni(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(answering(204, b""), tmp_path) as good:
        monkeypatch.setenv("SSL_CERT_FILE", str(good.authority))
        provider = good.provider(names([PUBLIC]))
        for _ in range(2):
            outcome = submit(provider, hook(f"https://{NAME.upper()}/a?b=c"))
            assert outcome == Accepted(reference=None, final=True, http_status=204)
        first, second = good.server.requests
        assert good.server.connections == 2  # none is kept for a name that may have moved
        assert good.server_names == [NAME, NAME]
    assert (first.target, first.headers["host"]) == ("/a?b=c", NAME)
    assert first.headers["connection"] == "close"
    assert first.body == second.body


def test_a_port_of_its_own_stands_in_the_host_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(answering(), tmp_path) as good:
        monkeypatch.setenv("SSL_CERT_FILE", str(good.authority))
        assert isinstance(
            submit(good.provider(names([PUBLIC])), hook(f"https://{NAME}:8443/")), Accepted
        )
        (request,) = good.server.requests
    assert request.headers["host"] == f"{NAME}:8443"


def test_a_public_address_needs_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(answering(), tmp_path, name=PUBLIC) as good:
        monkeypatch.setenv("SSL_CERT_FILE", str(good.authority))
        provider = good.provider(system_resolve)
        assert isinstance(submit(provider, hook(f"https://{PUBLIC}/")), Accepted)


def test_a_certificate_of_another_name_is_not_sent_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(answering(), tmp_path, name="other.example") as good:
        monkeypatch.setenv("SSL_CERT_FILE", str(good.authority))
        outcome = submit(good.provider(names([PUBLIC])), hook(f"https://{NAME}/"))
        assert good.server.requests == []
    assert isinstance(outcome, Transient)
    assert outcome.code == "tls"


def test_our_own_networks_are_refused_as_the_private_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = PublicOnly(own_networks=networks_of(f"{PUBLIC}/32"))
    with endpoint(answering(), tmp_path) as good:
        monkeypatch.setenv("SSL_CERT_FILE", str(good.authority))
        outcome = submit(good.provider(names([PUBLIC]), guard=guard), hook(f"https://{NAME}/"))
        assert good.server.connections == 0
    assert isinstance(outcome, Rejected)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
def test_a_redirect_is_followed_nowhere(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with peer(hang_up) as listener:
        for place in (
            f"http://127.0.0.1:{listener.port}/",
            f"https://localhost:{listener.port}/",
            f"//127.0.0.1:{listener.port}/",
            f"https://{NAME}/again",
        ):
            script = answering(status, b"", {"Location": place, "Refresh": f"0; url={place}"})
            with endpoint(script, tmp_path) as good:
                monkeypatch.setenv("SSL_CERT_FILE", str(good.authority))
                outcome = submit(good.provider(names([PUBLIC])), hook(f"https://{NAME}/"))
                assert len(good.server.requests) == 1
            assert outcome == Rejected(code=str(status), http_status=status)
        assert listener.connections == 0


def test_a_forbidden_port_is_refused_before_its_name_is_asked_for() -> None:
    resolver = names([PUBLIC])
    for port in (22, 25, 80, 3306, 6379):
        outcome = outcome_of(f"https://{NAME}:{port}/", strict(resolver))
        assert isinstance(outcome, Rejected)
        assert outcome.code == "forbidden_port"
    assert resolver.asked == []


def test_a_name_without_address_may_have_one_later() -> None:
    for resolver in (only_numbers, names([])):
        outcome = outcome_of(f"https://{NAME}/", strict(resolver))
        assert isinstance(outcome, Transient)
        assert outcome.code == "name_resolution"


def test_no_proxy_of_the_environment_comes_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with peer(hang_up) as proxy, endpoint(answering(), tmp_path) as good:
        monkeypatch.setenv("SSL_CERT_FILE", str(good.authority))
        for name, case in itertools.product(
            ("http_proxy", "https_proxy", "all_proxy"), (str.lower, str.upper)
        ):
            monkeypatch.setenv(case(name), f"http://127.0.0.1:{proxy.port}")
        provider = good.provider(names([PUBLIC]))
        assert isinstance(submit(provider, hook(f"https://{NAME}/")), Accepted)
        assert isinstance(submit(strict(names([HOST])), hook(f"https://{NAME}/")), Rejected)
        assert proxy.connections == 0


def test_the_local_origin_alone_is_called_without_judgement() -> None:
    with peer(answering()) as server, peer(hang_up) as listener:
        provider = provider_at(server.url, transport=Transport(resolve=only_numbers))
        assert isinstance(submit(provider, hook(f"{server.url}/hooks/ok")), Accepted)
        for url in (
            f"https://127.0.0.1:{server.port}/hooks/ok",
            f"https://127.0.0.1:{listener.port}/",
        ):
            assert isinstance(submit(provider, hook(url)), Rejected)
        assert (server.connections, listener.connections) == (1, 0)


def test_a_connection_that_is_kept_for_others_is_no_way_around_the_guard() -> None:
    transport = Transport(resolve=names([HOST]))

    def call(url: str, guard: Guard | None) -> Response | Lost:
        deadline = time.monotonic() + 5
        return transport.request("GET", url, headers={}, body=b"", deadline=deadline, guard=guard)

    with peer(answering()) as server:
        url = f"http://{NAME}:{server.port}/"
        assert isinstance(call(url, None), Response)
        barred = call(url, PublicOnly())
        assert isinstance(barred, Lost)
        assert (barred.begun, barred.code) == (False, "forbidden_address")
        assert NAME not in barred.detail
        assert isinstance(call(url, None), Response)
        assert (server.connections, len(server.requests)) == (1, 2)
