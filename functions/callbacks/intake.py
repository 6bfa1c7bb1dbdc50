"""Keep what events tell, by whichever way they came, and count what became of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from functions.core.errors import Unavailable
from functions.core.metric import ServiceMetric
from functions.providers.choice import DECLARATIONS
from functions.providers.event import Told, unreadable
from functions.store.connection import Database, is_about_a_row
from functions.store.receipt import NOTHING, Recorded, record
from functions.store.shared_fact import record_shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What one event tells, by the id of what brought it; ``body`` is all of that."""

    id: str
    body: bytes
    told: Told


@dataclass(slots=True, kw_only=True)
class Kept:
    """What came of a set of events, and the ids of those that shall come again."""

    recorded: Recorded = NOTHING
    again: list[str] = field(default_factory=list[str])


def counts_of(recorded: Recorded) -> dict[ServiceMetric, int]:
    return {
        ServiceMetric.RECEIPT_STORED: recorded.stored,
        ServiceMetric.RECEIPT_APPLIED: recorded.applied,
        ServiceMetric.RECEIPT_ORPHANED: recorded.orphaned,
        ServiceMetric.EVIDENCE_AFTER_ZERO_SUBMISSIONS: recorded.after_zero_submissions,
        ServiceMetric.EVENT_UNFORESEEN: recorded.unforeseen,
        ServiceMetric.EVENT_UNREADABLE: recorded.unreadable,
        ServiceMetric.INBOUND_CHOICE: recorded.choices,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    database: Database
    hash_key: Callable[[], bytes]

    def keep(self, events: Sequence[Event]) -> Kept:
        """Keep every event: those of one door in one transaction, what is for everybody alone.

        Events that the database could not take at the moment shall come again. One that it can
        never take is kept as a note, so that it is not in the way of its neighbours.
        """
        kept = Kept()
        by_door: dict[str, list[Event]] = {}
        for event in events:
            if event.told.shared:
                self._keep_set([event], kept)
            elif event.told.receipts:
                by_door.setdefault(event.told.door, []).append(event)
        for members in by_door.values():
            self._keep_set(members, kept)
        return kept

    def _keep_set(self, events: Sequence[Event], kept: Kept) -> None:
        try:
            kept.recorded += self._record(events)
        except Unavailable:
            kept.again += [event.id for event in events]
        except Exception as error:
            if not is_about_a_row(error):
                raise
            self._keep_singly(events, kept)

    def _keep_singly(self, events: Sequence[Event], kept: Kept) -> None:
        """Find the one that cannot be kept as it was read, and keep its bytes."""
        if len(events) > 1:
            for event in events:
                self._keep_set([event], kept)
        elif not events[0].told.unreadable:  # a note that cannot be kept either is let go
            (event,) = events
            self._keep_set([replace(event, told=unreadable(event.body))], kept)

    def _record(self, events: Sequence[Event]) -> Recorded:
        shared = events[0].told.shared
        receipts = [receipt for event in events for receipt in event.told.receipts]
        if not shared:
            door = events[0].told.door
            kept = record(self.database, receipts, provider=door, declarations=DECLARATIONS)
        else:
            kept = record_shared(
                self.database, receipts[0], shared=shared, declarations=DECLARATIONS
            )
        return replace(
            kept,
            unforeseen=sum(receipt.unforeseen for receipt in receipts),
            unreadable=sum(event.told.unreadable for event in events),
            choices=int(any(fact.is_choice for fact in shared)),
        )
