"""The commands of the local stack: up, down, logs, psql, flush, reset."""

import os
from pathlib import Path
from typing import Annotated

import typer

from functions.cli import screen
from functions.cli.progress import reporting
from functions.cli.supervise import (
    NotRunning,
    caller_environment,
    end_with_uv,
    run,
    start_detached,
    stop,
    supervise,
    wait_for_other,
)
from infra.local.flush import forget_everything
from infra.local.postgres import binaries
from infra.local.state import DEFAULT_FOLDER, DEFAULT_PORTS, FolderInUse, Local, Ports, StateFolder

StateDir = Annotated[
    Path, typer.Option("--state-dir", help="Where the stack keeps its state.", show_default=False)
]
ApiPort = Annotated[int, typer.Option("--api-port", min=1, max=65535, help="Port of the API.")]
SimulatorPort = Annotated[
    int, typer.Option("--simulator-port", min=1, max=65535, help="Port of the simulator.")
]
EmulatorPort = Annotated[
    int, typer.Option("--emulator-port", min=1, max=65535, help="Port for AWS calls.")
]
DatabasePort = Annotated[
    int, typer.Option("--database-port", min=1, max=65535, help="Port of PostgreSQL.")
]

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def state_folder(path: Path) -> StateFolder:
    return StateFolder(path.expanduser().resolve())


def running(path: Path) -> tuple[StateFolder, Local]:
    """Return the folder and what the stack in it says; raise NotRunning when there is none."""
    folder = state_folder(path)
    if folder.holder() is None:
        raise NotRunning(f"No stack runs in {folder.path}. Start one with `sendoff up`.")
    return folder, wait_for_other(folder)


def up(
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when it is ready; end it with `down`.")
    ] = False,
    state_dir: StateDir = DEFAULT_FOLDER,
    api_port: ApiPort = DEFAULT_PORTS.api,
    simulator_port: SimulatorPort = DEFAULT_PORTS.simulator,
    emulator_port: EmulatorPort = DEFAULT_PORTS.emulator,
    database_port: DatabasePort = DEFAULT_PORTS.database,
) -> None:
    """Start the whole service on this machine: PostgreSQL, emulated AWS, provider simulator."""
    folder = state_folder(state_dir)
    ports = Ports(
        api=api_port, simulator=simulator_port, emulator=emulator_port, database=database_port
    )
    folder.create()
    try:
        if folder.holder() is not None:
            raise FolderInUse
        if detach:
            _in_background(folder, ports)
        else:
            _in_foreground(folder, ports)
    except FolderInUse:
        typer.echo(f"A stack already runs in {folder.path}. `sendoff down` ends it.")
        screen.show(wait_for_other(folder))


def _in_background(folder: StateFolder, ports: Ports) -> None:
    with reporting() as report:
        local = start_detached(folder, ports, report=report)
    screen.show(local)


def _in_foreground(folder: StateFolder, ports: Ports) -> None:
    end_with_uv()
    is_ready = False

    def when_ready(local: Local) -> None:
        nonlocal is_ready
        is_ready = True
        report.finish()
        screen.show(local)
        typer.echo("  Ctrl-C ends it.\n")

    with reporting() as report:
        try:
            run(
                folder,
                ports,
                report=report,
                environment=caller_environment(),
                when_ready=when_ready,
            )
        except KeyboardInterrupt:
            if not is_ready:
                raise
            typer.echo("\nEverything has ended. The state is kept; `sendoff reset` deletes it.")


def supervise_command(
    state_dir: StateDir,
    api_port: ApiPort,
    simulator_port: SimulatorPort,
    emulator_port: EmulatorPort,
    database_port: DatabasePort,
    stays: Annotated[bool, typer.Option("--stays")] = False,
) -> None:
    """Be the background process of `up --detach`, or of a command that brings its own stack."""
    ports = Ports(
        api=api_port, simulator=simulator_port, emulator=emulator_port, database=database_port
    )
    status = supervise(StateFolder(state_dir), ports, environment=caller_environment(), stays=stays)
    raise typer.Exit(status)


def down(state_dir: StateDir = DEFAULT_FOLDER) -> None:
    """End the running stack; its state is kept."""
    folder = state_folder(state_dir)
    ended = stop(folder)
    typer.echo(
        f"The stack in {folder.path} has ended." if ended else f"No stack runs in {folder.path}."
    )


def reset(state_dir: StateDir = DEFAULT_FOLDER) -> None:
    """End the running stack, if there is one, and delete its state: database, keys, logs."""
    folder = state_folder(state_dir)
    stop(folder)
    deleted = folder.delete()
    typer.echo(
        f"The state in {folder.path} is deleted."
        if deleted
        else f"There is no state of a stack in {folder.path}; nothing was deleted."
    )


def psql(context: typer.Context, state_dir: StateDir = DEFAULT_FOLDER) -> None:
    """Open psql on the stack's database; every other argument is passed on to it."""
    _, local = running(state_dir)
    own = binaries() / "psql"
    program = str(own) if own.exists() else "psql"
    caller_environment()
    os.execvp(program, [program, local.database_url, *context.args])


def flush(state_dir: StateDir = DEFAULT_FOLDER) -> None:
    """Forget every notification: rows, queues and the simulator's ledger. Tenants and keys stay."""
    folder, local = running(state_dir)
    caller_environment()
    forget_everything(local)
    typer.echo(f"The stack in {folder.path} is empty; organizations and keys are kept.")
