"""Run the same late-worker probes on two other PostgreSQL queues and on Sendoff, on one server, and
print the table that the README shows.

The other two are no dependencies of this project: the command in the README installs them for one
run. ``--json`` prints the findings for a machine; ``--check`` compares the table with the README.
"""

import argparse
import dataclasses
import importlib
import importlib.metadata
import json
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from rich.console import Console

from functions.core.login import Login
from functions.migrate.migrate import migrate
from infra.local.postgres import HOST, Postgres
from tests.conftest import owner_connection
from tests.proof.rivals_probe import PROBES, Finding, System
from tests.proof.rivals_sendoff import Sendoff
from tests.proof.rivals_server import new_database, thrown_away_server, url_of
from tests.proof.rivals_table import block_of, table_of
from tests.repo.readme import README

RIVALS = {"pgqueuer": "PgQueuer", "procrastinate": "Procrastinate"}
"""Package and the class in its module here that stands for it."""

FINE, DIFFERENT, USAGE = 0, 1, 2


Maker = Callable[[], AbstractContextManager[System]]


def makers_on(server: Postgres) -> dict[str, Maker]:
    """Return a maker per system; each call makes a database with one job in it."""
    makers: dict[str, Maker] = {}
    for package, kind in RIVALS.items():
        adapter: Any = importlib.import_module(f"tests.proof.rivals_{package}")
        makers[package] = partial(_rival, server, getattr(adapter, kind))
    template = new_database(server)
    with owner_connection(server, template) as connection:
        migrate(connection)
    return makers | {Sendoff.name: partial(_sendoff, server, template)}


@contextmanager
def _rival(server: Postgres, kind: Callable[..., System]) -> Generator[System]:
    name = new_database(server)
    with owner_connection(server, name) as owner:
        yield kind(url_of(server, name), owner)


@contextmanager
def _sendoff(server: Postgres, template: str) -> Generator[System]:
    name = new_database(server, template=template)
    login = Login(host=HOST, port=server.port, name=name, user="sendoff_service", tls=False)
    with owner_connection(server, name) as owner:
        yield Sendoff(login, owner)


def find(console: Console) -> list[Finding]:
    """Run every probe on every system."""
    findings: list[Finding] = []
    with thrown_away_server() as server:
        for name, make in makers_on(server).items():
            for probe, run in PROBES.items():
                with console.status(f"{name}: {probe}"), make() as system:
                    findings.append(run(system))
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--check", action="store_true", help="compare with the README")
    options = parser.parse_args()
    console = Console(stderr=True)
    try:
        versions = {package: importlib.metadata.version(package) for package in RIVALS}
    except importlib.metadata.PackageNotFoundError as error:
        console.print(f"{error.name} is not installed: run this as the README says.")
        return USAGE
    findings = find(console)
    titles = {package: f"{package} {version}" for package, version in versions.items()}
    table = table_of(findings, titles=titles | {Sendoff.name: Sendoff.name})
    answer = {"versions": versions, "findings": [dataclasses.asdict(one) for one in findings]}
    sys.stdout.write(json.dumps(answer, indent=2) + "\n" if options.json else table)
    if options.check and block_of(README.read_text(encoding="utf-8")) != table:
        console.print("The README shows another table.")
        return DIFFERENT
    return FINE


if __name__ == "__main__":
    sys.exit(main())
