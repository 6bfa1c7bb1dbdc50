"""Procrastinate under the probes: its own ``Worker`` works, its own ``JobManager`` writes.

Defaults throughout. Its rescue is the task that its manual gives for stalled jobs
(howto/production/retry_stalled_jobs): ``get_stalled_jobs``, then ``retry_job`` for each.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import psycopg

from tests.proof.rivals_probe import First, Met, State
from tests.proof.rivals_worker import Ending, Job, JobFailed, JobFailedForNow, die, died

procrastinate: Any = importlib.import_module("procrastinate")
jobs: Any = importlib.import_module("procrastinate.jobs")
worker: Any = importlib.import_module("procrastinate.worker")

TASK = "job"
MAX_ATTEMPTS = 5


class Procrastinate:
    """A database of Procrastinate's with one job."""

    name = "procrastinate"
    refusal = "refused by an error"
    keeps = "procrastinate_events"

    def __init__(self, url: str, owner: psycopg.Connection) -> None:
        self._url = url
        self._owner = owner
        self._workers: dict[int, str] = {}
        self._id: int = self._run(self._add)

    async def _add(self, app: Any) -> int:
        await app.schema_manager.apply_schema_async()
        return await app.configure_task(TASK).defer_async()

    def _run(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def opened() -> Any:
            async with _app(self._url).open_async() as app:
                return await work(app)

        return asyncio.run(opened())

    def work(self, name: str, job: Job) -> list[str]:
        asyncio.run(_work(self._url, job, partial(self._remember, name)))
        return []

    def _remember(self, name: str, id: int) -> None:
        self._workers[id] = name

    def crash(self) -> bool:
        return died(_die, self._url)

    def lose(self) -> None:
        self._owner.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'"
        )

    def rescue(self) -> None:
        self._run(_retry_stalled_jobs)

    def renew(self, name: str) -> list[str]:
        """Write what the worker's side task writes: a heartbeat is the worker's, not the job's."""
        ids = [id for id, known in self._workers.items() if known == name]
        self._run(lambda app: app.job_manager.update_heartbeat(ids[-1]))
        return []

    def meet(self, first: First, ending: Ending) -> Met:
        return asyncio.run(self._meet(first, ending))

    async def _meet(self, first: First, ending: Ending) -> Met:
        """Both queue up for the row behind a lock of ours."""
        status = jobs.Status.SUCCEEDED if ending is Ending.SUCCESS else jobs.Status.FAILED
        async with _app(self._url).open_async() as a, _app(self._url).open_async() as b:
            id = await a.job_manager.register_worker()
            job = await a.job_manager.fetch_job(queues=None, worker_id=id)
            self.lose()
            both: dict[str, Coroutine[Any, Any, None]] = {
                "A": a.job_manager.finish_job(job, status=status, delete_job=False),
                "the rescue": _retry_stalled_jobs(b),
            }
            order = ["the rescue", "A"] if first is First.RESCUE else ["A", "the rescue"]
            tasks: list[asyncio.Task[None]] = []
            with psycopg.Connection.connect(self._url) as gate:
                gate.execute("SELECT FROM procrastinate_jobs FOR UPDATE")
                for name in order:
                    tasks.append(asyncio.create_task(both[name]))
                    while len(self._owner.execute(WAITING).fetchall()) < len(tasks):
                        await asyncio.sleep(0)
            errors = await asyncio.gather(*tasks, return_exceptions=True)
        return Met(
            told=[
                f"{name}: {_text_of(error)}"
                for name, error in zip(order, errors, strict=True)
                if error is not None
            ]
        )

    def state(self) -> State:
        row = self._owner.execute(
            "SELECT status::text, worker_id FROM procrastinate_jobs WHERE id = %s", [self._id]
        ).fetchone()
        events = self._owner.execute(
            "SELECT type::text FROM procrastinate_events"
            " WHERE job_id = %s AND type <> 'scheduled' ORDER BY id",  # that is no transition
            [self._id],
        ).fetchall()
        assert row is not None
        holder = self._workers.get(row[1]) if row[0] == "doing" else None
        return State(
            status=f"{row[0]} by {holder}" if holder else row[0],
            history=tuple(word for (word,) in events),
        )


WAITING = """
    SELECT FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def _app(url: str) -> Any:
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))


async def _retry_stalled_jobs(app: Any) -> None:
    for job in await app.job_manager.get_stalled_jobs():
        await app.job_manager.retry_job(job)


def _text_of(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).splitlines()[0]


async def _work(url: str, job: Job, register: Callable[[int], object]) -> None:
    async with _app(url).open_async() as app:
        one = worker.Worker(app, wait=False, install_signal_handlers=False)

        async def run() -> None:
            register(one.worker_id)
            one.stop()  # it is asked to end: one job is enough
            match job():
                case Ending.SUCCESS:
                    return
                case Ending.FAILURE:
                    raise JobFailed
                case Ending.AGAIN:
                    raise JobFailedForNow

        retry = procrastinate.RetryStrategy(
            max_attempts=MAX_ATTEMPTS, retry_exceptions=[JobFailedForNow]
        )
        app.task(name=TASK, retry=retry)(run)
        await one.run()


def _die(url: str) -> None:
    asyncio.run(_work(url, die, str))
