"""What every command of the console is: its arguments, its work, and what it comes to."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import UUID

from functions.console.arguments import Parameter
from functions.runtime.dead_letter import DeadLetters
from functions.store.action import Fate
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What commands work with; secrets are asked for only by those that need them.

    ``webhook_masters`` are what signing secrets derive from, the current one first.
    """

    database: Database
    dead_letters: DeadLetters
    hash_key: Callable[[], bytes]
    webhook_masters: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command came to: ``result`` for the operator, ``counts`` for the log."""

    result: Mapping[str, Any]
    counts: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command by its arguments and its work.

    The work takes the equipment, each argument by its name, and where it changes something
    (``audited``) the action under which that is kept.
    """

    parameters: Mapping[str, Parameter]
    run: Callable[..., Done]
    audited: bool = False


class Identified(Protocol):
    @property
    def id(self) -> UUID: ...


R = TypeVar("R", bound=Identified)


def page_of(rows: Sequence[R], *, limit: int) -> Done:
    """Return a page of ``rows``, of which one more than ``limit`` was asked for."""
    data = rows[:limit]
    after = data[-1].id if len(rows) > limit else None
    return Done(result={"data": data, "next": after}, counts={"listed": len(data)})


def counts_of(fates: Iterable[Fate]) -> dict[str, int]:
    """Return how many came to which fate."""
    return dict(Counter(one.fate for one in fates))
