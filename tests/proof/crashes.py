"""Crash every function at every boundary, and print what came of it.

``python -m tests.proof.crashes`` runs a third of the cases, chosen by a seed; ``--all`` runs all.
Ends with 1 when a boundary was not reached or the accounts of a case are wrong.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from rich.console import Console

from functions.core.login import Login
from functions.migrate.migrate import migrate
from infra.local.postgres import HOST, SUPERUSER, Postgres
from tests.conftest import TEST_OPTIONS, free_port
from tests.proof.crash_plan import DEFAULT_SEED, SEED_VARIABLE
from tests.proof.crash_report import print_report
from tests.proof.crash_run import Result, fresh_database, run_scene
from tests.proof.crash_scenes import SCENES

MEMORY = Path("/dev/shm")
REPORT_WIDTH = 132


@contextmanager
def server() -> Generator[Postgres]:
    """Run a server, in memory where that is to be had, with a migrated database ``template``."""
    folder = Path(
        tempfile.mkdtemp(prefix="sendoff-proof-", dir=MEMORY if MEMORY.is_dir() else None)
    )
    postgres = Postgres(folder / "cluster", free_port(), folder / "postgres.log", TEST_OPTIONS)
    try:
        postgres.start()
        with _owner(postgres, "postgres") as owner:
            owner.execute("CREATE DATABASE template")
        with _owner(postgres, "template") as owner:
            migrate(owner)
        yield postgres
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _owner(postgres: Postgres, name: str) -> psycopg.Connection:
    return psycopg.connect(
        host=HOST, port=postgres.port, dbname=name, user=SUPERUSER, autocommit=True
    )


def run_named(name: str, login: Login, seed: str | None) -> Result:
    (scene,) = [scene for scene in SCENES if scene.name == name]
    return run_scene(scene, login, seed=seed)


def main(
    seed: Annotated[
        str, typer.Option(envvar=SEED_VARIABLE, help="Which third of the cases to run.")
    ] = DEFAULT_SEED,
    all_cases: Annotated[bool, typer.Option("--all", help="Run every case there is.")] = False,
    scene: Annotated[
        list[str] | None, typer.Option(help="Only the scenes whose name begins so.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Scenes at once.")] = os.cpu_count() or 1,
) -> None:
    """Crash every function at every boundary; say what came of it."""
    chosen = [one for one in SCENES if not scene or one.name.startswith(tuple(scene))]
    used = None if all_cases else seed
    console = Console(width=None if sys.stdout.isatty() else REPORT_WIDTH)
    with server() as postgres, _owner(postgres, "postgres") as owner:
        logins = [fresh_database(owner, one) for one in chosen]
        names = [one.name for one in chosen]
        with ProcessPoolExecutor(max(jobs, 1), mp_context=get_context("spawn")) as pool:
            results = list(pool.map(run_named, names, logins, [used] * len(chosen)))
    print_report(console, results, seed=used)
    raise typer.Exit(1 if any(result.problems for result in results) else 0)


if __name__ == "__main__":
    typer.run(main)
