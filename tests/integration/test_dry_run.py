"""A dry run says what would become of a batch, and leaves nothing behind."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from pydantic import TypeAdapter

from functions.core.states import Channel
from functions.ingest import answers
from functions.store.connection import Database
from functions.templates.budget import REQUEST_STEPS, Budget
from functions.templates.use import check_use
from tests.api import LOCAL_ORIGIN, Api, email, start
from tests.by_reference import declare
from tests.fakes import SECOND_ORGANIZATION
from tests.referring import (
    DATA,
    EVERYWHERE,
    add_organizations,
    dry_run,
    publish,
    put,
    receipt,
    refer,
)
from tests.words import document

SMS = {"channel": "sms", "recipient": "+12025550143", "content": "Your code is 123"}
NIGHT = {"start": "22:00", "end": "07:00"}


@pytest.fixture
def api(database: Database, owner: psycopg.Connection) -> Api:
    add_organizations(owner)
    return start(database)


@pytest.fixture
def known(api: Api) -> Api:
    """The API with Ada and the receipt."""
    put(api)
    publish(api)
    return api


def plans(api: Api, *items: Any) -> list[dict[str, Any]]:
    """Return what would become of the items."""
    reply = dry_run(api, *items)
    assert reply.status == 200, reply
    TypeAdapter(answers.DryRun).validate_json(reply.text)
    found = reply.json["notifications"]
    assert [one["index"] for one in found] == list(range(len(items)))
    return found


def plan(api: Api, item: Any) -> dict[str, Any]:
    (found,) = plans(api, item)
    return found


def verdict(found: dict[str, Any]) -> tuple[str, str | None, str | None]:
    return found["verdict"], found["reason"], found["planned_at"]


def test_nothing_is_stored_and_no_key_is_needed(known: Api, owner: psycopg.Connection) -> None:
    """The key that is given is free afterwards."""
    headers: dict[str, str | None] = {"idempotency-key": None}
    body = {
        "notifications": [email(event_id="e"), receipt(), refer(channels=["sms"], channel=None)]
    }
    before = _counts(owner)
    for _ in range(2):
        reply = known.call("POST", "/v1/batches/dry-run", body=body, headers=headers)
        assert (reply.status, "idempotent-replayed" in reply.headers) == (200, False)
    assert _counts(owner) == before
    assert known.call("POST", "/v1/batches/dry-run", body=body, query="x=1").status == 400
    assert known.having(scopes="read").call("POST", "/v1/batches/dry-run", body=body).status == 403


def _counts(owner: psycopg.Connection) -> Any:
    tables = ("notifications", "batches", "idempotency_keys", "transitions", "sms_reservations")
    counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in tables)
    return owner.execute("SELECT " + counts).fetchone()  # pyright: ignore[reportArgumentType]


def test_what_is_due_now_is_planned_for_now(known: Api, owner: psycopg.Connection) -> None:
    ((before,),) = owner.execute("SELECT clock_timestamp()").fetchall()
    first, past, later = plans(
        known,
        email(),
        refer(send_at="1999-01-01T00:00:00Z"),
        refer(send_at="2999-01-01T01:00:00+01:00"),
    )
    ((after,),) = owner.execute("SELECT clock_timestamp()").fetchall()
    for found in (first, past):
        assert verdict(found)[:2] == ("send", None)
        assert before <= datetime.fromisoformat(found["planned_at"]) <= after
    assert verdict(later) == ("send", None, "2999-01-01T00:00:00Z")


def test_words_are_shown_as_they_would_be_said(known: Api) -> None:
    html = DATA | {"name": "<b>Tom & Jerry</b> {{ total }}"}
    found = plans(
        known,
        email(),
        email(content={"html": "<p>é</p>"}),
        SMS,
        {"channel": "push", "recipient": "sim-ok", "content": {"title": "Hi", "data": {"n": 1}}},
        {"channel": "webhook", "recipient": f"{LOCAL_ORIGIN}/hooks/ok", "content": None},
        receipt(html),
        receipt(html, channel="sms"),
        receipt(html, channel="push"),
    )
    assert [one["rendered"] for one in found] == [
        {"subject": "", "text": "Your order", "html": None},
        {"subject": "", "text": None, "html": "<p>é</p>"},
        "Your code is 123",
        {"title": "Hi", "body": None, "data": {"n": 1}},
        None,
        {
            "subject": "Receipt for <b>Tom & Jerry</b> {{ total }}",
            "text": None,
            "html": "<p>&lt;b&gt;Tom &amp; Jerry&lt;/b&gt; {{ total }} paid 12.50</p>",
        },
        "<b>Tom & Jerry</b> {{ total }} paid 12.50",
        {"title": "Paid", "body": "<b>Tom & Jerry</b> {{ total }} paid 12.50", "data": {}},
    ]
    assert [one["rendered_bytes"] for one in found[:5]] == [46, 45, 16, 41, 4]
    assert {one["channel"] for one in found} == set(Channel)


def test_words_are_in_the_recipients_language(known: Api) -> None:
    put(known, locale="de-AT")
    (found,) = plans(known, receipt())
    assert found["rendered"]["subject"] == "Beleg für Ada"
    put(known, locale="fr")
    assert plan(known, receipt())["rendered"]["subject"] == "Receipt for Ada"


def test_only_so_much_is_shown_of_words_and_their_size_is_told_all_the_same(known: Api) -> None:
    long = "{% for word in words %}" + "ä" * 5000 + "{% endfor %}"
    publish(known, document(email={"en": {"subject": "x", "text": long}}), name="long")
    template = {"name": "long", "data": {"words": list(range(10))}}
    reply = dry_run(known, *[refer(content=None, template=template)] * 60)
    assert (reply.status, len(reply.text.encode()) < 2_200_000) == (200, True)
    found = reply.json["notifications"]
    assert {one["rendered_bytes"] for one in found} == {100_037}
    shown = [one["rendered"] is not None for one in found]
    assert shown == [True] * 20 + [False] * 40


LANGUAGES = ("en", "de", "fr", "it", "es", "pt", "nl", "sv", "da", "fi")
HEAVY = document(email={one: {"subject": "x", "text": "{{ x }}" * 8} for one in LANGUAGES})
"""As heavy as an email may be, in ten languages."""


def heavy(number: int) -> dict[str, Any]:
    data = {"x": f"{number:04}" + "x" * 60_000}
    return refer(content=None, template={"name": "heavy", "data": data})


def steps_of(*items: dict[str, Any]) -> int:
    """Return what it takes to accept the items."""
    budget = Budget()
    for item in items:
        data = item["template"]["data"]
        assert check_use(HEAVY, channels=["email"], data=data, budget=budget) == []
    return REQUEST_STEPS - budget.left


def test_equal_words_are_rendered_once(known: Api) -> None:
    publish(known, HEAVY, name="heavy")
    body = {"notifications": [heavy(1)] * 60}
    reply = known.call("POST", "/v1/batches/dry-run", body=body)
    assert reply.status == 200
    found = reply.json["notifications"]
    assert len({one["rendered_bytes"] for one in found}) == 1
    assert [one["rendered"] is not None for one in found] == [True] * 4 + [False] * 56


def test_all_words_of_a_dry_run_are_rendered_within_the_budget_of_one_request(known: Api) -> None:
    """What is accepted at one go may be too much when it is to be shown as well."""
    publish(known, HEAVY, name="heavy")
    first, both = steps_of(heavy(1)), steps_of(heavy(1), heavy(2))
    most = 1 + (REQUEST_STEPS - first) // (both - first)
    items = [heavy(number) for number in range(most)]
    assert dry_run(known, *items[: most // 2]).status == 200
    refused = dry_run(known, *items)
    assert (refused.code, refused.faults) == ("validation_failed", [("/notifications", "too_many")])
    assert "fewer items" in refused.json["errors"][0]["detail"]
    assert known.post_batch(*items).status == 202


def test_segments_and_cost_are_those_of_the_bill(api: Api, owner: psycopg.Connection) -> None:
    gsm, ucs = SMS | {"content": "x" * 161}, SMS | {"content": "ж" * 70}
    germany = SMS | {"recipient": "+4915112345678"}
    free = plans(api, gsm, ucs, email())
    assert [(one["encoding"], one["segments"], one["estimated_cost"]) for one in free] == [
        ("GSM-7", 2, None),
        ("UCS-2", 1, None),
        (None, None, None),
    ]
    owner.execute("INSERT INTO sms_prices (country, amount) VALUES ('US', 0.0079), ('GB', 0.05)")
    costs = [one["estimated_cost"] for one in plans(api, gsm, ucs, germany, email())]
    assert costs == [0.0158, 0.0079, 0.05, None]  # without a price: the highest there is


def test_a_reference_costs_what_its_number_costs(known: Api, owner: psycopg.Connection) -> None:
    owner.execute("INSERT INTO sms_prices (country, amount) VALUES ('US', 0.01), ('GB', 0.05)")
    assert plan(known, receipt(channel="sms"))["estimated_cost"] == 0.01
    put(known, contact_points=[{"channel": "sms", "address": "+447400123456", "verified": True}])
    assert plan(known, receipt(channel="sms"))["estimated_cost"] == 0.05


def test_a_country_that_is_not_allowed_is_told(known: Api, owner: psycopg.Connection) -> None:
    owner.execute(
        "INSERT INTO sms_guards (organization_id, countries) VALUES "
        "('01900000-0000-7000-8000-000000000001', '{GB}')"
    )
    found = plans(known, SMS, refer(channel="sms"), SMS | {"recipient": "+447400123456"})
    assert [verdict(one)[:2] for one in found] == [
        ("suppress", "country_not_allowed"),
        ("suppress", "country_not_allowed"),
        ("send", None),
    ]
    other = known.having(organization_id=SECOND_ORGANIZATION)
    assert verdict(plan(other, SMS))[0] == "send"


# Quiet from 22:00 to 07:00 in Berlin: over both changes of the clock of 2027.
NIGHTS = [
    ("2027-01-15T20:59:59Z", "send", "2027-01-15T20:59:59Z"),
    ("2027-01-15T21:00:00Z", "defer", "2027-01-16T06:00:00Z"),
    ("2027-01-16T05:59:59.999999Z", "defer", "2027-01-16T06:00:00Z"),
    ("2027-01-16T06:00:00Z", "send", "2027-01-16T06:00:00Z"),
    ("2027-03-27T21:30:00Z", "defer", "2027-03-28T05:00:00Z"),  # an hour shorter
    ("2027-03-28T04:59:59Z", "defer", "2027-03-28T05:00:00Z"),
    ("2027-03-28T19:59:59Z", "send", "2027-03-28T19:59:59Z"),
    ("2027-03-28T20:00:00Z", "defer", "2027-03-29T05:00:00Z"),
    ("2027-10-30T20:00:00Z", "defer", "2027-10-31T06:00:00Z"),  # an hour longer
    ("2027-10-31T05:30:00Z", "defer", "2027-10-31T06:00:00Z"),
    ("2027-10-31T20:59:59Z", "send", "2027-10-31T20:59:59Z"),
    ("2027-10-31T21:00:00Z", "defer", "2027-11-01T06:00:00Z"),
]


def test_f1_quiet_hours_are_those_at_send_at_by_the_recipients_clock(known: Api) -> None:
    put(known, quiet_hours=NIGHT)
    found = plans(known, *[refer(send_at=send_at) for send_at, _, _ in NIGHTS])
    assert [(one["verdict"], one["planned_at"]) for one in found] == [
        (expected, at) for _, expected, at in NIGHTS
    ]
    assert {one["reason"] for one in found} == {None, "quiet_hours"}
    assert found[1]["rendered"] is not None
    # A literal address has no clock.
    assert verdict(plan(known, email(send_at=NIGHTS[1][0])))[0] == "send"


def test_a_send_window_and_quiet_hours_are_waited_for_together(
    known: Api, owner: psycopg.Connection
) -> None:
    put(known, quiet_hours=NIGHT, preferences={"news": {"email": True}})
    declare(owner, "news", hours="09:00-23:00")
    found = plans(
        known,
        refer(category="news", send_at="2027-01-15T06:30:00Z"),  # 07:30: quiet hours are over
        refer(category="news", send_at="2027-01-15T03:00:00Z"),
        refer(category="news", send_at="2027-01-15T21:30:00Z"),  # 22:30: within the window
        refer(category="news", send_at="2027-01-15T12:00:00Z"),
    )
    assert [verdict(one) for one in found] == [
        ("defer", "outside_send_window", "2027-01-15T08:00:00Z"),
        ("defer", "quiet_hours", "2027-01-15T08:00:00Z"),
        ("defer", "quiet_hours", "2027-01-16T08:00:00Z"),
        ("send", None, "2027-01-15T12:00:00Z"),
    ]


def test_quiet_hours_that_leave_no_moment_of_the_window_are_told(
    known: Api, owner: psycopg.Connection
) -> None:
    put(known, quiet_hours={"start": "08:00", "end": "20:00"})
    declare(owner, hours="09:00-17:00")
    for at in ("2027-01-15T03:00:00Z", "2027-01-15T12:00:00Z"):
        assert verdict(plan(known, refer(send_at=at))) == ("suppress", "no_send_time", None)


def test_high_bypasses_quiet_hours_where_the_category_says_so(
    known: Api, owner: psycopg.Connection
) -> None:
    put(known, quiet_hours=NIGHT)
    at = "2027-01-15T23:00:00Z"
    assert verdict(plan(known, refer(send_at=at, priority="high")))[0] == "defer"
    declare(owner, bypasses=True)
    assert verdict(plan(known, refer(send_at=at, priority="high"))) == ("send", None, at)
    assert verdict(plan(known, refer(send_at=at)))[0] == "defer"


def test_what_expires_before_it_would_be_sent_is_told(known: Api) -> None:
    put(known, quiet_hours=NIGHT)
    at = "2027-01-15T23:00:00Z"
    found = plans(
        known,
        email(expires_at="2020-01-01T00:00:00Z"),
        refer(send_at=at, expires_at="2027-01-16T06:00:00Z"),
        refer(send_at=at, expires_at="2027-01-16T06:00:01Z"),
    )
    assert [verdict(one) for one in found] == [
        ("expired", "expired", None),
        ("expired", "expired", None),
        ("defer", "quiet_hours", "2027-01-16T06:00:00Z"),
    ]
    assert [one["rendered"] is None for one in found] == [True, True, False]
    assert found[0]["rendered_bytes"] is None


def test_consent_preferences_and_contact_points_decide(known: Api) -> None:
    unverified = [{"channel": "email", "address": "ada@example.com", "verified": False}]
    stories: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
        ({}, refer(), None),
        ({}, refer(category="news"), "no_consent"),
        ({"preferences": {"news": {"email": True}}}, refer(category="news"), None),
        ({"preferences": {"news": {"email": False}}}, refer(category="news"), "opted_out"),
        ({"preferences": {"transactional": {"email": False}}}, refer(), "opted_out"),
        ({"contact_points": EVERYWHERE[1:]}, refer(), "no_contact_point"),
        ({"contact_points": unverified}, refer(), None),
        (
            {"contact_points": unverified, "preferences": {"news": {"email": True}}},
            refer(category="news"),
            "not_verified",
        ),
    ]
    for members, item, reason in stories:
        put(known, **members)
        found = plan(known, item)
        assert (found["verdict"], found["reason"]) == ("suppress" if reason else "send", reason)
        assert (found["planned_at"] is None) == (reason is not None)


def test_suppressions_of_literals_and_of_references_are_told(known: Api) -> None:
    def suppress(**members: Any) -> None:
        body = {"channel": "email", "recipient": "Ada@Example.com", "reason": "operator"} | members
        assert known.call("POST", "/v1/suppressions", body=body).status == 201

    def found() -> list[str | None]:
        items = (email(), email(category="news"), refer(), email("ben@example.com"))
        return [one["reason"] for one in plans(known, *items)]

    assert found() == [None, None, None, None]
    suppress(category="news")
    assert found() == [None, "suppressed", None, None]
    suppress()
    assert found() == ["suppressed", "suppressed", "suppressed", None]
    other = known.having(organization_id=SECOND_ORGANIZATION)
    assert plan(other, email())["verdict"] == "send"
    body = {"channel": "email", "recipient": "ada@example.com", "reason": "again"}
    assert known.call("POST", "/v1/suppressions/lift", body=body).status == 200
    assert found() == [None, "suppressed", None, None]


def test_of_several_channels_the_first_that_would_be_sent_is_shown(known: Api) -> None:
    several: dict[str, Any] = {"channel": None, "channels": ["email", "sms", "push"]}
    assert plan(known, receipt(**several))["channel"] == "email"
    put(known, contact_points=EVERYWHERE[1:])
    found = plan(known, receipt(**several))
    assert (found["verdict"], found["channel"], found["segments"]) == ("send", "sms", 1)
    put(known, contact_points=EVERYWHERE[1:], preferences={"transactional": {"sms": False}})
    assert plan(known, receipt(**several))["channel"] == "push"
    put(known, contact_points=EVERYWHERE[3:])
    found = plan(known, receipt(**several))
    assert (found["verdict"], found["reason"]) == ("suppress", "no_contact_point")
    assert found["channel"] == "push"


def test_a_thousand_items_are_planned_at_once(known: Api) -> None:
    put(known, quiet_hours=NIGHT)
    start_at = datetime(2027, 3, 27, tzinfo=UTC)
    items = [
        receipt(send_at=(start_at + timedelta(minutes=3 * n)).isoformat(), reference=f"r-{n}")
        for n in range(1000)
    ]
    found = plans(known, *items)
    assert {one["verdict"] for one in found} == {"send", "defer"}
    deferred = {one["planned_at"] for one in found if one["verdict"] == "defer"}
    assert deferred == {
        "2027-03-27T06:00:00Z",
        "2027-03-28T05:00:00Z",
        "2027-03-29T05:00:00Z",
    }


def test_the_body_is_judged_as_a_batch_is(known: Api) -> None:
    bodies: list[Any] = [{}, {"notifications": []}, {"notifications": [email()], "x": 1}, [], "x"]
    for body in bodies:
        text = json.dumps(body)
        dry = known.call("POST", "/v1/batches/dry-run", text=text)
        batch = known.call("POST", "/v1/notifications/batches", text=text)
        assert (dry.status, dry.text) == (batch.status, batch.text) == (422, batch.text)
    assert dry_run(known, *[email()] * 1001).faults == [("/notifications", "too_many")]
