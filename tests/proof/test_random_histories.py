"""Random histories keep every promise of DESIGN §2; and what would break one is seen.

The report over all of it: ``python -m tests.proof.histories``.
"""

from collections import Counter
from collections.abc import Generator
from dataclasses import replace

import pytest

from functions.core.login import Login
from tests.proof.histories import EXAMPLES, run_all, run_part
from tests.proof.histories_clients import cancel
from tests.proof.histories_coverage import (
    ENOUGH,
    IMPOSSIBLE,
    STATUSES,
    Event,
    Visits,
    complaints,
    table,
    together,
)
from tests.proof.histories_database import connected_as_all
from tests.proof.histories_gateway import BEHAVIOURS
from tests.proof.histories_invariants import Broken
from tests.proof.histories_scenes import SCENES, Casting, play
from tests.proof.histories_world import World

FEW = 60
"""Histories, the same ones each time: a few seconds' worth of the ten thousand."""


def test_random_histories_keep_every_promise(login: Login) -> None:
    part = run_part(login=login, examples=FEW, number=None)
    assert part.failure is None, part.failure
    assert complaints(part.visits, examples=0) == []


@pytest.mark.soak
def test_ten_thousand_random_histories_keep_every_promise(login: Login) -> None:
    parts = run_all(port=login.port, examples=EXAMPLES, number=1, workers=2)
    assert [part.failure for part in parts if part.failure] == []
    assert complaints(together(part.visits for part in parts), examples=EXAMPLES) == []


@pytest.fixture
def world(login: Login) -> Generator[World]:
    """A world in which one notification waits, one is on its way and one was delivered."""
    with connected_as_all(login) as to:
        world = World(to=to, visits=Counter())
        scenes = ("waiting after an attempt", "begun", "delivered")
        play(world, [Casting(scene=one, behaviour="accepted") for one in scenes], organization=0)
        yield world


@pytest.mark.parametrize("scene", sorted(SCENES))
def test_a_scene_is_played_to_its_end_however_the_provider_answers(
    login: Login, scene: str
) -> None:
    with connected_as_all(login) as to:
        for behaviour in (*BEHAVIOURS, "not begun"):
            casting = Casting(scene=scene, behaviour=behaviour, endings=["report0", "end"])
            play(World(to=to, visits=Counter()), [casting], organization=0)


TAMPERINGS = {
    "a row is gone": "DELETE FROM notifications WHERE status = 'pending'",
    "a row was moved": "UPDATE notifications SET status = 'cancelled', final_at = now()"
    " WHERE status = 'pending'",
    "a row was moved without a trace": "DELETE FROM transitions",
    "a row has another lease": "UPDATE notifications SET lease_number = 7",
    "an attempt was forgotten": "DELETE FROM attempts WHERE outcome IS NULL",
    "an attempt has another outcome": "UPDATE attempts SET outcome = 'unknown'"
    " WHERE outcome = 'transient'",
    "evidence came from nowhere": "UPDATE notifications SET evidence_at = now()"
    " WHERE evidence_rank > 0",
    "a doubt came from nowhere": "UPDATE notifications SET in_doubt = 1",
    "an address was suppressed by nobody": """
        INSERT INTO suppressions
               (organization_id, channel, recipient_hash, kind, reason, source, source_at)
        SELECT organization_id, channel, recipient_hash, 'suppress', 'x', 'x', now()
          FROM notifications LIMIT 1
    """,
}


@pytest.mark.parametrize("statement", TAMPERINGS.values(), ids=TAMPERINGS)
def test_what_no_event_may_do_is_seen(world: World, statement: str) -> None:
    with pytest.raises(Broken):
        world.happen("tampering", lambda: world.to.owner.execute(statement.encode()), {})


def test_an_effect_that_nobody_accounts_for_is_seen(world: World) -> None:
    (row,) = (row for row in world.rows() if row.status == "pending")
    (made,) = (one for one in world.gateways.made if one.id == row.id)
    world.gateways.made.append(replace(made, has_effect=True))
    with pytest.raises(Broken, match="accepted all the same"):
        cancel(world, row)


def visited(number: int) -> Visits:
    """Return visits in which every possible pair was met ``number`` times."""
    return Counter(
        {
            (status, str(event)): number
            for event in Event
            for status in STATUSES
            if (status, event) not in IMPOSSIBLE
        }
    )


def test_pairs_that_were_met_often_enough_are_no_complaint() -> None:
    assert complaints(visited(ENOUGH), examples=EXAMPLES) == []


def test_a_pair_that_was_met_too_seldom_is_told() -> None:
    visits = visited(ENOUGH)
    visits["dead", str(Event.REQUEUE)] -= 1
    (complaint,) = complaints(visits, examples=EXAMPLES)
    assert complaint == "met 49 times, not 50: dead, requeue"


def test_a_pair_that_was_met_although_it_cannot_be_is_told() -> None:
    visits = visited(ENOUGH)
    visits["delivered", str(Event.CLAIM)] += 1
    (complaint,) = complaints(visits, examples=EXAMPLES)
    assert complaint == "met 1 times, though impossible: delivered, claim"


def test_every_pair_that_cannot_be_has_its_reason_in_the_table() -> None:
    printed = table(visited(ENOUGH))
    assert all(reason in printed for reason in IMPOSSIBLE.values())
