"""Suppressions by the many, as the console takes them in and gives them out."""

import json
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.core.recipient import normalise, recipient_hash
from functions.core.suppression_line import read_line
from functions.store.connection import Database
from functions.store.suppression import NewSuppression, add_suppression, lift_suppression
from functions.store.suppression_list import add_suppressions
from tests.fakes import HeldDatabase
from tests.operating import action, operator_of
from tests.operators import Operator, audit, losing_commit, operator_database, operator_with
from tests.reports import HASH_KEY, add_known
from tests.steps import begin_one, connected, lease, opening_of, waiting


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, None, {})


@pytest.fixture
def tenant(operator: Operator) -> str:
    return operator.ask("tenant.create", name="acme")["id"]


@pytest.fixture
def other_tenant(operator: Operator) -> str:
    return operator.ask("tenant.create", name="other")["id"]


def line(number: int, recipient: str = "ada@example.com", **cells: str) -> dict[str, Any]:
    first = {"channel": "email", "recipient": recipient, "reason": "hard_bounce"}
    return {"line": number, **first, **cells}


def take(operator: Operator, tenant: str, *lines: dict[str, Any]) -> list[tuple[int, str]]:
    """Import lines; return (number, fate or what is wrong) of each."""
    answer = operator.ask("suppressions.import", organization_id=tenant, lines=list(lines))
    return [(one["line"], one.get("code", one["fate"])) for one in answer["results"]]


def give(operator: Operator, tenant: str, **filters: Any) -> list[dict[str, Any]]:
    """Export everything, in small pages."""
    rows: list[dict[str, Any]] = []
    after = None
    while True:
        page = operator.ask(
            "suppressions.export", organization_id=tenant, limit=2, after=after, **filters
        )
        rows += page["data"]
        after = page["next"]
        if after is None:
            return rows


def newest(recipient: str, *, category: str | None = None) -> NewSuppression:
    return NewSuppression(
        channel="email",
        recipient=recipient,
        recipient_hash=recipient_hash(HASH_KEY, "email", recipient),
        category=category,
        reason="operator",
        source=None,
        source_at=None,
        evidence=None,
    )


def test_each_line_has_its_own_fate_in_the_order_of_the_lines(
    operator: Operator, tenant: str
) -> None:
    assert take(
        operator,
        tenant,
        line(2, "zoe@example.com"),
        line(3, "nobody"),
        line(4, "ada@example.com", category="news"),
        line(7, "Zoe@EXAMPLE.com"),
        line(8, "ada@example.com"),
        line(9, "bob@example.com", active="false", kind="suppress"),
        line(10, "bob@example.com", reason="because"),
    ) == [
        (2, "added"),
        (3, "invalid_email"),
        (4, "added"),
        (7, "already"),
        (8, "added"),
        (9, "skipped"),
        (10, "wrong_type"),
    ]
    assert {(row["recipient"], row["category"]) for row in give(operator, tenant)} == {
        ("zoe@example.com", None), ("ada@example.com", "news"), ("ada@example.com", None),
    }  # fmt: skip


def test_the_same_file_again_changes_nothing(
    owner: psycopg.Connection, operator: Operator, tenant: str
) -> None:
    """Also where it states several facts of one address, of which the last alone is the newest."""
    lines = [
        line(2),
        line(3, reason="complaint", source="ses", source_at="2026-01-31T08:00:00Z"),
        line(4, reason="complaint", source="ses", source_at="2026-02-01T08:00:00Z"),
        line(5, reason="complaint", evidence='{"a": 1, "b": [true]}'),
        line(6, category="news"),
    ]
    first = take(operator, tenant, *lines)
    assert first == [(2, "added"), (3, "added"), (4, "added"), (5, "added"), (6, "added")]
    before = owner.execute("SELECT * FROM suppressions ORDER BY id").fetchall()
    assert {fate for _, fate in take(operator, tenant, *lines)} == {"already"}
    said_less = line(9, reason="complaint", source="ses")
    assert take(operator, tenant, said_less) == [(9, "already")]
    assert owner.execute("SELECT * FROM suppressions ORDER BY id").fetchall() == before


def test_within_one_call_a_line_that_says_less_is_known_from_the_one_before(
    operator: Operator, tenant: str
) -> None:
    assert take(
        operator,
        tenant,
        line(2, source="ses", evidence='{"b":1,"a":2}'),
        line(3, evidence=' {"a": 2, "b": 1} '),
        line(4, source="import"),
        line(5),
        line(6, source="import"),
    ) == [(2, "added"), (3, "already"), (4, "added"), (5, "already"), (6, "already")]


def test_what_was_lifted_is_stated_anew(
    operator: Operator, tenant: str, database: Database
) -> None:
    take(operator, tenant, line(2))
    lift_suppression(database, organization_id=UUID(tenant), fact=newest("ada@example.com"))
    assert give(operator, tenant) == []
    assert take(operator, tenant, line(2)) == [(2, "added")]
    assert len(give(operator, tenant)) == 1


def test_the_category_is_part_of_what_is_stated(operator: Operator, tenant: str) -> None:
    assert take(operator, tenant, line(2)) == [(2, "added")]
    assert take(operator, tenant, line(2, category="news")) == [(2, "added")]
    assert take(operator, tenant, line(2, category="news")) == [(2, "already")]


SPELLINGS = {
    "email": [
        "Ada.Lovelace@bücher.example",
        "ada.lovelace@BÜCHER.example",
        "ADA.LOVELACE@xn--bcher-kva.example",
        "ada.lovelace@XN--BCHER-KVA.EXAMPLE",
        "  ada.lovelace@bu\u0308cher.example ",
    ],
    "sms": [
        "+442079460018",
        "+44 20 7946 0018",
        "+44 (0)20 7946-0018",
        "+44-(20)-7946.0018",
        " +44 207 946 00 18 ",
    ],
}


@pytest.mark.parametrize("channel", sorted(SPELLINGS))
def test_every_accepted_spelling_of_an_address_matches_and_nobody_elses_does(
    owner: psycopg.Connection,
    operator: Operator,
    tenant: str,
    other_tenant: str,
    database: Database,
    channel: str,
) -> None:
    first, *others = SPELLINGS[channel]
    cells = {"channel": channel, "reason": "recipient_choice"}
    assert take(operator, tenant, line(2, first, **cells)) == [(2, "added")]
    for number, spelling in enumerate(others):
        assert take(operator, tenant, line(number + 3, spelling, **cells)) == [
            (number + 3, "already")
        ], spelling
    for spelling in SPELLINGS[channel]:
        address = normalise(channel, spelling.strip())
        ids = [
            add_known(owner, channel=channel, recipient=address, organization_id=UUID(id))[0]
            for id in (tenant, other_tenant)
        ]
        leases = {one.id: one for one in lease(database, channel=channel)}
        verdicts = [begin_one(database, opening_of(leases[id])).verdict for id in ids]
        assert verdicts == ["suppressed", "go"], spelling
    assert give(operator, other_tenant) == []
    assert [row["channel"] for row in give(operator, tenant)] == [channel]


def test_the_other_channel_is_untouched(
    owner: psycopg.Connection, operator: Operator, tenant: str, database: Database
) -> None:
    number = "+442079460018"
    take(operator, tenant, line(2, number, channel="sms"))
    (id,) = add_known(owner, channel="push", recipient=number, organization_id=UUID(tenant))
    (leased,) = lease(database, channel="push")
    assert leased.id == id
    assert begin_one(database, opening_of(leased)).verdict == "go"


def test_what_is_given_out_is_known_when_it_comes_in_again(
    owner: psycopg.Connection, operator: Operator, tenant: str, other_tenant: str
) -> None:
    hashed = recipient_hash(HASH_KEY, "email", "gone@example.com").hex()
    take(
        operator,
        tenant,
        line(2, "+442079460018", channel="sms", source="a, \"b\"\n'c'"),
        line(3, "", recipient_hash=hashed, category="news", reason="recipient_choice"),
        line(4, evidence='{"text": "é,\\n\\"", "number": 12345678901234567890123}'),
        line(5, source_at="2026-01-31T08:00:00.123456+01:00"),
        line(6, reason="complaint"),
    )
    rows = give(operator, tenant)
    assert [row["source_at"] for row in rows if row["recipient"] == "ada@example.com"]
    (unnamed,) = [row for row in rows if row["recipient"] is None]
    assert unnamed["recipient_hash"] == hashed
    assert all(row["recipient_hash"] is None for row in rows if row["recipient"])
    again = [
        {"line": number, **{name: text for name, text in row.items() if text is not None}}
        for number, row in enumerate(rows, start=2)
    ]
    assert {fate for _, fate in take(operator, tenant, *again)} == {"already"}
    assert {fate for _, fate in take(operator, other_tenant, *again)} == {"added"}
    assert give(operator, other_tenant) == rows


def test_only_what_decides_is_given_out_as_active(
    operator: Operator, tenant: str, database: Database
) -> None:
    organization_id = UUID(tenant)
    take(operator, tenant, line(2), line(3, reason="complaint"), line(4, "bob@example.com"))
    take(operator, tenant, line(5, "cy@example.com"))
    unsubscribed = line(6, "cy@example.com", source="unsubscribe", reason="recipient_choice")
    take(operator, tenant, unsubscribed)
    lift_suppression(database, organization_id=organization_id, fact=newest("bob@example.com"))
    add_suppression(
        database, organization_id=organization_id, fact=newest("bob@example.com", category="news")
    )
    active = {(row["recipient"], row["category"], row["reason"]) for row in give(operator, tenant)}
    assert active == {
        ("ada@example.com", None, "complaint"),
        ("bob@example.com", "news", "operator"),
        # What is transactional is not stopped by a link, and by the fact before it still is.
        ("cy@example.com", None, "hard_bounce"),
        ("cy@example.com", None, "recipient_choice"),
    }
    history = give(operator, tenant, active=False)
    assert len(history) == 7
    of_bob = [row for row in history if row["recipient"] == "bob@example.com"]
    assert [(row["kind"], row["active"]) for row in of_bob] == [
        ("suppress", "false"), ("lift", "false"), ("suppress", "true"),
    ]  # fmt: skip
    again = [
        {"line": number, **{name: text for name, text in row.items() if text is not None}}
        for number, row in enumerate(history, start=2)
    ]
    fates = [fate for _, fate in take(operator, tenant, *again)]
    assert sorted(fates) == ["already"] * 4 + ["skipped"] * 3
    assert {row["channel"] for row in give(operator, tenant, channel="sms")} == set()


def test_a_page_is_cut_where_its_answer_would_be_too_long(operator: Operator, tenant: str) -> None:
    evidence = json.dumps("é" * 8_000)
    lines = [line(n, f"u{n}@example.com", evidence=evidence) for n in range(1, 61)]
    for start in (0, 30):
        take(operator, tenant, *lines[start : start + 30])
    page = operator.ask("suppressions.export", organization_id=tenant, limit=500)
    assert 1 < len(page["data"]) < 60
    assert len(json.dumps(page)) < 3_000_000
    recipients = [row["recipient"] for row in page["data"]]
    while page["next"]:
        page = operator.ask(
            "suppressions.export", organization_id=tenant, limit=500, after=page["next"]
        )
        recipients += [row["recipient"] for row in page["data"]]
    assert sorted(recipients) == sorted(one["recipient"] for one in lines)


def test_the_audit_says_who_took_in_how_many_and_holds_no_address(
    owner: psycopg.Connection, operator: Operator, tenant: str
) -> None:
    take(operator, tenant, line(2), line(3), line(4, "nobody"), line(5, active="false"))
    give(operator, tenant)
    kept = [one for one in audit(owner) if one.command.startswith("suppressions")]
    assert [(one.command, one.actor) for one in kept] == [("suppressions.import", "ada@laptop")]
    assert kept[0].arguments == {"organization_id": tenant, "lines": 4}
    assert kept[0].result == {"added": 1, "already_known": [1], "refused": 1, "skipped": 1}
    assert "example.com" not in str(kept)


def test_an_import_repeated_after_a_lost_commit_tells_what_it_had_come_to(
    owner: psycopg.Connection, login: Login, operator: Operator, tenant: str
) -> None:
    take(operator, tenant, line(1, "bob@example.com"))
    for number in (3, 4):  # after what looks for the tenant and the action's id
        with losing_commit(login, number=number) as lossy:
            losing = operator_with(lossy, None, {})
            fates = take(losing, tenant, line(2), line(3, "bob@example.com"))
        expected = "added" if number == 3 else "already"
        assert fates == [(2, expected), (3, "already")]
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (2,)


BAD_LINES: list[Any] = [
    None,
    [],
    "email,ada@example.com",
    [{}],
    [line(1)] * 2,
    [line(0)],
    [line(1) | {"line": True}],
    [line(1) | {"line": 2**31}],
    [line(1) | {"colour": "red"}],
    [line(1) | {"recipient": None}],
    [line(1) | {"evidence": {}}],
    [line(1, "x" * 65_537)],
    [line(number) for number in range(1, 502)],
]


@pytest.mark.parametrize("lines", BAD_LINES)
def test_what_is_no_list_of_lines_is_refused(operator: Operator, tenant: str, lines: Any) -> None:
    code, _ = operator.refusal("suppressions.import", organization_id=tenant, lines=lines)
    assert code == "invalid"


@pytest.mark.parametrize(
    "arguments",
    [
        {"after": "x"},
        {"after": 1},
        {"after": "email:zz:01900000-0000-7000-8000-000000000001"},
        {"channel": "fax"},
        {"limit": 501},
        {"active": "yes"},
    ],
)
def test_what_is_no_page_is_refused(
    operator: Operator, tenant: str, arguments: dict[str, Any]
) -> None:
    code, _ = operator.refusal("suppressions.export", organization_id=tenant, **arguments)
    assert code == "invalid"


def test_a_tenant_that_there_is_not_has_no_suppressions(operator: Operator) -> None:
    nobody = "01900000-0000-7000-8000-0000000000ff"
    for command, arguments in (
        ("suppressions.import", {"lines": [line(1)]}),
        ("suppressions.export", {}),
    ):
        code, _ = operator.refusal(command, organization_id=nobody, **arguments)
        assert code == "not_found"


def _add(database: Database, tenant: str, recipients: Sequence[str]) -> set[int]:
    facts = [
        read_line({"channel": "email", "recipient": one, "reason": "invalid"}, hash_key=HASH_KEY)
        for one in recipients
    ]
    return add_suppressions(database, facts, organization_id=UUID(tenant), action=action(), told={})


LOCKS_IN_ORDER = """
    SELECT recipient
      FROM (SELECT a.recipient, hashtextextended(concat_ws('|', %(tenant)s::text, 'email',
                                    encode(a.recipient_hash, 'hex')), 0) AS key
              FROM unnest(%(recipients)s::text[], %(hashes)s::bytea[])
                   AS a (recipient, recipient_hash)) keys
     ORDER BY key
"""
FREE = """
    SELECT a.recipient
      FROM unnest(%(recipients)s::text[], %(hashes)s::bytea[]) AS a (recipient, recipient_hash)
     WHERE pg_try_advisory_xact_lock(hashtextextended(
               concat_ws('|', %(tenant)s::text, 'email', encode(a.recipient_hash, 'hex')), 0))
"""


def test_addresses_are_locked_in_one_order_whatever_the_order_of_the_lines(
    owner: psycopg.Connection, login: Login, tenant: str
) -> None:
    recipients = [f"{name}@example.com" for name in ("a", "b", "c")]
    hashes = [recipient_hash(HASH_KEY, "email", one) for one in recipients]
    known = {"tenant": tenant, "recipients": recipients, "hashes": hashes}
    ordered = [row[0] for row in owner.execute(LOCKS_IN_ORDER, known)]
    who = operator_of(login)
    for lines in (ordered, ordered[::-1]):
        with (
            connected(who, "holder", "probe", kind=HeldDatabase) as (holding, probing),
            connected(who, "import", kind=Database) as (importing,),
        ):
            _add(holding, tenant, ordered[1:2])
            with waiting(
                owner,
                "import",
                lambda: _add(importing, tenant, lines),  # noqa: B023
            ) as known_places:
                free = probing.run(lambda connection: connection.execute(FREE, known).fetchall())
                probing.rollback()
                holding.rollback()
            # It holds the first and waits for the second; the last is anybody's.
            assert free == [(ordered[2],)]
            known_places.result()


def test_two_files_of_the_same_addresses_in_opposite_order_both_come_in_once(
    owner: psycopg.Connection, login: Login, tenant: str
) -> None:
    recipients = [f"user{number}@example.com" for number in range(300)]
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = owner.execute(deadlocks).fetchone()
    with (
        connected(operator_of(login), "one", "other", kind=Database) as databases,
        ThreadPoolExecutor(2) as threads,
    ):
        orders = (recipients, recipients[::-1])
        known = list(threads.map(_add, databases, [tenant] * 2, orders))
    assert sum(len(one) for one in known) == len(recipients)
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (len(recipients),)
    assert owner.execute(deadlocks).fetchone() == before


def test_an_import_waits_for_a_fact_that_is_just_being_added_to_the_same_address(
    owner: psycopg.Connection, login: Login, tenant: str
) -> None:
    fact = NewSuppression(
        channel="email",
        recipient="a@example.com",
        recipient_hash=recipient_hash(HASH_KEY, "email", "a@example.com"),
        category=None,
        reason="invalid",
        source=None,
        source_at=None,
        evidence=None,
    )
    with (
        connected(login, "door", kind=HeldDatabase) as (door,),
        connected(operator_of(login), "import", kind=Database) as (importing,),
    ):
        add_suppression(door, organization_id=UUID(tenant), fact=fact)
        with waiting(owner, "import", lambda: _add(importing, tenant, ["a@example.com"])) as known:
            door.commit()
        assert known.result() == {0}
