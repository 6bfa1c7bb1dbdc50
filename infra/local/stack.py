"""The local stack: PostgreSQL, the emulator with the deployed service, the simulator; started,
watched and ended as one.

Whatever dies is started again. The emulator keeps its state in memory, so a new one is deployed to
again; nothing is lost by that, for the queue of record is in PostgreSQL.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from botocore.exceptions import BotoCoreError, ClientError

from functions.core.errors import SendoffError
from infra.config import DEFAULT_PREFIX, api_id
from infra.local import dependent, deploy, ports, synthesis
from infra.local.emulator import Clients, Emulator, answers, last_line
from infra.local.postgres import HOST, SUPERUSER, Postgres
from infra.local.state import REPOSITORY, Local, Ports, Secrets, StateFolder, with_prefix
from infra.local.tenants import prepare_database

PATIENCE_SECONDS = 15.0
"""How long processes of a stack that was killed may take to end."""

WATCH_SECONDS = 0.25
MAX_RESTARTS, RESTARTS_WITHIN_SECONDS = 5, 120.0
READY_TIMEOUT_SECONDS = 60.0

# Something ends while something else is repaired: the next round sees it.
_REPAIR_FAILURES = (SendoffError, OSError, BotoCoreError, ClientError)

# Many functions keep a connection each; local data is small.
POSTGRES_OPTIONS = ("max_connections=400", "shared_buffers=64MB")


class StackFailed(SendoffError):
    """The local stack did not start, or did not stay up."""

    code = "stack_failed"


class Report(Protocol):
    """Where the stack says what it does."""

    def begin(self, step: str) -> None:
        """A step of the start begins, and the one before is done."""
        ...

    def note(self, text: str) -> None:
        """Something people should know."""
        ...

    def finish(self) -> None:
        """The last step is done."""
        ...


@dataclass(slots=True, kw_only=True)
class Simulator:
    """The provider simulator's process."""

    ports: Ports
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def launch(self, secrets: Secrets, environment: Mapping[str, str]) -> None:
        command = [
            sys.executable, "-m", "infra.local.simulator", "--port", str(self.ports.simulator),
            "--callback-url", f"http://{HOST}:{self.ports.api}/v1/callbacks/http",
        ]  # fmt: skip
        # Secrets not as arguments, which everybody on the machine can read.
        keys = {
            "CALLBACK_SECRET": with_prefix(secrets.callback),
            "GATEWAY_SECRET": with_prefix(secrets.gateway),
        }
        with self.log.open("ab") as log:
            self.process = dependent.start(
                command,
                signal_at_death=signal.SIGKILL,
                output=log,
                environment={**environment, **keys},
                directory=REPOSITORY,
            )

    def wait(self, *, timeout_seconds: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not (self.is_running and answers(f"{deploy.simulator_url(self.ports)}/ledger")):
            if not self.is_running or time.monotonic() > deadline:
                raise StackFailed(
                    f"The simulator did not start: {last_line(self.log)} (log: {self.log})"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            dependent.stop(process, by=signal.SIGTERM, timeout_seconds=2.0)


@dataclass(slots=True, kw_only=True)
class Stack:
    """One local stack in ``folder``. Call its methods from the main thread, holding the folder."""

    folder: StateFolder
    ports: Ports
    environment: Mapping[str, str]
    report: Report
    postgres: Postgres = field(init=False)
    emulator: Emulator = field(init=False)
    simulator: Simulator = field(init=False)
    _assembly: Path = field(init=False)
    _cdk: Path = field(init=False)
    _secrets: Secrets = field(init=False)
    _is_deployed: bool = field(init=False, default=False)
    _is_disturbed: bool = field(init=False, default=False)
    """Whether PostgreSQL had to be started again during a deployment, which that may undo."""
    _tasks: dict[str, synthesis.Task] = field(init=False, default_factory=dict[str, synthesis.Task])

    def __post_init__(self) -> None:
        folder = self.folder
        self.postgres = Postgres(
            folder.cluster, self.ports.database, folder.log("postgres"), POSTGRES_OPTIONS
        )
        self.emulator = Emulator(
            port=self.ports.emulator,
            api_port=self.ports.api,
            api_id=api_id(DEFAULT_PREFIX),
            log=folder.log("emulator"),
            temporary=folder.temporary,
        )
        self.simulator = Simulator(ports=self.ports, log=folder.log("simulator"))

    def start(self, *, was_killed: bool) -> Local:
        """Start everything and publish ``local.json``; what is slow runs beside what is not."""
        self.folder.withdraw()
        ports.check(self.ports, patience_seconds=PATIENCE_SECONDS if was_killed else 0.0)
        for log in self.folder.logs.glob("*.log"):
            if log.stem != synthesis.CDK:
                log.unlink()
        self.report.begin("PostgreSQL")
        self._launch_side_work()
        self.postgres.start(patience_seconds=PATIENCE_SECONDS if was_killed else 0.0)
        if self.postgres.note:
            self.report.note(self.postgres.note)
        self.report.begin("Migrations, organizations and keys")
        self._secrets = prepare_database(
            self.folder, port=self.ports.database, name=deploy.DATABASE
        )
        self.report.begin("Provider simulator")
        self.simulator.launch(self._secrets, self.environment)
        self.simulator.wait()
        self.report.begin("AWS emulator")
        self.emulator.wait()
        self._cdk = self._finish_side_work()
        self.report.begin("Deployment of the service to the emulator")
        return self._deploy()

    def _launch_side_work(self) -> None:
        """Launch what needs nothing but time: the emulator, the synthesis, the CDK command line."""
        self.emulator.launch()
        self._assembly = synthesis.assembly(self.folder.synth)
        if not synthesis.is_complete(self._assembly):
            task = synthesis.start_synthesis(
                self._assembly, log=self.folder.log("synth"), environment=self.environment
            )
            self._tasks["synthesis"] = task
        found_before = synthesis.found_cdk(self._cdk_log)
        if found_before is None:
            self._tasks["cdk"] = synthesis.start_finding_cdk(
                log=self._cdk_log, environment=self.environment
            )

    @property
    def _cdk_log(self) -> Path:
        """Where npx says where the command line is; kept from start to start."""
        return self.folder.log(synthesis.CDK)

    def _finish_side_work(self) -> Path:
        """Wait for the side work; return the script of the CDK command line."""
        if task := self._tasks.get("cdk"):
            self.report.begin(f"CDK command line ({synthesis.CDK})")
            task.finish()
        if task := self._tasks.get("synthesis"):
            self.report.begin("Synthesis of the stack (kept for the next start)")
            task.finish()
            synthesis.keep(self._assembly)
        self._tasks.clear()
        cdk = synthesis.found_cdk(self._cdk_log)
        if cdk is None:
            raise StackFailed(f"npx did not name the CDK command line (log: {self._cdk_log}).")
        return cdk

    def _deploy(self) -> Local:
        """Deploy to an empty emulator, which starts the loops, and publish ``local.json``."""
        clients = Clients(self.emulator.endpoint)
        secrets = deploy.create_surroundings(clients, self._secrets)
        deploy.deploy(
            self._assembly,
            cdk=self._cdk,
            clients=clients,
            parameters={**deploy.parameters(self.ports), **secrets},
            log=self.folder.log("deploy"),
            environment=self.environment,
            meanwhile=self._keep_postgres,
        )
        self._is_deployed = True
        local = self._local(deploy.discover(clients))
        self._wait_until_ready(local)
        self.folder.publish(local)
        return local

    def _local(self, deployed: deploy.Deployed) -> Local:
        return Local(
            api_url=deploy.api_url(self.ports),
            **self._secrets.api_keys,
            simulator_url=deploy.simulator_url(self.ports),
            database_url=(
                f"postgresql://{SUPERUSER}@{HOST}:{self.ports.database}/{deploy.DATABASE}"
            ),
            aws_endpoint_url=self.emulator.endpoint,
            callback_secret=with_prefix(self._secrets.callback),
            webhook_secret=with_prefix(self._secrets.gateway),
            functions=deployed.functions,
            queues=deployed.queues,
            state_dir=str(self.folder.path),
        )

    def _wait_until_ready(self, local: Local) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while not answers(f"{local.api_url}/v1/health"):
            self._keep_postgres()
            if not self._processes_run() or time.monotonic() > deadline:
                raise StackFailed(
                    f"The API does not answer on {local.api_url}: "
                    f"{last_line(self.emulator.log, with_word='ERROR')} (log: {self.emulator.log})"
                )
            time.sleep(0.1)

    def watch(self) -> None:
        """Start again whatever dies, until interrupted; raise StackFailed when it keeps dying.

        What is killed from outside is started again however often: that is no fault of its own.
        """
        restarts: list[float] = []
        while True:
            time.sleep(WATCH_SECONDS)
            if self._processes_run() and self._is_deployed:
                continue
            now = time.monotonic()
            restarts = [at for at in restarts if now - at < RESTARTS_WITHIN_SECONDS]
            if not self._was_killed():
                restarts.append(now)
            if len(restarts) > MAX_RESTARTS:
                raise StackFailed(f"Processes keep ending; their logs are in {self.folder.logs}.")
            try:
                self.repair()
            except _REPAIR_FAILURES as error:
                self.report.note(str(error))

    def _was_killed(self) -> bool:
        """Whether something is down because of a SIGKILL, or came to nothing because of one."""
        processes = (self.postgres.process, self.simulator.process, self.emulator.process)
        return self._is_disturbed or any(
            process is not None and process.poll() == -signal.SIGKILL for process in processes
        )

    def _processes_run(self) -> bool:
        return self.postgres.is_running and self.simulator.is_running and self.emulator.is_running

    def repair(self) -> None:
        """Start again what does not run; the functions find a new connection by themselves."""
        self._is_disturbed = False
        if not self.postgres.is_running:
            self._restart_postgres()
            if self.emulator.is_running:
                deploy.start_loops(Clients(self.emulator.endpoint))
        if not self.simulator.is_running:
            self.report.note("The simulator ended and is started again, with an empty ledger.")
            self.simulator.stop()
            self.simulator.launch(self._secrets, self.environment)
            self.simulator.wait()
        if not self.emulator.is_running or not self._is_deployed:
            self.report.note("The AWS emulator is started and deployed to again.")
            self._is_deployed = False
            self.emulator.stop()
            self.emulator.launch()
            self.emulator.wait()
            self._deploy()
        self.report.note("Everything runs again.")

    def _restart_postgres(self) -> None:
        self.report.note("PostgreSQL ended and is started again.")
        self.postgres.stop()
        self.postgres.start(patience_seconds=PATIENCE_SECONDS)

    def _keep_postgres(self) -> None:
        """Start PostgreSQL again while a deployment, which needs it, is waited for."""
        if not self.postgres.is_running:
            self._is_disturbed = True
            self._restart_postgres()

    def stop(self) -> None:
        """End everything, the functions before the database they use; then tidy up."""
        self.folder.withdraw()
        for task in self._tasks.values():
            task.cancel()
        self.emulator.stop()
        self.simulator.stop()
        self.postgres.stop()
        self.emulator.clear()
