"""Two streams of a channel: they take turns, and whatever stops one leaves the other its pace."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from functions.claim.gate import Judged, open_to_all
from functions.claim.lane import Lanes, Limits
from functions.core.breaker import Answering
from functions.core.login import Login
from functions.core.outcome import Blocked, Scope
from functions.store.accept import NewNotification, accept_batch
from functions.store.breaker import open_breakers, record_answers
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.idempotency import Request
from functions.store.stream import give_back_stream, reserve_stream
from functions.store.survey import SURVEY, Survey, survey
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    HeldDatabase,
    add_notifications,
    hash_of,
    row_of,
)
from tests.steps import connected, lease, now_of
from tests.streams import (
    BULK,
    TRANSACTIONAL,
    add_to_stream,
    claimer_of,
    leased_of,
    pause_stream,
    set_own_pace,
    set_pace,
    tokens_of,
)

ITEM = NewNotification(
    channel="sms",
    recipient="+4915112345678",
    recipient_hash=hash_of("+4915112345678"),
    content="Your code is 318 204.",
    priority="normal",
    category="transactional",
    event_id=None,
    reference=None,
    metadata={},
    send_at=None,
    expires_at=None,
    country="DE",
)


def accepted(database: Database, *items: NewNotification) -> Sequence[object]:
    request = Request(
        organization_id=FIRST_ORGANIZATION,
        route="/v1/notifications/batches",
        key="key",
        request_sha256=hash_of("body"),
    )
    return accept_batch(database, request=request, notifications=items).batch.notification_ids


@pytest.mark.parametrize(
    ("listed", "streams"),
    [
        (None, [TRANSACTIONAL, BULK, BULK]),  # what an organization lists from the beginning
        (["receipts", "transactional"], [TRANSACTIONAL, TRANSACTIONAL, BULK]),
        ([], [BULK, BULK, BULK]),
    ],
)
def test_what_is_accepted_is_of_the_stream_that_its_category_is_listed_for(
    owner: psycopg.Connection, database: Database, listed: list[str] | None, streams: list[str]
) -> None:
    owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'acme')", [FIRST_ORGANIZATION])
    if listed is not None:
        owner.execute("UPDATE organizations SET transactional_categories = %s", [listed])
    categories = ("transactional", "receipts", "news")
    ids = accepted(database, *(replace(ITEM, category=category) for category in categories))
    stored = dict(owner.execute("SELECT id, stream FROM notifications").fetchall())
    assert [stored[id] for id in ids] == streams


def test_what_is_accepted_keeps_its_country_and_its_origin(
    owner: psycopg.Connection, database: Database
) -> None:
    hook = replace(ITEM, channel="webhook", country=None, origin="https://example.com:8443")
    accepted(database, ITEM, hook)
    stored = owner.execute("SELECT channel, country, origin FROM notifications ORDER BY id")
    assert stored.fetchall() == [
        ("sms", "DE", None),
        ("webhook", None, "https://example.com:8443"),
    ]


def test_a_lease_tells_what_is_decided_by(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_to_stream(owner, BULK, priority="high", category="news")
    owner.execute(
        "UPDATE notifications SET country = 'DE', origin = 'https://a.example', "
        "attempts_spent = 2, in_doubt = 1"
    )
    set_pace(owner)
    told: list[Leased] = []

    def gates(leased: Sequence[Leased]) -> Judged:
        told.extend(leased)
        return open_to_all(leased)

    claimer_of(database, gates=gates).round()
    (row,) = told
    names = (
        "id", "organization_id", "stream", "priority", "category", "country", "origin",
        "attempts_spent", "in_doubt", "address_hash", "is_first",
    )  # fmt: skip
    assert [getattr(row, name) for name in names] == [
        id, FIRST_ORGANIZATION, BULK, "high", "news", "DE", "https://a.example",
        2, 1, hash_of("ok@example.com"), False,
    ]  # fmt: skip


def test_a_page_is_of_one_stream(owner: psycopg.Connection, database: Database) -> None:
    add_to_stream(owner, BULK, 3)
    (id,) = add_to_stream(owner, TRANSACTIONAL)
    assert [row.id for row in lease(database)] == [id]


def test_two_streams_share_a_priority_evenly(owner: psycopg.Connection, database: Database) -> None:
    set_pace(owner)
    for stream in (TRANSACTIONAL, BULK):
        add_to_stream(owner, stream, 200)
    claimer = claimer_of(database)
    claimer.round()
    assert leased_of(owner) == {TRANSACTIONAL: 50, BULK: 50}
    claimer.round()
    assert leased_of(owner) == {TRANSACTIONAL: 100, BULK: 100}


def test_two_streams_take_turns_where_there_is_one_token_a_round(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner, page=1)
    for stream in (TRANSACTIONAL, BULK):
        add_to_stream(owner, stream, 20)
    claimer = claimer_of(database)
    seen: list[Counter[str]] = []
    for _ in range(6):
        claimer.round()
        seen.append(leased_of(owner))
    assert [one[TRANSACTIONAL] for one in seen] in ([1, 1, 2, 2, 3, 3], [0, 1, 1, 2, 2, 3])


def test_streams_take_turns_within_their_priority_and_priorities_keep_their_shares(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner, page=16)
    for stream in (TRANSACTIONAL, BULK):
        for priority in ("high", "normal", "low"):
            add_to_stream(owner, stream, 100, priority=priority)
    claimer = claimer_of(database)
    for _ in range(4):
        claimer.round()
    shares = owner.execute(
        "SELECT priority, stream, count(*)::int FROM notifications WHERE status = 'leased' "
        "GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()
    assert shares == [
        ("high", BULK, 20),
        ("high", TRANSACTIONAL, 20),
        ("low", BULK, 2),
        ("low", TRANSACTIONAL, 2),
        ("normal", BULK, 10),
        ("normal", TRANSACTIONAL, 10),
    ]


@pytest.mark.parametrize(("few", "many"), [(TRANSACTIONAL, BULK), (BULK, TRANSACTIONAL)])
def test_what_one_stream_does_not_use_the_other_gets(
    owner: psycopg.Connection, database: Database, few: str, many: str
) -> None:
    set_pace(owner)
    add_to_stream(owner, few, 3)
    add_to_stream(owner, many, 200)
    claimer_of(database).round()
    assert leased_of(owner) == {few: 3, many: 97}


@pytest.mark.parametrize(("paused", "other"), [(TRANSACTIONAL, BULK), (BULK, TRANSACTIONAL)])
def test_a_paused_stream_is_passed_over_and_the_other_goes_on_at_its_pace(
    owner: psycopg.Connection, database: Database, paused: str, other: str
) -> None:
    set_pace(owner)
    ids = add_to_stream(owner, paused, 5, priority="high")
    add_to_stream(owner, other, 200)
    before = [row_of(owner, id).columns for id in ids]
    pause_stream(owner, paused)
    claimer = claimer_of(database)
    assert [claimer.round().claimed for _ in range(2)] == [{"email": 100}] * 2
    assert leased_of(owner) == {other: 200}
    assert [row_of(owner, id).columns for id in ids] == before


def test_a_channel_whose_streams_are_all_paused_is_idle(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    add_to_stream(owner, BULK, 5)
    pause_stream(owner, BULK)
    assert claimer_of(database).round().was_idle
    assert tokens_of(owner) == 1_000_000


def test_a_stream_with_a_bucket_of_its_own_leases_no_more_than_is_in_it(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    set_own_pace(owner, BULK, tokens=30)
    add_to_stream(owner, BULK, 200)
    add_to_stream(owner, TRANSACTIONAL, 200)
    claimer = claimer_of(database)
    assert claimer.round().claimed == {"email": 100}
    assert leased_of(owner) == {BULK: 30, TRANSACTIONAL: 70}
    assert (tokens_of(owner, BULK), tokens_of(owner)) == (pytest.approx(0), 1_000_000 - 100)
    assert claimer.round().claimed == {"email": 100}
    assert leased_of(owner) == {BULK: 30, TRANSACTIONAL: 170}


def test_a_stream_that_is_out_of_tokens_makes_no_round_busy(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    set_own_pace(owner, BULK, tokens=0.5)
    add_to_stream(owner, BULK, 5)
    assert claimer_of(database).round().was_idle
    ready = {one.channel: one.ready for one in survey(database, run="claim")}
    assert ready["email"] == {}


def test_a_streams_tokens_that_found_nothing_are_given_back(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    set_own_pace(owner, BULK, tokens=50)
    add_to_stream(owner, BULK, 3)
    claimer_of(database).round()
    assert tokens_of(owner, BULK) == pytest.approx(47)
    assert tokens_of(owner) == pytest.approx(1_000_000 - 3)


def test_the_channel_bounds_a_stream_with_a_bucket_of_its_own(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner, tokens=20)
    set_own_pace(owner, BULK, tokens=50)
    add_to_stream(owner, BULK, 100)
    claimer_of(database).round()
    assert leased_of(owner) == {BULK: 20}
    assert tokens_of(owner, BULK) == pytest.approx(30)


def test_the_other_channels_streams_are_others(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    for channel in ("email", "sms"):
        add_to_stream(owner, BULK, 3, channel=channel)
    pause_stream(owner, BULK)
    assert claimer_of(database).round().claimed == {"sms": 3}


def test_a_streams_bucket_is_refilled_by_its_rate_up_to_its_burst(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    owner.execute("UPDATE streams SET rate = 10, burst = 25, tokens = 25, refilled_at = %s", [now])

    def take(seconds: float) -> int:
        at = now_of(owner, seconds=seconds) - (now_of(owner) - now)
        return reserve_stream(
            database, channel="email", stream=BULK, wanted=100, now=at.replace(microsecond=0)
        )

    owner.execute("UPDATE streams SET refilled_at = date_trunc('second', refilled_at)")
    assert [take(t) for t in (0, 1, 100, -50)] == [25, 10, 25, 0]
    give_back_stream(database, channel="email", stream=BULK, unused=1_000)
    assert take(100) == 25


def test_a_stream_without_a_rate_has_no_bucket(
    owner: psycopg.Connection, database: Database
) -> None:
    assert reserve_stream(database, channel="email", stream=BULK, wanted=10) == 0
    give_back_stream(database, channel="email", stream=BULK, unused=-50)
    assert tokens_of(owner, BULK) == 100


def test_a_streams_bucket_that_another_claimer_is_paying_from_is_not_waited_for(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    set_own_pace(owner, BULK, tokens=50)
    with connected(login, "first", kind=HeldDatabase) as (first,):
        assert reserve_stream(first, channel="email", stream=BULK, wanted=10) == 10
        assert reserve_stream(database, channel="email", stream=BULK, wanted=10) == 0
        first.commit()
    assert reserve_stream(database, channel="email", stream=BULK, wanted=100) == 40


# lanes


def only(limits: Limits) -> Callable[[Sequence[Survey]], Limits]:
    return lambda channels: limits


def test_a_closed_lane_is_passed_over_and_costs_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    add_to_stream(owner, BULK, 50)
    claimer = claimer_of(database, lanes=only({("email", BULK): 0}))
    assert claimer.round().was_idle
    assert tokens_of(owner) == 1_000_000
    add_to_stream(owner, TRANSACTIONAL, 150)
    assert claimer.round().claimed == {"email": 100}
    assert leased_of(owner) == {TRANSACTIONAL: 100}


def test_a_lane_that_may_find_out_leases_one_row_whatever_its_priority(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    for priority in ("high", "normal", "low"):
        add_to_stream(owner, BULK, 50, priority=priority)
    claimer = claimer_of(database, lanes=only({("email", BULK): 1}))
    assert claimer.round().claimed == {"email": 1}
    assert tokens_of(owner) == 1_000_000 - 1
    add_to_stream(owner, TRANSACTIONAL, 150)
    claimer.round()
    assert leased_of(owner) == {BULK: 2, TRANSACTIONAL: 99}


def test_the_breakers_that_are_open_close_their_lanes(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    for stream in (TRANSACTIONAL, BULK):
        add_to_stream(owner, stream, 10)
    record_answers(
        database,
        [
            Answering(
                id=FIRST_ORGANIZATION,
                organization_id=FIRST_ORGANIZATION,
                provider="http",
                stream=BULK,
                country=None,
                origin=None,
                is_first=True,
                outcome=Blocked(code="paused", scope=Scope.SENDER_IDENTITY),
            )
        ],
        channel="email",
        calls=1,
        failures=0,
    )
    lanes = Lanes(breakers=lambda: open_breakers(database))
    claimer = claimer_of(database, lanes=lanes.limits)
    for _ in range(3):
        claimer.round()
    assert leased_of(owner) == {TRANSACTIONAL: 10}


def test_the_lanes_are_told_what_channels_there_are(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET fallback_provider = 'http_keyless' WHERE name = 'sms'")
    told: list[Survey] = []

    def lanes(channels: Sequence[Survey]) -> Limits:
        told.extend(channels)
        return {}

    claimer_of(database, lanes=lanes).round()
    assert {one.channel: (one.provider, one.fallback_provider) for one in told} == {
        "email": ("http", None),
        "push": ("http", None),
        "sms": ("http", "http_keyless"),
        "webhook": ("webhook", None),
    }


def test_c6_neither_a_tenants_burst_nor_its_stream_holds_another_tenant_back(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    add_to_stream(owner, BULK, 1_000)
    add_to_stream(owner, TRANSACTIONAL, 1_000)
    claimer = claimer_of(database)
    claimer.round()
    (single,) = add_notifications(owner, organization_id=SECOND_ORGANIZATION)
    claimer.round()
    assert row_of(owner, single).status == "leased"


def rows_read(plan: Mapping[str, Any]) -> int:
    """Return how many notifications a plan looked at, over all its nodes."""
    here = 0
    if plan.get("Relation Name") == "notifications":
        seen = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        here = round(seen * plan["Actual Loops"])
    return here + sum(rows_read(child) for child in plan.get("Plans", []))


def test_a_survey_reads_a_row_of_each_lane_also_where_every_row_is_of_one_tenant_and_lane(
    owner: psycopg.Connection, database: Database
) -> None:
    """There any order finds a row at once, if the planner is to be believed: but not in the lanes
    that are empty, where it read the whole table."""
    add_notifications(owner, 20_000)
    owner.execute("VACUUM ANALYZE notifications")
    explain = b"EXPLAIN (ANALYZE, FORMAT JSON) " + SURVEY.encode()
    ((told,),) = database.run(
        lambda connection: connection.execute(explain, {"run": "claim"}).fetchall()
    )
    assert rows_read(told[0]["Plan"]) <= 10
