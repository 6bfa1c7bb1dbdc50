"""Recipients by reference: a whole document in, the same one out, another version per change."""

import copy
import json
import tracemalloc
from typing import Any

import psycopg
import pytest
from pydantic import TypeAdapter

from functions.core.login import Login
from functions.core.recipient import recipient_hash
from functions.ingest.recipient_schemas import MAX_PREFERENCES, Recipient
from functions.store.connection import Database
from tests.api import HASH_KEY, Api, Reply, start
from tests.erasing import ADA, delete, put
from tests.fakes import SECOND_ORGANIZATION, HeldDatabase
from tests.steps import connected, waiting


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def get(api: Api, recipient_id: str = "ada") -> Reply:
    return api.get(f"/v1/recipients/{recipient_id}")


def having(**members: Any) -> dict[str, Any]:
    """Return the document with other members; those that are None are left out."""
    changed = {**copy.deepcopy(ADA), **members}
    return {name: value for name, value in changed.items() if value is not None}


def test_a_document_comes_out_as_it_went_in_normalised(api: Api, owner: psycopg.Connection) -> None:
    created = put(api)
    assert created.status == 201, created
    TypeAdapter(Recipient).validate_json(created.text)
    assert created.json["contact_points"] == [
        {"channel": "email", "address": "Ada@example.com", "verified": True},
        {"channel": "sms", "address": "+15550100001", "verified": True},
        {"channel": "push", "address": "sim-ok.1-Adas-Telephone-0123456789", "verified": False},
        {
            "channel": "webhook",
            "address": "https://hooks.example.net/users/ada?x=1",
            "verified": False,
        },
    ]
    assert (created.json["locale"], created.json["time_zone"]) == ("de-AT", "Europe/Vienna")
    assert created.json["quiet_hours"] == {"start": "22:00", "end": "07:00"}
    assert created.json["preferences"] == {"news": {"email": True, "sms": False}}
    read = get(api)
    assert (read.status, read.json) == (200, created.json)
    derived = "SELECT channel, address_hash, country, origin FROM contact_points ORDER BY place"
    hashed = [
        (channel, recipient_hash(HASH_KEY, channel, address))
        for channel, address in (
            ("email", "ada@example.com"),
            ("sms", "+15550100001"),
            ("push", "sim-ok.1-Adas-Telephone-0123456789"),
            ("webhook", "https://hooks.example.net/users/ada?x=1"),
        )
    ]
    rows = owner.execute(derived).fetchall()
    assert [(channel, hash_) for channel, hash_, *_ in rows] == hashed
    assert [tuple(more) for _, _, *more in rows] == [
        (None, None),
        ("US", None),
        (None, None),
        (None, "https://hooks.example.net"),
    ]


def test_the_least_there_can_be_is_no_address_at_all(api: Api) -> None:
    created = put(api, {"contact_points": []})
    assert created.status == 201
    known: dict[str, Any] = {"contact_points": [], "preferences": {}}
    unknown = {"locale": None, "time_zone": None, "quiet_hours": None}
    assert created.json.items() >= (known | unknown).items()
    same: dict[str, Any] = {"contact_points": [], **unknown, "preferences": None}
    assert put(api, same).json == created.json
    assert put(api, {"contact_points": [], "preferences": {"news": {}}}).json == created.json


def test_only_what_says_something_else_makes_another_version(api: Api) -> None:
    first = put(api).json
    same = having(locale="DE-at")
    same["contact_points"][1]["address"] = "+15550100001"
    again = put(api, same)
    assert (again.status, again.json) == (200, first)
    versions = [first["version"]]
    other_order = [*reversed(ADA["contact_points"])]
    changes: list[dict[str, Any]] = [
        {"locale": "en"},
        {"time_zone": "Europe/Berlin"},
        {"quiet_hours": {"start": "22:00", "end": "06:59"}},
        {"preferences": {"news": {"email": False}}},
        {"preferences": {}},
        {"contact_points": other_order},
        {"contact_points": other_order[1:]},
        {},
    ]
    for change in changes:
        changed = put(api, having(**change))
        assert changed.status == 200, changed
        assert get(api).json == changed.json
        versions.append(changed.json["version"])
        assert changed.json["created_at"] == first["created_at"]
    assert versions == sorted(set(versions))
    assert {**get(api).json, "version": 0, "updated_at": 0} == {
        **first,
        "version": 0,
        "updated_at": 0,
    }


def test_one_erased_and_made_again_has_none_of_its_old_versions(api: Api) -> None:
    first = put(api).json["version"]
    assert delete(api).status == 204
    again = put(api)
    assert again.status == 201
    assert again.json["version"] > first


def test_hashes_of_earlier_addresses_stay(api: Api, owner: psycopg.Connection) -> None:
    put(api)
    put(api, {"contact_points": [{"channel": "email", "address": "lovelace@example.com"}]})
    counts = "SELECT (SELECT count(*) FROM contact_points), (SELECT count(*) FROM contact_hashes)"
    assert owner.execute(counts).fetchone() == (1, 5)


def test_ids_are_read_as_they_are_meant(api: Api) -> None:
    for written, meant in (("a:b", "a:b"), ("a%3Ab%2e.", "a:b.."), ("A" * 128, "A" * 128)):
        reply = put(api, recipient_id=written)
        assert (reply.status, reply.json["recipient_id"]) == (201, meant)
        assert get(api, meant).json == reply.json
    for malformed in ("A" * 129, "a b", "a%20b", "a%2Fb", "ada@x", "ä", "%0a", "a%0A", "a%00"):
        for reply in (put(api, recipient_id=malformed), get(api, malformed)):
            assert (reply.status, reply.code) == (404, "not_found"), malformed
        assert delete(api, malformed).code == "not_found"


def test_nobody_elses_recipient_is_there(api: Api) -> None:
    put(api)
    stranger = api.having(organization_id=SECOND_ORGANIZATION)
    assert get(stranger).code == "not_found"
    assert delete(stranger).code == "not_found"
    assert put(stranger, having(locale="en")).status == 201
    assert delete(stranger).status == 204
    assert get(api).json["locale"] == "de-AT"


def test_documents_need_the_scope_admin_to_be_written(api: Api) -> None:
    put(api)
    reader = api.having(scopes="send read")
    assert get(reader).status == 200
    for reply in (put(reader), delete(reader)):
        assert (reply.status, reply.code) == (403, "insufficient_scope")
    assert get(api.having(scopes="send")).code == "insufficient_scope"
    assert reader.call("POST", "/v1/erase", body={}).code == "insufficient_scope"


POINT: dict[str, Any] = {"channel": "email", "address": "a@example.com"}
MANY = [{"channel": "email", "address": f"a{number}@example.com"} for number in range(21)]

BAD: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"contact_points": None}, [("/contact_points", "required")]),
    ({"contact_points": {}}, [("/contact_points", "wrong_type")]),
    ({"contact_points": [7]}, [("/contact_points/0", "wrong_type")]),
    ({"contact_points": [{"channel": "email"}]}, [("/contact_points/0/address", "required")]),
    (
        {"contact_points": [{"channel": "fax", "address": 7, "verified": 1, "x": 0}]},
        [
            ("/contact_points/0/channel", "not_allowed"),
            ("/contact_points/0/address", "wrong_type"),
            ("/contact_points/0/verified", "wrong_type"),
            ("/contact_points/0/x", "unknown_field"),
        ],
    ),
    (
        {
            "contact_points": [
                {"channel": "email", "address": "a@b@c"},
                {"channel": "sms", "address": "0664 1234567"},
                {"channel": "push", "address": "a b"},
                {"channel": "webhook", "address": "http://example.com"},
            ]
        },
        [
            ("/contact_points/0/address", "invalid_email"),
            ("/contact_points/1/address", "invalid_phone"),
            ("/contact_points/2/address", "invalid_token"),
            ("/contact_points/3/address", "invalid_url"),
        ],
    ),
    (
        {"contact_points": [POINT, {"channel": "email", "address": "A@EXAMPLE.com"}]},
        [("/contact_points/1/address", "not_allowed")],
    ),
    ({"contact_points": MANY}, [("/contact_points", "too_many")]),
    ({"locale": 7}, [("/locale", "wrong_type")]),
    ({"locale": ""}, [("/locale", "not_allowed")]),
    ({"locale": "en_US"}, [("/locale", "not_allowed")]),
    ({"locale": "german please"}, [("/locale", "not_allowed")]),
    ({"locale": "de\n"}, [("/locale", "not_allowed")]),
    ({"locale": "en" + "-abcdefgh" * 9}, [("/locale", "too_long")]),
    ({"time_zone": 1}, [("/time_zone", "wrong_type")]),
    *(
        ({"time_zone": zone}, [("/time_zone", "not_allowed")])
        for zone in (
            "",
            "Mars/Olympus",
            "europe/vienna",
            "CEST",
            "+01:00",
            "localtime",
            "posix/Europe/Vienna",
            "right/UTC",
            "../../etc/passwd",
            "/usr/share/zoneinfo/UTC",
            "Europe/Vienna\n",
            "Europe",
        )
    ),
    ({"quiet_hours": []}, [("/quiet_hours", "wrong_type")]),
    (
        {"quiet_hours": {"begin": "22:00"}},
        [
            ("/quiet_hours/start", "required"),
            ("/quiet_hours/end", "required"),
            ("/quiet_hours/begin", "unknown_field"),
        ],
    ),
    *(
        (
            {"quiet_hours": {"start": clock, "end": "07:00"}},
            [("/quiet_hours/start", "invalid_time")],
        )
        for clock in (
            "24:00",
            "7:00",
            "22:00:00",
            "22:60",
            "22",
            "",
            "22:00Z",
            "22:00+01:00",
            "10 pm",
            "22:00\n",
            "２２:00",
        )
    ),
    ({"quiet_hours": {"start": 22, "end": "07:00"}}, [("/quiet_hours/start", "wrong_type")]),
    (
        {"quiet_hours": {"start": "07:00", "end": "07:00"}},
        [("/quiet_hours/end", "not_allowed")],
    ),
    ({"time_zone": None}, [("/time_zone", "required")]),
    ({"preferences": []}, [("/preferences", "wrong_type")]),
    ({"preferences": {"News!": {"email": True}}}, [("/preferences/News!", "not_allowed")]),
    ({"preferences": {"news": True}}, [("/preferences/news", "wrong_type")]),
    ({"preferences": {"news": {"fax": True}}}, [("/preferences/news/fax", "not_allowed")]),
    ({"preferences": {"news": {"email": 1}}}, [("/preferences/news/email", "wrong_type")]),
    ({"preferences": {"news": {"email": None}}}, [("/preferences/news/email", "wrong_type")]),
    ({"time_zone": "UTC", "name": "Ada"}, [("/name", "unknown_field")]),
]


@pytest.fixture(scope="module")
def refusing() -> Api:
    """An API that never comes as far as its database."""

    def connect() -> psycopg.Connection:
        raise psycopg.OperationalError("nothing is stored of what is refused")

    return start(Database(connect))


@pytest.mark.parametrize(("members", "faults"), BAD, ids=lambda value: json.dumps(value)[:60])
def test_what_cannot_be_is_refused_with_every_fault(
    refusing: Api, members: dict[str, Any], faults: list[tuple[str, str]]
) -> None:
    reply = put(refusing, having(**members))
    assert (reply.status, reply.code) == (422, "validation_failed")
    assert reply.faults == faults


def test_what_is_no_time_zone_is_told_what_one_is_like(refusing: Api) -> None:
    (fault,) = put(refusing, having(time_zone="CEST")).json["errors"]
    assert fault["detail"] == (
        "It is no time zone of the IANA database, such as Europe/Vienna or UTC."
    )


def test_faults_of_all_kinds_are_told_at_once(refusing: Api) -> None:
    document = {
        "contact_points": [{"channel": "email", "address": "nobody"}, {"channel": "sms"}],
        "locale": "?",
        "time_zone": "Mars",
        "quiet_hours": {"start": "7", "end": "24:00"},
        "preferences": {"news": {"email": "yes"}},
        "colour": "blue",
    }
    assert sorted(put(refusing, document).faults) == [
        ("/colour", "unknown_field"),
        ("/contact_points/0/address", "invalid_email"),
        ("/contact_points/1/address", "required"),
        ("/locale", "not_allowed"),
        ("/preferences/news/email", "wrong_type"),
        ("/quiet_hours/end", "invalid_time"),
        ("/quiet_hours/start", "invalid_time"),
        ("/time_zone", "not_allowed"),
    ]
    for text in ("[]", '"text"', "7", "null"):
        reply = refusing.call("PUT", "/v1/recipients/ada", text=text)
        assert reply.faults == [("", "wrong_type")]


def test_a_million_members_are_counted_and_not_judged(refusing: Api) -> None:
    many = {f"{number:x}": 0 for number in range(300_000)}
    bodies: list[tuple[Any, str]] = [
        (many, ""),
        ({"contact_points": [0] * 1_000_000}, "/contact_points"),
        ({"contact_points": [many]}, "/contact_points/0"),
        ({"contact_points": [], "quiet_hours": many}, "/quiet_hours"),
        ({"contact_points": [], "preferences": many}, "/preferences"),
        ({"contact_points": [], "preferences": {"news": many}}, "/preferences"),
    ]
    for body, pointer in bodies:
        text = json.dumps(body, separators=(",", ":"))
        tracemalloc.start()
        reply = refusing.call("PUT", "/v1/recipients/ada", text=text)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert reply.faults == [(pointer, "too_many")]
        assert peak < 200_000_000


def test_as_many_preferences_as_are_allowed_are_kept(api: Api) -> None:
    channels = ("email", "sms", "push", "webhook")
    most = {
        f"category-{number}": dict.fromkeys(channels, number % 2 == 0)
        for number in range(MAX_PREFERENCES // len(channels))
    }
    assert put(api, {"contact_points": [], "preferences": most}).json["preferences"] == most
    more = {**most, "one-more": {"email": True}}
    assert put(api, {"contact_points": [], "preferences": more}).faults == [
        ("/preferences", "too_many")
    ]


def test_twins_of_a_document_come_one_after_the_other(
    login: Login, owner: psycopg.Connection
) -> None:
    with connected(login, "first", kind=HeldDatabase) as (held,):
        assert put(start(held)).status == 201
        with connected(login, "second", kind=Database) as (second,):
            other = start(second)
            with waiting(owner, "second", lambda: put(other, having(locale="en"))) as replaced:
                held.commit()
            assert replaced.result().status == 200
            assert get(other).json["locale"] == "en"
        assert put(start(held), having(locale="fr")).status == 200
        with connected(login, "third", kind=Database) as (third,):
            same = start(third)
            with waiting(owner, "third", lambda: put(same, having(locale="fr"))) as equal:
                held.commit()
            assert (equal.result().status, equal.result().json) == (200, get(same).json)
    assert owner.execute("SELECT count(*) FROM contact_points").fetchone() == (4,)


def test_a_document_beside_an_erasure_comes_before_or_after_it(
    login: Login, owner: psycopg.Connection
) -> None:
    with connected(login, "held", kind=HeldDatabase) as (held,):
        assert put(start(held)).status == 201
        held.commit()
        assert put(start(held), having(locale="en")).status == 200
        with connected(login, "waits", kind=Database) as (waits,):
            other = start(waits)
            with waiting(owner, "waits", lambda: delete(other)) as erased:
                held.commit()  # written before: erased whole
            assert erased.result().status == 204
            assert get(other).code == "not_found"
            assert put(other).status == 201
        held.run(lambda connection: connection.execute("DELETE FROM recipients"))
        with connected(login, "later", kind=Database) as (later,):
            other = start(later)
            with waiting(owner, "later", lambda: put(other)) as written:
                held.commit()  # written after: new again, and whole
            assert written.result().status == 201
            assert len(get(other).json["contact_points"]) == 4
