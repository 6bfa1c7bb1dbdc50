"""PgQueuer under the probes: its own ``QueueManager`` works, its own ``Queries`` write.

Defaults throughout, apart from a longer heartbeat timeout, so that no slow machine makes a worker
late on its own. Its rescue is part of the claim: ``dequeue`` takes jobs whose heartbeat is old.
"""

import asyncio
import importlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import psycopg

from tests.proof.rivals_probe import First, Met, State
from tests.proof.rivals_server import waits_for_a_lock
from tests.proof.rivals_worker import Ending, Job, JobFailed, JobFailedForNow, die, died

pgqueuer: Any = importlib.import_module("pgqueuer")
repository: Any = importlib.import_module("pgqueuer.ports.repository")
types: Any = importlib.import_module("pgqueuer.types")

ENTRYPOINT = "job"
HEARTBEAT_TIMEOUT = timedelta(minutes=5)
MAX_ATTEMPTS = 5
"""Asked of its retrying executor where the job kills its worker."""


class PgQueuer:
    """A database of PgQueuer's with one job."""

    name = "pgqueuer"
    refusal = "refused by an error"
    keeps = "pgqueuer_log"

    def __init__(self, url: str, owner: psycopg.Connection) -> None:
        self._url = url
        self._owner = owner
        self._workers: dict[UUID, str] = {}
        asyncio.run(self._add())

    async def _add(self) -> None:
        async with await _connect(self._url) as connection:
            queries = pgqueuer.Queries.from_psycopg_connection(connection)
            await queries.install()
            (self._id,) = await queries.enqueue(ENTRYPOINT, None)

    def work(self, name: str, job: Job) -> list[str]:
        asyncio.run(_work(self._url, job, partial(self._remember, name)))
        return []

    def _remember(self, name: str, id: UUID) -> None:
        self._workers[id] = name

    def crash(self) -> bool:
        return died(_die, self._url)

    def lose(self) -> None:
        self._owner.execute("UPDATE pgqueuer SET heartbeat = now() - interval '1 hour'")

    def rescue(self) -> None:
        """Nothing: the next worker's claim does it."""

    def renew(self, name: str) -> list[str]:
        """Write what the worker's ``HeartbeatBuffer`` writes, which names the job alone."""

        async def beat() -> None:
            async with await _connect(self._url) as connection:
                queries = pgqueuer.Queries.from_psycopg_connection(connection)
                await queries.update_heartbeat([self._id])

        asyncio.run(beat())
        return []

    def meet(self, first: First, ending: Ending) -> Met:
        return asyncio.run(self._meet(first, ending))

    async def _meet(self, first: First, ending: Ending) -> Met:
        async with await _connect(self._url) as a, await _connect(self._url) as b:
            queries = pgqueuer.Queries.from_psycopg_connection
            (job,) = await _dequeue(queries(a), self._new_worker("A"))
            self.lose()
            word = "successful" if ending is Ending.SUCCESS else "exception"
            completion = queries(a).log_jobs([(job, word, None)])
            rescue = _dequeue(queries(b), self._new_worker("B"))
            if first is First.RESCUE:
                await b.execute("BEGIN")
                given = await rescue
                waiting = asyncio.create_task(completion)
                await waits_for_a_lock(self._owner, a)
                await b.execute("COMMIT")
                await waiting
            else:
                await a.execute("BEGIN")
                await completion
                given = await rescue  # passes over a row that is locked
                await a.execute("COMMIT")
        return Met(told=[], taken_by="B" if given else None)

    def _new_worker(self, name: str) -> UUID:
        id = uuid4()
        self._remember(name, id)
        return id

    def state(self) -> State:
        row = self._owner.execute(
            "SELECT status::text, queue_manager_id FROM pgqueuer WHERE id = %s", [self._id]
        ).fetchone()
        log = self._owner.execute(
            "SELECT status::text FROM pgqueuer_log WHERE job_id = %s ORDER BY id", [self._id]
        ).fetchall()
        if row is None:
            status = "gone"
        else:
            holder = self._workers.get(row[1])
            status = f"{row[0]} by {holder}" if holder else row[0]
        return State(status=status, history=tuple(word for (word,) in log))


def _connect(url: str) -> Any:
    return psycopg.AsyncConnection.connect(url, autocommit=True)


async def _dequeue(queries: Any, id: UUID) -> list[Any]:
    """Claim as ``QueueManager.fetch_jobs`` does."""
    return await queries.dequeue(
        batch_size=10,
        entrypoints={ENTRYPOINT: repository.EntrypointExecutionParameter(concurrency_limit=0)},
        queue_manager_id=id,
        global_concurrency_limit=None,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
    )


async def _work(url: str, job: Job, register: Callable[[UUID], object], **options: Any) -> None:
    async with await _connect(url) as connection:
        manager = pgqueuer.QueueManager(pgqueuer.Queries.from_psycopg_connection(connection))
        register(manager.queue_manager_id)

        async def run(_: object) -> None:
            manager.shutdown.set()  # it is asked to end: one job is enough
            match job():
                case Ending.SUCCESS:
                    return
                case Ending.FAILURE:
                    raise JobFailed
                case Ending.AGAIN:
                    raise pgqueuer.RetryRequested(delay=timedelta(0)) from JobFailedForNow()

        manager.entrypoint(ENTRYPOINT, **options)(run)
        await manager.run(mode=types.QueueExecutionMode.drain, heartbeat_timeout=HEARTBEAT_TIMEOUT)


def _die(url: str) -> None:
    def retrying(parameters: Any) -> Any:
        return pgqueuer.DatabaseRetryEntrypointExecutor(parameters, max_attempts=MAX_ATTEMPTS)

    asyncio.run(_work(url, die, str, executor_factory=retrying))
