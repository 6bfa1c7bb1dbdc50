"""Items by reference at the door: recipients, templates and several channels, or why not."""

import contextlib
from collections.abc import Iterator
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from functions.core.errors import ValidationFailed
from functions.core.login import Login
from functions.core.recipient import reference_hash
from functions.ingest.deployment import Deployment
from functions.ingest.references import admit_each
from functions.store.accept import accept_batch, accept_requests, accept_single
from functions.store.browse import READ_CHILDREN
from functions.store.connection import Database
from functions.store.dry_run import FIND_SUPPRESSED
from functions.store.hold import NEVER
from functions.store.idempotency import Request
from functions.store.intent import NewNotification
from functions.store.reference import FIND_NAMES, HOLD_RECIPIENTS
from tests.api import HASH_KEY, LOCAL_ORIGIN, Api, email, start
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, HeldDatabase
from tests.referring import (
    ADA,
    DATA,
    add_organizations,
    archive,
    counting,
    dry_run,
    erase,
    ids_of,
    publish,
    put,
    receipt,
    refer,
)
from tests.steps import connected, waiting
from tests.words import document

ITEM = "/notifications/0"


@pytest.fixture
def api(database: Database, owner: psycopg.Connection) -> Api:
    add_organizations(owner)
    return start(database)


@pytest.fixture
def known(api: Api) -> Api:
    """The API with Ada and the receipt."""
    put(api)
    assert publish(api) == 1
    return api


def deployment(database: Database) -> Deployment:
    return Deployment(
        database=database, hash_key=lambda: HASH_KEY, local_webhook_origin=LOCAL_ORIGIN
    )


def new_id(owner: psycopg.Connection) -> UUID:
    ((id,),) = owner.execute("SELECT uuidv7()").fetchall()
    return id


def rows(owner: psycopg.Connection) -> list[dict[str, Any]]:
    with owner.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("SELECT * FROM notifications ORDER BY id").fetchall()


def assert_refused(api: Api, item: Any, pointer: str, code: str) -> None:
    """Every door that shows its answer refuses ``item``, and says the same of it."""
    batch, single, dry = api.post_batch(email(), item), api.post(item), dry_run(api, email(), item)
    for reply in (batch, single, dry):
        assert (reply.status, reply.code) == (422, "validation_failed"), reply
    assert (f"/notifications/1{pointer}", code) in batch.faults, batch.faults
    assert dry.faults == batch.faults
    assert single.faults == [(at.removeprefix("/notifications/1"), why) for at, why in batch.faults]


SEVERAL: dict[str, Any] = {"channel": None, "channels": ["email", "sms"]}
TEMPLATE = {"name": "receipt", "data": DATA}
BAD_PARTS: list[tuple[dict[str, Any], str, str]] = [
    (refer(recipient="ada@example.com"), "/recipient_id", "not_allowed"),
    (refer(recipient_id=None), "/recipient", "required"),
    (refer(recipient_id=""), "/recipient_id", "not_allowed"),
    (refer(recipient_id="user 1"), "/recipient_id", "not_allowed"),
    (refer(recipient_id="user\r\nBcc: x"), "/recipient_id", "not_allowed"),
    (refer(recipient_id="x" * 129), "/recipient_id", "not_allowed"),
    (refer(recipient_id=7), "/recipient_id", "wrong_type"),
    (refer(recipient_id="nobody"), "/recipient_id", "unknown_recipient"),
    (refer(channels=["email"]), "/channels", "not_allowed"),
    (refer(channel=None), "/channel", "required"),
    (refer(channel=None, channels=[]), "/channels", "required"),
    (refer(channel=None, channels=["email", "email"]), "/channels/1", "not_allowed"),
    (refer(channel=None, channels=["email", "sms", "sms"]), "/channels/2", "not_allowed"),
    (refer(channel=None, channels=["email", "fax"]), "/channels/1", "not_allowed"),
    (refer(channel=None, channels="email"), "/channels", "wrong_type"),
    (refer(channel=None, channels=["email"] * 5), "/channels", "too_many"),
    (email(channel=None, channels=["email", "sms"]), "/recipient", "not_allowed"),
    (refer(recipient_id=None, **SEVERAL), "/recipient_id", "required"),
    (refer(fallback_after=60), "/fallback_after", "not_allowed"),
    (refer(fallback_after=0, **SEVERAL), "/fallback_after", "not_allowed"),
    (refer(fallback_after=0.999, **SEVERAL), "/fallback_after", "not_allowed"),
    (refer(fallback_after=2_592_001, **SEVERAL), "/fallback_after", "not_allowed"),
    (refer(fallback_after="60", **SEVERAL), "/fallback_after", "wrong_type"),
    (refer(fallback_after=True, **SEVERAL), "/fallback_after", "wrong_type"),
    (refer(content={"subject": "Hi", "text": "x"}, **SEVERAL), "/content", "wrong_type"),
    (refer(content="x" * 1601, **SEVERAL), "/content", "too_long"),
    (refer(template=TEMPLATE), "/template", "not_allowed"),
    (refer(content=None), "/content", "required"),
    (refer(content=None, template="receipt"), "/template", "wrong_type"),
    (refer(content=None, template=[]), "/template", "wrong_type"),
    (refer(content=None, template={}), "/template/name", "required"),
    (refer(content=None, template={"name": "receipt"}), "/template/data", "required"),
    (refer(content=None, template={"data": {}}), "/template/name", "required"),
    (refer(content=None, template={"name": "", "data": {}}), "/template/name", "required"),
    (refer(content=None, template={"name": "x" * 129, "data": {}}), "/template/name", "too_long"),
    (refer(content=None, template=TEMPLATE | {"x": 1}), "/template/x", "unknown_field"),
    (refer(content=None, template=TEMPLATE | {"x": 1, "y": 2}), "/template", "too_many"),
    (refer(content=None, template=TEMPLATE | {"data": []}), "/template/data", "wrong_type"),
    (receipt(version=0), "/template/version", "not_allowed"),
    (receipt(version=2**31), "/template/version", "not_allowed"),
    (refer(content=None, template=TEMPLATE | {"version": "1"}), "/template/version", "wrong_type"),
    (receipt(version=2), "/template/version", "unknown_template"),
    (refer(content=None, template=TEMPLATE | {"name": "no"}), "/template/name", "unknown_template"),
    (
        refer(content=None, template=TEMPLATE | {"name": "a\r\nBcc: b"}),
        "/template/name",
        "unknown_template",
    ),
    (receipt(channel="webhook"), "/template", "not_allowed"),
    (receipt(channel=None, channels=["email", "webhook"]), "/template", "not_allowed"),
    (receipt(data={"name": "Ada", "note": ""}), "/template/data/total", "missing_variable"),
    (receipt(data=DATA | {"total": None}), "/template/data/total", "missing_variable"),
    (
        receipt(data={"Name": "Ada"} | DATA | {"name": None}),
        "/template/data/name",
        "missing_variable",
    ),
    (receipt(data=DATA | {"total": {"a": 1}}), "/template/data", "not_allowed"),
    (receipt(data=DATA | {"x": "y" * 70_000}), "/template/data", "too_long"),
]


def test_a_bad_part_is_named_and_nothing_is_stored(
    known: Api, owner: psycopg.Connection, subtests: pytest.Subtests
) -> None:
    for item, pointer, code in BAD_PARTS:
        with subtests.test(pointer=pointer, code=code):
            assert_refused(known, item, pointer, code)
    assert rows(owner) == []


def test_every_fault_of_every_item_is_named_with_its_place(known: Api) -> None:
    reply = known.post_batch(
        refer(recipient_id="nobody"), receipt(data={"name": "x"}, recipient_id="no"), receipt()
    )
    assert reply.faults == [
        ("/notifications/0/recipient_id", "unknown_recipient"),
        ("/notifications/1/recipient_id", "unknown_recipient"),
        ("/notifications/1/template/data/note", "missing_variable"),
        ("/notifications/1/template/data/total", "missing_variable"),
    ]
    many = known.post_batch(*[refer(recipient_id=f"nobody-{n}") for n in range(300)])
    assert len(many.faults) == 100


def test_what_is_wrong_with_the_shape_of_one_hides_nothing_that_others_refer_to(
    known: Api, owner: psycopg.Connection
) -> None:
    reply = known.post_batch(
        refer(recipient_id="nobody"),
        email("no address"),
        receipt(data={}, priority="urgent"),  # what has no shape is not looked up
        receipt(),
        receipt(data=DATA | {"note": None}),
        "no item",
    )
    assert reply.code == "validation_failed"
    assert reply.faults == [
        ("/notifications/0/recipient_id", "unknown_recipient"),
        ("/notifications/1/recipient", "invalid_email"),
        ("/notifications/2/priority", "not_allowed"),
        ("/notifications/4/template/data/note", "missing_variable"),
        ("/notifications/5", "wrong_type"),
    ]
    many = [refer(recipient_id="nobody"), email("no address")] * 80
    faults = known.post_batch(*many).faults
    assert [pointer.split("/")[2] for pointer, _ in faults] == [str(n) for n in range(100)]
    assert dry_run(known, *many).faults == faults
    assert rows(owner) == []


def test_bounds_are_told_as_they_are_written(known: Api) -> None:
    items = [refer(fallback_after=0, **SEVERAL), refer(fallback_after=10**9, **SEVERAL)]
    details = [fault["detail"] for fault in known.post_batch(*items).json["errors"]]
    assert details == ["It is at least 1.", "It is at most 2592000."]


def test_a_mixed_batch_is_stored_whole_or_not_at_all(known: Api, owner: psycopg.Connection) -> None:
    items = [email(), refer(), receipt(), receipt(**SEVERAL)]
    assert known.post_batch(*items, refer(recipient_id="nobody")).status == 422
    assert rows(owner) == []
    assert len(ids_of(known.post_batch(*items))) == 4
    assert len(rows(owner)) == 5  # with the first child of the last


def test_a_recipient_by_reference_is_stored_without_an_address(
    known: Api, owner: psycopg.Connection
) -> None:
    reply = known.post(refer(event_id="e", content={"text": "Hi"}))
    (row,) = rows(owner)
    assert (row["recipient"], row["recipient_id"]) == (None, ADA)
    assert row["recipient_hash"] == row["address_hash"] == reference_hash(HASH_KEY, ADA)
    assert (row["country"], row["origin"], row["content"]) == (None, None, {"text": "Hi"})
    assert (row["ready"], row["channels"], row["template_name"]) == (True, None, None)
    shown = reply.json
    assert (shown["recipient"], shown["recipient_id"]) == (None, ADA)
    assert (shown["content"], shown["template"]) == ({"text": "Hi"}, None)
    assert (shown["children"], shown["parent_id"]) == ([], None)
    assert known.get(f"/v1/notifications/{shown['id']}").json == shown


def test_a_template_is_pinned_when_it_is_accepted(known: Api, owner: psycopg.Connection) -> None:
    assert publish(known, document(sms={"en": {"text": "Version 2"}})) == 2
    assert publish(known) == 3
    latest, first = known.post(receipt()), known.post(receipt(version=1, channel="sms"))
    assert publish(known, document(sms={"en": {"text": "Version 4"}})) == 4
    asked, numbered = rows(owner)
    assert (asked["template_name"], asked["template_version"]) == ("receipt", 3)
    assert asked["content"] == {"version": None, "data": DATA}
    assert asked["segments"] is None
    assert (numbered["template_version"], numbered["content"]["version"]) == (1, 1)
    assert numbered["segments"] == 1
    for reply, version in ((latest, 3), (first, 1)):
        shown = known.get(f"/v1/notifications/{reply.json['id']}").json
        assert shown == reply.json
        assert shown["content"] is None
        assert shown["template"] == {"name": "receipt", "version": version, "data": DATA}


def test_segments_are_the_most_over_all_languages(known: Api, owner: psycopg.Connection) -> None:
    """English alone is in the alphabet of GSM; the German dash turns the text to UCS-2."""
    long = DATA | {"note": "x" * 60}
    known.post_batch(
        receipt(long, channel="sms"), receipt(long), receipt(long, channel=None, channels=["sms"])
    )
    assert [row["segments"] for row in rows(owner)][:3] == [2, None, 2]


ODD_VALUES: list[Any] = ["", 0, False, 0.1, 10**20, "{{ total }}", "{% for %}", "<b>&</b>", "é🎉"]


def test_g2_a_value_that_is_there_is_a_value(known: Api, subtests: pytest.Subtests) -> None:
    for value in ODD_VALUES:
        with subtests.test(value=value):
            reply = known.post(receipt(DATA | {"name": value}))
            assert reply.status == 202, reply
            assert reply.json["template"]["data"]["name"] == value


def test_g3_a_line_break_in_a_value_is_no_header(known: Api) -> None:
    data = DATA | {"name": "x\r\nBcc: b@example.com\u2028y"}
    assert known.post(receipt(data)).status == 202
    (plan,) = dry_run(known, receipt(data)).json["notifications"]
    assert plan["rendered"]["subject"].splitlines() == ["Receipt for x Bcc: b@example.com y"]


def test_g1_what_would_never_end_is_refused(known: Api, owner: psycopg.Connection) -> None:
    loop = "{% for a in list %}{% for b in list %}{% for c in list %}{{ a }}{{ c }}"
    loop += "{% endfor %}{% endfor %}{% endfor %}"
    publish(known, document(sms={"en": {"text": loop}}), name="loop")
    template = {"name": "loop", "data": {"list": list(range(600))}}
    assert_refused(
        known, refer(channel="sms", content=None, template=template), "/template/data", "too_many"
    )
    assert rows(owner) == []


def test_a_request_names_only_so_many_templates(known: Api) -> None:
    items = [
        refer(content=None, template={"name": f"n-{number}", "data": {}}) for number in range(102)
    ]
    faults = known.post_batch(*items[1:], email()).faults
    assert set(faults[:99]) == {
        (f"/notifications/{n}/template/name", "unknown_template") for n in range(99)
    }
    items = [receipt()] * 50 + [receipt(version=1)] * 50
    assert known.post_batch(*items).status == 202


def test_another_organizations_recipient_and_template_are_unknown(known: Api) -> None:
    other = known.having(organization_id=SECOND_ORGANIZATION)
    assert_refused(other, refer(), "/recipient_id", "unknown_recipient")
    put(other)
    assert_refused(other, receipt(), "/template/name", "unknown_template")
    assert other.post(refer()).status == 202


def test_an_archived_template_takes_nothing_new_until_it_is_published_again(known: Api) -> None:
    archive(known)
    assert_refused(known, receipt(), "/template/name", "unknown_template")
    assert_refused(known, receipt(version=1), "/template/name", "unknown_template")
    publish(known)
    assert known.post(receipt()).status == 202


@pytest.mark.parametrize("alone", [True, False])
def test_a_replay_never_fails_for_what_became_of_its_references(known: Api, alone: bool) -> None:
    def post(key: str, *items: Any) -> Any:
        return known.post(items[0], key=key) if alone else known.post_batch(*items, key=key)

    first, other = post("k", receipt()), post("other", receipt(event_id="e"))
    archive(known)
    again = post("k", receipt())
    assert (again.status, again.text) == (202, first.text)
    assert again.headers["idempotent-replayed"] == "true"
    assert post("new", receipt()).faults[0][1] == "unknown_template"
    assert post("k", receipt(DATA | {"name": "Ben"})).code == "idempotency_key_reused"
    erase(known)
    erased = post("other", receipt(event_id="e"))
    assert (erased.status, erased.headers["idempotent-replayed"]) == (202, "true")
    if alone:
        shown = erased.json
        assert shown["id"] == other.json["id"]
        assert (shown["status"], shown["reason"]) == ("suppressed", "erased")
        assert (shown["recipient"], shown["content"]) == (None, None)
        assert shown["template"] == {"name": "receipt", "version": 1, "data": None}
    else:
        assert erased.text == other.text
    assert post("new", refer()).faults[0][1] == "unknown_recipient"


def test_a_repetition_waits_for_its_twin_before_it_is_refused(
    known: Api, database: Database, login: Login, owner: psycopg.Connection
) -> None:
    """The template is archived while the first is in the middle of its transaction."""
    item = receipt(event_id="e")
    (notification,) = admit_each([item], deployment(database), FIRST_ORGANIZATION)
    assert isinstance(notification, NewNotification)
    with (
        connected(login, "first", "twin", kind=Database) as (one, two),
        connected(login, "holder", kind=HeldDatabase) as (holder,),
    ):
        first, twin = start(one), start(two)

        def hold(connection: psycopg.Connection) -> None:
            accept_requests(
                connection,
                organization_id=FIRST_ORGANIZATION,
                requests=[(new_id(owner), notification)],
            )

        holder.run(hold)
        with waiting(owner, "first", lambda: first.post(item, key="k")) as accepted:
            archive(known)
            with waiting(owner, "twin", lambda: twin.post(item, key="k")) as repeated:
                holder.rollback()
                assert repeated.result().text == accepted.result().text
    assert accepted.result().status == repeated.result().status == 202
    assert repeated.result().headers["idempotent-replayed"] == "true"
    assert len(rows(owner)) == 1


def test_nothing_is_accepted_for_a_recipient_who_is_just_being_erased(
    known: Api, login: Login, owner: psycopg.Connection
) -> None:
    """Whoever erases waits for what is being accepted, and what comes later is refused."""
    with (
        connected(login, "eraser", kind=HeldDatabase) as (eraser,),
        connected(login, "door", kind=Database) as (door,),
    ):
        late = start(door)
        eraser.run(lambda connection: connection.execute(DELETE_ADA))
        with waiting(owner, "door", lambda: late.post(refer())) as refused:
            eraser.commit()
            assert refused.result().faults == [("/recipient_id", "unknown_recipient")]
    assert rows(owner) == []


DELETE_ADA = "DELETE FROM recipients WHERE recipient_id = 'user-ada'"


@pytest.mark.parametrize("alone", [True, False])
def test_a_recipient_erased_between_the_look_and_the_insert_is_unknown(
    known: Api, database: Database, login: Login, owner: psycopg.Connection, alone: bool
) -> None:
    """The last look is within the transaction that inserts."""
    (notification,) = admit_each([refer()], deployment(database), FIRST_ORGANIZATION)
    assert isinstance(notification, NewNotification)
    erase(known)
    request = Request(
        organization_id=FIRST_ORGANIZATION, route="r", key="k", request_sha256=bytes(32)
    )

    def accept() -> object:
        if alone:
            return accept_single(
                database, request=request, notification=notification, render=lambda _: ""
            )
        return accept_batch(database, request=request, notifications=[notification])

    with pytest.raises(ValidationFailed) as caught:
        accept()
    assert [fault.pointer for fault in caught.value.faults] == [
        "/recipient_id" if alone else f"{ITEM}/recipient_id"
    ]
    assert rows(owner) == []
    assert owner.execute("SELECT count(*) FROM idempotency_keys").fetchone() == (0,)


def test_an_event_is_the_same_by_what_was_asked_for(known: Api, owner: psycopg.Connection) -> None:
    first = known.post(receipt(event_id="e")).json["id"]
    publish(known, document(email={"en": {"subject": "New", "text": "{{ name }}"}}))
    again = known.post_batch(
        receipt(event_id="e"), receipt(event_id="e", channel=None, channels=["push", "email"])
    )
    assert again.status == 422  # the new version has no words for push
    publish(known)
    assert known.post(receipt(event_id="e")).json["id"] == first
    conflicts = [
        receipt(DATA | {"name": "Ben"}, event_id="e"),
        receipt(event_id="e", version=1),
        refer(event_id="e", content={"text": "x"}),
        receipt(event_id="e", channel=None, channels=["email", "sms"]),
    ]
    for item in conflicts:
        reply = known.post_batch(email(), item)
        assert (reply.status, reply.code) == (422, "event_id_conflict")
        assert reply.faults == [("/notifications/1/event_id", "event_id_conflict")]
    publish(known, name="other")
    other = refer(content=None, template={"name": "other", "data": DATA}, event_id="e")
    assert known.post(other).code == "event_id_conflict"
    assert len(rows(owner)) == 1
    # By their address they are somebody else: nobody can tell what it will be.
    assert known.post(email(event_id="e")).json["id"] != first


def test_an_event_that_was_erased_is_not_sent_again(known: Api, owner: psycopg.Connection) -> None:
    first = known.post(receipt(event_id="e")).json["id"]
    literal = known.post(email("ben@example.com", event_id="e")).json["id"]
    erase(known)
    body = {"channel": "email", "recipient": "ben@example.com"}
    assert known.call("POST", "/v1/erase", body=body).status in (200, 204)
    put(known)
    again = known.post_batch(receipt(event_id="e"), email("ben@example.com", event_id="e"))
    assert [(item["id"], item["duplicate"]) for item in again.json["notifications"]] == [
        (first, True),
        (literal, True),
    ]
    assert len(rows(owner)) == 2


LOOK_UPS: dict[LiteralString, str] = {
    HOLD_RECIPIENTS: "(recipient_id = ANY",
    FIND_NAMES: "(name = ANY",
    READ_CHILDREN: "(parent_id =",
    FIND_SUPPRESSED: "(recipient_hash =",
}


def test_what_is_looked_up_is_found_by_an_index(
    known: Api, database: Database, subtests: pytest.Subtests
) -> None:
    parameters = {
        "organization_id": FIRST_ORGANIZATION,
        "notification_id": FIRST_ORGANIZATION,
        "recipient_ids": [ADA, "nobody"],
        "names": ["receipt", "other"],
        "channels": ["email"],
        "hashes": [bytes(32)],
        "categories": ["news"],
        "streams": ["bulk"],
    }
    for statement, condition in LOOK_UPS.items():
        with subtests.test(condition=condition):
            explain = "EXPLAIN (FORMAT JSON) " + statement
            ((plan,),) = database.run(
                lambda connection, explain=explain: connection.execute(
                    explain, parameters, prepare=False
                ).fetchall()
            )
            (scan,) = _scans(plan[0]["Plan"])
            assert condition in scan["Index Cond"]


def _scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Scan" in node["Node Type"] and "Relation Name" in node:
        yield node
    for child in node.get("Plans", []):
        yield from _scans(child)


def test_an_event_of_several_channels_is_one_parent(known: Api, owner: psycopg.Connection) -> None:
    item = receipt(event_id="e", **SEVERAL)
    reply = known.post_batch(item, item)
    first, second = reply.json["notifications"]
    assert (second["id"], second["duplicate"]) == (first["id"], True)
    again = known.post_batch(item).json["notifications"]
    assert again == [{"index": 0, "id": first["id"], "duplicate": True}]
    assert len(rows(owner)) == 2
    reordered = known.post(receipt(event_id="e", channel=None, channels=["sms", "email"]))
    assert reordered.json["id"] != first["id"]  # its first channel is another


def test_a_parent_is_never_due_and_its_first_child_is_there_at_once(
    known: Api, owner: psycopg.Connection
) -> None:
    item = receipt(fallback_after=90.5, reference="r", event_id="e", **SEVERAL)
    shown = known.post(item).json
    parent, child = rows(owner)
    assert (parent["channel"], parent["channels"]) == ("email", ["email", "sms"])
    assert (parent["ready"], parent["available_at"]) == (False, NEVER)
    assert (parent["candidate"], parent["fallback_after_seconds"]) == (0, 90.5)
    assert parent["segments"] == 1
    assert (child["parent_id"], child["candidate"], child["channel"]) == (parent["id"], 0, "email")
    assert (child["ready"], child["event_id"], child["batch_id"]) == (True, None, None)
    of_child = known.get(f"/v1/notifications/{child['id']}").json
    assert shown["id"] == str(parent["id"])
    assert shown["children"] == [str(child["id"])]
    assert shown["created_at"] <= shown["available_at"] <= of_child["available_at"]
    assert shown["channel"] == "email"
    assert (of_child["parent_id"], of_child["children"]) == (shown["id"], [])
    assert of_child["template"] == shown["template"]


def test_a_parent_in_a_batch_counts_once_and_its_child_is_listed(
    known: Api, owner: psycopg.Connection
) -> None:
    later = "2999-01-01T00:00:00Z"
    batch = known.post_batch(refer(send_at=later, **SEVERAL), refer()).json
    parent, other, child = (str(row["id"]) for row in rows(owner))
    read = known.get(f"/v1/batches/{batch['batch_id']}").json
    assert (read["total_count"], read["counts"]) == (2, {"pending": 2})
    listed = known.get("/v1/notifications", f"recipient_id={ADA}").json["data"]
    assert [one["id"] for one in listed] == [child, other, parent]
    assert [one["parent_id"] for one in listed] == [parent, None, None]
    assert [one["available_at"] for one in listed][::2] == [later, later]
    of_batch = known.get("/v1/notifications", f"batch_id={batch['batch_id']}").json["data"]
    assert [one["id"] for one in of_batch] == [other, parent]
    stranger = known.having(organization_id=SECOND_ORGANIZATION)
    assert stranger.get("/v1/notifications", f"recipient_id={ADA}").json["data"] == []


def test_the_list_by_recipient_finds_what_was_decided_and_what_was_erased(
    known: Api, owner: psycopg.Connection
) -> None:
    first, second = ids_of(known.post_batch(refer(), refer()))
    owner.execute("UPDATE notifications SET contact_hash = %s WHERE id = %s", (bytes(32), first))
    query = f"recipient_id={ADA}"
    found = known.get("/v1/notifications", query).json["data"]
    assert [one["id"] for one in found] == [str(second), str(first)]
    erase(known)
    assert len(known.get("/v1/notifications", query).json["data"]) == 2


def test_an_unknown_category_is_bulk_by_reference_too(
    known: Api, owner: psycopg.Connection
) -> None:
    known.post_batch(refer(category="news"), refer(), refer(category="news", **SEVERAL))
    assert [row["stream"] for row in rows(owner)] == ["bulk", "transactional", "bulk", "bulk"]


def test_other_doors_take_items_one_by_one_with_ids_of_their_own(
    known: Api, database: Database, owner: psycopg.Connection
) -> None:
    items = [
        refer(event_id="e"),
        refer(recipient_id="nobody"),
        receipt(),
        refer(event_id="e"),
        refer(event_id="e", content="Other"),
        "no item",
        receipt(**SEVERAL),
    ]
    judged = admit_each(items, deployment(database), FIRST_ORGANIZATION)
    bad = {n: one.faults for n, one in enumerate(judged) if isinstance(one, ValidationFailed)}
    assert {n: [(fault.pointer, fault.code) for fault in faults] for n, faults in bad.items()} == {
        1: [("/recipient_id", "unknown_recipient")],
        5: [("", "wrong_type")],
    }
    good = [one for one in judged if isinstance(one, NewNotification)]
    ids = [new_id(owner) for _ in good]
    taken = database.run(
        lambda connection: accept_requests(
            connection,
            organization_id=FIRST_ORGANIZATION,
            requests=list(zip(ids, good, strict=True)),
        )
    )
    assert [one.id for one in taken] == ids
    assert [one.duplicate_of for one in taken] == [None, None, ids[0], None, None]
    assert [one.is_conflict for one in taken] == [False, False, False, True, False]
    stored = {row["id"]: row for row in rows(owner)}
    assert stored.keys() >= {ids[0], ids[1], ids[4]}
    assert len(stored) == 4
    assert stored[ids[1]]["template_version"] == 1
    assert [row["parent_id"] for row in stored.values() if row["parent_id"]] == [ids[4]]


def test_a_thousand_references_are_looked_up_at_once(
    known: Api, login: Login, owner: psycopg.Connection
) -> None:
    """Two statements find what all of them refer to, and equal words are tried once."""
    statements: list[str] = []
    with contextlib.closing(Database(counting(login, statements))) as database:
        reply = start(database).post_batch(*[receipt(reference=f"r-{n}") for n in range(1000)])
    assert reply.status == 202
    assert len(rows(owner)) == 1000
    looks = [
        text for text in statements if "FROM recipients" in text or "template_versions" in text
    ]
    assert len(looks) == 3, looks  # recipients once more where they are inserted
