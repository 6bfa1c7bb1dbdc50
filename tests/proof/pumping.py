"""Play a seeded stream through the guard on real PostgreSQL, and print what an attack got away with
and what else was in its way.

Time is a parameter: weeks pass in seconds. Exits 1 if the burst got more than it may, or anything
else was stopped.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated
from uuid import UUID

import psycopg
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from functions.core.abuse import segments_of
from functions.core.login import Login
from functions.migrate.migrate import migrate
from functions.store.connection import Database, connector
from functions.store.hold import ListedHold, list_holds
from functions.store.survey import promote
from infra.local.postgres import HOST
from tests.conftest import owner_connection
from tests.guarding import add_texts, all_are_sent, ruled
from tests.proof.pumping_stream import APP, LOCAL, PRICES, SHOP, Kind, Labelled, Plan, stream
from tests.proof.rivals_server import new_database, thrown_away_server

MAY_GET_OUT, MAY_COST = 50, Decimal(5)
NAMES = {SHOP: "shop", APP: "app", LOCAL: "local"}

QUIET, BUSY = timedelta(hours=3), timedelta(seconds=1)
"""How far time moves at once: by ordinary hours, and while a sale or the burst goes on."""

BUSY_FOR = timedelta(minutes=2)
AFTERWARDS = timedelta(hours=12)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of the messages of one kind; each counts in the first way it was not let out."""

    messages: int = 0
    let_out: int = 0
    money: Decimal = Decimal(0)
    stopped: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of a stream."""

    plan: Plan
    tallies: dict[Kind, Tally]
    holds: list[ListedHold]

    @property
    def delays(self) -> dict[str, float]:
        """Seconds from the burst's first message until its countries were on hold."""
        return {
            f"{hold.country}": (hold.opened_at - self.plan.burst_at).total_seconds()
            for hold in self.holds
            if hold.country
        }

    @property
    def faults(self) -> list[str]:
        """What is not as promised."""
        burst = self.tallies[Kind.BURST]
        others = {kind: tally for kind, tally in self.tallies.items() if kind is not Kind.BURST}
        faults = [
            f"{number} messages of {kind} were stopped ({name})"
            for kind, tally in others.items()
            for name, number in tally.stopped.items()
        ]
        if burst.let_out > MAY_GET_OUT and burst.money > MAY_COST:
            faults.append(f"{burst.let_out} messages of the burst got out, for {burst.money} USD")
        if not self.holds:
            faults.append("nothing was held")
        return faults


def play(plan: Plan, *, database: Database, owner: psycopg.Connection) -> Played:
    """Play the stream through claim and guard; everything that is let out has been sent."""
    with owner.cursor() as cursor:
        statement = "INSERT INTO sms_prices (country, amount) VALUES (%s, %s)"
        cursor.executemany(statement, list(PRICES.items()))
    kinds: dict[UUID, Labelled] = {}
    tallies: dict[Kind, Tally] = defaultdict(Tally)
    stopped: set[UUID] = set()
    messages = stream(plan)
    coming = 0
    for now in _moments(plan):
        last = coming
        while coming < len(messages) and messages[coming].text.at <= now:
            coming += 1
        if coming > last:
            ids = add_texts(owner, [one.text for one in messages[last:coming]])
            kinds |= zip(ids, messages[last:coming], strict=True)
        promote(database, now=now)
        while verdicts := ruled(database, now=now):
            for row, verdict in verdicts:
                one = kinds[row.id]
                tally = tallies[one.kind]
                if verdict.name == "allow":
                    tally.let_out += 1
                    tally.money += _price(one)
                elif row.id not in stopped:
                    stopped.add(row.id)
                    tally.stopped[verdict.name] += 1
            all_are_sent(owner, now=now)
    for one in kinds.values():
        tallies[one.kind].messages += 1
    return Played(plan=plan, tallies=dict(tallies), holds=list_holds(database, limit=500))


def _moments(plan: Plan) -> Iterator[datetime]:
    """Yield the moments at which the claim looks."""
    now, end = plan.last_day - timedelta(days=plan.days), plan.burst_at + AFTERWARDS
    while now < end:
        is_busy = any(at <= now < at + BUSY_FOR for at in (plan.sale_at, plan.burst_at))
        begins = [at for at in (plan.sale_at, plan.burst_at) if at > now]
        now = now + BUSY if is_busy else min([now + QUIET, *begins])
        yield now


def _price(one: Labelled) -> Decimal:
    price = PRICES.get(one.text.country or "", max(PRICES.values()))
    return price * segments_of(one.text.content)


def report(played: Played, console: Console) -> None:
    """Print what became of each kind of message, and what was held."""
    table = Table("messages", "sent", "let out", "money out", "held", "deferred", box=box.MARKDOWN)
    for kind in Kind:
        tally = played.tallies[kind]
        counts = (tally.messages, tally.let_out, tally.stopped["hold"], tally.stopped["defer"])
        sent, let_out, held, deferred = (f"{count:,}" for count in counts)
        table.add_row(kind, sent, let_out, f"{tally.money:.2f} USD", held, deferred)
    console.print(table)
    for hold in played.holds:
        slice_of = hold.country or hold.prefix or "no country"
        seconds = (hold.opened_at - played.plan.burst_at).total_seconds()
        console.print(
            f"{NAMES[hold.organization_id]}: {slice_of} on hold {seconds:.0f} s after the burst "
            f"began, at {hold.today} messages in 24 hours (usually {hold.usual:.1f}); "
            f"{hold.waiting:,} wait."
        )


def main(
    days: Annotated[int, typer.Option("--days", help="Of ordinary traffic before.")] = 28,
    seed: Annotated[int, typer.Option("--seed", help="Of the stream.")] = 1,
) -> None:
    """Play the stream; exit 1 if the burst got too much, or anything else was stopped."""
    console = Console(width=None if sys.stdout.isatty() else 100)
    plan = Plan(days=days, seed=seed)
    with thrown_away_server() as server:
        name = new_database(server)
        with owner_connection(server, name) as owner:
            migrate(owner)
            login = Login(host=HOST, port=server.port, name=name, user="sendoff_service", tls=False)
            database = Database(connector(lambda: login, application_name="pumping"))
            with console.status("weeks are passing"):
                played = play(plan, database=database, owner=owner)
            database.close()
    report(played, console)
    if faults := played.faults:
        console.print("Not as promised: " + "; ".join(faults))
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
