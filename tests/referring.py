"""Items by reference as a client sends them: recipients, templates and several channels."""

from typing import Any
from uuid import UUID

import psycopg

from functions.core.login import Login
from functions.store.connection import Connect
from tests.api import Api, Reply
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION
from tests.words import document

ADA = "user-ada"
EVERYWHERE = [
    {"channel": "email", "address": "ada@example.com", "verified": True},
    {"channel": "sms", "address": "+12025550143", "verified": True},
    {"channel": "push", "address": "sim-ok-ada", "verified": True},
    {"channel": "webhook", "address": "https://hooks.example.com/ada", "verified": True},
]
RECEIPT = document(
    email={
        "en": {"subject": "Receipt for {{ name }}", "html": "<p>{{ name }} paid {{ total }}</p>"},
        "de": {"subject": "Beleg für {{ name }}", "text": "{{ name }} zahlte {{ total }}"},
    },
    sms={
        "en": {"text": "{{ name }} paid {{ total }}"},
        "de": {"text": "{{ name }} zahlte {{ total }} — {{ note }}"},
    },
    push={"en": {"title": "Paid", "body": "{{ name }} paid {{ total }}"}},
)
DATA = {"name": "Ada", "total": "12.50", "note": "Danke"}


def add_organizations(owner: psycopg.Connection) -> None:
    owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'one'), (%s, 'two')",
        [FIRST_ORGANIZATION, SECOND_ORGANIZATION],
    )


def put(api: Api, recipient_id: str = ADA, **members: Any) -> None:
    """Store a recipient that is reached by every channel."""
    body = {"contact_points": EVERYWHERE, "locale": "en", "time_zone": "Europe/Berlin"} | members
    reply = api.call("PUT", f"/v1/recipients/{recipient_id}", body=body)
    assert reply.status in (200, 201), reply


def publish(api: Api, words: Any = RECEIPT, *, name: str = "receipt") -> int:
    """Add a version of a template; return its number."""
    reply = api.call("POST", f"/v1/templates/{name}/versions", body=words)
    assert reply.status in (200, 201), reply
    return reply.json["version"]


def archive(api: Api, name: str = "receipt") -> None:
    assert api.call("POST", f"/v1/templates/{name}/archive").status == 200


def erase(api: Api, recipient_id: str = ADA) -> None:
    assert api.call("DELETE", f"/v1/recipients/{recipient_id}").status == 204


def refer(**members: Any) -> dict[str, Any]:
    """Return an item to Ada by email, with words of its own; a member that is None is left out."""
    item = {"channel": "email", "recipient_id": ADA, "content": "Your order"} | members
    return {name: value for name, value in item.items() if value is not None}


def receipt(data: Any = None, version: int | None = None, **members: Any) -> dict[str, Any]:
    """Return an item to Ada that says the receipt."""
    template: dict[str, Any] = {"name": "receipt", "data": DATA if data is None else data}
    if version is not None:
        template["version"] = version
    return refer(content=None, template=template, **members)


def dry_run(api: Api, *items: Any) -> Reply:
    return api.call("POST", "/v1/batches/dry-run", body={"notifications": list(items)})


def ids_of(reply: Reply) -> list[UUID]:
    """Return the ids of an accepted batch."""
    assert reply.status == 202, reply
    return [UUID(item["id"]) for item in reply.json["notifications"]]


def counting(login: Login, statements: list[str]) -> Connect:
    """Return a connect whose connections write down what they execute."""

    class Cursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
            statements.append(str(query))
            return super().execute(query, *arguments, **options)

    return lambda: psycopg.connect(
        host=login.host,
        port=login.port,
        dbname=login.name,
        user=login.user,
        cursor_factory=Cursor,
        autocommit=True,
    )
