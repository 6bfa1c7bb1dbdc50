"""Endpoints: what fails for long is paused, the oldest due finds out, and others keep going."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.breaker import (
    ENDPOINT_FAILURES,
    ENDPOINT_PROBE_SECONDS,
    PROBE_SECONDS,
    Answering,
)
from functions.core.login import Login
from functions.core.outcome import (
    Accepted,
    Outcome,
    Refused,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)
from functions.providers.choice import DECLARATIONS
from functions.store.action import Action
from functions.store.begin import Begun, begin
from functions.store.connection import Database
from functions.store.delivery import load
from functions.store.endpoint import (
    Endpoint,
    list_endpoints,
    record_endpoints,
    resume_endpoint,
)
from functions.store.survey import promote
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, add_notifications, row_of
from tests.operating import operating
from tests.operators import ACTOR
from tests.steps import declaration_of, lease, now_of, opening_of

ORIGIN = "https://hooks.example"
SECONDS = 30.0


def hooks(
    owner: psycopg.Connection,
    count: int = 1,
    *,
    origin: str = ORIGIN,
    organization_id: UUID = FIRST_ORGANIZATION,
) -> list[UUID]:
    ids = add_notifications(
        owner,
        count,
        channel="webhook",
        recipient=f"{origin}/orders",
        content={"order": 1},
        organization_id=organization_id,
    )
    owner.execute("UPDATE notifications SET origin = %s WHERE id = ANY(%s)", [origin, ids])
    return ids


def hear(
    database: Database,
    *outcomes: Outcome,
    id: UUID | None = None,
    origin: str = ORIGIN,
    organization_id: UUID = FIRST_ORGANIZATION,
    now: datetime | None = None,
) -> None:
    answers = [
        Answering(
            id=id or uuid4(),
            organization_id=organization_id,
            provider="webhook",
            stream="transactional",
            country=None,
            origin=origin,
            is_first=True,
            outcome=outcome,
        )
        for outcome in outcomes
    ]
    record_endpoints(database, answers, now=now)


def pause(database: Database, now: datetime) -> datetime:
    """Let the endpoint fail until it is paused; return when."""
    hear(database, *[Transient(code="503")] * (ENDPOINT_FAILURES - 1), now=now)
    hear(database, Unknown(code="timeout"), now=now + timedelta(minutes=10))
    return now + timedelta(minutes=10)


def the_one(database: Database) -> Endpoint:
    (endpoint,) = list_endpoints(database)
    return endpoint


def open_all(
    database: Database, *, now: datetime | None = None, probe: bool = True
) -> dict[UUID, Begun]:
    promote(database, now=now)
    return begin(
        database,
        [opening_of(one) for one in lease(database, channel="webhook", now=now)],
        declaration=declaration_of("webhook"),
        declarations=DECLARATIONS,
        remaining_seconds=SECONDS,
        probe=probe,
        now=now,
    )


def sent(answers: dict[UUID, Begun]) -> list[UUID]:
    return [id for id, answer in answers.items() if answer.send]


def action() -> Action:
    return Action(id=uuid4(), actor=ACTOR, command="endpoints.resume", arguments={})


@pytest.mark.parametrize(
    "outcome", [Accepted(reference=None, final=True), Throttled(), Rejected(http_status=422)]
)
def test_what_works_is_not_written_down(database: Database, outcome: Outcome) -> None:
    hear(database, outcome)
    assert list_endpoints(database) == []


@pytest.mark.parametrize(
    "outcome",
    [Transient(code="503"), Unknown(code="timeout"), Rejected(code="404", http_status=404)],
    ids=lambda outcome: outcome.name,
)
def test_ten_failures_over_ten_minutes_pause_it(database: Database, outcome: Outcome) -> None:
    now = now_of_database(database)
    hear(database, *[outcome] * 9, now=now)
    hear(database, outcome, now=now + timedelta(minutes=9, seconds=59))
    assert (the_one(database).state, the_one(database).failures) == ("failing", 10)
    later = now + timedelta(minutes=10)
    hear(database, outcome, now=later)
    paused = the_one(database)
    assert (paused.state, paused.failures, paused.code) == ("paused", 11, outcome.code)
    assert paused.probe_at == later + timedelta(seconds=ENDPOINT_PROBE_SECONDS)


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


def now_of_database(database: Database) -> datetime:
    row = database.run(lambda one: one.execute("SELECT clock_timestamp()").fetchone())
    assert row is not None
    return row[0]


def test_failures_that_are_few_never_pause_it(database: Database) -> None:
    now = now_of_database(database)
    hear(database, *[Transient()] * 8, now=now)
    hear(database, Transient(), now=now + timedelta(days=3))
    assert the_one(database).state == "failing"


def test_one_that_works_in_between_begins_anew(database: Database) -> None:
    now = now_of_database(database)
    hear(database, *[Transient()] * 9, now=now)
    hear(database, Accepted(reference=None, final=True), now=now + timedelta(minutes=5))
    assert list_endpoints(database) == []
    hear(database, *[Transient()] * 9, now=now + timedelta(minutes=11))
    assert the_one(database).state == "failing"


def test_what_is_for_a_paused_one_waits_unspent_and_others_go_on(
    owner: psycopg.Connection, database: Database
) -> None:
    paused_at = pause(database, now_of(owner))
    waiting = hooks(owner, 2)
    others = [
        *hooks(owner, origin="https://other.example"),
        *hooks(owner, organization_id=SECOND_ORGANIZATION),
    ]
    answers = open_all(database, now=paused_at)
    assert sorted(sent(answers)) == sorted(others)
    for id in waiting:
        row = row_of(owner, id)
        assert (row.status, row.attempts_spent) == ("pending", 0)


def test_the_oldest_that_is_due_finds_out_and_its_success_ends_the_pause(
    owner: psycopg.Connection, database: Database
) -> None:
    paused_at = pause(database, now_of(owner))
    ids = hooks(owner, 3)
    due = paused_at + timedelta(seconds=ENDPOINT_PROBE_SECONDS)
    assert all(
        row.may_probe and row.endpoint_fails for row in load(database, ids, now=due).values()
    )
    assert sent(open_all(database, now=due)) == [ids[0]]
    assert sent(open_all(database, now=due)) == []
    hear(database, Accepted(reference=None, final=True), id=ids[0], now=due)
    assert list_endpoints(database) == []
    again = due + timedelta(seconds=PROBE_SECONDS)
    assert sorted(sent(open_all(database, now=again))) == ids[1:]


def test_probes_in_vain_come_further_and_further_apart(
    owner: psycopg.Connection, database: Database
) -> None:
    pause(database, now_of(owner))
    (id,) = hooks(owner)
    waits: list[float] = []
    for _ in range(8):
        at = the_one(database).probe_at
        assert at is not None
        assert sent(open_all(database, now=at)) == [id]
        hear(database, Transient(code="503"), id=id, now=at)
        owner.execute(
            "UPDATE notifications SET status = 'pending', attempt_id = NULL, lease_until = NULL"
        )
        following = the_one(database).probe_at
        assert following is not None
        waits.append((following - at).total_seconds())
    assert waits == [120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_one_that_is_gone_is_disabled_and_what_is_for_it_ends(
    owner: psycopg.Connection, database: Database
) -> None:
    hear(database, Refused(code="410", suppress=Scope.ENDPOINT))
    assert the_one(database).state == "disabled"
    (id,) = hooks(owner)
    assert sent(open_all(database)) == []
    row = row_of(owner, id)
    assert (row.status, row.reason, row.attempts_spent) == ("suppressed", "refused", 0)


def test_a_disabled_one_stays_so_until_somebody_resumes_it(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    hear(database, Refused(code="410", suppress=Scope.ENDPOINT))
    hear(database, Accepted(reference=None, final=True))
    endpoint = the_one(database)
    assert endpoint.state == "disabled"
    resume = action()
    assert resume_endpoint(operator, endpoint.id, action=resume).fate == "resumed"
    assert resume_endpoint(operator, endpoint.id, action=resume).fate == "resumed"
    assert list_endpoints(database) == []
    assert resume_endpoint(operator, endpoint.id, action=action()).fate == "not_stopped"
    assert resume_endpoint(operator, uuid4(), action=action()).fate == "not_found"
    (id,) = hooks(owner)
    assert sent(open_all(database)) == [id]


def test_a_set_of_both_kinds_counts_as_working(database: Database) -> None:
    now = now_of_database(database)
    hear(database, *[Transient()] * 9, now=now)
    later = now + timedelta(minutes=11)
    hear(database, Transient(), Accepted(reference=None, final=True), Transient(), now=later)
    assert list_endpoints(database) == []


def test_endpoints_are_listed_in_pages(database: Database) -> None:
    for number in range(5):
        hear(database, Transient(), origin=f"https://h{number}.example")
    first = list_endpoints(database, limit=3)
    rest = list_endpoints(database, after=first[-1].id)
    assert [one.origin for one in [*first, *rest]] == [
        f"https://h{number}.example" for number in range(5)
    ]
    assert list_endpoints(database, organization_id=SECOND_ORGANIZATION) == []
    assert list_endpoints(database, stopped=True) == []


def test_what_waits_for_an_endpoint_that_is_resumed_goes_out_at_once(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    pause(database, now_of(owner, hours=-1))
    ids, others = hooks(owner, 3), hooks(owner, 2, origin="https://other.example")
    owner.execute(
        "UPDATE notifications SET ready = false, reason = 'endpoint_paused',"
        " available_at = clock_timestamp() + interval '40 minutes'"
    )
    assert sent(open_all(database)) == []
    resume_endpoint(operator, the_one(database).id, action=action())
    assert sorted(sent(open_all(database))) == ids
    assert {row_of(owner, id).status for id in others} == {"pending"}


def test_what_one_organization_was_told_is_nothing_to_another(
    owner: psycopg.Connection, database: Database
) -> None:
    hear(database, Refused(code="410", suppress=Scope.ENDPOINT))
    (id,) = hooks(owner, organization_id=SECOND_ORGANIZATION)
    assert sent(open_all(database)) == [id]


def test_an_endpoint_that_works_and_asks_for_no_more_is_disabled(database: Database) -> None:
    hear(database, Transient(code="503"))
    hear(database, Accepted(reference=None, final=True), Refused(suppress=Scope.ENDPOINT))
    assert the_one(database).state == "disabled"
