"""Random histories: ``python -m tests.proof.histories [--examples N] [--seed S] [--workers W]``.

Runs N histories and prints how often each event met each status. It fails when an invariant broke,
when a pair that can be was met less than 50 times (scaled for other N than 10,000), and when a pair
was met that is listed as impossible.
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from functions.core.login import Login
from infra.local.postgres import HOST
from tests.proof.histories_coverage import Visits, complaints, table, together
from tests.proof.histories_database import clone, connected_as_all, served
from tests.proof.histories_machine import histories_of

EXAMPLES = 10_000
STEPS = 36
HEALTH_CHECKS = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
    HealthCheck.too_slow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one worker found: visits, and the first broken promise with its history."""

    visits: Visits
    failure: str | None


def run_part(*, login: Login, examples: int, number: int | None) -> Part:
    """Run ``examples`` histories on one database, seeded by ``number``; None: always the same."""
    visits: Visits = Counter()
    with connected_as_all(login) as to:
        machine = histories_of(to, visits)
        if number is not None:
            machine = seed(number)(machine)
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=STEPS,
                    derandomize=number is None,
                    deadline=None,
                    database=None,
                    phases=(Phase.generate, Phase.shrink),
                    suppress_health_check=HEALTH_CHECKS,
                    report_multiple_bugs=False,
                    verbosity=Verbosity.normal,
                    print_blob=False,
                ),
            )
        except Exception as error:
            notes = getattr(error, "__notes__", ())
            text = "\n".join((*notes, *traceback.format_exception(error)))
            return Part(visits=visits, failure=text)
    return Part(visits=visits, failure=None)


def run_all(*, port: int, examples: int, number: int, workers: int) -> list[Part]:
    """Run ``examples`` histories in ``workers`` processes, each on a database of its own."""
    shares = [examples // workers + (place < examples % workers) for place in range(workers)]
    logins: list[Login] = []
    for place in range(workers):
        name = f"histories_{place}"
        clone(port, name)
        logins.append(Login(host=HOST, port=port, name=name, user="sendoff_service", tls=False))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [
            pool.submit(partial(run_part, login=login, examples=share, number=number + place))
            for place, (login, share) in enumerate(zip(logins, shares, strict=True))
        ]
        return [future.result() for future in futures]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.histories", description=__doc__)
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    started = time.monotonic()
    with served() as server:
        parts = run_all(
            port=server.port,
            examples=options.examples,
            number=options.seed,
            workers=options.workers,
        )
    visits = together(part.visits for part in parts)
    failures = [part.failure for part in parts if part.failure]
    wrong = complaints(visits, examples=options.examples)
    print("\n".join([table(visits), *wrong, *failures]))  # noqa: T201
    seconds = time.monotonic() - started
    print(f"{options.examples} histories, {sum(visits.values())} meetings, {seconds:.0f} s.")  # noqa: T201
    return 1 if wrong or failures else 0


if __name__ == "__main__":
    sys.exit(main())
