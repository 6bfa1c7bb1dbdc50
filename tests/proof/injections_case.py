"""One injection with one provider: a notification is sent, something goes wrong on its way, and
then everything happens that happens by itself.

The product's own sender, sweep and checks on a real PostgreSQL; time moves by parameter.
"""

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from functions.core.declaration import Declaration, names_of_keyed
from functions.core.explanation import explain
from functions.core.outcome import Outcome
from functions.core.recipient import recipient_hash
from functions.providers.choice import DECLARATIONS
from functions.providers.provider import Provider, Submission
from functions.store.check import check
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.dossier import read_dossier
from functions.store.receipt import record
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.conformance import set_up
from tests.fakes import Killed, add_notifications, add_suppression_fact, row_of
from tests.operating import arrange
from tests.proof.injections_expected import End, Injection
from tests.proof.injections_services import HASH_KEY, Called, Fake, Service
from tests.sending import records_of, sender
from tests.steps import channel_of, lease, now_of
from tests.wire import peer

PATIENCE = 20.0
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class NeverArrived(Exception):
    """The call was given up before it was made: the machine is too busy for so little patience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dying:
    """A provider whose process ends as soon as a call has its answer."""

    provider: Provider[Any]

    @property
    def declaration(self) -> Declaration:
        return self.provider.declaration

    def prepare(self, submission: Submission) -> Any:
        return self.provider.prepare(submission)

    def submit(self, call: Any, *, deadline: float) -> Outcome:
        self.provider.submit(call, deadline=deadline)
        raise Killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A notification on its way to ``fake``, and everybody who works on it."""

    service: Service
    fake: Fake
    provider: Provider[Any]
    id: UUID
    patience: float
    """Seconds that a call gets which is answered too late."""
    database: Database
    owner: psycopg.Connection

    def deliver(self, provider: Provider[Any] | None = None, *, seconds: float = PATIENCE) -> None:
        """Lease what is due, and deliver it; a call gets ``seconds``."""
        leased = lease(self.database, channel=self.service.channel)
        self.send(leased, provider, seconds=seconds)

    def send(
        self,
        leased: Sequence[Leased],
        provider: Provider[Any] | None = None,
        *,
        seconds: float = PATIENCE,
    ) -> None:
        statement = "UPDATE channels SET provider_deadline_seconds = %s"
        self.owner.execute(statement, [seconds])
        called = provider or self.provider
        with sender(self.database, called, channel=self.service.channel) as one:
            report = one.deliver(records_of(leased))
        assert (report.failed, report.errors) == ([], [])

    def go_on(self) -> None:
        """Let everything happen that happens by itself within the hour, and send what is due."""
        later = now_of(self.owner, hours=1)
        channel = channel_of(self.database, self.service.channel)
        sweep(self.database, channel=channel, declarations=DECLARATIONS, now=later)
        check(self.database, declarations=DECLARATIONS, now=now_of(self.owner, hours=2))
        promote(self.database, now=now_of(self.owner, hours=3))
        self.deliver()

    def report(self) -> None:
        """Let the provider report what it accepted."""
        statement = "SELECT id FROM attempts WHERE notification_id = %s"
        ((attempt_id,),) = self.owner.execute(statement, [self.id]).fetchall()
        called = Called(notification_id=self.id, attempt_id=attempt_id)
        receipts = self.service.reports(called)
        recipient = row_of(self.owner, self.id).recipient
        hashed = recipient_hash(HASH_KEY, self.service.channel, recipient)
        arrange(self.owner, self.id, recipient_hash=hashed)  # as the door hashes it: they name it
        record(self.database, receipts, provider=receipts[0].provider, declarations=DECLARATIONS)


def dropped(stage: Stage) -> None:
    """Accepted, and nothing is ever heard of it: the cutoff passes."""
    stage.deliver()
    check(stage.database, declarations=DECLARATIONS, now=now_of(stage.owner, days=30))


def delayed(stage: Stage) -> None:
    """Accepted, and answered when nobody waits for it any more."""
    stage.fake.late = 1
    stage.deliver(seconds=stage.patience)
    if not stage.fake.sends:
        raise NeverArrived


def expired(stage: Stage) -> None:
    """Accepted, and whoever sent it died before it could say so: the lease runs out."""
    with contextlib.suppress(Killed):
        stage.deliver(Dying(provider=stage.provider))
    later = now_of(stage.owner, hours=1)
    channel = channel_of(stage.database, stage.service.channel)
    sweep(stage.database, channel=channel, declarations=DECLARATIONS, now=later)


def suppressed(stage: Stage) -> None:
    """Somebody objects while it is on its way to a sender."""
    leased = lease(stage.database, channel=stage.service.channel)
    recipient = row_of(stage.owner, stage.id).recipient
    add_suppression_fact(stage.owner, channel=stage.service.channel, recipient=recipient)
    stage.send(leased)


BEGINS: dict[Injection, Callable[[Stage], None]] = {
    Injection.DROPPED: dropped,
    Injection.DELAYED: delayed,
    Injection.DELAYED_TOLD: delayed,
    Injection.EXPIRED: expired,
    Injection.EXPIRED_TOLD: expired,
    Injection.SUPPRESSED: suppressed,
}
TOLD = frozenset({Injection.DELAYED_TOLD, Injection.EXPIRED_TOLD})


def inject(
    service: Service,
    injection: Injection,
    *,
    database: Database,
    owner: psycopg.Connection,
    patience: float,
) -> End:
    """Play one case in a database of its own; return what came of it."""
    fake = Fake(service=service)
    with peer(fake.serve) as server:
        provider = service.make(server.url)
        stage = Stage(
            service=service,
            fake=fake,
            provider=provider,
            id=_add(owner, service, server.url),
            patience=patience,
            database=database,
            owner=owner,
        )
        set_up(
            owner,
            channel=service.channel,
            provider=provider.declaration.name,
            sender=service.sender,
            deadline_seconds=PATIENCE,
        )
        BEGINS[injection](stage)
        if injection in TOLD:
            stage.report()
        stage.go_on()
    return _end_of(stage)


def _add(owner: psycopg.Connection, service: Service, url: str) -> UUID:
    (id,) = add_notifications(
        owner,
        channel=service.channel,
        recipient=service.recipient(url),
        content=service.content,
    )
    origin = url if service.channel == "webhook" else None
    return arrange(owner, id, country=service.country, origin=origin)


def _end_of(stage: Stage) -> End:
    dossier = read_dossier(stage.database, notification_id=stage.id)
    assert dossier is not None
    told = explain(dossier, now=dossier.now, keyed_providers=names_of_keyed(DECLARATIONS))
    sentences = [told["summary"], *([told["next"]["sentence"]] if told["next"] else [])]
    row = told["notification"]
    return End(
        status=row["status"],
        reason=row["reason"],
        path=tuple(step.to_status for step in dossier.history.transitions),
        sends=len(stage.fake.sends),
        effects=stage.fake.effects,
        says=MOMENT.sub("…", " ".join(sentences)),
    )
