"""Channels by the console: shown whole, changed by name, checked together, kept in the audit."""

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from functions.core.login import Login
from functions.migrate.migrate import configure
from functions.store.bucket import slow
from functions.store.channel import Channels
from functions.store.connection import Database
from tests.fakes import add_notifications
from tests.operators import Operator, audit, losing_commit, operator_database, operator_with
from tests.steps import lease

URL = "https://gateway.example/v1"


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, None, {})


@pytest.fixture(autouse=True)
def deployed(owner: psycopg.Connection) -> None:
    """As a deployment leaves the channels: they have their gateway."""
    configure(owner, {name: {"provider_url": URL, "rate": 100} for name in ("email", "sms")})


def column(owner: psycopg.Connection, name: str, channel: str = "email") -> Any:
    statement = "SELECT to_jsonb(channels) -> %s FROM channels WHERE name = %s"
    ((value,),) = owner.execute(statement, [name, channel]).fetchall()
    return value


def test_channels_are_listed_with_their_state(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    add_notifications(owner, 3)
    lease(database, page=2)
    slow(database, channel="email")
    owner.execute("UPDATE streams SET paused_at = now() WHERE channel = 'sms' AND name = 'bulk'")
    listed = {row["name"]: row for row in operator.ask("channel.list")["data"]}
    assert list(listed) == ["email", "push", "sms", "webhook"]
    email = listed["email"]
    assert (email["provider"], email["leased"], email["paused"]) == ("http", 2, False)
    assert 50 <= email["effective_rate"] < 60
    assert email["slowed_at"].endswith("Z")
    assert listed["sms"]["effective_rate"] == 100
    assert [(one["name"], one["paused"]) for one in listed["sms"]["streams"]] == [
        ("transactional", False),
        ("bulk", True),
    ]


def test_a_channel_with_an_open_breaker_is_blocked_unless_it_is_paused(
    owner: psycopg.Connection, operator: Operator
) -> None:
    def states() -> dict[str, tuple[str, int]]:
        rows = operator.ask("channel.list")["data"]
        return {row["name"]: (row["state"], len(row["breakers"])) for row in rows}

    running = ("running", 0)
    assert states() == dict.fromkeys(("email", "push", "sms", "webhook"), running)
    owner.execute(
        "INSERT INTO breakers (channel, provider, scope, key, opened_at, probe_at) "
        "VALUES ('email', 'http', 'country', 'DE', now(), now()), "
        "('email', 'http', 'provider', 'http', now(), now()), "
        "('sms', 'http', 'provider', 'http', NULL, NULL)"
    )
    assert (states()["email"], states()["sms"]) == (("blocked", 2), running)
    operator.ask("channel.pause", channel="email")
    assert states()["email"] == ("paused", 2)
    assert operator.ask("channel.show", channel="email")["state"] == "paused"


def test_a_channel_is_shown_with_what_is_not_as_deployed(
    owner: psycopg.Connection, operator: Operator
) -> None:
    configure(owner, {"email": {"streams": {"bulk": {"rate": 5, "burst": 10}}}})
    operator.ask("channel.set", channel="email", settings={"rate": 50, "burst": 70})
    operator.ask("channel.stream", channel="email", stream="bulk", settings={"rate": 9})
    owner.execute(
        "INSERT INTO breakers (channel, provider, scope, key, opened_at, probe_at, code) "
        "VALUES ('email', 'http', 'country', 'DE', now(), now(), 'blocked'), "
        "('sms', 'http', 'country', 'DE', now(), now(), 'blocked')"
    )
    shown = operator.ask("channel.show", channel="email")
    assert (shown["rate"], shown["burst"], shown["deployed"]) == (50, 70, {"rate": 100})
    assert [one["deployed"] for one in shown["streams"]] == [{}, {"rate": 5}]
    assert [(one["scope"], one["key"], one["code"]) for one in shown["breakers"]] == [
        ("country", "DE", "blocked")
    ]


def test_what_is_set_is_stored_told_and_kept(owner: psycopg.Connection, operator: Operator) -> None:
    settings = {
        "rate": 20, "burst": 40, "max_in_flight": 50, "page": 25, "provider_deadline_seconds": 2.5,
        "retries": False, "backoff_curve": "linear", "backoff_base_seconds": 5,
        "backoff_cap_seconds": 50, "max_attempts": 3, "waiting_limit_seconds": 3600,
        "check_base_seconds": 10, "check_cap_seconds": 100, "cutoff_seconds": 7200,
        "grace_seconds": 0, "unknown_policy": "retry", "poll_rate": 0, "endpoint_concurrency": 4,
        "fallback_after_seconds": 900,
    }  # fmt: skip
    done = operator.ask("channel.set", channel="email", settings=settings)
    assert {name: change["is"] for name, change in done["changed"].items()} == settings
    assert done["changed"]["rate"] == {"was": 100, "is": 20}
    assert {name: column(owner, name) for name in settings} == settings
    (kept,) = audit(owner)
    assert (str(kept.id), kept.command) == (done["action_id"], "channel.set")
    assert kept.arguments == {"channel": "email", "settings": settings}
    assert kept.result == {"changed": done["changed"]}
    assert column(owner, "rate", "sms") == 100


def test_what_is_so_already_changes_nothing(owner: psycopg.Connection, operator: Operator) -> None:
    done = operator.ask("channel.set", channel="email", settings={"rate": 100})
    assert done["changed"] == {}
    assert len(audit(owner)) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rate": 0}, "rate: It is a number above 0 to 100,000."),
        ({"rate": -5}, "rate: It is a number above 0 to 100,000."),
        ({"rate": "fast"}, "rate: It is a number above 0 to 100,000."),
        ({"rate": True}, "rate: It is a number above 0 to 100,000."),
        ({"rate": float("inf")}, "rate: It is a number above 0 to 100,000."),
        ({"rate": float("nan")}, "rate: It is a number above 0 to 100,000."),
        ({"burst": 0.5}, "burst: It is a number from 1 to 100,000."),
        ({"max_in_flight": 0}, "max_in_flight: It is a whole number from 1 to 100,000."),
        ({"max_in_flight": 1.5}, "max_in_flight: It is a whole number from 1 to 100,000."),
        ({"page": 1001}, "page: It is a whole number from 1 to 1,000."),
        ({"provider_deadline_seconds": 901}, "provider_deadline_seconds: It is a number above 0"),
        ({"grace_seconds": -1}, "grace_seconds: It is a number from 0 to 3,155,760,000."),
        ({"cutoff_seconds": 1e300}, "cutoff_seconds: It is a number above 0"),
        ({"retries": "off"}, "retries: It is true or false."),
        ({"fallback_after_seconds": 0}, "fallback_after_seconds: It is a number above 0"),
        ({"backoff_curve": "steep"}, "backoff_curve: It is one of exponential, linear."),
        ({"unknown_policy": "hope"}, "unknown_policy: It is one of retry, hold."),
        ({"provider": "pigeon"}, "provider: It is one of "),
        ({"fallback_provider": 7}, "fallback_provider: It is one of "),
        ({"provider_url": "ftp://gateway.example"}, "provider_url: It is an http or https URL"),
        ({"provider_url": "https://ada:secret@x.example"}, "provider_url: It is an http or https"),
        ({"provider_url": "https://"}, "provider_url: It is an http or https URL"),
        ({"provider_url": "https://x.example:port"}, "provider_url: It is an http or https URL"),
        ({"provider_url": "https://x.example?key=secret"}, "provider_url: It is an http or https"),
        ({"provider_url": "https://x.example/\n"}, "provider_url: It is an http or https URL"),
        ({"lease_seconds": 5}, "Its names are some of provider, provider_url,"),
        ({"paused": True}, "Its names are some of provider, provider_url,"),
        ({"rate": None}, "rate: It is a number above 0"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(
    owner: psycopg.Connection, operator: Operator, settings: dict[str, Any], said: str
) -> None:
    code, detail = operator.refusal("channel.set", channel="email", settings=settings)
    assert (code, detail.startswith(f"settings: {said}")) == ("invalid", True), detail
    assert audit(owner) == []
    assert column(owner, "rate") == 100


def test_every_value_that_cannot_be_is_told_at_once(operator: Operator) -> None:
    _, detail = operator.refusal(
        "channel.set", channel="email", settings={"rate": 0, "page": 0, "burst": 5}
    )
    assert "rate: " in detail
    assert "page: " in detail
    assert "burst" not in detail


@pytest.mark.parametrize(
    ("settings", "clear", "said"),
    [
        ({"backoff_cap_seconds": 5}, [], "backoff_cap_seconds: It is not less than backoff_base"),
        ({"check_base_seconds": 1e6}, [], "check_cap_seconds: It is not less than check_base"),
        (
            {"provider_deadline_seconds": 40},
            [],
            "provider_deadline_seconds: It is less than 40, a sixth of the lease (240 s). A sender "
            "is cut off by its timeout: that is a sixth of the visibility that the lease covers.",
        ),
        ({"provider": "sms"}, [], "provider: sms does not send email."),
        ({"provider": "webhook"}, [], "provider: webhook does not send email."),
        ({"provider": "http_keyless"}, [], "provider_url: http_keyless is called at an address"),
        ({}, ["provider_url"], "provider_url: http is called at an address of its own."),
        ({"fallback_provider": "push"}, [], "fallback_provider: push does not send email."),
        (
            {"fallback_provider": "http_keyless"},
            [],
            "fallback_provider_url: http_keyless is called at an address of its own.",
        ),
        (
            {"fallback_provider": "http", "fallback_provider_url": URL},
            [],
            "fallback_provider: It is another one than provider.",
        ),
        ({"provider_url": URL}, ["provider_url"], "provider_url: It is both set and cleared."),
        ({}, [], "There is nothing to change."),
    ],
)
def test_values_that_do_not_go_together_are_refused_by_name(
    owner: psycopg.Connection,
    operator: Operator,
    settings: dict[str, Any],
    clear: list[str],
    said: str,
) -> None:
    more = {"clear": clear} if clear else {}
    code, detail = operator.refusal("channel.set", channel="email", settings=settings, **more)
    assert (code, detail.startswith(said)) == ("refused", True), detail
    assert audit(owner) == []
    assert column(owner, "provider_url") == URL


@pytest.mark.parametrize(
    "arguments",
    [
        {"channel": "fax", "settings": {"rate": 5}},
        {"settings": {"rate": 5}},
        {"channel": "email", "settings": []},
        {"channel": "email", "settings": {"rate": 5}, "clear": ["rate"]},
        {"channel": "email", "settings": {"rate": 5}, "clear": "provider_url"},
        {"channel": "email", "rate": 5},
    ],
)
def test_what_is_no_command_is_refused(operator: Operator, arguments: dict[str, Any]) -> None:
    assert operator.refusal("channel.set", **arguments)[0] == "invalid"


def test_another_provider_is_not_called_at_the_address_of_the_one_before(
    owner: psycopg.Connection, operator: Operator
) -> None:
    done = operator.ask("channel.set", channel="email", settings={"provider": "ses"})
    assert done["changed"] == {
        "provider": {"was": "http", "is": "ses"},
        "provider_url": {"was": URL, "is": None},
    }
    back = {"provider": "http", "provider_url": URL}
    operator.ask("channel.set", channel="email", settings=back)
    again = operator.ask("channel.set", channel="email", settings={"provider": "http"})
    assert (again["changed"], column(owner, "provider_url")) == ({}, URL)


def test_a_fallback_provider_comes_and_goes(owner: psycopg.Connection, operator: Operator) -> None:
    fallback = {"fallback_provider": "http_keyless", "fallback_provider_url": URL}
    operator.ask("channel.set", channel="email", settings=fallback)
    assert column(owner, "fallback_provider") == "http_keyless"
    operator.ask("channel.set", channel="email", clear=["fallback_provider"])
    assert (column(owner, "fallback_provider"), column(owner, "fallback_provider_url")) == (
        None,
        None,
    )


def test_a_change_takes_effect_when_the_numbers_are_read_again(
    database: Database, operator: Operator
) -> None:
    cached, fresh = Channels(database, seconds=3600), Channels(database, seconds=-1)
    assert (cached.get("email").page, fresh.get("email").page) == (100, 100)
    operator.ask("channel.set", channel="email", settings={"page": 7, "backoff_curve": "linear"})
    assert (cached.get("email").page, fresh.get("email").page) == (100, 7)
    assert fresh.get("email").backoff.ceiling_seconds(3) == 180


def test_a_channel_is_paused_and_resumed(owner: psycopg.Connection, operator: Operator) -> None:
    changes = [
        operator.ask(f"channel.{command}", channel="email")["changed"]
        for command in ("pause", "pause", "resume", "resume")
    ]
    paused = {"paused": {"was": False, "is": True}}
    assert changes == [paused, {}, {"paused": {"was": True, "is": False}}, {}]
    assert column(owner, "paused_at") is None
    assert [kept.command for kept in audit(owner)] == [
        "channel.pause", "channel.pause", "channel.resume", "channel.resume",
    ]  # fmt: skip


def test_a_change_repeated_after_a_lost_commit_tells_what_it_did(
    owner: psycopg.Connection, login: Login
) -> None:
    with losing_commit(login, number=2) as database:  # the first is the action's id
        operator = operator_with(database, None, {})
        done = operator.ask("channel.set", channel="email", settings={"rate": 7})
    assert done["changed"] == {"rate": {"was": 100, "is": 7}}
    assert len(audit(owner)) == 1
