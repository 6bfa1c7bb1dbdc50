"""Begin of what refers to a recipient: opened only for what it was decided from."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from functions.core.login import Login
from functions.core.outcome import Unknown
from functions.core.states import Stream
from functions.store.begin import Opening
from functions.store.connection import Database
from functions.store.lock import lock_notifications
from functions.store.survey import promote
from tests.by_reference import (
    ADA,
    ADAS,
    add_referring,
    address,
    call_transactional,
    declare,
    judged,
    lease_any,
    put,
)
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    HeldDatabase,
    add_notifications,
    add_suppression_fact,
    hash_of,
    moves_of,
    row_of,
)
from tests.operators import arrange
from tests.steps import (
    begin_all,
    begin_one,
    close_one,
    connected,
    lease,
    now_of,
    opening_of,
    waiting,
)


@pytest.fixture
def opening(owner: psycopg.Connection, database: Database) -> Opening:
    """What opens an attempt for the only notification, decided just now: it is to go to Ada."""
    put(database)
    add_referring(owner)
    return claimed(database)


def claimed(database: Database) -> Opening:
    ((row, verdict),) = judged(database, lease(database))
    assert verdict.name == "allow"
    return opening_of(row)


def remove(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM recipients WHERE recipient_id = %s", [ADA])


def test_what_is_as_it_was_decided_from_is_sent(database: Database, opening: Opening) -> None:
    put(database)  # the same document once more
    assert begin_one(database, opening).verdict == "go"


Change = Callable[[psycopg.Connection, Database], object]

CHANGES: dict[str, Change] = {
    "refused": lambda _, database: put(database, preferences={"transactional": {"email": False}}),
    "agreed to": lambda _, database: put(database, preferences={"transactional": {"email": True}}),
    "another language": lambda _, database: put(database, locale="de"),
    "another address": lambda _, database: put(database, address("new@example.com")),
    "quiet hours": lambda _, database: put(database, quiet_hours="00:00-23:59"),
    "gone": lambda owner, _: remove(owner),
    "suppressed": lambda owner, _: add_suppression_fact(owner, recipient=ADAS),
    "rules of its category": lambda owner, _: declare(owner, hours="09:00-17:00"),
    "a category made bulk": lambda owner, _: call_transactional(owner, "receipts"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_decided_from_what_has_changed_is_given_back_at_once_and_unspent(
    owner: psycopg.Connection, database: Database, opening: Opening, change: str
) -> None:
    CHANGES[change](owner, database)
    answer = begin_one(database, opening)
    row = row_of(owner, opening.id)
    assert (answer.verdict, answer.send, answer.attempts_spent) == ("changed", False, 0)
    assert (row.status, row.ready, row.reason, row.lease_until) == ("pending", True, None, None)
    assert (row.attempts_spent, row.key_first_used_at, row.final_at) == (0, None, None)
    assert moves_of(owner, opening.id) == [("sender", "leased", "pending", "changed")]
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (0,)
    assert promote(database) == 0
    assert [one.id for one in lease(database)] == [opening.id]


def test_what_was_changed_and_changed_back_is_decided_anew_all_the_same(
    owner: psycopg.Connection, database: Database, opening: Opening
) -> None:
    put(database, preferences={"transactional": {"email": False}})
    put(database)
    assert begin_one(database, opening).verdict == "changed"
    assert begin_one(database, claimed(database)).verdict == "go"


def test_what_has_no_address_any_more_is_never_opened(
    owner: psycopg.Connection, database: Database, opening: Opening
) -> None:
    assert begin_one(database, replace(opening, has_address=False)).verdict == "changed"
    assert begin_one(database, claimed(database)).verdict == "go"


def test_what_was_never_decided_is_never_opened(
    owner: psycopg.Connection, database: Database
) -> None:
    add_referring(owner)
    assert begin_one(database, opening_of(lease(database)[0])).verdict == "changed"
    put(database)
    assert begin_one(database, opening_of(lease(database)[0])).verdict == "changed"


def test_a_recipient_of_another_tenant_with_the_same_id_is_another(
    owner: psycopg.Connection, database: Database, opening: Opening
) -> None:
    put(database, organization_id=SECOND_ORGANIZATION, locale="de")
    put(database, recipient_id="bob", locale="de")
    assert begin_one(database, opening).verdict == "go"


def test_what_has_changed_is_decided_anew_before_it_is_called_suppressed_but_not_once_expired(
    owner: psycopg.Connection, database: Database, opening: Opening
) -> None:
    """Its recipient may have an address by now that is not suppressed."""
    add_suppression_fact(owner, recipient=ADAS)
    put(database, address("new@example.com"))
    assert begin_one(database, opening).verdict == "changed"
    again = claimed(database)
    remove(owner)
    later = now_of(owner, seconds=30)
    arrange(owner, again.id, expires_at=later)
    assert begin_one(database, again, now=later).verdict == "expired"


def test_the_chosen_address_is_the_one_whose_suppression_counts(
    owner: psycopg.Connection, database: Database, opening: Opening
) -> None:
    add_suppression_fact(owner, recipient=f"id:{ADA}")
    add_suppression_fact(owner, recipient=ADAS, organization_id=SECOND_ORGANIZATION)
    add_suppression_fact(owner, recipient=ADAS, channel="sms")
    add_suppression_fact(owner, recipient=ADAS)
    add_suppression_fact(owner, recipient=ADAS, kind="lift")
    assert begin_one(database, opening).verdict == "go"
    close_one(database, opening, Unknown(), again_seconds=None)
    add_suppression_fact(owner, recipient=ADAS, category="transactional")
    again = opening_of(lease(database)[0])  # decided before the fact came
    assert begin_one(database, again).verdict == "changed"
    assert row_of(owner, opening.id).status == "pending"
    ((_, verdict),) = judged(database, lease(database))
    assert verdict.name == "suppress"
    assert row_of(owner, opening.id).status == "unconfirmed"


def test_f3_what_is_suppressed_between_claim_and_begin_goes_to_the_next_address_if_there_is_one(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, address(ADAS), address("second@example.com"))
    (id,) = add_referring(owner)
    first = claimed(database)
    add_suppression_fact(owner, recipient=ADAS)
    assert begin_one(database, first).verdict == "changed"
    row = row_of(owner, id)
    assert (row.status, row.ready, row.attempts_spent) == ("pending", True, 0)
    second = claimed(database)
    assert row_of(owner, id).contact_hash == hash_of("second@example.com")
    add_suppression_fact(owner, recipient="second@example.com")
    assert begin_one(database, second).verdict == "changed"
    ((_, verdict),) = judged(database, lease(database))
    assert verdict.name == "suppress"
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("suppressed", "suppressed")
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


def test_what_the_claim_lets_go_in_spite_of_a_link_begin_lets_go_too(
    owner: psycopg.Connection, database: Database
) -> None:
    """Else it would go round and round between them. Its stream says nothing of it."""
    put(database, preferences={"news": {"email": True}})
    add_suppression_fact(owner, recipient=ADAS, category="news")
    owner.execute("UPDATE suppressions SET source = 'unsubscribe'")
    for categories, verdicts in ((["news"], ["go", "go"]), ([], [])):
        call_transactional(owner, *categories)
        for stream in Stream:
            add_referring(owner, category="news", stream=stream)
        page = judged(database, lease_any(database, now=now_of(owner)))
        allowed = [row for row, one in page if one.name == "allow"]
        assert [begin_one(database, opening_of(row)).verdict for row in allowed] == verdicts


def test_rules_of_another_category_or_tenant_are_others(
    owner: psycopg.Connection, database: Database, opening: Opening
) -> None:
    declare(owner, "news", mandatory=True)
    declare(owner, organization_id=SECOND_ORGANIZATION, mandatory=True)
    call_transactional(owner, organization_id=SECOND_ORGANIZATION)
    call_transactional(owner, "transactional", "news")
    assert begin_one(database, opening).verdict == "go"


def test_what_was_mandatory_when_it_was_decided_and_is_no_more_is_not_sent(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, preferences={"transactional": {"email": False}})
    declare(owner, mandatory=True)
    (id,) = add_referring(owner)
    decided = claimed(database)
    owner.execute(
        "UPDATE category_rules SET mandatory = false, version = nextval('policy_versions')"
    )
    assert begin_one(database, decided).verdict == "changed"
    ((_, verdict),) = judged(database, lease(database))
    assert verdict.name == "suppress"
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("suppressed", "opted_out")


@pytest.mark.parametrize("by_reference", [True, False])
def test_what_was_erased_ends_as_that_whatever_else_is_so(
    owner: psycopg.Connection, database: Database, opening: Opening, by_reference: bool
) -> None:
    ids = [opening.id] if by_reference else add_notifications(owner, expires_in_seconds=30)
    again = opening if by_reference else opening_of(lease(database)[0])
    now = now_of(owner)
    arrange(owner, ids[0], erased_at=now, recipient=None)
    remove(owner)
    late = now if by_reference else now + timedelta(seconds=40)
    answer = begin_one(database, replace(again, has_address=False), now=late)
    row = row_of(owner, ids[0])
    assert (answer.verdict, answer.send) == ("erased", False)
    assert (row.status, row.reason, row.attempts_spent) == ("suppressed", "erased", 0)
    assert (row.final_at, row.lease_until) == (late, None)
    assert moves_of(owner, ids[0]) == [("sender", "leased", "suppressed", "erased")]


def test_what_may_have_been_accepted_before_it_was_erased_ends_unconfirmed(
    owner: psycopg.Connection, database: Database, opening: Opening
) -> None:
    assert begin_one(database, opening).send
    close_one(database, opening, Unknown(), again_seconds=None)
    again = claimed(database)
    arrange(owner, opening.id, erased_at=now_of(owner))
    assert begin_one(database, again).verdict == "erased"
    assert (row_of(owner, opening.id).status, row_of(owner, opening.id).reason) == (
        "unconfirmed", "erased",
    )  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_committed_while_begin_waits_for_the_lock_counts(
    owner: psycopg.Connection, database: Database, login: Login, opening: Opening, change: str
) -> None:
    with (
        connected(login, "begin", kind=Database) as (beginning,),
        connected(login, "holder", kind=HeldDatabase) as (holding,),
    ):
        holding.run(lambda connection: lock_notifications(connection, [opening.id]))
        with waiting(owner, "begin", lambda: begin_one(beginning, opening)) as answer:
            CHANGES[change](owner, database)
            holding.rollback()
        assert (answer.result().verdict, answer.result().send) == ("changed", False)


def test_a_change_that_is_not_committed_is_none(
    owner: psycopg.Connection, login: Login, database: Database, opening: Opening
) -> None:
    with connected(login, "changing", kind=HeldDatabase) as (changing,):
        put(changing, locale="de")
        assert begin_one(database, opening).verdict == "go"
        changing.rollback()


def test_in_a_set_each_row_is_decided_by_its_own_recipient(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database)
    put(database, address("bob@example.com"), recipient_id="bob")
    to_ada = add_referring(owner, 3)
    to_bob = add_referring(owner, 3, recipient_id="bob")
    literal = add_notifications(owner, 3)
    openings = [opening_of(row) for row, _ in judged(database, lease(database))]
    put(database, recipient_id="bob", locale="de")
    answers = begin_all(database, openings)
    assert {id: answers[id].verdict for id in (*to_ada, *to_bob, *literal)} == {
        **dict.fromkeys(to_ada, "go"),
        **dict.fromkeys(to_bob, "changed"),
        **dict.fromkeys(literal, "go"),
    }
    assert {one.organization_id for one in lease(database)} == {FIRST_ORGANIZATION}
