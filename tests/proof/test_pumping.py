"""A pumping burst is stopped within seconds, and a flash sale and weeks of others never are."""

from decimal import Decimal

import psycopg
import pytest

from functions.store.connection import Database
from tests.proof.pumping import MAY_GET_OUT, Played, play
from tests.proof.pumping_stream import Kind, Plan

SMALL = Plan(days=8, shop_a_day=80, app_a_day=100, local_a_day=30, burst=300)


def test_a_pumping_burst_is_held_and_a_flash_sale_is_not(
    database: Database, owner: psycopg.Connection
) -> None:
    played = play(SMALL, database=database, owner=owner)
    assert played.faults == []
    burst = played.tallies[Kind.BURST]
    assert burst.messages == SMALL.burst
    assert burst.let_out <= MAY_GET_OUT
    assert burst.stopped.total() == SMALL.burst - burst.let_out
    assert max(played.delays.values()) < 15
    for kind in (Kind.ORDINARY, Kind.GROWING, Kind.SALE):
        tally = played.tallies[kind]
        assert (tally.let_out, tally.stopped) == (tally.messages, {})
    assert sum(hold.waiting for hold in played.holds) == burst.stopped["hold"]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 6))
def test_whatever_the_seed_the_burst_is_held_and_nothing_else(
    seed: int, database: Database, owner: psycopg.Connection
) -> None:
    played: Played = play(Plan(seed=seed), database=database, owner=owner)
    assert played.faults == []
    assert played.tallies[Kind.BURST].money < Decimal(10)
