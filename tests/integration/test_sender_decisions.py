"""What changes before an attempt opens is honoured, at each step and in both directions.

F3  an opt-out between accept and send
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.login import Login
from functions.store.connection import Database
from functions.store.erase import erase_recipient
from functions.store.suppression import NewSuppression, add_suppression, lift_suppression
from tests.by_reference import ADA, ADAS, add_referring, address, declare, put
from tests.changing import STEPS, Way, on_its_way
from tests.fakes import (
    FIRST_ORGANIZATION,
    HeldDatabase,
    Row,
    add_notifications,
    hash_of,
    moves_of,
    row_of,
)
from tests.gateway import giving
from tests.operating import report, tell
from tests.operators import arrange
from tests.sending import records_of, sender
from tests.steps import connected, now_of, waiting

AT_FAULT = {"address_at_fault": True, "permanent": True}


@pytest.fixture
def way(owner: psycopg.Connection, database: Database, login: Login) -> Iterator[Way]:
    with on_its_way(owner, database, login) as way:
        yield way


@dataclass(frozen=True, slots=True, kw_only=True)
class Somebody:
    """A recipient, or a literal address without one."""

    way: Way
    name: str

    @property
    def email(self) -> str:
        return f"{self.name}@example.com"

    @property
    def new_email(self) -> str:
        return f"{self.name}@new.example.com"

    def put(self, *points: Any, **document: Any) -> None:
        put(
            self.way.database,
            *(points or (address(self.email),)),
            recipient_id=self.name,
            **document,
        )

    def prefer(self, *, allowed: bool, category: str = "transactional") -> None:
        self.put(preferences={category: {"email": allowed}})

    def remove(self) -> None:
        self.way.owner.execute("DELETE FROM recipients WHERE recipient_id = %s", [self.name])

    def suppress(self, category: str | None = None) -> None:
        add_suppression(
            self.way.database,
            organization_id=FIRST_ORGANIZATION,
            fact=self._fact(category),
        )

    def lift(self, category: str | None = None) -> None:
        lift_suppression(
            self.way.database,
            organization_id=FIRST_ORGANIZATION,
            fact=self._fact(category),
        )

    def _fact(self, category: str | None) -> NewSuppression:
        return NewSuppression(
            channel="email",
            recipient=self.email,
            recipient_hash=hash_of(self.email),
            category=category,
            reason="recipient_choice",
            source=None,
            source_at=None,
            evidence=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What changes, and whether the recipient is not told then, for a reason, or where they are."""

    change: Callable[[Somebody], object]
    reason: str | None = None
    moves: bool = False


CASES: dict[str, Case] = {
    "refused": Case(change=lambda who: who.prefer(allowed=False), reason="opted_out"),
    "refused-elsewhere": Case(change=lambda who: who.prefer(allowed=False, category="news")),
    "agreed-to": Case(change=lambda who: who.prefer(allowed=True)),
    "refused-and-agreed-to": Case(
        change=lambda who: (who.prefer(allowed=False), who.prefer(allowed=True))
    ),
    "another-language": Case(change=lambda who: who.put(locale="de")),
    "another-address": Case(change=lambda who: who.put(address(who.new_email)), moves=True),
    "no-address": Case(
        change=lambda who: who.put(address("+33600000000", channel="sms")),
        reason="no_contact_point",
    ),
    "suppressed": Case(change=lambda who: who.suppress(), reason="suppressed"),
    "suppressed-for-its-category": Case(
        change=lambda who: who.suppress("transactional"), reason="suppressed"
    ),
    "suppressed-for-another": Case(change=lambda who: who.suppress("news")),
    "suppressed-and-lifted": Case(change=lambda who: (who.suppress(), who.lift())),
    "suppressed-and-moved": Case(
        change=lambda who: (who.suppress(), who.put(address(who.new_email))), moves=True
    ),
    "gone": Case(change=lambda who: who.remove(), reason="erased"),
}
LITERAL_CASES = {name: case for name, case in CASES.items() if name.startswith("suppressed")}


def came_of(way: Way, id: UUID, who: Somebody, case: Case, *, step: str) -> Row:
    """Assert what became of a notification; return it."""
    told = [who.new_email if case.moves else who.email] if case.reason is None else []
    before = [who.email] if step == "before the retry" else []
    row = row_of(way.owner, id)
    asked = [one for one in way.gateway.asked if one.key == str(id)]
    assert [one.recipient for one in asked] == before + told, who.name
    expected = ("submitted", None) if told else ("suppressed", case.reason)
    assert (row.status, row.reason) == expected, who.name
    assert row.attempts_spent == len(before) + len(told), who.name
    assert moves_of(way.owner, id).count(("sender", "leased", "pending", "changed")) <= 1
    return row


@pytest.mark.parametrize("step", STEPS)
def test_f3_what_changes_before_an_attempt_opens_is_honoured(way: Way, step: str) -> None:
    for name, case in CASES.items():
        who = Somebody(way=way, name=name)
        who.put()
        (id,) = add_referring(way.owner, recipient_id=name)
        STEPS[step](way, who.email, lambda: case.change(who))  # noqa: B023
        way.go_on()
        row = came_of(way, id, who, case, step=step)
        assert row.recipient is None
        assert row.address_hash == hash_of(who.new_email if case.moves else who.email), name


@pytest.mark.parametrize("step", STEPS)
def test_f3_a_suppression_of_a_literal_address_is_honoured_at_every_step(
    way: Way, step: str
) -> None:
    for name, case in LITERAL_CASES.items():
        if case.moves:
            continue
        who = Somebody(way=way, name=name)
        (id,) = add_notifications(way.owner, recipient=who.email)
        STEPS[step](way, who.email, lambda: case.change(who))  # noqa: B023
        way.go_on()
        came_of(way, id, who, case, step=step)


@pytest.mark.parametrize("step", STEPS)
def test_f3_consent_to_bulk_that_is_taken_back_in_time_is_honoured(way: Way, step: str) -> None:
    taken_back: dict[str, Case] = {
        "no": Case(change=lambda who: who.prefer(allowed=False, category="news"),
                   reason="opted_out"),
        "not-a-word": Case(change=lambda who: who.put(), reason="no_consent"),
        "not-verified": Case(
            change=lambda who: who.put(
                address(who.email, verified=False), preferences={"news": {"email": True}}
            ),
            reason="not_verified",
        ),
        "yes-again": Case(
            change=lambda who: who.put(locale="fr", preferences={"news": {"email": True}})
        ),
    }  # fmt: skip
    for name, case in taken_back.items():
        who = Somebody(way=way, name=name)
        who.prefer(allowed=True, category="news")
        (id,) = add_referring(way.owner, recipient_id=name, category="news", stream="bulk")
        STEPS[step](way, who.email, lambda: case.change(who))  # noqa: B023
        way.go_on()
        came_of(way, id, who, case, step=step)


@pytest.mark.parametrize("step", STEPS)
def test_f3_quiet_hours_that_begin_in_time_put_it_off_and_it_is_sent_when_they_end(
    way: Way, step: str
) -> None:
    now = now_of(way.owner)
    start, end = ((now + timedelta(hours=hours)).strftime("%H:%M") for hours in (-2, 12))
    put(way.database)
    (id,) = add_referring(way.owner)
    STEPS[step](way, ADAS, lambda: put(way.database, quiet_hours=f"{start}-{end}"))
    way.gateway.asked.clear()
    way.go_on()
    row = row_of(way.owner, id)
    assert (way.asked, row.status, row.reason) == ([], "pending", "quiet_hours")
    assert row.available_at >= now + timedelta(hours=11, minutes=59)
    way.hours = 13
    way.go_on()
    assert (way.asked, row_of(way.owner, id).status) == ([ADAS], "submitted")


@pytest.mark.parametrize("step", STEPS)
def test_f3_what_is_mandatory_is_sent_whatever_is_preferred(way: Way, step: str) -> None:
    declare(way.owner, mandatory=True)
    put(way.database)
    add_referring(way.owner)
    refuse = {"transactional": {"email": False}}
    STEPS[step](way, ADAS, lambda: put(way.database, preferences=refuse))
    way.go_on()
    assert way.asked == [ADAS] * (2 if step == "before the retry" else 1)


@pytest.mark.parametrize("step", STEPS)
def test_f3_a_hard_bounce_of_another_message_is_honoured_at_every_step(way: Way, step: str) -> None:
    """It is about the address: also where the one went by reference, and the other did not."""
    put(way.database)
    (bounced,) = add_referring(way.owner)
    way.deliver(way.claim())
    way.gateway.asked.clear()
    (by_reference,) = add_referring(way.owner)
    STEPS[step](
        way, ADAS, lambda: tell(way.database, report(bounced, Rank.HARD_FAILURE, **AT_FAULT))
    )
    (literal,) = add_notifications(way.owner, recipient=ADAS)
    way.go_on()
    assert way.asked == ([ADAS] if step == "before the retry" else [])
    assert row_of(way.owner, bounced).status == "failed"
    for id in (by_reference, literal):
        row = row_of(way.owner, id)
        assert (row.status, row.reason) == ("suppressed", "suppressed")


def erase(database: Database, recipient_id: str = ADA) -> None:
    erase_recipient(
        database,
        organization_id=FIRST_ORGANIZATION,
        recipient_id=recipient_id,
        reference_hash=hash_of(f"id:{recipient_id}"),
        ends_at=time.monotonic() + 30,
    )


@pytest.mark.parametrize("step", [step for step in STEPS if step != "at the lock"])
def test_a_recipient_erased_before_an_attempt_opens_is_not_told(way: Way, step: str) -> None:
    put(way.database)
    (id,) = add_referring(way.owner)
    STEPS[step](way, ADAS, lambda: erase(way.database))
    way.gateway.asked.clear()
    way.go_on()
    row = row_of(way.owner, id)
    assert (way.asked, row.status, row.reason) == ([], "suppressed", "erased")
    assert row.erased_at is not None


def test_a_begin_that_waits_for_an_erasure_opens_nothing(way: Way) -> None:
    put(way.database)
    (id,) = add_referring(way.owner)
    leases = way.claim()
    with (
        connected(way.login, "erasing", kind=HeldDatabase) as (erasing,),
        connected(way.login, "sender", kind=Database) as (sending,),
        sender(sending, way.provider) as one,
    ):
        erase(erasing)
        with waiting(way.owner, "sender", lambda: one.deliver(records_of(leases))) as delivered:
            erasing.commit()
        assert delivered.result().failed == []
    way.go_on()
    row = row_of(way.owner, id)
    assert (way.asked, row.status, row.reason) == ([], "suppressed", "erased")


def test_what_is_behind_a_reference_no_more_is_never_called_unreadable(way: Way) -> None:
    """Nor is a notification that was erased under its lease: both are decided, not held."""
    put(way.database)
    gone, erased = add_referring(way.owner, 2)
    literal, empty = add_notifications(way.owner, 2)
    leases = way.claim()
    for id in (erased, literal):
        arrange(way.owner, id, erased_at=now_of(way.owner), recipient=None, content="{}")
    arrange(way.owner, empty, recipient=None)
    way.owner.execute("DELETE FROM contact_points")
    assert way.deliver(leases).counts["UnreadableContent"] == 1
    assert way.asked == []
    states = {id: row_of(way.owner, id) for id in (gone, erased, literal, empty)}
    assert {id: (row.status, row.reason) for id, row in states.items()} == {
        gone: ("pending", None),
        erased: ("suppressed", "erased"),
        literal: ("suppressed", "erased"),
        empty: ("dead", "unreadable"),
    }
    assert way.owner.execute("SELECT count(*) FROM attempts").fetchone() == (0,)
    way.go_on()
    assert row_of(way.owner, gone).reason == "no_contact_point"


def test_neighbours_in_a_set_of_ten_are_not_affected(way: Way) -> None:
    """Each of a set ends by what is so of itself, and all that may go goes in one delivery."""
    people = [Somebody(way=way, name=name) for name in ("ann", "bea", "cem", "dan", "eve", "fay")]
    for who in people:
        who.put()
    ann, bea, cem, dan, eve, fay = people
    ids = {who.name: add_referring(way.owner, recipient_id=who.name)[0] for who in people}
    for name in ("gus", "hal", "ida", "jon"):
        (ids[name],) = add_notifications(way.owner, recipient=f"{name}@example.com")
    arrange(way.owner, ids["jon"], content='{"unknown": 1}')
    leases = way.claim()
    assert len(leases) == 10
    bea.prefer(allowed=False)
    cem.put(locale="fr")
    dan.remove()
    eve.suppress()
    Somebody(way=way, name="hal").suppress()
    way.gateway.behaviour["ida@example.com"] = giving(409)
    way.deliver(leases)
    assert sorted(way.asked) == [
        "ann@example.com", "fay@example.com", "gus@example.com", "ida@example.com",
    ]  # fmt: skip
    way.gateway.behaviour.clear()
    way.go_on()
    ended = {name: (row_of(way.owner, id).status, row_of(way.owner, id).reason) for name, id in
             ids.items()}  # fmt: skip
    assert ended == {
        **dict.fromkeys(("ann", "cem", "fay", "gus", "ida"), ("submitted", None)),
        "bea": ("suppressed", "opted_out"),
        "dan": ("suppressed", "erased"),
        "eve": ("suppressed", "suppressed"),
        "hal": ("suppressed", "suppressed"),
        "jon": ("dead", "unreadable"),
    }
    assert way.asked.count(ann.email) == way.asked.count(fay.email) == 1
    assert way.asked.count(cem.email) == 1
    assert way.asked.count("ida@example.com") == 2


def test_what_may_have_been_accepted_is_not_told_again_to_another_address(way: Way) -> None:
    put(way.database)
    (id,) = add_referring(way.owner)
    way.gateway.behaviour[ADAS] = giving(503)  # nobody knows whether it took it
    assert way.deliver(way.claim()).counts["AttemptUnknown"] == 1
    leases = way.claim()
    put(way.database, address("new@example.com"))
    way.deliver(leases)
    assert row_of(way.owner, id).status == "pending"
    way.go_on()
    row = row_of(way.owner, id)
    assert way.asked == [ADAS]
    assert (row.status, row.reason) == ("unconfirmed", "contact_point_changed")


def test_what_may_have_been_accepted_is_told_again_under_the_same_key(way: Way) -> None:
    put(way.database)
    (id,) = add_referring(way.owner)
    way.gateway.behaviour[ADAS] = giving(503)
    way.deliver(way.claim())
    way.gateway.behaviour.clear()
    leases = way.claim()
    put(way.database, address("first@example.com"), address(ADAS), locale="de")
    way.deliver(leases)
    way.go_on()
    assert way.asked == [ADAS, ADAS]
    assert [one.key for one in way.gateway.asked] == [str(id)] * 2
    assert row_of(way.owner, id).status == "submitted"
