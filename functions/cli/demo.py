"""`sendoff demo`: the main job, through a whole stack, judged by recipients alone.

Posts the notifications of events/ingest.batch.json, waits until all have ended, and compares ends
and effects with what each recipient's behaviour demands. Kills on record in the state folder
(`sendoff chaos`) excuse a few ends, as demo_chaos has it; the demo says that they do.
"""

import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
import urllib3
from rich.console import Console

from functions.cli import chaos_record, demo_batch, demo_screen
from functions.cli.chaos_record import Kill, kills
from functions.cli.demo_chaos import excuse
from functions.cli.demo_client import Batch, Stack
from functions.cli.demo_verdict import Item, Seen, address_of, judge
from functions.cli.progress import reporting
from functions.cli.stack import (
    ApiPort,
    DatabasePort,
    EmulatorPort,
    SimulatorPort,
    StateDir,
    state_folder,
)
from functions.cli.supervise import running_or_own
from functions.core.states import Status
from infra.local.state import DEFAULT_FOLDER, DEFAULT_PORTS, Local, Ports, StateFolder

MAX_ITEMS = 50_000
"""The simulator's ledger keeps twice as many requests."""
TIMEOUT_SECONDS, CHAOS_TIMEOUT_SECONDS = 300.0, 3600.0
"""A claim that is killed comes back with the next minute, a lost lease takes as long."""
POLL_SECONDS = 0.5
SETTLE_SECONDS = 3.0
"""How long a wrong end may still be corrected by a late report after everything has ended."""
CLOCK_SLACK = timedelta(seconds=1)


def demo(
    items: Annotated[
        int, typer.Option("--items", min=1, max=MAX_ITEMS, help="How many notifications.")
    ] = demo_batch.CYCLE,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=1,
            help="Seconds after which it has failed.  [default: 300; 3600 beside chaos]",
            show_default=False,
        ),
    ] = None,
    state_dir: StateDir = DEFAULT_FOLDER,
    api_port: ApiPort = DEFAULT_PORTS.api,
    simulator_port: SimulatorPort = DEFAULT_PORTS.simulator,
    emulator_port: EmulatorPort = DEFAULT_PORTS.emulator,
    database_port: DatabasePort = DEFAULT_PORTS.database,
) -> None:
    """Send a thousand notifications through the local stack and check every end and effect.

    Uses the stack that runs, or starts one with the given ports and ends it afterwards.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that an own stack is ended
    ports = Ports(
        api=api_port, simulator=simulator_port, emulator=emulator_port, database=database_port
    )
    folder = state_folder(state_dir)
    with reporting() as report, running_or_own(folder, ports, report=report) as local:
        report.finish()
        console = demo_screen.console_for_output()
        is_right = run(local, count=items, timeout_seconds=timeout, console=console)
    if not is_right:
        raise typer.Exit(1)


def run(
    local: Local,
    *,
    count: int,
    timeout_seconds: float | None,
    console: Console,
    settle_seconds: float = SETTLE_SECONDS,
) -> bool:
    """Send ``count`` notifications; return whether every end and every effect is as expected, or
    as the kills on record excuse it."""
    folder, since = StateFolder(Path(local.state_dir)), datetime.now(UTC) - CLOCK_SLACK
    wanted = notifications(count, origin=local.simulator_url)
    expected = [
        Item(id="", channel=one["channel"], recipient=one["recipient"]).expected for one in wanted
    ]
    silent = sum(one.status is Status.UNCONFIRMED for one in expected)
    with (
        urllib3.PoolManager(maxsize=4) as http,
        demo_screen.waiting(console, total=count, silent=silent) as progress,
    ):
        is_over = timer(folder, seconds=timeout_seconds, since=since)
        stack = Stack(local, http, is_over, progress.lost)
        stack.check_health()
        lift_suppressions(stack, wanted)
        sent = send(stack, wanted, since=since)
        wait(stack, sent, progress)
        killed = kills(folder, since=since)
        seen = settle(
            stack,
            sent,
            seconds=settle_seconds,
            is_owed=lambda: bool(killed) and stack.pending_reports() > 0,
        )
        seen = [excused(stack, one, killed) for one in seen]
    demo_screen.show_table(console, seen)
    demo_screen.show_offenders(console, seen)
    words = demo_screen.summary(seen, accepted_at=sent.batches[0].accepted_at)
    console.print(words, highlight=False)
    if killed:
        words = demo_screen.under_chaos(seen, killed, log=folder.log(chaos_record.LOG))
        console.print(words, highlight=False, soft_wrap=True)
    return not any(one.faults for one in seen)


def timer(
    folder: StateFolder,
    *,
    seconds: float | None,
    since: datetime,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], bool]:
    """Return what says that the time is up; without ``seconds`` kills on record make it longer."""
    begun_at = clock()

    def is_over() -> bool:
        limit = seconds
        if limit is None:
            limit = CHAOS_TIMEOUT_SECONDS if kills(folder, since=since) else TIMEOUT_SECONDS
        return clock() - begun_at > limit

    return is_over


def notifications(count: int, *, origin: str) -> list[dict[str, Any]]:
    """Return the recorded notifications, cut or continued to ``count``, for the simulator there."""
    wanted = demo_batch.recorded()[:count] + demo_batch.items(count)[demo_batch.CYCLE :]
    for one in wanted:
        one["recipient"] = one["recipient"].replace(f"{demo_batch.ORIGIN}/", f"{origin}/", 1)
    return wanted


def lift_suppressions(stack: Stack, wanted: Sequence[dict[str, Any]]) -> None:
    """Lift what would keep a notification from its recipient, and nothing else."""
    addresses = {address_of(one["channel"], one["recipient"]) for one in wanted}
    for active in list(stack.active_suppressions()):
        recipient = active["recipient"]
        if recipient is not None and address_of(active["channel"], recipient) in addresses:
            stack.lift(active)


@dataclass(frozen=True, slots=True)
class Sent:
    """What was accepted, and since when its effects count."""

    items: list[Item]
    batches: list[Batch]
    since: datetime


def send(stack: Stack, wanted: Sequence[dict[str, Any]], *, since: datetime) -> Sent:
    """Post everything in batches of at most a thousand, each under a fresh key."""
    run_name = f"demo-{secrets.token_hex(8)}"
    items: list[Item] = []
    batches: list[Batch] = []
    for begin in range(0, len(wanted), demo_batch.CYCLE):
        part = list(wanted[begin : begin + demo_batch.CYCLE])
        batch = stack.post(demo_batch.body_of(part), idempotency_key=f"{run_name}-{begin}")
        batches.append(batch)
        items += [
            Item(id=id, channel=one["channel"], recipient=one["recipient"])
            for id, one in zip(batch.notification_ids, part, strict=True)
        ]
    return Sent(items, batches, since)


def wait(stack: Stack, sent: Sent, progress: demo_screen.Waiting) -> None:
    """Return when every batch is completed, or when the time is up."""
    completed: dict[str, Counter[str]] = {}
    while not stack.is_over():
        counts: Counter[str] = Counter()
        for batch in sent.batches:
            if batch.id not in completed:
                state = stack.batch(batch.id)
                counts.update(state["counts"])
                if state["status"] == "completed":
                    completed[batch.id] = Counter(state["counts"])
            else:
                counts.update(completed[batch.id])
        progress.show(counts)
        if len(completed) == len(sent.batches):
            return
        time.sleep(POLL_SECONDS)


def settle(
    stack: Stack, sent: Sent, *, seconds: float, is_owed: Callable[[], bool] = lambda: False
) -> list[Seen]:
    """Return what became of every item; look again while a late report may still correct an end:
    for ``seconds``, and for as long as reports ``is_owed``."""
    until = time.monotonic() + seconds
    while True:
        is_last = stack.is_over() or (time.monotonic() > until and not is_owed())
        seen = judge(
            sent.items,
            notifications=[one for batch in sent.batches for one in stack.notifications(batch.id)],
            effects=stack.effects(since=sent.since),
            suppressions=stack.active_suppressions(),
        )
        if is_last or not any(one.faults for one in seen):
            return seen
        time.sleep(POLL_SECONDS)


def excused(stack: Stack, seen: Seen, killed: Sequence[Kill]) -> Seen:
    """Return ``seen`` with the excuse it has, if the kills make its end right."""
    if not killed or not seen.faults or seen.status != Status.DEAD:
        return seen
    return replace(seen, excuse=excuse(seen, stack.notification(seen.item.id), killed))
