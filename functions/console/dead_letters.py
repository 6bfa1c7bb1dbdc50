"""Commands on dead-letter queues. A dead letter is evidence, never work: its row decides.

A message is deleted only when the decision about its row has been committed. Whatever dies in
between, it is seen again, and judged again by what has become of its row: then it was scheduled
already. Messages that nobody can read, or that belong elsewhere, stay for people to look at.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from functions.console.arguments import flag, number_up_to, one_of, optional, required
from functions.console.command import Command, Done, Equipment
from functions.core.errors import Unreadable
from functions.core.message import LeaseMessage
from functions.core.states import Channel
from functions.providers.choice import DECLARATIONS
from functions.runtime.dead_letter import DeadLetter
from functions.store import held
from functions.store.action import Action, Fate

MAX_DECIDED = 100
"""Messages that one command decides about."""

MAX_RECEIVED = 500
"""Messages that one command looks at: those that stay must not hide the others for ever."""

MAX_BODY_CHARACTERS = 200

STAYS = frozenset({"unreadable", "other_channel", "needs_consent", "attempt_open"})
"""Fates with which a message stays: somebody has to look at it, to decide, or to wait."""


@dataclass(slots=True, kw_only=True)
class InHand:
    """A dead letter that was received, the lease in it, and what comes of it."""

    letter: DeadLetter
    message: LeaseMessage | None
    """None where none can be read."""
    row: UUID | None
    """The notification that decides; None where the message is not one of its channel."""
    fate: str


def preview(equipment: Equipment, *, channel: Channel, limit: int) -> Done:
    """Tell what a redrive would come to; nothing is changed or deleted."""
    count = equipment.dead_letters.count(channel)
    with _received(equipment, channel, limit=limit, may_send_twice=False) as hand:
        letters = list(hand.values())
    staying = {one.letter.message_id for one in letters if one.fate in STAYS}
    return _done(letters, staying=staying, count=count)


def redrive(
    equipment: Equipment, *, channel: Channel, limit: int, may_send_twice: bool, action: Action
) -> Done:
    """Decide by the rows that the messages name, and delete the messages that need no keeping.

    One whose deletion failed is told as kept; the next redrive drops it as scheduled already.
    """
    count = equipment.dead_letters.count(channel)
    with _received(equipment, channel, limit=limit, may_send_twice=may_send_twice) as hand:
        letters = list(hand.values())
        fates = held.requeue(
            equipment.database,
            _rows(letters),
            may_send_twice=may_send_twice,
            declarations=DECLARATIONS,
            action=action,
        )
        _assign(letters, fates)
        going = [one.letter for one in letters if one.fate not in STAYS]
        for id in equipment.dead_letters.delete(channel, going):
            del hand[id]
        staying = set(hand)
    return _done(letters, staying=staying, count=count, action_id=action.id)


@contextmanager
def _received(
    equipment: Equipment, channel: Channel, *, limit: int, may_send_twice: bool
) -> Generator[dict[str, InHand]]:
    """Yield up to ``limit`` messages that would go, by their ids, and those that were in the way.

    They are hidden from everybody else meanwhile. What is left in hand at the end is let go.
    """
    hand: dict[str, InHand] = {}
    try:
        while len(hand) < MAX_RECEIVED:
            wanted = limit - sum(one.fate not in STAYS for one in hand.values())
            page = equipment.dead_letters.receive(channel, wanted) if wanted else []
            new: list[InHand] = []
            for letter in page:
                if known := hand.get(letter.message_id):
                    known.letter = letter  # delivered twice, only its newest handle deletes it
                else:
                    hand[letter.message_id] = _in_hand(letter, channel)
                    new.append(hand[letter.message_id])
            if not new:
                break
            fates = held.preview(
                equipment.database,
                _rows(new),
                may_send_twice=may_send_twice,
                declarations=DECLARATIONS,
            )
            _assign(new, fates)
        yield hand
    finally:
        equipment.dead_letters.release(channel, [one.letter for one in hand.values()])


def _in_hand(letter: DeadLetter, channel: Channel) -> InHand:
    try:
        message = LeaseMessage.loads(letter.body)
    except Unreadable:
        return InHand(letter=letter, message=None, row=None, fate="unreadable")
    row = message.id if message.channel == channel else None
    return InHand(letter=letter, message=message, row=row, fate="other_channel")


def _rows(letters: Sequence[InHand]) -> list[UUID]:
    return [one.row for one in letters if one.row is not None]


def _assign(letters: Sequence[InHand], fates: Sequence[Fate]) -> None:
    """Give each message the fate of its row."""
    by_row = {one.id: one.fate for one in fates}
    for one in letters:
        if one.row is not None:
            one.fate = by_row[one.row]


def _done(letters: Sequence[InHand], *, staying: set[str], count: int, **more: Any) -> Done:
    return Done(
        result={
            **more,
            "count": count,
            "messages": [
                _representation(one, kept=one.letter.message_id in staying) for one in letters
            ],
        },
        counts={**Counter(one.fate for one in letters), "kept": len(staying)},
    )


def _representation(one: InHand, *, kept: bool) -> dict[str, Any]:
    message = one.message
    told = {
        "message_id": one.letter.message_id,
        "id": message.id if message else None,
        "lease": message.lease_number if message else None,
        "fate": one.fate,
        "kept": kept,
    }
    # No message of ours holds an address or a content; what holds something else is not ours.
    return told if message else {**told, "body": one.letter.body[:MAX_BODY_CHARACTERS]}


_QUEUE = {
    "channel": required(one_of(Channel)),
    "limit": optional(number_up_to(MAX_DECIDED), default=MAX_DECIDED),
}

COMMANDS: Mapping[str, Command] = {
    "dlq.preview": Command(parameters=_QUEUE, run=preview),
    "dlq.redrive": Command(
        parameters={**_QUEUE, "may_send_twice": optional(flag, default=False)},
        run=redrive,
        audited=True,
    ),
}
