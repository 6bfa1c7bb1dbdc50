"""Streams of a channel by the console: who sends, how fast, and what a provider alone knows."""

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from functions.core.login import Login
from tests.operators import Operator, audit, operator_database, operator_with


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, None, {})


def stream_columns(owner: psycopg.Connection, name: str = "bulk") -> dict[str, Any]:
    statement = "SELECT to_jsonb(s) FROM streams s WHERE channel = 'email' AND name = %s"
    ((row,),) = owner.execute(statement, [name]).fetchall()
    return row


def test_a_stream_gets_its_sender_its_settings_and_its_pace(
    owner: psycopg.Connection, operator: Operator
) -> None:
    settings = {
        "sender_identity": "news@example.com",
        "configuration_set": "bulk",
        "settings": {"from_name": "Acme", "reply_to": ["a@example.com"]},
        "rate": 5,
        "burst": 10,
        "paused": True,
    }
    done = operator.ask("channel.stream", channel="email", stream="bulk", settings=settings)
    assert {name: change["is"] for name, change in done["changed"].items()} == settings
    row = stream_columns(owner)
    assert {name: row[name] for name in settings if name != "paused"} == {
        name: value for name, value in settings.items() if name != "paused"
    }
    assert row["paused_at"] is not None
    assert stream_columns(owner, "transactional")["sender_identity"] is None
    assert [kept.result for kept in audit(owner)] == [{"changed": done["changed"]}]


def test_settings_are_named_one_by_one_and_taken_away_by_null(
    owner: psycopg.Connection, operator: Operator
) -> None:
    def set_them(**named: Any) -> None:
        operator.ask("channel.stream", channel="email", stream="bulk", settings={"settings": named})

    set_them(from_name="Acme", reply_to="a@example.com")
    set_them(from_name="Acme, Inc.")
    assert stream_columns(owner)["settings"] == {
        "from_name": "Acme, Inc.",
        "reply_to": "a@example.com",
    }
    set_them(reply_to=None)
    assert stream_columns(owner)["settings"] == {"from_name": "Acme, Inc."}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"settings": {"max_segments": 3}}, "max_segments: There is no such setting; a stream of"),
        ({"settings": {"gone": None}}, "gone: There is no such setting; a stream of email has"),
        ({"settings": {"from_name": 7}}, "from_name: It is a text on one line."),
        ({"sender_identity": "News <a@example.com>"}, "sender_identity: It is an email address"),
    ],
)
def test_what_its_provider_could_not_use_is_refused_by_name(
    owner: psycopg.Connection, operator: Operator, settings: dict[str, Any], said: str
) -> None:
    code, detail = operator.refusal(
        "channel.stream", channel="email", stream="bulk", settings=settings
    )
    assert (code, detail.startswith(said)) == ("refused", True), detail
    assert audit(owner) == []


def test_a_setting_that_an_earlier_version_let_in_can_be_taken_away(
    owner: psycopg.Connection, operator: Operator
) -> None:
    owner.execute("""UPDATE streams SET settings = '{"colour": "red"}' WHERE name = 'bulk'""")

    def set_them(**named: Any) -> None:
        operator.ask("channel.stream", channel="email", stream="bulk", settings={"settings": named})

    set_them(from_name="Acme")
    assert stream_columns(owner)["settings"] == {"colour": "red", "from_name": "Acme"}
    set_them(colour=None)
    assert stream_columns(owner)["settings"] == {"from_name": "Acme"}


def test_a_stream_is_paused_once_and_goes_on(owner: psycopg.Connection, operator: Operator) -> None:
    def set_paused(paused: bool) -> dict[str, Any]:
        return operator.ask(
            "channel.stream", channel="email", stream="bulk", settings={"paused": paused}
        )["changed"]

    assert set_paused(True) == {"paused": {"was": False, "is": True}}
    since = stream_columns(owner)["paused_at"]
    assert set_paused(True) == {}
    assert stream_columns(owner)["paused_at"] == since
    assert set_paused(False) == {"paused": {"was": True, "is": False}}
    assert stream_columns(owner)["paused_at"] is None


def test_a_stream_can_do_without(owner: psycopg.Connection, operator: Operator) -> None:
    settings = {"sender_identity": "a@example.com", "configuration_set": "x", "rate": 5}
    operator.ask("channel.stream", channel="email", stream="bulk", settings=settings)
    operator.ask("channel.stream", channel="email", stream="bulk", clear=list(settings))
    row = stream_columns(owner)
    assert [row[name] for name in settings] == [None, None, None]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rate": 0}, "settings: rate: It is a number above 0"),
        ({"sender_identity": "a\nb"}, "settings: sender_identity: It holds printable"),
        ({"settings": {}}, "settings: settings: It is an object of 1 to 30 names"),
        ({"settings": {"From-Name": "x"}}, "settings: settings: Its names are of a-z"),
        ({"settings": {"from_name": "x" * 5000}}, "settings: settings: As JSON it has at most"),
        ({"settings": {f"n{i}": 1 for i in range(31)}}, "settings: settings: It is an object"),
        ({"tokens": 5}, "settings: Its names are some of sender_identity"),
    ],
)
def test_what_a_stream_cannot_have_is_refused_by_name(
    owner: psycopg.Connection, operator: Operator, settings: dict[str, Any], said: str
) -> None:
    code, detail = operator.refusal(
        "channel.stream", channel="email", stream="bulk", settings=settings
    )
    assert (code, detail.startswith(said)) == ("invalid", True), detail
    assert audit(owner) == []
