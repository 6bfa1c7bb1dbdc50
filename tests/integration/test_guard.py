"""The guard in front of SMS on real PostgreSQL: what goes out, what waits, and what is counted."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from functions.core.abuse import MOST_SPENT, Because
from functions.core.errors import Unavailable
from functions.core.login import Login
from functions.core.policy import Allow, Defer, Hold, Suppress
from functions.store.action import Action
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.guard import guard
from functions.store.sms import read_standing, set_budget, set_countries, set_limits, set_price
from functions.store.sms_forget import forget
from functions.store.survey import promote
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    HeldDatabase,
    moves_of,
    row_of,
)
from tests.guarding import (
    Text,
    add_texts,
    all_are_sent,
    connected,
    leased_texts,
    losing_its_first_commit,
    names_of,
    ruled,
    some_texts,
    usual_weeks,
)

NOON = datetime(2030, 5, 15, 12, tzinfo=UTC)
MIDNIGHT = datetime(2030, 5, 16, tzinfo=UTC)
TO_ONE = Text(recipient="+33612345678", country="FR", at=NOON)


def action(command: str = "sms.budget") -> Action:
    return Action(id=uuid4(), actor="ada@laptop", command=command, arguments={})


@contextmanager
def operator_of(login: Login) -> Generator[Database]:
    with connected(login, user="sendoff_operator") as operator:
        yield operator


@pytest.fixture
def prices(login: Login) -> None:
    with operator_of(login) as operator:
        for country, amount in (("FR", "0.05"), ("TD", "0.25")):
            set_price(operator, country=country, amount=Decimal(amount), action=action())


def budget(login: Login, amount: str | None, *, now: datetime | None = None) -> int:
    with operator_of(login) as operator:
        return set_budget(
            operator,
            organization_id=FIRST_ORGANIZATION,
            amount=None if amount is None else Decimal(amount),
            action=action(),
            now=now,
        )


def spent(database: Database, *, now: datetime = NOON) -> tuple[Decimal, int]:
    """Return what the first organization spent that day, and for how many messages."""
    standing = read_standing(database, organization_id=FIRST_ORGANIZATION, now=now)
    return standing.spent, standing.messages


# countries


def test_outside_of_its_countries_a_message_ends_suppressed(
    database: Database, owner: psycopg.Connection, login: Login
) -> None:
    with operator_of(login) as operator:
        set_countries(
            operator, organization_id=FIRST_ORGANIZATION, countries=["FR"], action=action()
        )
    french, german, nowhere = add_texts(
        owner,
        [
            TO_ONE,
            Text(recipient="+4915112345678", country="DE", at=NOON),
            Text(recipient="+8821612345", country=None, at=NOON),
        ],
    )
    assert names_of(ruled(database, now=NOON)) == ["allow", "suppress", "suppress"]
    assert row_of(owner, french).status == "leased"
    for id in (german, nowhere):
        row = row_of(owner, id)
        assert (row.status, row.reason) == ("suppressed", "country_not_allowed")
        assert moves_of(owner, id) == [("policy", "leased", "suppressed", "country_not_allowed")]


# paces


def test_one_number_is_written_to_at_its_pace_and_nothing_is_lost(
    database: Database, owner: psycopg.Connection, login: Login
) -> None:
    with operator_of(login) as operator:
        set_limits(operator, organization_id=FIRST_ORGANIZATION, number_per_hour=2)
    ids = add_texts(owner, [TO_ONE] * 5)
    assert names_of(ruled(database, now=NOON)) == ["allow"] * 2 + ["defer"] * 3
    due = [row_of(owner, id).available_at for id in ids[2:]]
    assert due == [NOON + timedelta(minutes=30 * number) for number in (1, 2, 3)]
    assert row_of(owner, ids[2]).reason == "number_velocity"
    for number in (1, 2, 3):
        now = NOON + timedelta(minutes=30 * number)
        promote(database, now=now)
        assert names_of(ruled(database, now=now)) == ["allow"]


def test_another_tenants_messages_to_the_number_are_no_business_of_this_one(
    database: Database, owner: psycopg.Connection, login: Login
) -> None:
    with operator_of(login) as operator:
        for id in (FIRST_ORGANIZATION, SECOND_ORGANIZATION):
            set_limits(operator, organization_id=id, number_per_hour=1)
    other = Text(
        recipient=TO_ONE.recipient, country="FR", at=NOON, organization_id=SECOND_ORGANIZATION
    )
    add_texts(owner, [TO_ONE, TO_ONE, other])
    ruled_upon = [(row.organization_id, verdict.name) for row, verdict in ruled(database, now=NOON)]
    assert sorted(ruled_upon) == [
        (FIRST_ORGANIZATION, "allow"),
        (FIRST_ORGANIZATION, "defer"),
        (SECOND_ORGANIZATION, "allow"),
    ]


# money


@pytest.mark.usefixtures("prices")
def test_beyond_the_budget_messages_wait_for_the_next_day(
    database: Database, owner: psycopg.Connection, login: Login
) -> None:
    budget(login, "0.12")
    ids = add_texts(owner, some_texts(4, at=NOON))
    verdicts = ruled(database, now=NOON)
    assert names_of(verdicts) == ["allow", "allow", "defer", "defer"]
    assert verdicts[2][1] == Defer(until=MIDNIGHT, reason=Because.BUDGET_SPENT)
    assert spent(database) == (Decimal("0.10"), 2)
    row = row_of(owner, ids[2])
    assert (row.status, row.ready, row.available_at) == ("pending", False, MIDNIGHT)
    promote(database, now=MIDNIGHT)
    assert names_of(ruled(database, now=MIDNIGHT)) == ["allow", "allow"]
    assert spent(database, now=MIDNIGHT) == (Decimal("0.10"), 2)


@pytest.mark.usefixtures("prices")
def test_a_higher_budget_lets_what_waits_go_on_at_once(
    database: Database, owner: psycopg.Connection, login: Login
) -> None:
    budget(login, "0.05")
    add_texts(owner, some_texts(3, at=NOON))
    ruled(database, now=NOON)
    later = NOON + timedelta(hours=1)
    assert budget(login, "0.10", now=later) == 2
    promote(database, now=later)
    assert names_of(ruled(database, now=later)) == ["allow", "defer"]
    assert budget(login, None, now=later) == 1


@pytest.mark.usefixtures("prices")
def test_a_country_without_a_price_costs_the_highest_and_parts_count(
    database: Database, owner: psycopg.Connection
) -> None:
    text = Text(recipient="+9607712345", country="MV", at=NOON, content="a" * 161)
    add_texts(owner, [text])
    assert names_of(ruled(database, now=NOON)) == ["allow"]
    assert spent(database) == (Decimal("0.50"), 1)


def test_under_a_budget_without_prices_nothing_is_let_out(
    database: Database, owner: psycopg.Connection, login: Login
) -> None:
    budget(login, "1000")
    add_texts(owner, [TO_ONE])
    ((_, verdict),) = ruled(database, now=NOON)
    assert verdict == Defer(until=MIDNIGHT, reason=Because.PRICE_UNKNOWN)


SPENT_ALREADY = """
    INSERT INTO sms_spend (organization_id, day, amount, messages)
    VALUES (%(organization_id)s, %(day)s, %(amount)s, %(messages)s)
"""


@pytest.mark.usefixtures("prices")
def test_the_largest_sum_that_can_be_kept_stays_where_it_is(
    database: Database, owner: psycopg.Connection
) -> None:
    most = (MOST_SPENT - Decimal("0.01"), 2**31 - 2)
    values = {"organization_id": FIRST_ORGANIZATION, "day": NOON.date()}
    owner.execute(SPENT_ALREADY, {**values, "amount": most[0], "messages": most[1]})
    add_texts(owner, some_texts(3, at=NOON))
    assert names_of(ruled(database, now=NOON)) == ["allow"] * 3
    assert spent(database) == (MOST_SPENT, 2**31 - 1)


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("right", ["SELECT", "INSERT"])
def test_when_the_spend_cannot_be_read_or_written_nothing_is_let_out(
    right: LiteralString, database: Database, owner: psycopg.Connection
) -> None:
    revoke = sql.SQL("REVOKE {} ON sms_spend FROM sendoff_service")
    owner.execute(revoke.format(sql.SQL(right)))
    add_texts(owner, [TO_ONE])
    rows = leased_texts(database, now=NOON)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        guard(database, rows, now=NOON)
    assert owner.execute("SELECT count(*) FROM sms_reservations").fetchall() == [(0,)]
    assert owner.execute("SELECT count(*) FROM sms_slices").fetchall() == [(0,)]


def test_when_the_books_are_locked_nothing_is_let_out(
    database: Database, owner: psycopg.Connection
) -> None:
    add_texts(owner, [TO_ONE])
    rows = leased_texts(database, now=NOON)
    owner.execute("INSERT INTO sms_guards (organization_id) VALUES (%s)", [FIRST_ORGANIZATION])
    with owner.transaction():
        owner.execute("SELECT FROM sms_guards FOR UPDATE")
        database.run(lambda connection: connection.execute("SET lock_timeout = '50ms'"))
        with pytest.raises(Unavailable):
            guard(database, rows, now=NOON)


@pytest.mark.usefixtures("prices")
def test_two_claims_at_once_do_not_spend_the_same_money(
    database: Database, owner: psycopg.Connection, login: Login
) -> None:
    budget(login, "0.05")
    add_texts(owner, some_texts(2, at=NOON))
    (first,), (second,) = (
        leased_texts(database, now=NOON, page=1),
        leased_texts(database, now=NOON, page=1),
    )
    with connected(login, kind=HeldDatabase) as held:
        assert names_of([(first, guard(held, [first], now=NOON)[0])]) == ["allow"]
        database.run(lambda connection: connection.execute("SET lock_timeout = '50ms'"))
        with pytest.raises(Unavailable):
            guard(database, [second], now=NOON)
        held.commit()
    assert names_of([(second, guard(database, [second], now=NOON)[0])]) == ["defer"]
    assert spent(database) == (Decimal("0.05"), 1)


# what counts once


ATTEMPT = """
    INSERT INTO attempts (notification_id, lease_number, id, provider, started_at, finished_at,
                          outcome)
    VALUES (%(id)s, %(lease_number)s, uuidv7(), 'sms', %(now)s,
            CASE WHEN %(outcome)s::text IS NOT NULL THEN %(now)s::timestamptz END, %(outcome)s)
"""


def again(owner: psycopg.Connection, row: Leased, outcome: str | None, *, made: bool) -> None:
    """Let the lease end, after an attempt if one was ``made``, and the row be due again."""
    if made:
        values = {"id": row.id, "lease_number": row.lease_number, "outcome": outcome, "now": NOON}
        owner.execute(ATTEMPT, values)
    owner.execute(
        "UPDATE notifications SET status = 'pending', ready = true, lease_until = NULL"
        " WHERE id = %s",
        [row.id],
    )


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize(
    ("made", "outcome", "paid"),
    [
        (False, None, "0.05"),
        (True, "transient", "0.05"),
        (True, "throttled", "0.05"),
        (True, "blocked", "0.05"),
        (True, "rejected", "0.05"),
        (True, "unknown", "0.10"),
        (True, "accepted", "0.10"),
        (True, None, "0.10"),
    ],
)
def test_a_retry_pays_again_only_if_an_attempt_may_have_been_accepted(
    made: bool, outcome: str | None, paid: str, database: Database, owner: psycopg.Connection
) -> None:
    add_texts(owner, [TO_ONE])
    ((row, _),) = ruled(database, now=NOON)
    again(owner, row, outcome, made=made)
    ((row, verdict),) = ruled(database, now=NOON)
    assert verdict == Allow()
    assert spent(database)[0] == Decimal(paid)
    again(owner, row, None, made=False)
    ruled(database, now=NOON)
    assert spent(database)[0] == Decimal(paid)


@pytest.mark.usefixtures("prices")
def test_another_day_pays_for_itself(database: Database, owner: psycopg.Connection) -> None:
    add_texts(owner, [TO_ONE])
    ((row, _),) = ruled(database, now=NOON)
    again(owner, row, None, made=False)
    assert names_of(ruled(database, now=MIDNIGHT)) == ["allow"]
    assert spent(database, now=MIDNIGHT) == (Decimal("0.05"), 1)


@pytest.mark.usefixtures("prices")
def test_the_same_page_again_after_a_lost_commit_counts_nothing_twice(
    database: Database, owner: psycopg.Connection, login: Login
) -> None:
    usual_weeks(database, owner, until=NOON)
    before = spent(database)
    add_texts(owner, some_texts(30, at=NOON, country="MV", stem="+960771"))
    rows = leased_texts(database, now=NOON)
    with losing_its_first_commit(login) as losing:
        verdicts = guard(losing, rows, now=NOON)
    # The first answer was lost: what was let out before the hold was opened waits under it as well.
    assert {verdict.name for verdict in verdicts} == {"hold"}
    assert spent(database) == (before[0] + 20 * Decimal("0.25"), before[1] + 20)
    assert owner.execute("SELECT count(*) FROM holds").fetchall() == [(1,)]
    held = [verdict for verdict in verdicts if isinstance(verdict, Hold)]
    assert {row_of(owner, row.id).hold_id for row in rows} == {one.hold_id for one in held}


def test_a_lease_that_is_over_lets_nothing_out(
    database: Database, owner: psycopg.Connection
) -> None:
    add_texts(owner, some_texts(2, at=NOON))
    taken, gone = leased_texts(database, now=NOON)
    owner.execute("UPDATE notifications SET lease_number = 2 WHERE id = %s", [taken.id])
    owner.execute(
        "UPDATE notifications SET status = 'cancelled', final_at = now(), lease_until = NULL"
        " WHERE id = %s",
        [gone.id],
    )
    lost = Defer(until=NOON, reason="lease_lost", blocked=True)
    assert guard(database, [taken, gone], now=NOON) == [lost, lost]
    assert owner.execute("SELECT count(*) FROM sms_slices").fetchall() == [(0,)]


def test_verdicts_come_in_the_order_of_the_rows(
    database: Database, owner: psycopg.Connection, login: Login
) -> None:
    with operator_of(login) as operator:
        set_countries(
            operator, organization_id=FIRST_ORGANIZATION, countries=["FR"], action=action()
        )
    texts = [
        Text(recipient=f"+3361234{number:04}", country="FR" if number % 3 else "DE", at=NOON)
        for number in range(9)
    ]
    add_texts(owner, texts)
    rows = leased_texts(database, now=NOON)[::-1]
    expected = [Suppress if row.country == "DE" else Allow for row in rows]
    assert [type(verdict) for verdict in guard(database, rows, now=NOON)] == expected
    assert guard(database, [], now=NOON) == []


def test_a_message_that_was_erased_or_cannot_be_read_goes_on_to_whoever_ends_it(
    database: Database, owner: psycopg.Connection
) -> None:
    (id,) = add_texts(owner, [TO_ONE])
    owner.execute(
        "UPDATE notifications SET recipient = NULL, content = '{\"x\": 1}' WHERE id = %s", [id]
    )
    assert names_of(ruled(database, now=NOON)) == ["allow"]


# a sale


def far_apart(country: str, stem: str, number: int) -> Text:
    """Return a message to a number whose prefix is its own."""
    return Text(recipient=f"{stem}{number:04}12345"[:12], country=country, at=NOON)


def test_a_sale_is_told_by_all_that_waits_not_by_what_comes_first(
    database: Database, owner: psycopg.Connection
) -> None:
    usual_weeks(database, owner, until=NOON, a_day=60)
    small = [far_apart("DE", "+491", number) for number in range(150)]
    large = [far_apart("FR", "+336", number) for number in range(450)]
    add_texts(owner, small + large)
    names: list[str] = []
    while verdicts := ruled(database, now=NOON):
        names += names_of(verdicts)
        all_are_sent(owner, now=NOON)
    assert names == ["allow"] * 600


# what is forgotten


def test_what_no_longer_decides_anything_is_forgotten(
    database: Database, owner: psycopg.Connection
) -> None:
    add_texts(owner, some_texts(3, at=NOON))
    ruled(database, now=NOON)
    assert forget(database, now=NOON + timedelta(days=1)) == 0
    assert forget(database, now=NOON + timedelta(days=3)) == 6
    assert forget(database, now=NOON + timedelta(days=61)) == 1
    (row,) = owner.execute("SELECT kind, key, total FROM sms_slices").fetchall()
    assert row == ("country", "FR", 3)


def test_the_functions_may_not_change_what_they_decide_by(
    database: Database, owner: psycopg.Connection
) -> None:
    del owner
    statements: tuple[LiteralString, ...] = (
        "UPDATE sms_guards SET daily_budget = NULL",
        "UPDATE sms_guards SET countries = NULL",
        "UPDATE sms_prices SET amount = 0",
        "UPDATE holds SET released_at = now()",
        "UPDATE sms_slices SET trusted_until = now()",
    )
    for statement in statements:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            database.run(lambda connection, text=statement: connection.execute(text))
