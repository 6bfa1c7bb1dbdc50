"""Who may do what; what no route serves; what an outage looks like; what is logged of it all."""

import base64
import contextlib
import dataclasses
import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import psycopg
import pytest
from pydantic import TypeAdapter

from functions.core.login import Login
from functions.ingest import answers
from functions.ingest.routes import ROUTES
from functions.providers.http_report import RANKS, Part, Report
from functions.store.connection import Database, connector
from tests.api import Api, Reply, email, recorded, start
from tests.fakes import FIRST_ORGANIZATION

ID = str(UUID(int=7))


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


@pytest.fixture
def nowhere() -> Generator[Database]:
    """A database that nobody listens for."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else's
        login = Login(
            host="127.0.0.1",
            port=closed.getsockname()[1],
            name="sendoff",
            user="sendoff_service",
            tls=False,
        )
        with contextlib.closing(
            Database(connector(lambda: login, application_name="test"))
        ) as database:
            yield database


BODIES: dict[str, Any] = {
    "/v1/notifications": email(),
    "/batches": {"notifications": [email()]},
    "/dry-run": {"notifications": [email()]},
    "/erase": {"channel": "email", "recipient": "a@example.com"},
    "/versions": {"channels": {"sms": {"en": {"text": "Hi"}}}, "default_locale": "en"},
    "/preview": {"channel": "sms", "locale": "en", "data": {}},
    "/suppressions": {"channel": "email", "recipient": "a@example.com", "reason": "operator"},
    "/lift": {"channel": "email", "recipient": "a@example.com", "reason": "operator"},
}
"""What a route that ends so can understand; those that are not here need no body."""


def call(api: Api, method: str, path: str) -> Reply:
    """Call a route with something it could understand."""
    concrete = path.replace("<notification_id>", ID).replace("<batch_id>", ID)
    concrete = concrete.replace("<recipient_id>", "ada").replace("<template_name>", "hello")
    concrete = concrete.replace("<version>", "1")
    body: dict[str, Any] | None = {"contact_points": []} if method == "PUT" else None
    if method == "POST":
        body = next((body for end, body in BODIES.items() if concrete.endswith(end)), None)
    return api.call(method, concrete, body=body)


SCOPED = [route for route in ROUTES if route.scope is not None]
OPEN = [route for route in ROUTES if route.scope is None]


def test_without_a_caller_every_scoped_route_answers_401(api: Api) -> None:
    contexts: list[dict[str, str]] = [
        {"error": "unauthenticated"},
        {"organization_id": "nonsense", "scopes": "send", "key_id": "k"},
        {"scopes": "send"},
    ]
    for context in contexts:
        for route in SCOPED:
            reply = call(api.having(context=context), route.method, route.path)
            assert (reply.status, reply.code) == (401, "unauthenticated"), route
            assert reply.headers["www-authenticate"].startswith("Bearer ")
            assert 'error="invalid_token"' in reply.headers["www-authenticate"]


def test_the_recorded_request_without_a_key_is_challenged(api: Api) -> None:
    reply = api.send(recorded("ingest.unauthenticated"))
    assert (reply.status, reply.code) == (401, "unauthenticated")
    assert reply.headers["www-authenticate"] == 'Bearer realm="sendoff"'
    event = recorded("ingest.list")
    del event["requestContext"]["authorizer"]
    assert api.send(event).code == "unauthenticated"


def test_without_the_scope_every_route_answers_403(api: Api) -> None:
    for route in SCOPED:
        others = " ".join({"send", "read"} - {str(route.scope)})
        reply = call(api.having(scopes=others), route.method, route.path)
        assert (reply.status, reply.code) == (403, "insufficient_scope"), route
        assert f'scope="{route.scope}"' in reply.headers["www-authenticate"]


def test_admin_includes_both_other_scopes(api: Api) -> None:
    for route in SCOPED:
        for scopes in (str(route.scope), "admin"):
            reply = call(api.having(scopes=scopes), route.method, route.path)
            assert reply.status not in (401, 403), route


def test_the_same_routes_are_below_the_prefix(api: Api, owner: psycopg.Connection) -> None:
    owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'one')", [FIRST_ORGANIZATION])
    below = api.having(prefix="/api")
    for route in ROUTES:
        for caller in (api, below):
            status = call(caller, route.method, route.path).status
            assert status in (200, 201, 202, 204, 404, 422), route
    assert below.having(prefix="/api/api").get("/v1/health").code == "not_found"
    assert api.having(prefix="/apiv1").get("/v1/health").code == "not_found"


UNKNOWN = (
    "/",
    "/v1",
    "/v2/notifications",
    "/v1/recipients",
    "/v1/templates/",
    "/v1/events",
    "/v1/notifications/",
    "/v1//notifications",
)


def test_what_no_route_serves_is_not_found(api: Api) -> None:
    anonymous = api.having(context={"error": "unauthenticated"})
    for path in UNKNOWN:
        for method in ("GET", "POST", "DELETE"):
            for caller in (api, anonymous, api.having(prefix="/api")):
                reply = caller.call(method, path)
                assert (reply.status, reply.code) == (404, "not_found"), path


@pytest.mark.parametrize("id", ["\x00", "\U0001f600", 'a"b', "{id}\n", "{id}\r", "{id} "])
def test_a3_an_id_of_no_ids_form_is_not_found(api: Api, id: str) -> None:
    known = api.post(email()).json["id"]
    for path in ("/v1/notifications/", "/v1/batches/"):
        reply = api.get(path + id.replace("{id}", known))
        assert (reply.status, reply.code) == (404, "not_found")


def test_another_method_is_answered_405_with_those_that_are_known(api: Api) -> None:
    for prefix in ("", "/api"):
        caller = api.having(prefix=prefix)
        callback = caller.call("GET", "/v1/callbacks/http")
        assert (callback.status, callback.headers["allow"]) == (405, "POST")
        reply = caller.call("DELETE", "/v1/notifications")
        assert (reply.status, reply.code) == (405, "method_not_allowed")
        assert reply.headers["allow"] == "GET, POST"
        assert caller.call("PUT", f"/v1/notifications/{ID}").headers["allow"] == "GET"
        assert caller.call("GET", f"/v1/batches/{ID}/cancel").headers["allow"] == "POST"
        assert caller.call("OPTIONS", "/v1/suppressions").status == 405
        assert caller.call("HEAD", "/v1/health").status == 405


def test_health_needs_no_key_and_asks_the_database(api: Api, nowhere: Database) -> None:
    reply = api.send(recorded("ingest.health"))
    assert (reply.status, reply.json) == (200, {"status": "ok", "database": "ok"})
    reply = start(nowhere).send(recorded("ingest.health"))
    assert (reply.status, reply.code) == (503, "unavailable")
    assert int(reply.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("function", "event", "expected"),
    [
        ("ingest", "ingest.health", '"statusCode": 200'),
        ("ingest", "ingest.unauthenticated", '"statusCode": 401'),
        ("authorizer", "authorizer.request", '"error": "unauthenticated"'),
    ],
)
def test_the_deployed_handler_is_put_together_from_its_environment(
    login: Login, function: str, event: str, expected: str
) -> None:
    program = (
        "import json, sys\n"
        f"from functions.{function}.main import handler\n"
        "print('answer', json.dumps(handler(json.load(sys.stdin), None)))"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_HOST": login.host,
        "DATABASE_PORT": str(login.port),
        "DATABASE_NAME": login.name,
        "DATABASE_AUTH": "trust",
        "HASH_SECRET_ARN": "never asked for here",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(recorded(event)),
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    answers_given = [line for line in done.stdout.splitlines() if line.startswith("answer ")]
    assert expected in answers_given[0]


def test_an_outage_is_answered_503_by_every_route_that_needs_the_database(
    nowhere: Database,
) -> None:
    api = start(nowhere)
    for route in SCOPED:
        reply = call(api, route.method, route.path)
        assert (reply.status, reply.code) == (503, "unavailable"), route
        assert int(reply.headers["retry-after"]) > 0
    unknown_key = api.having(context={"error": "unavailable"})
    assert unknown_key.get("/v1/notifications").code == "unavailable"


def test_the_call_after_an_outage_reconnects(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    assert api.post(email()).status == 202
    (pid,) = database.run(
        lambda connection: connection.execute("SELECT pg_backend_pid()")
    ).fetchone() or (0,)
    owner.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    assert api.post(email()).status == 202


class _Broken:
    """A logger's neighbour: a database object whose every use is our own mistake."""

    def run(self, work: Any, **options: Any) -> Any:
        raise RuntimeError("SENTINEL-8F3A")


SENTINELS = ("SENTINEL", "+12025550199", "sk_0190", "0123456789abcdef0123456789abcdef")


def assert_silent(api: Api, *replies: Reply) -> None:
    said = api.log.getvalue() + "".join(
        json.dumps([reply.headers, reply.text]) for reply in replies
    )
    assert [word for word in SENTINELS if word.lower() in said.lower()] == []


def test_j3_no_address_content_or_key_is_logged_or_echoed(
    api: Api, nowhere: Database, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secret: dict[str, Any] = {
        "content": "SENTINEL-8F3A",
        "metadata": {"name": "SENTINEL-8F3A"},
        "reference": "SENTINEL-REF",
        "event_id": "SENTINEL-EVENT",
    }
    good = email("sentinel@example.com", **secret)
    sms = {"channel": "sms", "recipient": "+12025550199", "content": "SENTINEL-8F3A"}
    assert api.post(good, key="SENTINEL-KEY").status == 202
    assert api.post_batch(good, sms, key="SENTINEL-KEY").status == 202
    for query in ("reference=SENTINEL-REF", "event_id=SENTINEL-EVENT"):
        assert api.get("/v1/notifications", query).status == 200
    assert_silent(api)
    fact = {"channel": "email", "recipient": "sentinel@example.com", "reason": "operator"}
    assert api.call("POST", "/v1/suppressions", body=fact).status == 201
    out, outage = start(nowhere), start(_Broken())  # pyright: ignore[reportArgumentType]
    refusals = [
        api.post({**good, "content": "SENTINEL-OTHER"}, key="SENTINEL-KEY"),
        api.post({**good, "content": "SENTINEL-OTHER"}),
        api.post({**good, "recipient": "sentinel@example.com\u200b"}),
        api.post({**sms, "recipient": "+12025550199 SENTINEL"}),
        api.post({**good, "send_at": "SENTINEL"}),
        api.post({**good, "priority": "SENTINEL"}),
        api.post({**good, "category": "SENTINEL"}),
        api.post({**good, "metadata": {"a": ["SENTINEL"]}}),
        api.call("POST", "/v1/notifications", text='{"SENTINEL": NaN}'),
        api.call("POST", "/v1/notifications", text='{"content": "SENTINEL-8F3A'),
        api.call("POST", "/v1/notifications", text='["SENTINEL\\u0000"]'),
        api.call("POST", "/v1/notifications", body=good, headers={"idempotency-key": "SENTINEL\0"}),
        api.get("/v1/notifications", "cursor=SENTINEL"),
        api.get("/v1/notifications", "recipient=sentinel@example.com"),
        api.get("/v1/notifications/SENTINEL"),
        api.get("/v1/SENTINEL"),
        api.having(scopes="read").post(good),
        api.having(context={"error": "unauthenticated"}).post(good),
    ]
    assert all(400 <= reply.status < 500 for reply in refusals)
    failures = [
        out.post(good),
        outage.post(good),
        outage.get("/v1/notifications", "reference=SENTINEL"),
    ]
    assert [reply.code for reply in failures] == ["unavailable", "internal_error", "internal_error"]
    for called in (api, out, outage):
        assert_silent(called, *refusals, *failures)
    printed = capfd.readouterr()
    said = caplog.text + printed.out + printed.err
    assert [word for word in SENTINELS if word.lower() in said.lower()] == []
    # A mistake of ours is found by its kind and its places.
    assert "RuntimeError" in outage.log.getvalue()
    assert "accept.py:" in outage.log.getvalue()


def test_each_request_is_one_line(api: Api) -> None:
    api.post(email())
    api.get("/v1/notifications/x")
    api.get("/nowhere")
    lines = [json.loads(line) for line in api.log.getvalue().splitlines()]
    assert [(line["status"], line.get("route"), line.get("code")) for line in lines] == [
        (202, "POST /v1/notifications", None),
        (404, "GET /v1/notifications/<notification_id>", "not_found"),
        (404, None, "not_found"),
    ]
    assert {line["message"] for line in lines} == {"The request was answered."}
    assert all(line["request_id"] and line["milliseconds"] >= 0 for line in lines)
    assert lines[0]["organization_id"] == str(api.organization_id)


def test_every_problem_has_the_shape_that_is_documented(api: Api) -> None:
    adapter = TypeAdapter(answers.Problem)
    accepted = api.post(email()).json["id"]
    api.call("POST", f"/v1/notifications/{accepted}/cancel")
    for reply in (
        api.post({}),
        api.get("/nowhere"),
        api.call("PUT", "/v1/health"),
        api.post(email(), key="\0"),
    ):
        adapter.validate_json(reply.text)


def test_openapi_names_every_route_and_resolves_every_reference(api: Api) -> None:
    reply = api.get("/v1/openapi.json")
    assert reply.status == 200
    document = unpacked(reply)
    served = {(route.method.lower(), route.path) for route in ROUTES}
    described = {
        (method, path.replace("{", "<").replace("}", ">"))
        for path, operations in document["paths"].items()
        for method in operations
    }
    # What the gateway calls is another function's, and described for whoever writes a gateway.
    assert described == served | {("post", "/v1/callbacks/http")}
    callback = document["paths"]["/v1/callbacks/http"]["post"]["requestBody"]["content"]
    members = callback["application/json"]["schema"]["properties"]["data"]["properties"]
    read = {field.name for field in (*dataclasses.fields(Report), *dataclasses.fields(Part))}
    assert set(members) == read - {"occurred_at", "whole"}
    assert set(members["status"]["enum"]) == set(RANKS)
    names = [
        operation["operationId"]
        for operations in document["paths"].values()
        for operation in operations.values()
    ]
    assert len(set(names)) == len(names)
    text = json.dumps(document)
    for part in text.split('"#/components/schemas/')[1:]:
        assert part.split('"')[0] in document["components"]["schemas"]
    item = document["components"]["schemas"]["Item"]
    assert [[one["required"] for one in pair["oneOf"]] for pair in item["allOf"]] == [
        [["channel"], ["channels"]],
        [["recipient"], ["recipient_id"]],
        [["content"], ["template"]],
    ]
    assert item["additionalProperties"] is False


def unpacked(reply: Reply) -> Any:
    """The document is compressed for the recorded client, which can read that."""
    assert reply.headers["content-encoding"] == "gzip"
    return json.loads(gzip.decompress(base64.b64decode(reply.text)))


class _Sources(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe"):
            self.found += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_docs_page_loads_nothing_from_elsewhere(api: Api) -> None:
    reply = api.call("GET", "/v1/docs", headers={"accept-encoding": None})
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    sources = _Sources()
    sources.feed(reply.text)
    assert sources.found == ["data:,"]


@contextlib.contextmanager
def served(api: Api) -> Generator[str]:
    """Serve GET requests by the handler, one at a time as Lambda would; give the address."""
    one_at_a_time = threading.Lock()

    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with one_at_a_time:
                reply = api.call("GET", self.path, headers={"accept-encoding": None})
            body = reply.text.encode()
            self.send_response(reply.status)
            self.send_header("content-type", reply.headers["content-type"])
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.system
@pytest.mark.parametrize("prefix", ["", "/api"])
def test_the_docs_page_renders_in_a_browser(
    api: Api, prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chromium = shutil.which("chromium")
    assert chromium, "The Debian package chromium is needed."
    with served(api) as address:
        done = subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
                "--virtual-time-budget=20000",
                "--dump-dom",
                f"{address}{prefix}/v1/docs",
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert "Send a batch of 1 to 1000 notifications" in done.stdout
    assert "/v1/suppressions/lift" in done.stdout
