"""Inject what goes wrong between us and each provider, and print what comes of it as a table.

``python -m tests.proof.injections``: each provider with its own service on a real socket. Ends with
1 when a case comes to something else than the design says.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from itertools import count
from typing import Annotated

import psycopg
import pytest
import typer
from psycopg import sql
from rich import box
from rich.console import Console
from rich.table import Table

from functions.core.login import Login
from functions.store.connection import Database, connector
from infra.local.postgres import HOST, Postgres
from tests.conftest import owner_connection
from tests.proof.histories_database import clone, served
from tests.proof.injections_case import NeverArrived, inject
from tests.proof.injections_expected import EXPECTED, End, Injection, cases
from tests.proof.injections_services import Service
from tests.pushing import set_credentials

IMPATIENCE = (0.2, 2.0, 10.0)
"""Seconds of a call that is answered too late; more where a busy machine was too slow to make it.
"""

WIDE = 10_000
"""Characters: where there is no terminal nothing is wrapped, for others read it line by line."""

DROP = sql.SQL("DROP DATABASE {} WITH (FORCE)")
_numbers = count(1)

Fresh = Callable[[], AbstractContextManager[tuple[Database, psycopg.Connection]]]
"""Gives a database that nothing has happened in, as a function and as its owner see it."""


def run_case(service: Service, injection: Injection, *, fresh: Fresh) -> End:
    """Play a case; with more patience where the machine was too busy for it."""
    for patience in IMPATIENCE:
        with fresh() as (database, owner), contextlib.suppress(NeverArrived):
            return inject(service, injection, database=database, owner=owner, patience=patience)
    raise NeverArrived


def fault_of(case: tuple[str, Injection], end: End) -> str | None:
    """Return what is not as the design says."""
    expected = EXPECTED[case]
    if end == expected:
        return None
    name, injection = case
    different = [
        f"{one} is {getattr(end, one)!r}, not {getattr(expected, one)!r}"
        for one in ("status", "reason", "path", "sends", "effects", "says")
        if getattr(end, one) != getattr(expected, one)
    ]
    return f"{name}, {injection}: {'; '.join(different)}"


COLUMNS = ("provider", "injection", "status", "sent", "effects", "explain")


def cells_of(case: tuple[str, Injection], end: End) -> tuple[str, ...]:
    """Return a line of the table."""
    name, injection = case
    reason = f": {end.reason}" if end.reason else ""
    status = " → ".join(end.path) + reason
    return name, str(injection), status, str(end.sends), str(end.effects), end.says


def as_markdown(ends: Mapping[tuple[str, Injection], End]) -> str:
    """Return the table as a page shows it: one line for each case."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS)]
    lines += [cells_of(case, end) for case, end in ends.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def report(ends: Mapping[tuple[str, Injection], End], console: Console) -> None:
    """Print the table as a terminal shows it; elsewhere each case on one line."""
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, show_lines=False)
    for case, end in ends.items():
        table.add_row(*cells_of(case, end), end_section=case[1] is Injection.SUPPRESSED)
    console.print(table)


@contextlib.contextmanager
def clone_of_template(server: Postgres) -> Generator[tuple[Database, psycopg.Connection]]:
    """Yield a clone of the migrated database, gone afterwards."""
    name = f"injection_{next(_numbers)}"
    clone(server.port, name)
    login = Login(host=HOST, port=server.port, name=name, user="sendoff_service", tls=False)
    database = Database(connector(lambda: login, application_name="injections"))
    try:
        with owner_connection(server, name) as owner:
            yield database, owner
    finally:
        database.close()
        with owner_connection(server, "postgres") as connection:
            connection.execute(DROP.format(sql.Identifier(name)))


def report_console() -> Console:
    """Return a console on standard output as it is now."""
    return Console(width=None if sys.stdout.isatty() else WIDE)


def main(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a page shows it.")] = False,
) -> None:
    """Inject everything everywhere; exit 1 if something comes to another end than it should."""
    console = report_console()
    with pytest.MonkeyPatch.context() as patch, served() as server:
        set_credentials(patch)
        ends = {
            (service.name, injection): run_case(
                service, injection, fresh=lambda: clone_of_template(server)
            )
            for service, injection in cases()
        }
    if markdown:
        sys.stdout.write(as_markdown(ends))
    else:
        report(ends, console)
    if faults := [fault for case, end in ends.items() if (fault := fault_of(case, end))]:
        console.print("Not as designed:", *faults, sep="\n", markup=False)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
