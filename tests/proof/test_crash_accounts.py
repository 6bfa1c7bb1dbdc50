"""The exam of the crashes can fail: its accounts notice, and a point nobody reached is told."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

import psycopg
import pytest

from functions.core.login import Login
from functions.store.close import CLOSE
from tests.proof.crash_accounts import Account, account
from tests.proof.crash_boundary import Fault, Phase, Point, Strike
from tests.proof.crash_case import run_dry
from tests.proof.crash_plan import Case, a_share_of, cases_of
from tests.proof.crash_report import name_of
from tests.proof.crash_run import Result
from tests.proof.crash_scene import Scene, arrange
from tests.proof.crash_scenes import SCENES
from tests.proof.crash_wire import label_of
from tests.proof.crash_world import World

KEYED_SEND, RETRY_SEND = (
    next(scene for scene in SCENES if scene.name == name)
    for name in ("send keyed", "send keyless retry")
)
POINTS = {
    Point(number=1, phase=Phase.BEFORE): "connect",
    Point(number=1, phase=Phase.AFTER): "connect",
    Point(number=2, phase=Phase.BEFORE): "BEGIN",
    Point(number=3, phase=Phase.BEFORE): "close.CLOSE",
    Point(number=4, phase=Phase.BEFORE): "COMMIT",
    Point(number=5, phase=Phase.WRITTEN): "submit prompt",
}


@contextmanager
def over(scene: Scene, login: Login, owner: psycopg.Connection) -> Generator[World]:
    """Yield the world of a scene that has come to its end without a fault."""
    arrange(owner, scene)
    world = World(login, owner, declaration=scene.declaration)
    try:
        scene.prepare(world)
        world.keep()
        _, undisturbed = run_dry(world, scene)
        assert undisturbed.wrong == []
        yield world
    finally:
        world.close()


def forget_a_row(world: World) -> None:
    world.owner.execute("DELETE FROM notifications WHERE id = %s", [world.memory.acknowledged[0]])


def leave_it_leased(world: World) -> None:
    world.owner.execute(
        """
        UPDATE notifications SET status = 'leased', evidence_rank = 0, lease_until = now()
         WHERE id = %s
        """,
        [world.memory.acknowledged[0]],
    )


def take_effect_twice(world: World) -> None:
    world.memory.effects.append(dataclasses.replace(world.memory.effects[0]))


def take_effect_for_nobody(world: World) -> None:
    first = world.memory.effects[0]
    stranger = dataclasses.replace(first.call, notification_id=first.call.attempt_id)
    world.memory.effects.append(dataclasses.replace(first, call=stranger))


def withdraw_what_was_sent(world: World) -> None:
    world.memory.withdrawn.add(world.memory.acknowledged[0])


def leave_an_attempt_open(world: World) -> None:
    world.owner.execute("UPDATE attempts SET outcome = NULL, finished_at = NULL")


def forget_a_transition(world: World) -> None:
    world.owner.execute("DELETE FROM transitions WHERE to_status = 'delivered'")


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (forget_a_row, "lost: 1 acknowledged and not there"),
        (leave_it_leased, "lost: it is still leased"),
        (take_effect_twice, "doubled: one key took effect twice"),
        (take_effect_for_nobody, "unexpected: effects for 1 that are not there"),
        (withdraw_what_was_sent, "its cancellation was granted, and it is delivered"),
        (leave_an_attempt_open, "1 open attempts"),
        (forget_a_transition, "and its last transition went to submitted"),
    ],
)
def test_the_accounts_notice(
    tamper: Callable[[World], None], said: str, login: Login, owner: psycopg.Connection
) -> None:
    with over(KEYED_SEND, login, owner) as world:
        tamper(world)
        assert said in "\n".join(account(world, KEYED_SEND).wrong)


def test_an_effect_more_is_right_only_of_an_attempt_recorded_as_unknown(
    login: Login, owner: psycopg.Connection
) -> None:
    with over(RETRY_SEND, login, owner) as world:
        first = world.memory.effects[0]
        key = f"{first.call.notification_id}.{first.call.notification_id}"
        again = dataclasses.replace(first.call, key=key)
        world.memory.effects.append(dataclasses.replace(first, call=again))
        assert "doubled: 2 effects, 0 of them declared" in "\n".join(
            account(world, RETRY_SEND).wrong
        )
        owner.execute(
            "UPDATE attempts SET outcome = 'unknown' WHERE id = %s", [first.call.attempt_id]
        )
        assert "doubled" not in "\n".join(account(world, RETRY_SEND).wrong)


def test_a_third_of_the_cases_holds_every_point_and_follows_from_its_seed() -> None:
    cases = cases_of(POINTS)
    third = a_share_of(cases, seed="1")
    assert {case.strike.point for case in third} == set(POINTS)
    assert len(cases) / 3 <= len(third) < len(cases) / 2
    assert a_share_of(cases, seed="1") == third
    assert a_share_of(cases, seed="2") != third


def test_a_point_that_no_fault_reached_is_a_problem() -> None:
    undisturbed = Account(ends=Counter(), effects=0, extra=0, calls=0)
    result = Result(scene="one", points=POINTS, undisturbed=undisturbed, cases=len(POINTS))
    assert result.missed == sorted(POINTS)
    assert len(result.problems) == len(POINTS)


def test_boundaries_are_called_what_the_code_calls_them() -> None:
    assert label_of(CLOSE.replace("%(now)s", "$1")) == "close.CLOSE"
    assert label_of("COMMIT") == "COMMIT"
    assert name_of(POINTS, 2) == "BEGIN (close.CLOSE)"
    assert name_of(POINTS, 4) == "COMMIT (close.CLOSE)"
    assert name_of(POINTS, 5) == "submit prompt"


def test_every_kind_of_fault_has_a_case() -> None:
    faults = {case.strike.fault for case in cases_of(POINTS)}
    queue = {Point(number=1, phase=Phase.BEFORE): "SendMessageBatch"}
    assert faults | {case.strike.fault for case in cases_of(queue)} == set(Fault)
    strike = Strike(point=Point(number=1, phase=Phase.BEFORE), fault=Fault.KILL)
    assert Case(strike=strike, label="connect", deliveries=2) in cases_of(POINTS)
