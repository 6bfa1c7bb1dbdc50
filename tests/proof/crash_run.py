"""Run the cases of one scene in a database of its own, one after another."""

from collections import Counter
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from functions.core.login import Login
from infra.local.postgres import HOST, SUPERUSER
from tests.proof.crash_accounts import Account, Outcome, outcome_of
from tests.proof.crash_boundary import Point
from tests.proof.crash_case import run_case, run_dry
from tests.proof.crash_plan import Case, a_share_of, cases_of
from tests.proof.crash_scene import Scene, arrange
from tests.proof.crash_world import World

VACUUM_EVERY = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A case whose accounts are wrong, and how."""

    case: Case
    texts: tuple[str, ...]

    def __str__(self) -> str:
        point, fault = self.case.strike.point, self.case.strike.fault
        where = f"{point.number} {self.case.label}, {fault} {point.phase}"
        return f"{where}, delivered {self.case.deliveries} times: {'; '.join(self.texts)}"


@dataclass(slots=True, kw_only=True)
class Result:
    """What the cases of a scene came to."""

    scene: str
    points: dict[Point, str]
    """What the dry pass counted."""
    undisturbed: Account
    cases: int
    """How many there are; the keys of ``outcomes`` are those that were run."""
    outcomes: dict[Case, Outcome] = field(default_factory=dict[Case, Outcome])
    wrong: list[Wrong] = field(default_factory=list[Wrong])
    unreached: list[Case] = field(default_factory=list[Case])
    notifications: int = 0
    effects: int = 0
    extra: int = 0
    calls: int = 0

    @property
    def missed(self) -> list[Point]:
        """Points of the dry pass at which no fault came."""
        reached = {case.strike.point for case in self.outcomes if case not in self.unreached}
        return sorted(set(self.points) - reached)

    @property
    def boundaries(self) -> int:
        return len({point.number for point in self.points})

    @property
    def counts(self) -> Counter[Outcome]:
        return Counter(self.outcomes.values())

    @property
    def problems(self) -> list[str]:
        """Everything that makes the scene fail, in words."""
        return [
            *(f"without a fault: {text}" for text in self.undisturbed.wrong),
            *(str(wrong) for wrong in self.wrong),
            *(f"the fault did not come: {case}" for case in self.unreached),
            *(f"no fault came at {point} ({self.points[point]})" for point in self.missed),
        ]


def run_scene(scene: Scene, login: Login, *, seed: str | None) -> Result:
    """Run the scene in the fresh database of ``login``: all its cases, or a third by ``seed``."""
    with psycopg.connect(
        host=login.host, port=login.port, dbname=login.name, user=SUPERUSER, autocommit=True
    ) as owner:
        arrange(owner, scene)
        world = World(login, owner, declaration=scene.declaration)
        try:
            scene.prepare(world)
            world.keep()
            return _run(world, scene, seed)
        finally:
            world.close()


def _run(world: World, scene: Scene, seed: str | None) -> Result:
    points, undisturbed = run_dry(world, scene)
    cases = cases_of(points)
    result = Result(scene=scene.name, points=points, undisturbed=undisturbed, cases=len(cases))
    chosen = cases if seed is None else a_share_of(cases, seed=f"{seed} {scene.name}")
    for number, case in enumerate(chosen):
        if number % VACUUM_EVERY == 0:
            world.snapshot.vacuum()
        verdict = run_case(world, scene, case)
        now = verdict.account
        result.outcomes[case] = outcome_of(now, undisturbed)
        if now.wrong:
            result.wrong.append(Wrong(case=case, texts=tuple(now.wrong)))
        if not verdict.is_reached:
            result.unreached.append(case)
        result.notifications += sum(now.ends.values())
        result.effects += now.effects
        result.extra += now.extra
        result.calls += now.calls
    return result


def fresh_database(owner: psycopg.Connection, scene: Scene) -> Login:
    """Make a database for the scene; return how the service logs in to it."""
    name = f"proof_{scene.name.replace(' ', '_')}"
    owner.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE template STRATEGY FILE_COPY").format(
            sql.Identifier(name)
        )
    )
    return Login(host=HOST, port=owner.info.port, name=name, user="sendoff_service", tls=False)
