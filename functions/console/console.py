"""What an operator asks, read whole before anything is done, and what the answer is.

asked     {"v": 1, "command": "dead.list", "arguments": {…}, "actor": "arn:… or user@host"}
answered  {"ok": true, "result": {…}}, or {"ok": false, "code": …, "detail": a sentence}

invalid      no such command, or not what it takes, with every fault; nothing was done
not_found    what it is about does not exist
refused      it cannot be done to what it is about
unavailable  the database or a queue cannot be reached; the sentence says if it may have been done
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

import orjson

from functions.console import (
    categories,
    channels,
    dead_letters,
    endpoints,
    explain,
    held,
    holds,
    policy,
    receipts,
    recovery,
    sms,
    suppressions,
    tenants,
    uncertain,
    webhooks,
)
from functions.console.arguments import MAX_TEXT_CHARACTERS, read_arguments
from functions.console.command import Command, Done, Equipment
from functions.core.errors import Fault, NotFound, RequestRefused, Unavailable, ValidationFailed
from functions.store.action import new_action

VERSION = 1
MEMBERS = frozenset({"v", "command", "arguments", "actor"})
ACTOR = f"It is who asks, in 1 to {MAX_TEXT_CHARACTERS} printable characters."

COMMANDS: Mapping[str, Command] = dict(
    chain.from_iterable(
        module.COMMANDS.items()
        for module in (
            explain,
            policy,
            held,
            uncertain,
            dead_letters,
            endpoints,
            receipts,
            recovery,
            tenants,
            channels,
            categories,
            holds,
            sms,
            suppressions,
            webhooks,
        )
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An event as read. ``command`` and ``actor`` are None where they are not fit to be logged."""

    command: str | None
    actor: str | None
    arguments: object = None
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``body`` for the operator, ``counts`` for the log."""

    body: dict[str, Any]
    counts: dict[str, int] = field(default_factory=dict[str, int])


def read(event: object) -> Asked:
    """Return what ``event`` asks, and what is wrong with it."""
    members = cast("dict[str, Any]", event) if isinstance(event, dict) else {}
    version, command, actor = (members.get(name) for name in ("v", "command", "actor"))
    faults: list[Fault] = []
    if type(version) is not int or version != VERSION:
        faults.append(Fault("/v", "wrong_type", f"It is {VERSION}."))
    if not isinstance(command, str) or command not in COMMANDS:
        command = None
        faults.append(Fault("/command", "unknown", f"It is one of {', '.join(COMMANDS)}."))
    if not isinstance(actor, str) or not _is_a_name(actor):
        actor = None
        faults.append(Fault("/actor", "required", ACTOR))
    if not MEMBERS.issuperset(members):
        faults.append(Fault("", "unknown_field", "There is a member that nobody reads."))
    return Asked(
        command=command,
        actor=actor,
        arguments=members.get("arguments", {}),
        faults=tuple(faults),
    )


def _is_a_name(actor: str) -> bool:
    return 0 < len(actor.strip()) <= len(actor) <= MAX_TEXT_CHARACTERS and actor.isprintable()


def answer(asked: Asked, equipment: Equipment) -> Answer:
    """Do what was asked and return the answer.

    Raises what is nobody's mistake and no outage: the invocation fails then, and says nothing.
    """
    try:
        done = _do(asked, equipment)
    except ValidationFailed as error:
        return _refusal("invalid", " ".join(_sentence(fault) for fault in error.faults))
    except NotFound as error:
        return _refusal("not_found", error.detail)
    except RequestRefused as error:
        return _refusal("refused", error.detail)
    except Unavailable as error:
        doubt = " It may have been done: look before you repeat it." if error.maybe_done else ""
        return _refusal("unavailable", error.detail + doubt)
    result = orjson.loads(orjson.dumps(done.result, option=orjson.OPT_UTC_Z))
    return Answer(body={"ok": True, "result": result}, counts=dict(done.counts))


def _do(asked: Asked, equipment: Equipment) -> Done:
    faults = list(asked.faults)
    values: dict[str, Any] = {}
    command = COMMANDS[asked.command] if asked.command else None
    if command is not None:
        try:
            values = read_arguments(asked.arguments, command.parameters)
        except ValidationFailed as error:
            faults += error.faults
    if faults or command is None or asked.command is None or asked.actor is None:
        raise ValidationFailed(faults)
    if command.audited:
        given = cast("dict[str, Any]", asked.arguments)
        values["action"] = new_action(
            equipment.database, actor=asked.actor, command=asked.command, arguments=given
        )
    return command.run(equipment, **values)


def _refusal(code: str, detail: str) -> Answer:
    return Answer(body={"ok": False, "code": code, "detail": detail}, counts={code: 1})


def _sentence(fault: Fault) -> str:
    name = fault.pointer.removeprefix("/arguments").removeprefix("/")
    return f"{name}: {fault.detail}" if name else fault.detail
