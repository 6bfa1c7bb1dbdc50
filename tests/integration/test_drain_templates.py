"""Requests by template: each judged for itself, as by HTTP; what takes long is in nobody's way."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.ingest.drain import QUICK_STEPS, drain
from functions.ingest.references import MAX_TEMPLATES
from functions.ingest.settle import Drained
from functions.store.connection import Database
from functions.store.drain import take
from functions.templates.budget import REQUEST_STEPS, Budget
from functions.templates.use import check_use
from tests.api import Api, email, start
from tests.doors import (
    add_organizations,
    deployment_of,
    enqueue,
    lapse,
    pointers,
    requests_of,
    values,
)
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, row_of
from tests.referring import publish, put, refer
from tests.steps import connected
from tests.words import document

LOCALES = [f"{language}-{n}" for language in ("en", "de", "fr", "it") for n in range(100, 105)]
LOOPS = "{% for a in xs %}{% for b in xs %}{{ b }}{% endfor %}{% endfor %}"
HEAVY = document(email={locale: {"subject": "Hi", "text": LOOPS} for locale in ["en", *LOCALES]})
XS = list(range(40))


def by(template: str, **data: Any) -> dict[str, Any]:
    return refer(content=None, template={"name": template, "data": data})


HEAVY_ITEM = by("heavy", xs=XS)


@pytest.fixture
def api(owner: psycopg.Connection, database: Database) -> Api:
    add_organizations(owner)
    api = start(database)
    put(api)
    publish(api, document(email={"en": {"subject": "Hi", "text": "Hi {{ name }}"}}), name="light")
    publish(api, HEAVY, name="heavy")
    return api


def drained(database: Database, **more: Any) -> Drained:
    return drain(deployment_of(database), **more)


def test_it_is_heavy_and_valid() -> None:
    budget = Budget()
    assert check_use(HEAVY, channels=["email"], data={"xs": XS}, budget=budget) == []
    assert REQUEST_STEPS - budget.left > QUICK_STEPS


def test_a_page_of_more_templates_than_a_request_may_name_is_taken_in(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    names = [f"t{n}" for n in range(MAX_TEMPLATES + 20)]
    for name in names:
        publish(api, document(email={"en": {"subject": name, "text": name}}), name=name)
        enqueue(owner, by(name))
    came = drained(database, seconds=60)
    assert (came.stored, came.invalid) == (len(names), 0)


def test_a_page_of_receipts_that_no_request_could_render_is_taken_in(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    loop = "{% for l in lines %}{{ l.name }} {{ l.price }}\n{% endfor %}"
    publish(api, document(email={"en": {"subject": "Bill", "text": loop}}), name="bill")
    lines = [{"name": f"Article {n}", "price": "9.99"} for n in range(200)]
    number = 40
    for n in range(number):
        enqueue(owner, by("bill", lines=[*lines, {"name": str(n), "price": "1"}]))
    came = drained(database, seconds=60)
    assert (came.stored, came.invalid, requests_of(owner)) == (number, 0, [])


def test_what_is_refused_for_itself_takes_nothing_from_its_neighbours(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    endless = "{% for a in xs %}{% for b in xs %}{% for c in xs %}{{ c }}{% endfor %}{% endfor %}"
    words = document(email={"en": {"subject": "x", "text": endless + "{% endfor %}"}})
    publish(api, words, name="endless")
    bad = [enqueue(owner, by("endless", xs=[*XS, n])) for n in range(5)]
    heavy = [enqueue(owner, by("heavy", xs=[*XS[:-1], n])) for n in range(2)]
    good = [enqueue(owner, by("light", name=f"Ada {n}")) for n in range(3)]
    came = drained(database, seconds=600)
    assert (came.stored, came.invalid) == (len(heavy) + len(good), len(bad))
    assert {row_of(owner, id).status for id in heavy + good} == {"pending"}
    answer = api.post(by("endless", xs=[*XS, 0]))
    assert answer.status == 422
    told = [pointers(faults) for _, _, _, faults in requests_of(owner)]
    assert told == [answer.faults] * len(bad), "as by HTTP"


class Looking(Database):
    """Says before each piece of work which it is."""

    def __init__(self, connect: Any) -> None:
        super().__init__(connect)
        self.before: Callable[[str], None] = lambda name: None

    def run(self, work: Any, *, pipelined: bool = False) -> Any:
        self.before(work.__qualname__)
        return super().run(work, pipelined=pipelined)


IN_HAND = "SELECT id FROM requests WHERE taken_until > now() ORDER BY id"


def test_while_something_takes_long_everything_else_is_free(
    owner: psycopg.Connection, login: Login, database: Database, api: Api
) -> None:
    """So the next drain has it, half a second later."""
    heavy = [enqueue(owner, HEAVY_ITEM) for _ in range(3)]
    light = enqueue(owner, by("light", name="Ada"))
    held: list[list[UUID]] = []
    with connected(login, "looking", kind=Looking) as (looking,):

        def look(name: str) -> None:
            if name.startswith("read_references"):
                held.append(values(owner, IN_HAND))

        looking.before = look
        came = drained(looking, seconds=600)
    assert (came.stored, came.invalid) == (4, 0)
    assert held[0] == [*heavy, light]
    alone = [hands for hands in held if len(hands) == 1]
    assert list(dict.fromkeys(id for (id,) in alone)) == [*heavy, light]


def test_a_suspect_is_judged_with_nothing_else_in_hand(
    owner: psycopg.Connection, login: Login, database: Database, api: Api
) -> None:
    suspect = enqueue(owner, by("light", name="Ada"))
    database.run(take)  # by somebody who is heard of no more
    lapse(owner)
    heavy = enqueue(owner, HEAVY_ITEM)
    held: list[list[UUID]] = []
    with connected(login, "looking", kind=Looking) as (looking,):

        def look(name: str) -> None:
            if name.startswith("read_references"):
                held.append(values(owner, IN_HAND))

        looking.before = look
        assert drained(looking, seconds=600).stored == 2
    assert [hands for hands in held if suspect in hands] == [[suspect]]
    assert [heavy] in held


def test_one_heavy_request_is_taken_in_however_little_time_there_is(
    owner: psycopg.Connection, database: Database, api: Api
) -> None:
    ids = [enqueue(owner, HEAVY_ITEM) for _ in range(3)]
    assert drained(database, seconds=0).stored == 1
    assert row_of(owner, ids[0]).status == "pending", "the oldest"
    assert values(owner, "SELECT starts FROM requests WHERE taken_until IS NULL") == [0, 0]


def test_who_asks_for_little_waits_for_nothing_heavy(
    owner: psycopg.Connection, login: Login, database: Database, api: Api
) -> None:
    organizations = "INSERT INTO organizations (id, name) VALUES (uuidv7(), uuidv7()) RETURNING id"
    for tenant in (values(owner, organizations)[0] for _ in range(3)):
        theirs = api.having(organization_id=tenant)
        put(theirs)
        publish(theirs, HEAVY, name="heavy")
        for _ in range(2):
            enqueue(owner, HEAVY_ITEM, tenant)
    single = enqueue(owner, by("light", name="Ada"), FIRST_ORGANIZATION)
    literal = enqueue(owner, email(), SECOND_ORGANIZATION)
    stored: list[list[UUID]] = []
    with connected(login, "looking", kind=Looking) as (looking,):

        def look(name: str) -> None:
            if name.startswith("read_references"):
                stored.append(values(owner, "SELECT id FROM notifications ORDER BY id"))

        looking.before = look
        drained(looking, seconds=600)
    assert stored[0] == [literal], "before anything by template is looked at"
    assert stored[1] == [single, literal], "before anything heavy is"
    assert values(owner, "SELECT count(*) FROM requests") == [0]
