"""Notifications by reference in the claim: decided from what is so at that moment, and written."""

import dataclasses
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest

from functions.claim.claim import Claimer
from functions.claim.gate import Judged, judge, open_to_all
from functions.core.login import Login
from functions.core.policy import POLICY_VERSION, Allow, Recipient
from functions.store.cancel import cancel_notification
from functions.store.claim import Leased
from functions.store.connection import Connect, Database, connector
from functions.store.guard import guard
from functions.store.policy import Asked, recipients_of, record_choices
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.by_reference import (
    ADA,
    ADAS,
    add_referring,
    address,
    call_transactional,
    decided,
    declare,
    judged,
    lease_any,
    put,
    within,
)
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    FakeSqs,
    HeldDatabase,
    add_notifications,
    add_suppression_fact,
    hash_of,
    moves_of,
    queues_of,
    row_of,
)
from tests.steps import begin_one, channel_of, connected, declaration_of, lease, opening_of
from tests.streams import set_pace

T = TypeVar("T")

NOON = datetime(2030, 5, 17, 12, tzinfo=UTC)
NIGHT = datetime(2030, 5, 17, 23, tzinfo=UTC)
MORNING = datetime(2030, 5, 18, 7, tzinfo=UTC)
QUIET = "21:00-07:00"


def test_what_is_allowed_has_an_address_a_language_and_what_it_was_decided_from(
    owner: psycopg.Connection, database: Database
) -> None:
    old = put(database, address("old@example.com"))
    ada = put(
        database,
        address("new@example.com", verified=False),
        address(ADAS),
        locale="de-AT",
        time_zone="Europe/Vienna",
        quiet_hours=QUIET,
    )
    assert ada.version > old.version
    declare(owner, hours="08:00-20:00")
    (id,) = add_referring(owner)
    (leased,) = lease(database, now=NOON)
    assert (leased.recipient_id, leased.address_hash) == (ADA, hash_of("id:ada"))
    ((seen, verdict),) = judged(database, [leased])
    assert isinstance(verdict, Allow)
    row = row_of(owner, id)
    assert (row.status, row.verdict, row.policy_version) == ("leased", "allow", POLICY_VERSION)
    assert (row.contact_hash, row.address_hash) == (hash_of(ADAS), hash_of(ADAS))
    assert (row.locale, row.recipient_version) == ("de-AT", ada.version)
    rules_version = row.decision.pop("rules_version")
    assert rules_version > ada.version
    assert row.decision == {
        "recipient_version": ada.version,
        "transactional": True,
        "locale": "de-AT",
        "time_zone": "Europe/Vienna",
        "quiet_hours": {"start": "21:00", "end": "07:00"},
        "window": {"start": "08:00", "end": "20:00"},
        "preference": None,
        "contact_verified": True,
        "local_time": "2030-05-17T14:00:00+02:00",
    }
    assert (seen.address_hash, seen.contact_hash, seen.locale) == (
        hash_of(ADAS),
        hash_of(ADAS),
        "de-AT",
    )


def test_the_gates_see_where_it_goes(owner: psycopg.Connection, database: Database) -> None:
    put(database, address("+33612345678", channel="sms"))
    (text,) = add_referring(owner, channel="sms")
    put(database, address("https://example.com/hook", channel="webhook"), recipient_id="hook")
    (hook,) = add_referring(owner, recipient_id="hook", channel="webhook")
    seen: dict[UUID, tuple[str | None, str | None]] = {}

    def gates(rows: Sequence[Leased]) -> Judged:
        seen.update({row.id: (row.country, row.origin) for row in rows})
        return open_to_all(rows)

    for channel in ("sms", "webhook"):
        judged(database, lease(database, channel=channel), gates=gates)
    assert seen == {text: ("FR", None), hook: (None, "https://example.com")}
    assert (row_of(owner, text).country, row_of(owner, hook).origin) == (
        "FR",
        "https://example.com",
    )


def test_what_is_within_quiet_hours_waits_is_spread_and_decided_anew(
    owner: psycopg.Connection, database: Database
) -> None:
    ada = put(database, quiet_hours=QUIET)
    ids = add_referring(owner, 40)
    assert set(decided(database, now=NIGHT).values()) == {"quiet_hours"}
    dues: set[datetime] = set()
    for id in ids:
        row = row_of(owner, id)
        assert (row.status, row.reason, row.verdict) == ("pending", "quiet_hours", "defer")
        assert row.available_at == row.eligible_at
        assert within(row.available_at, MORNING)
        assert (row.ready, row.attempts_spent, row.contact_hash) == (False, 0, None)
        assert row.decision["recipient_version"] == ada.version
        assert row.decision["local_time"] == "2030-05-17T23:00:00+00:00"
        dues.add(row.available_at)
    assert len(dues) == 40
    assert moves_of(owner, ids[0]) == [("policy", "leased", "pending", "quiet_hours")]
    assert promote(database, now=MORNING) <= 1
    put(database, quiet_hours=QUIET, preferences={"transactional": {"email": False}})
    assert promote(database, now=max(dues)) >= 39
    later = decided(database, now=max(dues))
    assert set(later.values()) == {"opted_out"}


def test_a_send_window_defers_and_is_opened_for_nobody(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, quiet_hours="22:00-06:00")
    declare(owner, hours="09:00-17:00", bypasses=True)
    (urgent,) = add_referring(owner, priority="high")
    assert decided(database, now=NIGHT, priority="high") == {urgent: "outside_send_window"}
    assert within(row_of(owner, urgent).eligible_at, MORNING.replace(hour=9), minutes=1)


def test_high_transactional_ones_bypass_quiet_hours_where_it_is_declared(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, quiet_hours=QUIET)
    (kept,) = add_referring(owner, priority="high")
    assert decided(database, now=NIGHT, priority="high") == {kept: "quiet_hours"}
    declare(owner, bypasses=True)
    (urgent,) = add_referring(owner, priority="high")
    assert decided(database, now=NIGHT, priority="high") == {urgent: "allow"}


def test_quiet_hours_that_leave_no_moment_of_the_window_end_it_instead_of_waiting_for_ever(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, quiet_hours="08:00-20:00")
    declare(owner, hours="09:00-17:00", bypasses=True)
    for number, now in enumerate((NOON, NIGHT, MORNING)):
        (id,) = add_referring(owner)
        assert decided(database, now=now) == {id: "no_send_time"}, number
        row = row_of(owner, id)
        assert (row.status, row.reason) == ("suppressed", "no_send_time")
        assert row.decision["quiet_hours"] == {"start": "08:00", "end": "20:00"}
        assert moves_of(owner, id) == [("policy", "leased", "suppressed", "no_send_time")]
    (urgent,) = add_referring(owner, priority="high")  # which need not wait for their end
    assert decided(database, now=NOON, priority="high") == {urgent: "allow"}


def test_what_became_bulk_since_it_was_accepted_needs_a_yes_and_what_became_transactional_none(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database)
    call_transactional(owner, "tips")
    (to_become_bulk,) = add_referring(owner, category="tips", stream="transactional")
    (to_become_transactional,) = add_referring(owner, category="news", stream="bulk")
    call_transactional(owner, "news")
    verdicts = judged(database, lease_any(database, now=NOON))
    found = {row.id: getattr(one, "reason", one.name) for row, one in verdicts}
    assert found == {to_become_bulk: "no_consent", to_become_transactional: "allow"}
    rows = [row_of(owner, id) for id in (to_become_bulk, to_become_transactional)]
    assert [row.stream for row in rows] == ["transactional", "bulk"]  # the lane stays
    assert [row.decision["transactional"] for row in rows] == [False, True]


NO, YES = {"news": {"email": False}}, {"news": {"email": True}}
SUPPRESSED: list[tuple[str, list[str], dict[str, Any]]] = [
    ("opted_out", ["news"], {"preferences": NO}),
    ("opted_out", [], {"preferences": NO}),
    ("no_consent", [], {}),
    ("no_consent", [], {"preferences": {"news": {"sms": True}, "other": {"email": True}}}),
]


@pytest.mark.parametrize("stream", ["transactional", "bulk"])
@pytest.mark.parametrize(("reason", "transactional", "recipient"), SUPPRESSED)
def test_who_did_not_say_yes_to_bulk_or_said_no_is_not_told(
    reason: str,
    transactional: list[str],
    recipient: dict[str, Any],
    stream: str,
    owner: psycopg.Connection,
    database: Database,
) -> None:
    """By what the category is by now, whatever it was when the notification was accepted."""
    call_transactional(owner, *transactional)
    ada = put(database, **recipient)
    (id,) = add_referring(owner, category="news", stream=stream)
    leased = lease_any(database, now=NOON)
    ((_, verdict),) = judged(database, leased)
    assert verdict.name == "suppress"
    row = row_of(owner, id)
    assert (row.status, row.reason, row.contact_hash) == ("suppressed", reason, None)
    assert row.final_at is not None
    assert row.decision["recipient_version"] == ada.version
    assert moves_of(owner, id) == [("policy", "leased", "suppressed", reason)]


def test_a_mandatory_category_goes_out_whatever_was_said(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, preferences={"transactional": {"email": False}})
    declare(owner, mandatory=True)
    (id,) = add_referring(owner)
    assert decided(database, now=NOON) == {id: "allow"}


def test_addresses_that_serve_no_more_are_named_as_the_reason(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, address("+33612345678", channel="sms"), recipient_id="texts")
    put(database, address(ADAS, verified=False), recipient_id="unproven", preferences=YES)
    put(database, address("gone@example.com"), recipient_id="gone")
    add_suppression_fact(owner, recipient="gone@example.com")
    expected = {
        add_referring(owner, recipient_id="texts")[0]: "no_contact_point",
        add_referring(owner, recipient_id="unproven")[0]: "allow",
        add_referring(owner, recipient_id="unproven", category="news", stream="bulk")[
            0
        ]: "not_verified",
        add_referring(owner, recipient_id="gone")[0]: "suppressed",
        add_referring(owner, recipient_id="nobody")[0]: "erased",
    }
    verdicts = judged(database, lease_any(database, now=NOON))
    assert {row.id: getattr(one, "reason", one.name) for row, one in verdicts} == expected
    nobody = list(expected)[-1]
    assert row_of(owner, nobody).decision == {"recipient_version": None}


def test_a_suppressed_address_is_passed_over_by_its_newest_fact_per_category(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, address("first@example.com"), address("second@example.com"))
    everywhere = {"organization_id": SECOND_ORGANIZATION, "recipient": "first@example.com"}
    facts: list[tuple[dict[str, Any], str]] = [
        (everywhere, "first"),  # another organization's
        ({"recipient": "first@example.com", "channel": "sms"}, "first"),  # another channel's
        ({"recipient": "first@example.com", "category": "news"}, "first"),  # another category's
        ({"recipient": "first@example.com", "category": "transactional"}, "second"),
        (
            {"recipient": "first@example.com", "category": "transactional", "kind": "lift"},
            "first",
        ),
        ({"recipient": "first@example.com"}, "second"),
        ({"recipient": "first@example.com", "kind": "lift"}, "first"),
    ]
    for fact, expected in facts:
        add_suppression_fact(owner, **fact)
        (id,) = add_referring(owner)
        assert decided(database, now=NOON) == {id: "allow"}
        assert row_of(owner, id).contact_hash == hash_of(f"{expected}@example.com")


def test_an_unsubscribe_link_never_stops_what_is_transactional(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, preferences=YES)
    add_suppression_fact(owner, recipient=ADAS, category="news")
    owner.execute("UPDATE suppressions SET source = 'unsubscribe'")
    (bulk,) = add_referring(owner, category="news", stream="bulk")
    (declared_since,) = add_referring(owner, category="news")
    verdicts = judged(database, lease_any(database, now=NOON))
    found = {row.id: getattr(one, "reason", one.name) for row, one in verdicts}
    assert found == {bulk: "suppressed", declared_since: "suppressed"}
    call_transactional(owner, "news")
    ids = (
        add_referring(owner, category="news", stream="bulk"),
        add_referring(owner, category="news"),
    )
    verdicts = judged(database, lease_any(database, now=NOON))
    found = {row.id: getattr(one, "reason", one.name) for row, one in verdicts}
    assert found == {id: "allow" for (id,) in ids}
    for row, _ in verdicts:
        assert begin_one(database, opening_of(row), now=NOON).verdict == "go"


Change = Callable[[psycopg.Connection, Database], object]
CHANGES: dict[str, tuple[Change, Change, str]] = {
    "preference": (
        lambda _, database: put(database, preferences=YES),
        lambda _, database: put(database, preferences=NO),
        "opted_out",
    ),
    "suppression": (
        lambda owner, _: add_suppression_fact(owner, recipient=ADAS, kind="lift"),
        lambda owner, _: add_suppression_fact(owner, recipient=ADAS),
        "suppressed",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_f3_what_was_changed_after_it_was_accepted_and_leased_is_honoured_both_ways(
    what: str, owner: psycopg.Connection, database: Database
) -> None:
    allow, forbid, reason = CHANGES[what]
    put(database, preferences=YES)
    allow(owner, database)
    (told_no,) = add_referring(owner, category="news", stream="bulk")
    leased = lease_any(database, now=NOON)
    forbid(owner, database)
    ((_, verdict),) = judged(database, leased)
    assert (verdict.name, row_of(owner, told_no).reason) == ("suppress", reason)
    (told_yes,) = add_referring(owner, category="news", stream="bulk")
    leased = lease_any(database, now=NOON)
    allow(owner, database)
    ((_, verdict),) = judged(database, leased)
    assert (verdict.name, row_of(owner, told_yes).status) == ("allow", "leased")


@pytest.mark.parametrize("what", CHANGES)
def test_f3_what_changes_while_quiet_hours_hold_it_is_honoured_at_their_end(
    what: str, owner: psycopg.Connection, database: Database
) -> None:
    _, forbid, reason = CHANGES[what]
    put(database, quiet_hours=QUIET, preferences=YES)
    (id,) = add_referring(owner, category="news", stream="bulk")
    judged(database, lease_any(database, now=NIGHT))
    due = row_of(owner, id).available_at
    forbid(owner, database)
    promote(database, now=due)
    judged(database, lease_any(database, now=due))
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("suppressed", reason)


def test_what_one_organization_or_channel_says_is_no_business_of_another(
    owner: psycopg.Connection, database: Database
) -> None:
    here = (address(ADAS), address("+33612345678", channel="sms"))
    put(database, *here, preferences={"transactional": {"email": False}}, quiet_hours=QUIET)
    put(database, *here, organization_id=SECOND_ORGANIZATION)
    declare(owner, organization_id=SECOND_ORGANIZATION, mandatory=True)
    (refused,) = add_referring(owner)
    (elsewhere,) = add_referring(owner, organization_id=SECOND_ORGANIZATION)
    (text,) = add_referring(owner, channel="sms")
    assert decided(database, now=NOON) == {refused: "opted_out", elsewhere: "allow"}
    assert decided(database, now=NOON, channel="sms") == {text: "allow"}


MAY_HAVE_BEEN_ACCEPTED = """
    UPDATE notifications
       SET in_doubt = 1, attempts_spent = 1, contact_hash = %(hash)s, locale = 'en',
           key_first_used_at = clock_timestamp()
     WHERE id = %(id)s
"""


def test_what_may_have_been_accepted_goes_to_the_same_address_or_ends_unconfirmed(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, address("new@example.com"), address(ADAS), locale="de")
    (same,) = add_referring(owner)
    (gone,) = add_referring(owner)
    for id, to in ((same, ADAS), (gone, "gone@example.com")):
        owner.execute(MAY_HAVE_BEEN_ACCEPTED, {"id": id, "hash": hash_of(to)})
    assert decided(database, now=NOON) == {same: "allow", gone: "contact_point_changed"}
    row = row_of(owner, same)
    assert (row.contact_hash, row.locale) == (hash_of(ADAS), "en")
    assert (row_of(owner, gone).status, row_of(owner, gone).reason) == (
        "unconfirmed",
        "contact_point_changed",
    )


class Counting(Database):
    """Counts the transactions that are asked of it."""

    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.count = 0

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        self.count += 1
        return super().run(work, pipelined=pipelined)


def test_a_page_of_literal_addresses_asks_nothing_and_a_mixed_one_keeps_its_order(
    owner: psycopg.Connection, login: Login
) -> None:
    with connected(login, "claim", kind=Counting) as (database,):
        put(database)
        put(database, recipient_id="no", preferences={"transactional": {"email": False}})
        literal = add_notifications(owner, 3)
        page = lease(database, now=NOON)
        database.count = 0
        assert len(judge(page, database=database, retries=True, gates=open_to_all)) == 3
        assert database.count == 0
        (first,) = add_referring(owner)
        (refused,) = add_referring(owner, recipient_id="no")
        (second,) = add_notifications(owner)
        third, fourth = add_referring(owner, 2)
        page = sorted(lease(database, now=NOON), key=lambda row: row.id)
        asked: list[list[UUID]] = []

        def gates(rows: Sequence[Leased]) -> Judged:
            asked.append([row.id for row in rows])
            return open_to_all(rows)

        database.count = 0
        verdicts = judge(page, database=database, retries=True, gates=gates)
        assert database.count == 2  # all that is known, and all that was chosen
        assert asked == [[first, second, third, fourth]]
        assert [row.id for row, _ in verdicts] == [refused, first, second, third, fourth]
    assert {row_of(owner, id).decision for id in (*literal, second)} == {None}


def test_a_choice_that_cannot_be_written_lets_nothing_out(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    put(database)
    held, erased, free = add_referring(owner, 3)
    leased = lease(database, now=NOON)
    owner.execute("UPDATE notifications SET erased_at = now() WHERE id = %s", [erased])
    with connected(login, "cancel", kind=HeldDatabase) as (cancelling,):
        cancel_notification(cancelling, organization_id=FIRST_ORGANIZATION, notification_id=held)
        ((passed, _),) = judged(database, leased)
        cancelling.rollback()
    assert passed.id == free
    for id in (held, erased):
        row = row_of(owner, id)
        assert (row.status, row.contact_hash, row.decision) == ("leased", None, None)
    email = channel_of(database)
    late = NOON.replace(hour=13)
    sweep(database, channel=email, declarations=[declaration_of("http")], now=late)
    promote(database, now=late)
    again = decided(database, now=late)
    assert (again[held], again[erased]) == ("allow", "erased")
    assert row_of(owner, erased).status == "suppressed"


def test_a_choice_of_an_earlier_lease_is_not_written(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database)
    (id,) = add_referring(owner)
    (leased,) = lease(database, now=NOON)
    asked = Asked(
        organization_id=FIRST_ORGANIZATION,
        recipient_id=ADA,
        channel="email",
        category="transactional",
    )
    (ada,) = recipients_of(database, [asked])
    assert isinstance(ada, Recipient)
    choice = Allow(contact_point=ada.contact_points[0])
    earlier = dataclasses.replace(leased, lease_number=0)
    assert record_choices(database, [(earlier, choice, ada)]) == set()
    assert row_of(owner, id).contact_hash is None
    assert record_choices(database, [(leased, choice, ada)]) == {id}


def test_one_statement_answers_for_all_that_are_asked_about(
    database: Database, owner: psycopg.Connection
) -> None:
    put(database, address("a@example.com"), address("b@example.com", verified=False))
    put(database, recipient_id="no", preferences={"transactional": {"email": False}})
    asked = [
        Asked(
            organization_id=organization_id,
            recipient_id=recipient_id,
            channel=channel,
            category="transactional",
        )
        for organization_id, recipient_id, channel in (
            (FIRST_ORGANIZATION, "no", "email"),
            (FIRST_ORGANIZATION, "nobody", "email"),
            (FIRST_ORGANIZATION, ADA, "email"),
            (SECOND_ORGANIZATION, ADA, "email"),
            (FIRST_ORGANIZATION, ADA, "sms"),
            (FIRST_ORGANIZATION, "no", "email"),
        )
    ]
    no, nobody, ada, stranger, textless, no_again = recipients_of(database, asked)
    assert (nobody, stranger, no_again) == (None, None, no)
    assert no is not None
    assert no.preference is False
    assert ada is not None
    assert [one.address_hash for one in ada.contact_points] == [
        hash_of("a@example.com"),
        hash_of("b@example.com"),
    ]
    assert [one.verified for one in ada.contact_points] == [True, False]
    assert textless is not None
    assert textless.contact_points == ()
    assert database.run(lambda connection: recipients_of(connection, asked)) == [
        no, nobody, ada, stranger, textless, no_again,
    ]  # fmt: skip
    assert recipients_of(database, []) == []


def claimer(database: Database, sqs: FakeSqs, told: list[str]) -> Claimer:
    return Claimer(
        database=database,
        queues=queues_of(sqs),
        leased_by="run-1",
        trouble=lambda channel, _: told.append(channel),
    )


@pytest.mark.parametrize("table", ["recipients", "preferences", "suppressions", "category_rules"])
def test_if_preferences_or_suppressions_cannot_be_read_nothing_is_sent(
    table: str, owner: psycopg.Connection, database: Database, login: Login
) -> None:
    set_pace(owner)
    put(database)
    literal = add_notifications(owner)
    referring = add_referring(owner, 2)
    owner.execute(f"ALTER TABLE {table} RENAME TO mislaid".encode())
    sqs, told = FakeSqs(), list[str]()
    done = claimer(database, sqs, told).round()
    assert (sqs.ids(), done.claimed["email"], told) == ([], 0, ["email"])
    for id in literal + referring:
        row = row_of(owner, id)
        assert (row.status, row.ready, row.contact_hash) == ("pending", True, None)
        assert moves_of(owner, id) == [("claim", "leased", "pending", "not_dispatched")]
    owner.execute(f"ALTER TABLE mislaid RENAME TO {table}".encode())
    database.close()
    again = Database(connector(lambda: login, application_name="again"))
    claimer(again, sqs, told).round()
    again.close()
    assert sorted(sqs.ids()) == sorted(literal + referring)
    assert {row_of(owner, id).contact_hash for id in referring} == {hash_of(ADAS)}


def test_the_guard_sees_the_number_behind_the_reference_and_what_its_words_cost(
    owner: psycopg.Connection, database: Database
) -> None:
    put(database, address("+33612345678", channel="sms"))
    owner.execute("INSERT INTO sms_prices (country, amount) VALUES ('FR', 0.05)")
    (by_template,) = add_referring(owner, channel="sms", content={"version": None, "data": {}})
    owner.execute("UPDATE notifications SET segments = 3 WHERE id = %s", [by_template])
    add_referring(owner, channel="sms", content="Thank you.")
    (literal,) = add_notifications(owner, channel="sms", recipient="+33612345678")
    owner.execute("UPDATE notifications SET country = 'FR' WHERE id = %s", [literal])
    leased = [row for row, _ in judged(database, lease(database, channel="sms", now=NOON))]
    verdicts = guard(database, leased, now=NOON)
    assert [verdict.name for verdict in verdicts] == ["allow"] * 3
    spent = owner.execute("SELECT amount, messages FROM sms_spend").fetchall()
    assert [(float(amount), count) for amount, count in spent] == [(0.25, 3)]
    prefixes = owner.execute("SELECT key, total FROM sms_slices WHERE kind = 'prefix'").fetchall()
    assert prefixes == [("+3361234", 3)]
    numbers = owner.execute("SELECT recipient_hash FROM sms_numbers").fetchall()
    assert numbers == [(hash_of("+33612345678"),)]
