"""Words by template: the pinned version, in the language decided, the same at every attempt.

G1  templates and values that would run code
G2  missing, null and odd variables
G3  injection through values
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.sender.words import MAX_KEPT_CHARACTERS, Documents
from functions.store.connection import Connect, Database, connector
from functions.store.delivery import load
from functions.store.template import add_version, archive
from tests.by_reference import ADAS, add_referring, address, put
from tests.changing import Way, on_its_way
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    add_notifications,
    moves_of,
    row_of,
)
from tests.gateway import giving
from tests.operating import operating, requeued
from tests.operators import arrange
from tests.sending import Interrupted, records_of, sender

T = TypeVar("T")

RECEIPT: dict[str, Any] = {
    "channels": {
        "email": {
            "en": {
                "subject": "Receipt {{ number }}",
                "text": "Dear {{ name }}, thank you.",
                "html": "<p>Dear {{ name }}</p>",
            },
            "de": {"subject": "Beleg {{ number }}", "text": "Danke, {{ name }}."},
        },
        "sms": {"en": {"text": "{{ name }}: {{ number }}"}},
        "push": {"en": {"title": "{{ number }}", "body": "{{ name }}"}},
    },
    "default_locale": "en",
}
DATA: dict[str, Any] = {"number": 7, "name": "Ada"}
ENGLISH = {
    "subject": "Receipt 7", "text": "Dear Ada, thank you.", "html": "<p>Dear Ada</p>",
}  # fmt: skip
GERMAN = {"subject": "Beleg 7", "text": "Danke, Ada."}


@pytest.fixture
def way(owner: psycopg.Connection, database: Database, login: Login) -> Iterator[Way]:
    with on_its_way(owner, database, login) as way:
        yield way


def publish(
    way: Way,
    document: dict[str, Any] = RECEIPT,
    *,
    name: str = "receipt",
    organization_id: UUID = FIRST_ORGANIZATION,
) -> int:
    way.owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        [organization_id, str(organization_id)],
    )
    version, _ = add_version(
        way.database, organization_id=organization_id, name=name, document=document
    )
    return version


def pin(
    way: Way,
    id: UUID,
    *,
    name: str = "receipt",
    version: int = 1,
    data: Any = DATA,
    locale: str | None = None,
) -> UUID:
    """Let a notification be by template, as accept would; return its id."""
    return arrange(
        way.owner,
        id,
        template_name=name,
        template_version=version,
        content=json.dumps({"version": None, "data": data}),
        locale=locale,
    )


def add_by_template(way: Way, **pinned: Any) -> UUID:
    (id,) = add_notifications(way.owner)
    return pin(way, id, **pinned)


def test_what_is_by_template_is_sent_in_its_words(way: Way) -> None:
    publish(way)
    add_by_template(way)
    for channel, to in (("sms", "+15550100000"), ("push", "a-device-token")):
        (id,) = add_notifications(way.owner, channel=channel, recipient=to)
        pin(way, id)
    for channel in ("email", "sms", "push"):
        way.deliver(way.claim(channel=channel), channel=channel)
    assert way.contents == [ENGLISH, "Ada: 7", {"title": "7", "body": "Ada", "data": {}}]


def test_the_language_is_the_one_that_was_decided_or_the_default(way: Way) -> None:
    publish(way)
    for recipient_id, locale in (("a", "de"), ("b", "de-AT"), ("c", "en-GB"), ("d", "fr"),
                                 ("e", None)):  # fmt: skip
        put(way.database, recipient_id=recipient_id, locale=locale)
        (id,) = add_referring(way.owner, recipient_id=recipient_id)
        pin(way, id)
        way.deliver(way.claim())
    assert way.contents == [GERMAN, GERMAN, ENGLISH, ENGLISH, ENGLISH]


def test_the_pinned_version_is_sent_whatever_became_of_the_template(way: Way, login: Login) -> None:
    """Edited and archived between accept and the claim, the retry, and a requeue."""
    publish(way)
    id = add_by_template(way)

    def edit(word: str) -> None:
        edited = json.loads(json.dumps(RECEIPT).replace("Receipt", word))
        assert publish(way, edited) > 1
        archive(way.database, organization_id=FIRST_ORGANIZATION, name="receipt")

    edit("Invoice")
    way.gateway.behaviour["ok@example.com"] = giving(409)
    way.deliver(way.claim())
    edit("Bill")
    way.gateway.behaviour["ok@example.com"] = giving(400)
    way.deliver(way.claim())
    assert row_of(way.owner, id).status == "dead"
    edit("Account")
    way.gateway.behaviour.clear()
    with operating(login) as operator:
        assert requeued(operator, id) == ["requeued"]
    way.provider.change = lambda: edit("Statement")
    way.deliver(way.claim())
    assert way.contents == [ENGLISH] * 3
    bodies = [json.dumps(content) for content in way.contents]
    assert len(set(bodies)) == 1
    assert [asked.key for asked in way.gateway.asked] == [str(id), str(id), f"{id}.1"]
    assert row_of(way.owner, id).status == "submitted"


def test_the_same_words_go_out_at_every_attempt_whatever_language_is_asked_for_since(
    way: Way,
) -> None:
    publish(way)
    put(way.database, locale="de")
    (id,) = add_referring(way.owner)
    pin(way, id)
    way.gateway.behaviour[ADAS] = giving(503)  # nobody knows whether it took it
    way.deliver(way.claim())
    way.gateway.behaviour.clear()
    leases = way.claim()
    put(way.database, locale="en")
    way.deliver(leases)
    way.go_on()
    first, second = way.gateway.asked
    assert (first.key, second.key) == (str(id), str(id))
    assert first.body["content"] == second.body["content"] == GERMAN
    assert row_of(way.owner, id).status == "submitted"


def test_a_language_changed_before_the_first_attempt_is_honoured(way: Way) -> None:
    publish(way)
    put(way.database, locale="de")
    (id,) = add_referring(way.owner)
    pin(way, id)
    leases = way.claim()
    put(way.database, locale="en")
    way.deliver(leases)
    way.go_on()
    assert way.contents == [ENGLISH]


def test_what_cannot_be_rendered_is_held_and_its_neighbours_go(way: Way) -> None:
    publish(way)
    publish(way, organization_id=SECOND_ORGANIZATION, name="theirs")
    put(way.database)
    bad = [
        add_by_template(way, version=2),
        add_by_template(way, name="other"),
        add_by_template(way, name="theirs"),
        add_by_template(way, data={"number": 7}),
        add_by_template(way, data=None),
        arrange(way.owner, add_by_template(way), content='"no object"'),
    ]
    good = [*add_notifications(way.owner, 2), add_by_template(way)]
    (to_ada,) = add_referring(way.owner)
    pin(way, to_ada)
    report = way.deliver(way.claim())
    assert report.counts["UnreadableContent"] == len(bad)
    for id in bad:
        assert (row_of(way.owner, id).status, row_of(way.owner, id).reason) == (
            "dead", "unreadable",
        )  # fmt: skip
        assert moves_of(way.owner, id) == [("sender", "leased", "dead", "unreadable")]
    assert {row_of(way.owner, id).status for id in (*good, to_ada)} == {"submitted"}
    assert way.contents.count(ENGLISH) == 2


def test_words_that_come_to_nothing_are_no_content(way: Way) -> None:
    """What was rendered is read as strictly as what was given."""
    empty = {"channels": {"email": {"en": {"text": "{{ name }}"}}}, "default_locale": "en"}
    publish(way, empty)
    id = add_by_template(way, data={"name": ""})
    way.deliver(way.claim())
    assert (way.asked, row_of(way.owner, id).reason) == ([], "unreadable")


def test_what_is_out_of_reach_is_not_rendered(way: Way) -> None:
    publish(way)
    put(way.database)
    (id,) = add_referring(way.owner)
    pin(way, id, data={})  # it could not be
    leases = way.claim()
    put(way.database, address("+33600000000", channel="sms"))
    assert way.deliver(leases).counts["UnreadableContent"] == 0
    way.go_on()
    assert row_of(way.owner, id).reason == "no_contact_point"


def test_g1_g2_g3_values_are_never_evaluated_and_leave_nothing_behind(way: Way) -> None:
    publish(way)
    attack = "{{ ''.__class__.__mro__ }}{% for a in (1..9) %}x{% endfor %}"
    evil = '<a href="https://evil.example">x</a> Tom & Jerry'
    for number, name in (
        (attack, attack),
        (0, evil),
        (False, ""),
        ("7\r\nBcc: b@example.com\u2028x", "Ada"),
    ):
        add_by_template(way, data={"number": number, "name": name})
        way.deliver(way.claim())
    attacked, escaped, odd, injected = way.contents
    assert attacked["subject"] == f"Receipt {attack}"
    assert attacked["text"] == f"Dear {attack}, thank you."
    assert "__mro__" in attacked["html"]
    assert escaped["subject"] == "Receipt 0"
    assert escaped["text"] == f"Dear {evil}, thank you."
    assert "<a" not in escaped["html"]
    assert "Tom &amp; Jerry" in escaped["html"]
    assert (odd["subject"], odd["text"]) == ("Receipt false", "Dear , thank you.")
    assert len(injected["subject"].splitlines()) == 1
    assert injected["subject"].startswith("Receipt 7")


class Counting(Database):
    """Counts pieces of work."""

    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.count = 0

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        self.count += 1
        return super().run(work, pipelined=pipelined)


def test_a_version_is_read_once_by_an_environment_and_the_longest_unused_is_forgotten(
    way: Way, login: Login
) -> None:
    large = "x" * (MAX_KEPT_CHARACTERS // 3)
    for name in ("a", "b", "c"):
        document = {"channels": {"sms": {"en": {"text": large}}}, "default_locale": "en"}
        publish(way, document, name=name)
    ids = {name: add_by_template(way, name=name) for name in ("a", "b", "c")}
    loaded = load(way.database, list(ids.values()))
    documents, database = Documents(), Counting(connector(lambda: login, application_name="t"))

    def read(*names: str) -> int:
        before = database.count
        found = documents.of(database, [loaded[ids[name]] for name in names])
        assert {key[1] for key in found} == set(names)
        return database.count - before

    assert [read("a"), read("a"), read("b"), read("a", "b")] == [1, 0, 1, 0]
    assert [read("a"), read("c"), read("a"), read("b"), read("a", "c")] == [0, 1, 0, 1, 1]
    assert documents.of(database, [loaded[ids["a"]]] * 3) != {}
    database.close()


def test_what_is_not_by_template_costs_no_look_up(way: Way, login: Login) -> None:
    add_notifications(way.owner, 3)
    leases = way.claim()
    database = Counting(connector(lambda: login, application_name="t"))
    with sender(database, way.provider) as one:
        before = database.count
        one.deliver(records_of(leases))
        assert database.count - before == 3  # load, begin, close
    database.close()


def test_while_templates_cannot_be_read_nothing_is_begun(way: Way, login: Login) -> None:
    publish(way)
    id = add_by_template(way)
    leases = way.claim()
    database = Interrupted(connector(lambda: login, application_name="t"), out=[3])
    with sender(database, way.provider) as one:  # reads the channel, then loads, then reads words
        report = one.deliver(records_of(leases))
        assert len(report.failed) == 1
        assert (way.asked, row_of(way.owner, id).status) == ([], "leased")
        assert one.deliver(records_of(leases)).failed == []
    assert way.contents == [ENGLISH]
    database.close()
