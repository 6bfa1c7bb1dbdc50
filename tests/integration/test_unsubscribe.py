"""Unsubscribe links over the API, and what a sender may still begin afterwards."""

import contextlib
import json
import socket
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.core.recipient import normalise, recipient_hash
from functions.core.states import Stream
from functions.core.suppression import SuppressionReason
from functions.core.unsubscribe import token_of, unsubscribe_key
from functions.ingest.unsubscribe import MAX_BODY_BYTES, SOURCE
from functions.store import suppression as store
from functions.store.claim import NO_ORGANIZATION, lease_page
from functions.store.connection import Database, connector
from tests.api import HASH_KEY, Api, Reply, email, recorded, start
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, HeldDatabase
from tests.steps import (
    LEASE_SECONDS,
    begin_one,
    connected,
    losing_its_first_commit,
    opening_of,
    waiting,
)

KEY = unsubscribe_key(HASH_KEY)
ADDRESS, NUMBER = "Ada@Example.com", "+12025550143"
ONE_CLICK = "List-Unsubscribe=One-Click"
FORM: dict[str, str | None] = {"content-type": "application/x-www-form-urlencoded"}
BROWSER = {"accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}


@pytest.fixture(autouse=True)
def organizations(owner: psycopg.Connection) -> None:
    owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'first'), (%s, 'second')",
        [FIRST_ORGANIZATION, SECOND_ORGANIZATION],
    )


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


@pytest.fixture
def person(api: Api) -> Api:
    """Somebody without a key: the recipient, a scanner, or the mailbox provider."""
    return api.having(context={"error": "unauthenticated"})


def link(
    category: str = "news",
    *,
    channel: str = "email",
    recipient: str = ADDRESS,
    organization_id: UUID = FIRST_ORGANIZATION,
) -> str:
    hashed = recipient_hash(HASH_KEY, channel, normalise(channel, recipient))
    token = token_of(
        KEY,
        organization_id=organization_id,
        channel=channel,
        recipient_hash=hashed,
        category=category,
    )
    return f"/v1/unsubscribe/{token}"


def click(person: Api, path: str) -> Reply:
    return person.call("POST", path, text=ONE_CLICK, headers={**FORM, "authorization": None})


def facts(api: Api, query: str = "") -> list[dict[str, Any]]:
    reply = api.get("/v1/suppressions", query)
    assert reply.status == 200
    return reply.json["data"]


def count(owner: psycopg.Connection) -> int:
    (number,) = owner.execute("SELECT count(*) FROM suppressions").fetchone() or (0,)
    return number


def verdict(api: Api, database: Database, **members: Any) -> str:
    """Accept a notification, claim it, and ask begin as a sender does, last of all."""
    item = email(**{"recipient": ADDRESS, **members})
    assert api.post(item).status == 202
    pages = [
        lease_page(
            database,
            channel=item["channel"],
            stream=stream,
            priority="normal",
            page=1,
            after=NO_ORGANIZATION,
            lease_seconds=LEASE_SECONDS,
            leased_by="test",
        )
        for stream in Stream
    ]
    (leased,) = [one for page in pages for one in page.leased]
    return begin_one(database, opening_of(leased)).verdict


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_f7_a_scanner_that_looks_changes_nothing(
    api: Api, person: Api, database: Database, owner: psycopg.Connection, method: str
) -> None:
    for _ in range(2):
        reply = person.call(method, link())
        assert reply.status == 200
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert (reply.text == "") is (method == "HEAD")
    assert count(owner) == 0
    assert verdict(api, database, category="news") == "go"


def test_f7_a_post_stops_the_category_and_a_second_one_changes_nothing(
    api: Api, person: Api, database: Database
) -> None:
    first = click(person, link())
    assert first.status == 200
    assert "You are unsubscribed" in first.text
    (fact,) = facts(api)
    assert fact["recipient"] is None
    assert (fact["channel"], fact["category"], fact["kind"]) == ("email", "news", "suppress")
    assert (fact["reason"], fact["source"]) == ("recipient_choice", "unsubscribe")
    assert fact["active"]
    assert facts(api, "channel=email&recipient=ada%40example.com&category=news") == [fact]
    again = click(person, link())
    assert (again.status, again.text) == (200, first.text)
    assert facts(api) == [fact]
    assert verdict(api, database, category="news") == "suppressed"


@pytest.mark.parametrize("event", ["ingest.unsubscribe_one_click", "ingest.unsubscribe_multipart"])
def test_f7_a_mailbox_providers_post_is_taken_however_its_form_is_encoded(
    api: Api, person: Api, event: str
) -> None:
    for _ in range(2):
        assert person.send(recorded(event)).status == 200
    (fact,) = facts(api, "channel=email&recipient=ada%40example.com")
    assert (fact["category"], fact["source"]) == ("news", "unsubscribe")


def test_f7_a_persons_own_click_works_after_the_scanner(
    api: Api, person: Api, database: Database
) -> None:
    opened = recorded("ingest.unsubscribe_page")
    scanner = {**opened, "headers": {**opened["headers"], "user-agent": "scanner"}}
    for event in (scanner, scanner, opened):
        reply = person.send(event)
        assert reply.status == 200
        assert "emails of the kind “news”" in reply.text
        assert '<form method="post">' in reply.text
        assert "example.com" not in reply.text.lower()
    assert facts(api) == []
    assert click(person, opened["rawPath"]).status == 200
    assert verdict(api, database, category="news") == "suppressed"
    # The token is not used up: both doors still answer.
    assert person.send(opened).status == 200
    assert click(person, opened["rawPath"]).status == 200


def test_f7_a_tampered_token_is_not_found_and_stores_nothing(
    person: Api, owner: psycopg.Connection
) -> None:
    whole = link()
    start_of_token = whole.rindex("/") + 1
    broken = [
        whole[:place] + ("A" if whole[place] != "A" else "B") + whole[place + 1 :]
        for place in range(start_of_token, len(whole), 7)
    ]
    broken += [whole[:-1], f"{whole}=", f"{whole}A", whole[:start_of_token] + "x", f"{whole}%00"]
    broken += [whole[:start_of_token] + "A" * 5_000, whole[:start_of_token] + "é😀"]
    for path in broken:
        for method in ("GET", "HEAD", "POST"):
            reply = person.call(method, path, text=ONE_CLICK, headers=FORM)
            assert (reply.status, reply.code) == (404, "not_found"), (method, path)
    assert count(owner) == 0


def test_f7_a_transactional_message_still_goes(api: Api, person: Api, database: Database) -> None:
    assert click(person, link("news")).status == 200
    assert click(person, link("offers")).status == 200
    assert verdict(api, database) == "go"
    assert verdict(api, database, category="transactional") == "go"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"category": "news"}, "suppressed"),
        ({"category": "news", "recipient": "ada@EXAMPLE.com"}, "suppressed"),
        ({"category": "offers"}, "go"),
        ({"category": "news-2"}, "go"),
        ({"category": "news", "recipient": "eve@example.com"}, "go"),
        ({"category": "news", "channel": "sms", "recipient": NUMBER}, "go"),
    ],
)
def test_f7_only_that_category_of_that_address_and_channel_is_suppressed(
    api: Api, person: Api, database: Database, members: dict[str, str], expected: str
) -> None:
    assert click(person, link()).status == 200
    assert verdict(api, database, **members) == expected


def test_f7_only_that_organization_is_concerned(api: Api, person: Api, database: Database) -> None:
    other = api.having(organization_id=SECOND_ORGANIZATION)
    assert click(person, link(organization_id=SECOND_ORGANIZATION)).status == 200
    assert facts(api) == []
    assert len(facts(other)) == 1
    assert verdict(api, database, category="news") == "go"
    assert verdict(other, database, category="news") == "suppressed"


def test_a_channel_has_its_own_links(api: Api, person: Api, database: Database) -> None:
    path = link(channel="sms", recipient=NUMBER)
    assert "text messages of the kind “news”" in person.get(path).text
    assert click(person, path).status == 200
    text = {"channel": "sms", "recipient": NUMBER, "category": "news"}
    assert verdict(api, database, **text) == "suppressed"
    assert verdict(api, database, category="news") == "go"


def lift(api: Api, **members: Any) -> Reply:
    body = {"channel": "email", "recipient": ADDRESS, "reason": "asked for it again", **members}
    return api.call("POST", "/v1/suppressions/lift", body=body)


def test_lifting_the_category_subscribes_again_and_the_link_still_works(
    api: Api, person: Api, database: Database
) -> None:
    click(person, link())
    assert lift(api).status == 404  # what was stopped is one category, and not all of them
    lifted = lift(api, category="news")
    assert (lifted.status, lifted.json["category"]) == (200, "news")
    assert verdict(api, database, category="news") == "go"
    click(person, link())
    assert [fact["kind"] for fact in facts(api)] == ["suppress", "lift", "suppress"]
    assert verdict(api, database, category="news") == "suppressed"


def test_a_choice_about_one_category_and_a_fact_about_all_do_not_mix(
    api: Api, person: Api, database: Database
) -> None:
    everything = {"channel": "email", "recipient": ADDRESS, "reason": "hard_bounce"}
    assert api.call("POST", "/v1/suppressions", body=everything).status == 201
    assert click(person, link()).status == 200
    assert verdict(api, database, category="offers") == "suppressed"
    assert lift(api).status == 200
    assert verdict(api, database, category="offers") == "go"
    assert verdict(api, database, category="news") == "suppressed"
    assert [fact["category"] for fact in facts(api, "active=true")] == ["news"]


def test_a_category_that_has_become_transactional_is_not_stopped_and_the_page_says_so(
    api: Api, person: Api, database: Database, owner: psycopg.Connection
) -> None:
    owner.execute(
        "UPDATE organizations SET transactional_categories = '{transactional,news}' WHERE id = %s",
        [FIRST_ORGANIZATION],
    )
    for reply in (person.get(link()), click(person, link()), click(person, link("transactional"))):
        assert reply.status == 200
        assert "These messages cannot be stopped" in reply.text
        assert "<form" not in reply.text
    assert count(owner) == 0
    assert verdict(api, database, category="news") == "go"
    # What another organization calls by the same name is its own.
    assert click(person, link(organization_id=SECOND_ORGANIZATION)).status == 200
    assert count(owner) == 1


def test_what_nobody_was_asked_about_is_transactional_by_its_default(
    person: Api, owner: psycopg.Connection
) -> None:
    owner.execute("DELETE FROM organizations")
    assert "These messages cannot be stopped" in click(person, link("transactional")).text
    assert count(owner) == 0
    assert "You are unsubscribed" in click(person, link()).text
    assert count(owner) == 1


BODIES: list[tuple[str | None, dict[str, str | None]]] = [
    (ONE_CLICK, FORM),
    (ONE_CLICK, {"content-type": None}),
    (ONE_CLICK, {"content-type": "text/plain"}),
    ("", FORM),
    (None, {}),
    ('{"List-Unsubscribe": "One-Click"}', {"content-type": "application/json"}),
    ("\0\ud800", FORM),
]


@pytest.mark.parametrize(("text", "headers"), BODIES)
def test_no_choice_is_lost_over_the_form_of_a_body(
    api: Api, person: Api, text: str | None, headers: dict[str, str | None]
) -> None:
    assert person.call("POST", link(), text=text, headers=headers).status == 200
    assert len(facts(api)) == 1


def test_a_body_is_bounded_and_what_its_encoding_says(
    person: Api, owner: psycopg.Connection
) -> None:
    large = person.call("POST", link(), text="a" * (MAX_BODY_BYTES + 1), headers=FORM)
    assert (large.status, large.code) == (413, "too_large")
    event = person.event("POST", link(), text="no base64!", headers=FORM)
    assert person.send({**event, "isBase64Encoded": True}).code == "malformed_json"
    assert count(owner) == 0


def test_what_was_added_to_a_link_on_its_way_changes_nothing(api: Api, person: Api) -> None:
    assert person.get(link(), "utm_source=mail&fbclid=x").status == 200
    reply = person.call("POST", link(), query="utm_source=mail", text=ONE_CLICK, headers=FORM)
    assert reply.status == 200
    assert len(facts(api)) == 1


def test_the_page_is_kept_nowhere_framed_nowhere_and_found_nowhere(person: Api) -> None:
    for reply in (person.get(link()), person.call("HEAD", link()), click(person, link())):
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["x-robots-tag"] == "noindex, nofollow"
        assert reply.headers["x-content-type-options"] == "nosniff"
        policy = reply.headers["content-security-policy"]
        for part in ("default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"):
            assert part in policy
        assert "set-cookie" not in reply.headers


def test_a_broken_link_is_a_page_for_a_person_and_a_problem_for_a_program(person: Api) -> None:
    path = link()[:-1]
    for method in ("GET", "POST"):
        reply = person.call(method, path, headers=BROWSER)
        assert (reply.status, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "This link does not work" in reply.text
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        assert person.call(method, path, headers={"accept": None}).code == "not_found"


def test_a_link_needs_no_key_and_no_key_changes_what_it_is_about(api: Api) -> None:
    contexts = [
        {"error": "unauthenticated"},
        {"error": "unavailable"},
        {"organization_id": str(SECOND_ORGANIZATION), "scopes": "read", "key_id": "k"},
    ]
    for context in contexts:
        for prefix in ("", "/api"):
            caller = api.having(context=context, prefix=prefix)
            assert caller.get(link()).status == 200
            assert click(caller, link()).status == 200
    assert len(facts(api)) == 1
    assert facts(api.having(organization_id=SECOND_ORGANIZATION)) == []


def test_other_methods_are_answered_405_with_those_that_are_known(person: Api) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        reply = person.call(method, link())
        assert (reply.status, reply.code) == (405, "method_not_allowed")
        assert reply.headers["allow"] == "GET, HEAD, POST"


def test_j3_no_token_hash_or_address_is_logged_or_echoed(person: Api) -> None:
    token = link().rpartition("/")[2]
    hashed = recipient_hash(HASH_KEY, "email", normalise("email", ADDRESS))
    replies = [
        person.get(link()),
        click(person, link()),
        click(person, link()[:-1]),
        person.call("DELETE", link()),
        person.call("GET", link()[:-1], headers=BROWSER),
        person.call("POST", link(), text="a" * (MAX_BODY_BYTES + 1)),
    ]
    said = person.log.getvalue() + json.dumps([[one.headers, one.text] for one in replies])
    for secret in (token[:-1], token[30:60], hashed.hex(), str(hashed), ADDRESS.lower()):
        assert secret.lower() not in said.lower()
    lines = [json.loads(line) for line in person.log.getvalue().splitlines()]
    assert {line.get("route") for line in lines} == {
        "GET /v1/unsubscribe/<token>",
        "POST /v1/unsubscribe/<token>",
        None,
    }


def test_an_outage_is_answered_503_and_a_broken_link_404_all_the_same() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: refused
        port: int = closed.getsockname()[1]
        login = Login(host="127.0.0.1", port=port, name="none", user="none", tls=False)
        with contextlib.closing(
            Database(connector(lambda: login, application_name="test"))
        ) as nowhere:
            person = start(nowhere).having(context={"error": "unauthenticated"})
            for reply in (person.get(link()), click(person, link())):
                assert (reply.status, reply.code) == (503, "unavailable")
                assert int(reply.headers["retry-after"]) > 0
            assert click(person, link()[:-1]).status == 404


def choose(database: Database) -> bool:
    fact = store.NewSuppression(
        channel="email",
        recipient=None,
        recipient_hash=recipient_hash(HASH_KEY, "email", "ada@example.com"),
        category="news",
        reason=SuppressionReason.RECIPIENT_CHOICE,
        source=SOURCE,
        source_at=None,
        evidence=None,
    )
    return store.unsubscribe(database, organization_id=FIRST_ORGANIZATION, fact=fact)


def test_two_posts_at_once_add_one_fact(login: Login, owner: psycopg.Connection) -> None:
    with connected(login, "first", "second", kind=HeldDatabase) as (first, second):
        assert choose(first)
        with waiting(owner, "second", lambda: choose(second)) as answer:
            first.commit()
        assert answer.result()
        second.commit()
    assert count(owner) == 1


def test_a_commit_whose_answer_was_lost_adds_one_fact(
    login: Login, owner: psycopg.Connection
) -> None:
    with losing_its_first_commit(login) as losing:
        assert choose(losing)
    assert count(owner) == 1
