"""Suppressions are facts: added, found equal, listed, lifted; the newest per category counts."""

from typing import Any

import psycopg
import pytest
from pydantic import TypeAdapter

from functions.core.recipient import recipient_hash
from functions.ingest import answers
from functions.store.connection import Database
from tests.api import HASH_KEY, Api, Reply, start
from tests.fakes import SECOND_ORGANIZATION


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def suppress(api: Api, recipient: str = "Ada@Example.com", **members: Any) -> Reply:
    body = {"channel": "email", "recipient": recipient, "reason": "operator", **members}
    return api.call("POST", "/v1/suppressions", body=body)


def lift(api: Api, recipient: str = "ada@example.com", **members: Any) -> Reply:
    body = {"channel": "email", "recipient": recipient, "reason": "asked for it", **members}
    return api.call("POST", "/v1/suppressions/lift", body=body)


def listed(api: Api, query: str = "") -> list[Any]:
    reply = api.get("/v1/suppressions", query)
    assert reply.status == 200, reply
    TypeAdapter(answers.SuppressionPage).validate_json(reply.text)
    return reply.json["data"]


def test_a_fact_is_added_with_its_defaults(api: Api, owner: psycopg.Connection) -> None:
    reply = suppress(api)
    assert reply.status == 201
    TypeAdapter(answers.Suppression).validate_json(reply.text)
    fact = reply.json
    assert fact["recipient"] == "Ada@example.com"
    assert (fact["kind"], fact["reason"], fact["source"]) == ("suppress", "operator", "api")
    assert fact["category"] is None
    assert fact["evidence"] is None
    assert fact["active"]
    stored = owner.execute("SELECT recipient_hash FROM suppressions").fetchall()
    assert stored == [(recipient_hash(HASH_KEY, "email", "ada@example.com"),)]


def test_an_equal_live_fact_is_found_instead(api: Api) -> None:
    first = suppress(api, evidence={"ticket": 7, "x": None}, source="crm")
    assert first.status == 201
    for again in (
        suppress(api, "ada@example.com"),
        suppress(api, evidence={"x": None, "ticket": 7}),
        suppress(api, source="crm", source_at=first.json["source_at"]),
    ):
        assert (again.status, again.json) == (200, first.json)
    others: list[dict[str, Any]] = [
        {"reason": "complaint"},
        {"category": "news"},
        {"source": "import"},
        {"evidence": {"ticket": 8}},
    ]
    for other in others:
        assert suppress(api, **other).status == 201
    assert len(listed(api)) == 5


def test_lifting_is_a_fact_too_and_ends_the_live_one(api: Api) -> None:
    suppress(api)
    lifted = lift(api)
    assert lifted.status == 200
    assert lifted.json["kind"] == "lift"
    assert lifted.json["reason"] == "asked for it"
    assert not lifted.json["active"]
    assert [(fact["kind"], fact["active"]) for fact in listed(api)] == [
        ("lift", False),
        ("suppress", False),
    ]
    assert lift(api).code == "not_found"
    assert suppress(api).status == 201


def test_categories_are_lifted_one_by_one(api: Api) -> None:
    suppress(api)
    suppress(api, category="news")
    assert lift(api, category="receipts").status == 404
    assert lift(api, category="news").status == 200
    assert [fact["category"] for fact in listed(api, "active=true")] == [None]
    assert lift(api).status == 200
    assert listed(api, "active=true") == []


def test_a_category_is_shown_on_the_fact_and_on_what_lifts_it(api: Api) -> None:
    first = suppress(api, category="news", reason="recipient_choice", source="preference page")
    assert (first.status, first.json["category"]) == (201, "news")
    again = suppress(api, category="news", reason="recipient_choice")
    assert (again.status, again.json) == (200, first.json)
    assert suppress(api, category=None, reason="recipient_choice").status == 201  # null: all
    lifted = lift(api, category="news")
    assert (lifted.json["category"], lifted.json["kind"]) == ("news", "lift")
    assert [(fact["category"], fact["active"]) for fact in listed(api)] == [
        ("news", False),
        (None, True),
        ("news", False),
    ]
    wrong: list[Any] = ["No!", "", 7, "n" * 65]
    for category in wrong:
        for ask in (suppress, lift):
            reply = ask(api, category=category)
            assert (reply.status, reply.code) == (422, "validation_failed")
            assert [pointer for pointer, _ in reply.faults] == ["/category"]


def test_the_list_can_be_narrowed_to_a_category(api: Api) -> None:
    suppress(api)
    for number in range(3):
        suppress(api, f"user-{number}@example.com", category="news")
    suppress(api, category="offers")
    suppress(api, "+1 202 555 0143", channel="sms", category="news")
    lift(api, "user-1@example.com", category="news")
    assert len(listed(api, "category=news")) == 5
    assert len(listed(api, "category=news&channel=email&active=true")) == 2
    assert [fact["category"] for fact in listed(api, "category=offers")] == ["offers"]
    assert listed(api, "category=receipts") == []
    one = listed(api, "category=news&channel=email&recipient=user-1%40example.com")
    assert [fact["kind"] for fact in one] == ["lift", "suppress"]


def test_a_cursor_goes_on_with_the_same_category_only(api: Api) -> None:
    for number in range(3):
        suppress(api, f"user-{number}@example.com", category="news")
        suppress(api, f"user-{number}@example.com", category="offers")
    everything = listed(api, "category=news")
    first = api.get("/v1/suppressions", "category=news&limit=2").json
    cursor = first["next_cursor"]
    second = api.get("/v1/suppressions", f"category=news&limit=2&cursor={cursor}").json
    assert first["data"] + second["data"] == everything
    assert second["next_cursor"] is None
    for query in ("category=offers&", ""):
        assert api.get("/v1/suppressions", f"{query}cursor={cursor}").code == "invalid_cursor"
    plain = api.get("/v1/suppressions", "limit=2").json["next_cursor"]
    assert api.get("/v1/suppressions", f"category=news&cursor={plain}").code == "invalid_cursor"


def test_what_was_never_suppressed_cannot_be_lifted(api: Api) -> None:
    reply = lift(api)
    assert (reply.status, reply.code) == (404, "not_found")


def test_the_list_is_filtered_and_paged(api: Api) -> None:
    for number in range(5):
        suppress(api, f"user-{number}@example.com")
    suppress(api, "+1 202 555 0143", channel="sms")
    lift(api, "user-1@example.com")
    assert [fact["channel"] for fact in listed(api, "channel=sms")] == ["sms"]
    one = listed(api, "channel=email&recipient=USER-1%40example.com")
    assert [fact["kind"] for fact in one] == ["lift", "suppress"]
    assert len(listed(api, "active=true")) == 5
    assert len(listed(api, "active=false")) == 2
    everything = listed(api)
    first = api.get("/v1/suppressions", "limit=4").json
    second = api.get("/v1/suppressions", f"limit=4&cursor={first['next_cursor']}").json
    assert first["data"] + second["data"] == everything
    assert second["next_cursor"] is None


BAD_BODIES: list[tuple[dict[str, Any], str, str]] = [
    ({"channel": "fax"}, "/channel", "not_allowed"),
    ({"recipient": "nobody"}, "/recipient", "invalid_email"),
    ({"recipient": None}, "/recipient", "wrong_type"),
    ({"reason": "because"}, "/reason", "not_allowed"),
    ({"source": ""}, "/source", "required"),
    ({"source_at": "yesterday"}, "/source_at", "invalid_time"),
    ({"category": "No!"}, "/category", "not_allowed"),
    ({"evidence": "x" * 20_000}, "/evidence", "too_long"),
    ({"kind": "lift"}, "/kind", "unknown_field"),
]


def test_a_fault_of_a_fact_is_named(
    api: Api, owner: psycopg.Connection, subtests: pytest.Subtests
) -> None:
    for members, pointer, fault in BAD_BODIES:
        with subtests.test(pointer):
            reply = suppress(api, **members)
            assert (reply.status, reply.code) == (422, "validation_failed")
            assert reply.faults == [(pointer, fault)]
    nothing: list[Any] = [[], {}, "x"]
    for body in nothing:
        for path in ("/v1/suppressions", "/v1/suppressions/lift"):
            assert api.call("POST", path, body=body).code == "validation_failed"
    nul = api.call("POST", "/v1/suppressions", text='{"channel": "email", "recipient": "\\u0000"}')
    assert nul.faults == [("/recipient", "not_encodable")]
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (0,)


def test_a_query_that_cannot_be_meant_is_refused(api: Api) -> None:
    for query, code in {
        "active=yes": "invalid_parameter",
        "channel=fax": "invalid_parameter",
        "channel=email&channel=sms": "invalid_parameter",
        "recipient=ada%40example.com": "invalid_parameter",
        "channel=email&recipient=nobody": "invalid_parameter",
        "limit=0": "invalid_parameter",
        "page=1": "use_cursor",
        "kind=lift": "unknown_parameter",
        "category=": "invalid_parameter",
        "category=No": "invalid_parameter",
        "category=news%0A": "invalid_parameter",
        "category=news&category=offers": "invalid_parameter",
        "cursor=0": "invalid_cursor",
    }.items():
        reply = api.get("/v1/suppressions", query)
        assert (reply.status, reply.code) == (400, code), query


def test_two_organizations_keep_their_own_facts(api: Api) -> None:
    other = api.having(organization_id=SECOND_ORGANIZATION)
    suppress(api)
    assert listed(other) == []
    assert lift(other).status == 404
    assert suppress(other).status == 201
    assert len(listed(api)) == len(listed(other)) == 1


def test_facts_need_the_scope_admin_and_reading_them_needs_read(api: Api) -> None:
    sender = api.having(scopes="send read")
    assert suppress(sender).code == "insufficient_scope"
    assert lift(sender).code == "insufficient_scope"
    assert sender.get("/v1/suppressions").status == 200
    assert api.having(scopes="send").get("/v1/suppressions").code == "insufficient_scope"
    assert suppress(api.having(scopes="admin")).status == 201
