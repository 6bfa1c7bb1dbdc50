"""Which faults come at which points, how often things are delivered, and what CI runs of it."""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.proof.crash_boundary import Fault, Phase, Point, Strike
from tests.proof.crash_outside import LOOK_UP, QUEUE_CALL, SUBMIT

SEED_VARIABLE, DEFAULT_SEED = "SENDOFF_PROOF_SEED", "1"
SHARE = 3
"""CI runs one case in so many."""

ONCE, TWICE = 1, 2
COMMIT = "COMMIT"

DELIVERIES: Mapping[Fault, tuple[int, ...]] = {
    Fault.ERROR: (ONCE, TWICE),
    Fault.TIMEOUT: (ONCE,),
    Fault.KILL: (ONCE, TWICE),
    Fault.STALL: (ONCE, TWICE),
    Fault.FREEZE: (TWICE,),
    Fault.OUTAGE: (ONCE,),
    Fault.OVERLAP: (ONCE,),
    Fault.REFUSED: (ONCE, TWICE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``deliveries``: how often what can be delivered again is delivered in all."""

    strike: Strike
    label: str
    deliveries: int


def is_statement(label: str) -> bool:
    """Whether it is a statement of the store, and not BEGIN, COMMIT or a connection."""
    return "." in label


def faults_at(point: Point, label: str) -> list[Fault]:
    """Return what may happen at a point of a call named ``label``."""
    faults = [Fault.ERROR, Fault.KILL, Fault.STALL]
    if label.startswith(SUBMIT):
        faults += [Fault.FREEZE, Fault.OVERLAP]
    elif label in (QUEUE_CALL, LOOK_UP):
        faults.append(Fault.FREEZE)
        if label == QUEUE_CALL and point.phase is Phase.BEFORE:
            faults.append(Fault.REFUSED)
    elif is_statement(label) or label == COMMIT:
        # Before a BEGIN all is as after the COMMIT before it: these two need not come twice.
        faults += [Fault.FREEZE, Fault.OUTAGE]
        if is_statement(label) and point.phase is Phase.BEFORE:
            faults.append(Fault.TIMEOUT)
    return faults


def cases_of(passed: Mapping[Point, str]) -> list[Case]:
    """Return every case there is for the points that a dry pass found."""
    return [
        Case(strike=Strike(point=point, fault=fault), label=label, deliveries=deliveries)
        for point, label in sorted(passed.items())
        for fault in faults_at(point, label)
        for deliveries in DELIVERIES[fault]
    ]


def a_share_of(cases: Iterable[Case], *, seed: str) -> list[Case]:
    """Return a third of ``cases``, the same for the same ``seed``; every point is in it."""
    shuffled = list(cases)
    random.Random(seed).shuffle(shuffled)
    first = {case.strike.point: case for case in reversed(shuffled)}
    chosen = set(first.values())
    wanted = math.ceil(len(shuffled) / SHARE)
    for case in shuffled:
        if len(chosen) >= wanted:
            break
        chosen.add(case)
    return [case for case in shuffled if case in chosen]
