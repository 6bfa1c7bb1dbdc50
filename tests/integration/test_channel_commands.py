"""`sendoff channel`: what it asks, what it shows, and how it ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.cli.channel_tuning import TAKES_EFFECT
from tests.command_line import Operator, operator_at
from tests.fake_console import Trouble, no

SINCE = "2030-01-01T00:00:00.5Z"
BREAKER = {
    "channel": "email", "provider": "ses", "scope": "sender_identity", "key": "bulk",
    "opened_at": SINCE, "code": "SendingPausedException", "trips": 1, "probe_at": SINCE,
    "is_due": False,
}  # fmt: skip
ACTION = "0199aaaa-0000-7000-8000-000000000001"


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


def stream(name: str, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name, "sender_identity": None, "configuration_set": None, "settings": {},
        "rate": None, "burst": 100.0, "paused": False, "paused_at": None, "deployed": {},
    }  # fmt: skip
    return row | more


def channel(name: str = "email", **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name, "provider": "ses", "fallback_provider": None, "rate": 100.0,
        "effective_rate": 100.0, "slowed_at": None, "leased": 3, "max_in_flight": 200,
        "retries": True, "paused": False, "paused_at": None, "lease_seconds": 240.0,
        "state": "running", "deployed": {}, "breakers": [],
        "streams": [stream("transactional"), stream("bulk")],
    }  # fmt: skip
    return row | more


def changed(**changes: tuple[Any, Any]) -> dict[str, Any]:
    return {
        "action_id": ACTION,
        "channel": "email",
        "changed": {name: {"was": was, "is": now} for name, (was, now) in changes.items()},
    }


def test_channels_are_listed(operator: Operator) -> None:
    rows = [
        channel(),
        channel("sms", effective_rate=12.5, retries=False, fallback_provider="http"),
        channel("push", paused=True, paused_at=SINCE),
        channel("webhook", streams=[stream("transactional"), stream("bulk", paused=True)]),
        channel("push", breakers=[BREAKER]),
        channel("push", breakers=[BREAKER] * 2, paused=True, paused_at=SINCE),
    ]
    operator.console.will("channel.list", {"data": rows})
    ended = operator.run("channel", "list")
    lines = ended.out.splitlines()
    assert ended.status == 0
    assert lines[1].split() == [
        "email",
        "ses",
        "-",
        "100",
        "100",
        "3",
        "of",
        "200",
        "on",
        "running",
    ]
    assert lines[2].split()[1:5] == ["ses", "http", "100", "12.5"]
    assert lines[3].endswith("paused since 2030-01-01T00:00:00Z")
    assert lines[4].endswith("  bulk paused")
    assert lines[5].endswith("  blocked (1 open breaker)")
    assert lines[6].endswith("paused since 2030-01-01T00:00:00Z, blocked (2 open breakers)")
    assert operator.run("channel", "list", "--json").document == {"data": rows}


def test_a_channel_is_shown_with_its_streams_and_what_is_blocked(operator: Operator) -> None:
    bulk = stream(
        "bulk", sender_identity="news@example.com", rate=5.0, paused=True, paused_at=SINCE,
        settings={"from_name": "Acme", "reply_to": ["a@example.com"]},
        deployed={"rate": 9.0},
    )  # fmt: skip
    row = channel(
        effective_rate=25.0, slowed_at=SINCE, deployed={"rate": 80.0},
        streams=[stream("transactional"), bulk], breakers=[BREAKER],
    )  # fmt: skip
    operator.console.will("channel.show", row)
    ended = operator.run("channel", "show", "email")
    assert ended.status == 0
    assert ended.out.startswith("email: blocked (1 open breaker), bulk paused, 3 in flight.\n")
    assert "asked to slow down at 2030-01-01T00:00:00Z: 25 leases per second" in ended.out
    cells = [line.split() for line in ended.out.splitlines()]
    assert ["rate", "100", "80"] in cells
    assert ["rate", "5", "9"] in cells
    assert ["retries", "on"] in cells
    assert ["sender_identity", "news@example.com"] in cells
    assert 'settings           {"from_name": "Acme", "reply_to": ["a@example.com"]}' in ended.out
    assert ["sender_identity", "bulk", "2030-01-01T00:00:00Z", "SendingPausedException",
            "2030-01-01T00:00:00Z"] in cells  # fmt: skip
    assert "bulk: paused since 2030-01-01T00:00:00Z, 5/s." in ended.out
    assert "transactional: running, at the channel's pace." in ended.out
    assert operator.run("channel", "show", "email", "--json").document == row
    assert operator.console.asked("channel.show") == [{"channel": "email"}] * 2


def test_what_is_set_is_asked_by_its_column_and_told(operator: Operator) -> None:
    operator.console.will("channel.set", changed(rate=(100.0, 2.5), retries=(True, False)))
    ended = operator.run(
        "channel", "set", "email", "--provider", "http", "--provider-url", "https://g.example",
        "--fallback-provider", "ses", "--fallback-provider-url", "https://f.example",
        "--deadline", "5", "--rate", "2.5", "--burst", "10", "--max-in-flight", "50", "--page",
        "20", "--endpoint-concurrency", "3", "--retries", "off", "--max-attempts", "4",
        "--backoff-base", "1", "--backoff-cap", "60", "--backoff-curve", "linear",
        "--waiting-limit", "3600", "--cutoff", "7200", "--grace", "0", "--unknown-policy", "hold",
        "--check-base", "5", "--check-cap", "50", "--poll-rate", "0",
        "--fallback-after", "900",
    )  # fmt: skip
    assert ended.status == 0
    assert ended.out.splitlines() == ["rate: 100 -> 2.5", "retries: on -> off", TAKES_EFFECT]
    assert operator.console.asked("channel.set") == [
        {
            "channel": "email",
            "settings": {
                "provider": "http", "provider_url": "https://g.example",
                "fallback_provider": "ses", "fallback_provider_url": "https://f.example",
                "provider_deadline_seconds": 5, "rate": 2.5, "burst": 10, "max_in_flight": 50,
                "page": 20, "endpoint_concurrency": 3, "retries": False, "max_attempts": 4,
                "backoff_base_seconds": 1, "backoff_cap_seconds": 60, "backoff_curve": "linear",
                "waiting_limit_seconds": 3600, "cutoff_seconds": 7200, "grace_seconds": 0,
                "unknown_policy": "hold", "check_base_seconds": 5, "check_cap_seconds": 50,
                "poll_rate": 0, "fallback_after_seconds": 900,
            },
        }
    ]  # fmt: skip


def test_what_is_cleared_is_named_by_its_column(operator: Operator) -> None:
    operator.console.will("channel.set", changed(fallback_provider=("http", None)))
    ended = operator.run("channel", "set", "sms", "--clear", "fallback-provider")
    assert ended.out.splitlines()[0] == "fallback_provider: http -> -"
    assert operator.console.asked("channel.set") == [
        {"channel": "sms", "clear": ["fallback_provider"]}
    ]
    operator.console.will("channel.stream", changed())
    operator.run("channel", "stream", "sms", "bulk", "--clear", "identity", "--clear", "rate")
    assert operator.console.asked("channel.stream") == [
        {"channel": "sms", "stream": "bulk", "clear": ["sender_identity", "rate"]}
    ]


def test_a_stream_is_set(operator: Operator) -> None:
    operator.console.will("channel.stream", changed(sender_identity=(None, "a@example.com")))
    ended = operator.run(
        "channel", "stream", "email", "bulk", "--identity", "a@example.com",
        "--configuration-set", "bulk", "--rate", "5", "--burst", "10", "--pause",
        "--setting", "from_name=Acme = Co", "--setting", "max_segments=3",
        "--setting", 'reply_to=["a@example.com"]', "--setting", "collapse=false",
        "--setting", 'code="7"', "--setting", "gone=", "--setting", "odd=NaN",
    )  # fmt: skip
    assert ended.out.splitlines() == ["sender_identity: - -> a@example.com", TAKES_EFFECT]
    (asked,) = operator.console.asked("channel.stream")
    assert asked == {
        "channel": "email",
        "stream": "bulk",
        "settings": {
            "sender_identity": "a@example.com",
            "configuration_set": "bulk",
            "rate": 5,
            "burst": 10,
            "paused": True,
            "settings": {
                "from_name": "Acme = Co",
                "max_segments": 3,
                "reply_to": ["a@example.com"],
                "collapse": False,
                "code": "7",
                "gone": None,
                "odd": "NaN",
            },
        },
    }


def test_what_is_a_text_stays_one_though_it_looks_like_a_number(operator: Operator) -> None:
    operator.console.will("channel.stream", changed())
    operator.run(
        "channel", "stream", "sms", "bulk", "--setting", "in_entity_id=1101455800000012345",
        "--setting", "keyword=true", "--setting", "max_price=0.05", "--setting", "max_segments=2",
    )  # fmt: skip
    operator.run(
        "channel", "stream", "email", "bulk", "--setting", 'from_name=["Acme"]',
        "--setting", 'reply_to="7"',
    )  # fmt: skip
    sms, email = operator.console.asked("channel.stream")
    assert sms["settings"]["settings"] == {
        "in_entity_id": "1101455800000012345",
        "keyword": "true",
        "max_price": 0.05,
        "max_segments": 2,
    }
    assert email["settings"]["settings"] == {"from_name": ["Acme"], "reply_to": "7"}


def test_nothing_changed_is_said_so(operator: Operator) -> None:
    operator.console.will("channel.stream", changed())
    ended = operator.run("channel", "stream", "email", "bulk", "--resume")
    assert (ended.status, ended.out) == (0, "Nothing changed: it was so before.\n")
    assert operator.console.asked("channel.stream")[0]["settings"] == {"paused": False}


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "email"),
        ("set", "fax", "--rate", "5"),
        ("set", "email", "--rate", "fast"),
        ("set", "email", "--rate", "inf"),
        ("set", "email", "--rate", "nan"),
        ("set", "email", "--max-in-flight", "1.5"),
        ("set", "email", "--retries", "maybe"),
        ("set", "email", "--backoff-curve", "steep"),
        ("set", "email", "--unknown-policy", "hope"),
        ("set", "email", "--clear", "rate"),
        ("stream", "email", "bulk"),
        ("stream", "email", "slow", "--pause"),
        ("stream", "email", "bulk", "--setting", "from_name"),
        ("stream", "email", "bulk", "--setting", "From=x"),
        ("stream", "email", "bulk", "--setting", "a=1", "--setting", "a=2"),
        ("show", "fax"),
        ("pause",),
    ],
)
def test_what_cannot_be_meant_is_a_matter_of_usage(
    operator: Operator, arguments: tuple[str, ...]
) -> None:
    assert operator.run("channel", *arguments).status == 2
    assert operator.console.events == []


@pytest.mark.parametrize(
    ("command", "was_so", "said"),
    [
        ("pause", False, "It is paused: no attempt begins.\n"),
        ("pause", True, "It was paused before.\n"),
        ("resume", False, "It goes on.\n"),
        ("resume", True, "It was not paused.\n"),
    ],
)
def test_a_channel_is_paused_and_resumed(
    operator: Operator, command: str, was_so: bool, said: str
) -> None:
    done = changed() if was_so else changed(paused=(command != "pause", command == "pause"))
    operator.console.will(f"channel.{command}", done)
    ended = operator.run("channel", command, "email")
    assert (ended.status, ended.out) == (0, said)
    assert operator.console.asked(f"channel.{command}") == [{"channel": "email"}]
    assert operator.run("channel", command, "email", "--json").document == done


def test_a_refusal_and_an_outage_have_their_exit_statuses(operator: Operator) -> None:
    operator.console.will("channel.set", no("refused", "provider: sms does not send email."))
    ended = operator.run("channel", "set", "email", "--provider", "sms")
    assert (ended.status, ended.err) == (3, "provider: sms does not send email.\n")
    operator.console.will("channel.list", no("unavailable", "The database is not available."))
    assert operator.run("channel", "list").status == 4
    operator.console.will("channel.pause", Trouble(closes=True))
    assert "It may have been done all the same." in operator.run("channel", "pause", "sms").err
