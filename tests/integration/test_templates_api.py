"""Templates over the API: versions that never change, previews, archives; nobody else's."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import errors
from pydantic import TypeAdapter

from functions.core.login import Login
from functions.ingest import template_schemas
from functions.store.connection import Database
from functions.store.template import add_version, documents_of, read_pinned
from tests.api import Api, Reply, start
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION
from tests.steps import connected
from tests.words import document

HELLO = document(
    email={"en": {"subject": "Hi {{ name }}", "html": "<b>{{ name }}</b>"}},
    sms={"en": {"text": "Hi {{ name }}"}, "de": {"text": "Hallo {{ name }}"}},
)
BYE = document(sms={"en": {"text": "Bye {{ name }}"}})


@pytest.fixture(autouse=True)
def organizations(owner: psycopg.Connection) -> None:
    owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'one'), (%s, 'two')",
        [FIRST_ORGANIZATION, SECOND_ORGANIZATION],
    )


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def publish(api: Api, name: str = "hello", version: Any = HELLO) -> Reply:
    return api.call("POST", f"/v1/templates/{name}/versions", body=version)


def preview(api: Api, name: str = "hello", **members: Any) -> Reply:
    body = {"channel": "sms", "locale": "en", "data": {"name": "Ada"}} | members
    return api.call("POST", f"/v1/templates/{name}/preview", body=body)


def test_versions_are_counted_and_an_equal_one_is_the_latest_again(api: Api) -> None:
    first = publish(api)
    assert (first.status, first.json) == (201, {"name": "hello", "version": 1})
    again = publish(api, version=dict(reversed(HELLO.items())))
    assert (again.status, again.json) == (200, {"name": "hello", "version": 1})
    assert publish(api, version=BYE).json == {"name": "hello", "version": 2}
    back = publish(api)  # equal to an earlier one, and not to the latest
    assert (back.status, back.json) == (201, {"name": "hello", "version": 3})
    assert publish(api.having(organization_id=SECOND_ORGANIZATION)).json["version"] == 1
    for number, version in ((1, HELLO), (2, BYE), (3, HELLO)):
        reply = api.get(f"/v1/templates/hello/versions/{number}")
        TypeAdapter(template_schemas.TemplateVersion).validate_json(reply.text)
        shown = reply.json
        assert shown.pop("created_at").endswith("Z")
        assert shown == {"name": "hello", "version": number, **version}
    latest = api.get("/v1/templates/hello")
    TypeAdapter(template_schemas.TemplateDetail).validate_json(latest.text)
    assert (latest.json["latest_version"], latest.json["channels"]) == (3, HELLO["channels"])


def test_templates_are_listed_by_name_page_by_page(api: Api) -> None:
    names = ["a", "a-b", "a.b", "a_b", "a1", "b"]
    for name in names:
        publish(api, name)
    publish(api.having(organization_id=SECOND_ORGANIZATION), "theirs")
    listed: list[str] = []
    query = "limit=4"
    while True:
        reply = api.get("/v1/templates", query)
        page: Any = TypeAdapter(template_schemas.TemplatePage).validate_json(reply.text)
        listed += [one["name"] for one in page["data"]]
        if page["next_cursor"] is None:
            break
        query = f"limit=4&cursor={page['next_cursor']}"
    assert sorted(listed) == sorted(names)
    assert len(listed) == 6
    cursor = query.partition("cursor=")[2]
    for other in (cursor[:-1], f"x{cursor}", cursor.partition("~")[2], "~", "%00"):
        assert api.get("/v1/templates", f"cursor={other}").code in (
            "invalid_cursor", "invalid_parameter",
        )  # fmt: skip
    theirs = api.having(organization_id=SECOND_ORGANIZATION)
    assert theirs.get("/v1/templates", f"cursor={cursor}").code == "invalid_cursor"
    assert api.get("/v1/templates", "page=2").code == "use_cursor"


def test_a_preview_shows_what_a_recipient_would_get(api: Api) -> None:
    publish(api)
    publish(api, version=BYE)
    reply = preview(api, version=1, locale="de-AT", data={"name": "Zoë ✓", "more": None})
    TypeAdapter(template_schemas.Preview).validate_json(reply.text)
    assert (reply.status, reply.json) == (
        200,
        {
            "name": "hello", "version": 1, "channel": "sms", "locale": "de",
            "rendered": "Hallo Zoë ✓", "encoding": "UCS-2", "segments": 1,
        },
    )  # fmt: skip
    assert preview(api, locale="fr").json["rendered"] == "Bye Ada"  # the latest, its default
    email = preview(api, version=1, channel="email", data={"name": "Tom & <b>Jerry\r\nBcc: x"})
    assert email.json["rendered"] == {
        "subject": "Hi Tom & <b>Jerry Bcc: x",
        "html": "<b>Tom &amp; &lt;b&gt;Jerry\r\nBcc: x</b>",
    }
    assert email.json["segments"] is None
    faults: dict[str, tuple[Reply, int, list[tuple[str, str]]]] = {
        "version": (preview(api, version=7), 404, []),
        "name": (preview(api, "other"), 404, []),
        "data": (preview(api, data={"Name": "x"}), 422, [("/data/name", "missing_variable")]),
        "list": (preview(api, data={"name": []}), 422, [("/data", "not_allowed")]),
        "long": (preview(api, data={"name": "x" * 1601}), 422, [("/data", "too_long")]),
        "channel": (preview(api, channel="push"), 422, [("/channel", "not_allowed")]),
        "webhook": (preview(api, channel="webhook"), 422, [("/channel", "not_allowed")]),
        "more": (preview(api, x=1), 422, [("/x", "unknown_field")]),
        "big": (preview(api, version=10**30), 404, []),
    }
    for what, (answer, status, found) in faults.items():
        assert (what, answer.status, answer.faults) == (what, status, found)


def test_an_archived_template_stays_readable_until_it_is_published_again(api: Api) -> None:
    publish(api)
    archived = api.call("POST", "/v1/templates/hello/archive")
    assert archived.status == 200
    TypeAdapter(template_schemas.TemplateSummary).validate_json(archived.text)
    assert archived.json["archived_at"] is not None
    assert api.call("POST", "/v1/templates/hello/archive", body={}).json == archived.json
    assert api.get("/v1/templates").json["data"] == [archived.json]
    assert api.get("/v1/templates/hello/versions/1").status == 200
    assert preview(api).status == 200
    assert publish(api).status == 200
    assert api.get("/v1/templates/hello").json["archived_at"] is None
    api.call("POST", "/v1/templates/hello/archive")
    assert publish(api, version=BYE).status == 201
    assert api.get("/v1/templates/hello").json["archived_at"] is None
    assert api.call("POST", "/v1/templates/none/archive").status == 404


@pytest.mark.parametrize("name", ["A", "-x", ".x", "x" * 129, "x y", "x%0a", "ä", "x:y"])
def test_a_malformed_name_is_refused_or_not_found(api: Api, name: str) -> None:
    reply = publish(api, name)
    assert reply.status in (404, 422)
    assert reply.code in ("not_found", "validation_failed")
    for other in (api.get(f"/v1/templates/{name}"), preview(api, name)):
        assert other.code == "not_found"


def test_numbers_of_no_version_are_not_found(api: Api) -> None:
    publish(api)
    for number in ("0", "2", "01", "-1", "1.0", "x", "9" * 9, "9" * 30, "1%20"):
        assert api.get(f"/v1/templates/hello/versions/{number}").code == "not_found"


def test_each_route_needs_its_scope_and_shows_nobody_elses(api: Api) -> None:
    publish(api)
    reader, sender = api.having(scopes="read"), api.having(scopes="send")
    assert reader.get("/v1/templates").status == 200
    assert reader.get("/v1/templates/hello").status == 200
    for other in (reader, sender):
        assert publish(other).code == "insufficient_scope"
        assert preview(other).code == "insufficient_scope"
        assert other.call("POST", "/v1/templates/hello/archive").code == "insufficient_scope"
    assert sender.get("/v1/templates").code == "insufficient_scope"
    foreign = api.having(organization_id=SECOND_ORGANIZATION)
    assert foreign.get("/v1/templates").json["data"] == []
    for reply in (
        foreign.get("/v1/templates/hello"),
        foreign.get("/v1/templates/hello/versions/1"),
        foreign.call("POST", "/v1/templates/hello/archive"),
        preview(foreign),
    ):
        assert reply.code == "not_found"


def test_hostile_bodies_are_refused_with_pointers(api: Api, owner: psycopg.Connection) -> None:
    sources = {
        "{% for a in range(10**9) %}x{% endfor %}": "not_allowed",
        "{{ 'x'*10**9 }}": "not_allowed",
        "{{ ''.__class__.__mro__ }}": "not_allowed",
        "{" * 200_000: "not_allowed",
        "\x00": "not_encodable",
        "\ud800": "not_encodable",
    }
    for source, code in sources.items():
        reply = publish(api, version=document(sms={"en": {"text": source}}))
        assert (reply.status, reply.faults) == (422, [("/channels/sms/en/text", code)])
    deep: Any = "x"
    for _ in range(400):
        deep = {"en": deep}
    assert publish(api, version={"channels": deep, "default_locale": "en"}).status == 422
    assert publish(api, version=[]).faults == [("", "wrong_type")]
    many = {f"x{number}": 1 for number in range(10_000)}
    assert len(publish(api, version=many).faults) == 100
    text = json.dumps(document(sms={"en": {"text": "x" * 3_000_000}}))
    assert api.call("POST", "/v1/templates/x/versions", text=text).faults == [("", "too_long")]
    duplicate = '{"channels": {}, "channels": {}, "default_locale": "en"}'
    assert api.call("POST", "/v1/templates/x/versions", text=duplicate).code == "malformed_json"
    endless = document(sms={"en": {"text": "{% for a in (1..n) %}x{% endfor %}"}})
    assert publish(api, version=endless).status == 201  # what it does depends on its values
    for number in (10**30, 10**9, 60_000):
        reply = preview(api, data={"n": number})
        assert (reply.status, reply.faults) == (422, [("/data", "too_many")])
    assert owner.execute("SELECT count(*) FROM template_versions").fetchone() == (1,)


def test_twins_get_versions_of_their_own(login: Login, owner: psycopg.Connection) -> None:
    count = 6
    names = [f"twin-{number}" for number in range(count)]
    together = threading.Barrier(count)
    with connected(login, *names, kind=Database) as databases:

        def add(number: int) -> tuple[int, bool]:
            together.wait()
            words = document(sms={"en": {"text": f"{number % 3}"}})
            return add_version(
                databases[number], organization_id=FIRST_ORGANIZATION, name="x", document=words
            )

        with ThreadPoolExecutor(count) as threads:
            added = list(threads.map(add, range(count)))
    made = sorted(version for version, is_new in added if is_new)
    assert made == list(range(1, len(made) + 1))
    assert {version for version, _ in added} == set(made)
    assert owner.execute("SELECT latest_version FROM templates").fetchone() == (len(made),)


def test_a_version_is_never_changed_or_deleted(api: Api, database: Database) -> None:
    publish(api)
    for statement in (
        "UPDATE template_versions SET document = '{}'",
        "UPDATE template_versions SET version = 2",
        "DELETE FROM template_versions",
        "DELETE FROM templates",
        "UPDATE templates SET name = 'other'",
        "TRUNCATE template_versions",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            database.run(lambda connection, text=statement: connection.execute(text))  # pyright: ignore
    assert api.get("/v1/templates/hello/versions/1").json["channels"] == HELLO["channels"]


def test_pinned_versions_are_read_by_name_and_number(api: Api, database: Database) -> None:
    publish(api)
    publish(api, version=BYE)
    publish(api, "gone", BYE)
    api.call("POST", "/v1/templates/gone/archive")
    publish(api.having(organization_id=SECOND_ORGANIZATION), "theirs")
    wanted = [
        ("hello", None), ("hello", 1), ("hello", 3), ("gone", None), ("theirs", None), ("no", 1),
        ("hello", 10**30), ("hello", -1), ("hello", None),
    ]  # fmt: skip
    pinned = database.run(
        lambda connection: read_pinned(
            connection, organization_id=FIRST_ORGANIZATION, wanted=wanted
        )
    )
    found = {
        key: (one.name, one.version, one.document == HELLO, one.is_archived)
        for key, one in pinned.items()
    }
    assert found == {
        ("hello", None): ("hello", 2, False, False),
        ("hello", 1): ("hello", 1, True, False),
        ("gone", None): ("gone", 1, False, True),
    }
    mine, theirs = FIRST_ORGANIZATION, SECOND_ORGANIZATION
    assert documents_of(
        database,
        [(mine, "hello", 2), (mine, "gone", 1), (mine, "theirs", 1), (theirs, "theirs", 1)],
    ) == {(mine, "hello", 2): BYE, (mine, "gone", 1): BYE, (theirs, "theirs", 1): HELLO}
    assert documents_of(database, []) == {}
