"""What a command is asked with: every reader, every fault at once, nothing that nobody reads."""

import inspect
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from functions.console import arguments
from functions.console.arguments import (
    Parameter,
    Reader,
    Wrong,
    flag,
    identifier,
    list_of,
    moment,
    number_up_to,
    one_of,
    optional,
    read_arguments,
    required,
    text,
)
from functions.console.console import COMMANDS, read
from functions.console.tenants import id_or_name, new_name
from functions.core.errors import ValidationFailed
from functions.core.states import Channel

ID = "019b76da-a800-7000-8000-000000000001"
PARAMETERS = {
    "id": required(identifier),
    "channel": optional(one_of(Channel)),
    "limit": optional(number_up_to(500), default=100),
}


def faults_of(given: object, parameters: dict[str, Parameter] = PARAMETERS) -> dict[str, str]:
    with pytest.raises(ValidationFailed) as raised:
        read_arguments(given, parameters)
    return {fault.pointer: fault.code for fault in raised.value.faults}


def test_what_is_left_out_or_null_has_its_default() -> None:
    read = read_arguments({"id": ID, "channel": None}, PARAMETERS)
    assert read == {"id": UUID(ID), "channel": None, "limit": 100}
    read = read_arguments({"id": ID.upper(), "channel": "sms", "limit": 1}, PARAMETERS)
    assert read == {"id": UUID(ID), "channel": Channel.SMS, "limit": 1}


def test_every_fault_is_told_at_once() -> None:
    assert faults_of({"channel": "fax", "limit": 0, "chanel": "sms"}) == {
        "/arguments/chanel": "unknown_field",
        "/arguments/id": "required",
        "/arguments/channel": "wrong_type",
        "/arguments/limit": "wrong_type",
    }
    assert faults_of({"id": None}) == {"/arguments/id": "required"}


@pytest.mark.parametrize("given", [None, [], "", 0, [["id", ID]]])
def test_arguments_are_an_object(given: object) -> None:
    assert faults_of(given) == {"/arguments": "wrong_type"}


def test_a_name_that_nobody_reads_is_shown_only_as_far_as_it_is_fit_to_be() -> None:
    (pointer,) = faults_of({"id": ID, "\x1b[31m" + "x" * 1000: 1})
    assert pointer.startswith("/arguments/?[31mx")
    assert len(pointer) < 60
    assert len(faults_of({str(number): 1 for number in range(1000)})) == arguments.MAX_FAULTS


GOOD: list[tuple[Reader, Any, Any]] = [
    (identifier, ID, UUID(ID)),
    (text, "Ärger mit Ada", "Ärger mit Ada"),
    (text, "x" * 256, "x" * 256),
    (flag, True, True),
    (flag, False, False),
    (moment, "2026-01-02T03:04:05+01:00", datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)),
    (moment, "2026-01-02t03:04:05.5z", datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)),
    (number_up_to(500), 1, 1),
    (number_up_to(500), 500, 500),
    (one_of(Channel), "push", Channel.PUSH),
    (list_of(identifier), [ID, ID], [UUID(ID)]),
    (list_of(one_of(Channel)), ["sms", "email"], [Channel.SMS, Channel.EMAIL]),
    (new_name, "Acme, Inc.", "Acme, Inc."),
    (id_or_name, ID, UUID(ID)),
    (id_or_name, "Acme, Inc.", "Acme, Inc."),
]


@pytest.mark.parametrize(("read", "given", "value"), GOOD)
def test_a_reader_takes_what_its_sentence_says(read: Reader, given: Any, value: Any) -> None:
    assert read(given) == value


def for_each(read: Reader, *values: Any) -> list[tuple[Reader, Any]]:
    return [(read, value) for value in values]


BAD: list[tuple[Reader, Any]] = [
    *for_each(identifier, ID[:-1], f"{{{ID}}}", f"urn:uuid:{ID}", 7, [ID], "", "x"),
    (identifier, ID.replace("-", "")),
    (identifier, ID + "\n"),
    (identifier, "٠" + ID[1:]),
    *for_each(text, "", " a", "a ", "a\nb", "a\x00", "\ud800", "x" * 257, 7, None),
    *for_each(flag, 0, 1, "true", []),
    *for_each(moment, "2026-01-02", "2026-01-02T03:04:05", "now", 0, None),
    (moment, "2026-13-02T03:04:05Z"),
    (moment, "0001-01-01T00:00:00+23:00"),
    *for_each(number_up_to(500), 0, -1, 501, 1.0, "1", True),
    *for_each(one_of(Channel), "Email", "", "fax", 1, None, ["sms"], {}),
    *for_each(list_of(identifier), [], ID, {}, [ID, "x"], [[ID]], [None]),
    (list_of(identifier, most=1), [ID, ID]),
    (list_of(identifier), [ID] * 501),
    *for_each(new_name, ID, "", "a\tb"),
    *for_each(id_or_name, "", 7, None, "a\tb"),
]


@pytest.mark.parametrize(("read", "given"), BAD)
def test_a_reader_takes_nothing_else_and_says_what_it_takes(read: Reader, given: Any) -> None:
    with pytest.raises(Wrong, match=r"^(It|One of its values) .*\.$"):
        read(given)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_work_of_a_command_takes_exactly_what_is_read_for_it(name: str) -> None:
    command = COMMANDS[name]
    taken = set(inspect.signature(command.run).parameters) - {"equipment"}
    assert taken == {*command.parameters, *(("action",) if command.audited else ())}


EVENT: dict[str, Any] = {
    "v": 1,
    "command": "dead.list",
    "arguments": {},
    "actor": "arn:aws:iam::123456789012:user/ada",
}


def test_an_event_is_read_with_its_command_and_who_asks() -> None:
    asked = read(EVENT)
    assert (asked.command, asked.actor, asked.faults) == ("dead.list", EVENT["actor"], ())
    assert read({name: EVENT[name] for name in ("v", "command", "actor")}).faults == ()


@pytest.mark.parametrize(
    ("changed", "pointers"),
    [
        ({"v": 2}, ["/v"]),
        ({"v": True}, ["/v"]),
        ({"v": "1"}, ["/v"]),
        ({"command": "dead.lists"}, ["/command"]),
        ({"command": ["dead.list"]}, ["/command"]),
        ({"command": None}, ["/command"]),
        ({"actor": ""}, ["/actor"]),
        ({"actor": "  "}, ["/actor"]),
        ({"actor": "ada\n"}, ["/actor"]),
        ({"actor": "a" * 257}, ["/actor"]),
        ({"actor": 7}, ["/actor"]),
        ({"dry_run": True}, [""]),
        ({"v": 2, "command": "", "actor": "", "more": 1}, ["/v", "/command", "/actor", ""]),
    ],
)
def test_an_event_tells_everything_that_is_wrong_with_it(
    changed: dict[str, Any], pointers: list[str]
) -> None:
    assert [fault.pointer for fault in read(EVENT | changed).faults] == pointers


@pytest.mark.parametrize("event", [None, [], "", 1, {}])
def test_what_is_no_event_is_told_so(event: Any) -> None:
    assert [fault.pointer for fault in read(event).faults] == ["/v", "/command", "/actor"]


def test_what_is_not_fit_to_be_logged_is_not_kept_for_the_log() -> None:
    asked = read({"v": 1, "command": "sk_secret", "actor": "ada\nmallory"})
    assert (asked.command, asked.actor) == (None, None)
