"""`sendoff suppressions`: files in and out, what is said of each line, and how the commands end."""

import csv
import io
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from functions.cli.main import app
from functions.core.login import Login
from functions.core.recipient import recipient_hash
from tests.command_line import Ended, Operator, operator_at
from tests.fake_console import Trouble, no, own_environment
from tests.operators import Operator as Asking
from tests.operators import asked, operator_database, operator_with
from tests.reports import HASH_KEY

ORGANIZATION = "0199aaaa-0000-7000-8000-0000000000aa"
HEADER = "channel,recipient,category,reason,source,source_at,evidence"


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


@contextmanager
def working(operator: Operator, login: Login) -> Generator[Asking]:
    """Let the operator's console be the product's own, with the database behind it."""
    with operator_database(login) as database:
        asking = operator_with(database, None, {})

        def answering(command: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
            return lambda arguments: asking.answer(asked(command, **arguments))

        for command in ("suppressions.import", "suppressions.export", "tenant.list"):
            operator.console.will(command, answering(command))
        yield asking


def written(path: Path, content: str, encoding: str = "utf-8") -> Path:
    path.write_text(content, encoding=encoding, newline="")
    return path


def all_added(arguments: dict[str, Any]) -> dict[str, Any]:
    results = [{"line": line["line"], "fate": "added"} for line in arguments["lines"]]
    return {"action_id": "a", "results": results}


def import_file(operator: Operator, path: Path, *more: str) -> Ended:
    return operator.run("suppressions", "import", str(path), "--organization", ORGANIZATION, *more)


def test_a_file_comes_in_and_goes_out_and_is_known_when_it_comes_again(
    operator: Operator, login: Login, tmp_path: Path
) -> None:
    hashed = recipient_hash(HASH_KEY, "email", "gone@example.com").hex()
    rows = [
        "\ufeffReason,recipient,channel,evidence,source_at,source,category,recipient_hash",
        "complaint,+44 20 7946 0018,sms,,2026-01-31T08:00:00+01:00,carrier,,",
        'hard_bounce,Zoe@Example.com,EMAIL,"{""line"": ""1',
        '2""}",,"mail, ""old""",news,',
        "hard_bounce,ada@bücher.example,email,,,,,",
        "",
        f"recipient_choice,,email,,,,,{hashed}",
        "hard_bounce,ADA@xn--bcher-kva.example,email,,,,,",
        "hard_bounce,nobody,email,,,,,",
        "hard_bounce,zoe@example.com,email,[1],,,,",
        'hard_bounce,zoe@example.com,email,"[2]"x,,,,',
    ]
    path = written(tmp_path / "in.csv", "\r\n".join(rows) + "\r\n")
    results = tmp_path / "results.csv"
    with working(operator, login) as asking:
        tenant = asking.ask("tenant.create", name="acme")["id"]
        other = asking.ask("tenant.create", name="other")["id"]
        ended = operator.run(
            "suppressions", "import", str(path), "--organization", "acme", "--results", str(results)
        )
        assert ended.out.splitlines() == [
            "Line 3: evidence: It is not JSON, or it is empty.",
            "Line 9: recipient: It is not an email address: an ASCII part of at most 64 "
            "characters, an @, and a domain of the public Internet.",
            "Line 11: Its quotes are not those of CSV.",
            "8 lines: 4 added, 1 known already, 3 refused.",
        ]
        assert (ended.status, ended.err) == (1, "")
        with results.open(newline="") as file:
            told = [(row["line"], row["fate"], row["code"]) for row in csv.DictReader(file)]
        assert told == [
            ("2", "added", ""),
            ("3", "refused", "malformed_json"),
            ("5", "added", ""),
            ("7", "added", ""),
            ("8", "already", ""),
            ("9", "refused", "invalid_email"),
            ("10", "added", ""),
            ("11", "refused", "malformed_csv"),
        ]
        again = operator.run("suppressions", "import", str(path), "--organization", tenant)
        assert again.out.splitlines()[-1] == "8 lines: 0 added, 5 known already, 3 refused."

        out = tmp_path / "out.csv"
        ended = operator.run("suppressions", "export", "--organization", "acme", "-o", str(out))
        assert (ended.status, ended.out) == (0, f"4 suppressions written to {out}.\n")
        assert out.stat().st_mode & 0o077 == 0
        assert [path.name for path in tmp_path.glob("*.csv")].count("out.csv") == 1
        with out.open(newline="", encoding="utf-8") as file:
            exported = list(csv.DictReader(file))
        assert list(exported[0]) == [*HEADER.split(","), "recipient_hash"]
        assert [(row["channel"], row["recipient"]) for row in exported] == [
            ("email", ""),
            ("email", "ada@xn--bcher-kva.example"),
            ("email", "zoe@example.com"),
            ("sms", "+442079460018"),
        ]
        assert exported[0]["recipient_hash"] == hashed
        (carrier,) = [row for row in exported if row["channel"] == "sms"]
        assert (carrier["reason"], carrier["source"]) == ("complaint", "carrier")
        assert carrier["source_at"] == "2026-01-31T07:00:00+00:00"

        known = operator.run("suppressions", "import", str(out), "--organization", "acme")
        assert (known.status, known.out) == (0, "4 lines: 0 added, 4 known already, 0 refused.\n")
        moved = operator.run("suppressions", "import", "--organization", other, "--json", str(out))
        assert moved.document["added"] == 4
        shown = operator.run("suppressions", "export", "--organization", "other")
        assert shown.out == out.read_text(encoding="utf-8")
        one = operator.run("suppressions", "export", "--organization", "other", "--channel", "sms")
        assert len(one.out.splitlines()) == 2


def test_a_long_file_goes_in_calls_of_so_many_lines_each_and_tells_how_far_it_is(
    operator: Operator, tmp_path: Path
) -> None:
    operator.console.will("suppressions.import", all_added)
    lines = [HEADER, *(f"email,u{n}@example.com,,invalid,,,{n}" for n in range(1100))]
    ended = import_file(operator, written(tmp_path / "in.csv", "\n".join(lines)), "--json")
    calls = operator.console.asked("suppressions.import")
    assert [len(call["lines"]) for call in calls] == [500, 500, 100]
    assert {call["organization_id"] for call in calls} == {ORGANIZATION}
    assert calls[1]["lines"][0] == {
        "line": 502, "channel": "email", "recipient": "u500@example.com", "reason": "invalid",
        "evidence": "500",
    }  # fmt: skip
    assert ended.err.splitlines() == ["Imported: 500", "Imported: 1,000"]
    assert ended.status == 0
    assert ended.document == {
        "organization_id": ORGANIZATION,
        "action_ids": ["a", "a", "a"],
        "lines": 1100,
        "added": 1100,
        "already": 0,
        "skipped": 0,
        "refused": 0,
        "refused_lines": [],
    }


def test_lines_with_much_in_them_go_in_smaller_calls(operator: Operator, tmp_path: Path) -> None:
    operator.console.will("suppressions.import", all_added)
    text = "é" * 15_000
    lines = [HEADER, *(f'email,u{n}@example.com,,invalid,,,"""{text}"""' for n in range(30))]
    assert import_file(operator, written(tmp_path / "in.csv", "\n".join(lines))).status == 0
    calls = operator.console.asked("suppressions.import")
    assert sum(len(call["lines"]) for call in calls) == 30
    assert 2 <= len(calls) <= 4


def test_standard_input_is_read_as_a_file_is(operator: Operator) -> None:
    operator.console.will("suppressions.import", all_added)
    arguments = ["suppressions", "import", "-", "--organization", ORGANIZATION]
    with own_environment():
        ended = CliRunner().invoke(
            app,
            [*arguments, "--state-dir", str(operator.state_dir)],
            input=b"channel,recipient,reason\nemail,ada@example.com,invalid\n",
        )
    assert (ended.exit_code, ended.stdout) == (
        0, "1 line: 1 added, 0 known already, 0 refused.\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "The first line names the columns"),
        ("channel;recipient;reason\n", "There is no column 'channel;recipient;reason'."),
        ("channel,recipient,colour\n", "There is no column 'colour'."),
        ("channel,recipient\n", "There is no column reason."),
        ("channel,reason\n", "There is no column recipient."),
        ("channel,recipient,reason,Channel\n", "A column is named twice."),
        ("email,ada@example.com,invalid\n", "The first line names the columns"),
    ],
)
def test_a_header_that_does_not_fit_is_a_matter_of_usage(
    operator: Operator, tmp_path: Path, content: str, words: str
) -> None:
    ended = import_file(operator, written(tmp_path / "in.csv", content))
    assert ended.status == 2
    assert words in " ".join(ended.err.replace("│", " ").split())
    assert operator.console.events == []


def test_another_encoding_is_a_matter_of_usage_or_of_its_lines(
    operator: Operator, tmp_path: Path
) -> None:
    whole = f"{HEADER}\nemail,ada@example.com,,invalid,Café,,\nemail,bob@example.com,,invalid,,,\n"
    ended = import_file(operator, written(tmp_path / "in.csv", whole, "utf-16"))
    assert ended.status == 2
    operator.console.will("suppressions.import", all_added)
    ended = import_file(operator, written(tmp_path / "in.csv", whole, "latin-1"))
    assert (ended.status, ended.out.splitlines()) == (
        1,
        [
            "Line 2: It is not UTF-8, or contains U+0000.",
            "2 lines: 1 added, 0 known already, 1 refused.",
        ],
    )


def test_lines_of_another_width_are_refused_alone(operator: Operator, tmp_path: Path) -> None:
    operator.console.will("suppressions.import", all_added)
    content = (
        "channel,recipient,reason\nemail,a@example.com\nemail,b@example.com,invalid\n"
        f"email,c@example.com,invalid,x\nemail,{'d' * 60_001},invalid\n"
    )
    ended = import_file(operator, written(tmp_path / "in.csv", content))
    assert ended.out.splitlines() == [
        "Line 2: It has 2 cells, and the first line 3.",
        "Line 4: It has 4 cells, and the first line 3.",
        "Line 5: It has at most 60000 characters.",
        "4 lines: 1 added, 0 known already, 3 refused.",
    ]


def test_a_file_of_nothing_but_broken_lines_is_not_asked_about(
    operator: Operator, tmp_path: Path
) -> None:
    content = "channel,recipient,reason\n" + "x\n" * 1200
    ended = import_file(operator, written(tmp_path / "in.csv", content))
    assert (ended.status, len(ended.out.splitlines())) == (1, 1002)
    assert ended.out.splitlines()[-2:] == [
        "200 more were refused; --results names them all.",
        "1,200 lines: 0 added, 0 known already, 1,200 refused.",
    ]
    assert operator.console.events == []
    empty = import_file(operator, written(tmp_path / "empty.csv", HEADER))
    assert (empty.status, empty.out) == (0, "0 lines: 0 added, 0 known already, 0 refused.\n")


def test_what_was_cut_off_tells_how_far_it_came(operator: Operator, tmp_path: Path) -> None:
    operator.console.will("suppressions.import", all_added, Trouble(closes=True))
    lines = ["channel,recipient,reason", *("email,a@example.com,invalid" for _ in range(700))]
    results = tmp_path / "results.csv"
    ended = import_file(
        operator,
        written(tmp_path / "in.csv", "\n".join(lines)),
        "--json",
        "--results",
        str(results),
    )
    assert ended.status == 4
    assert "It may have been done all the same. 500 lines were done before" in ended.err
    assert (ended.document["added"], ended.document["code"]) == (500, "unreachable")
    assert len(results.read_text().splitlines()) == 501
    assert len(operator.console.asked("suppressions.import")) == 2  # never twice by itself


@pytest.mark.parametrize("command", ["import", "export"])
def test_a_tenant_that_there_is_not_is_refused(
    operator: Operator, tmp_path: Path, command: str
) -> None:
    operator.console.will("tenant.list", {"data": [], "next": None})
    operator.console.will(f"suppressions.{command}", no("not_found", "There is no tenant."))
    path = written(tmp_path / "in.csv", "channel,recipient,reason\nemail,a@example.com,invalid\n")
    arguments = ["suppressions", command, *([str(path)] if command == "import" else [])]
    for named in ("acme", ORGANIZATION):
        ended = operator.run(*arguments, "--organization", named)
        assert (ended.status, ended.out) == (3, "")
        assert "There is no tenant" in ended.err
    assert operator.run(*arguments).status == 2


def test_results_go_where_they_can_be_written_and_never_over_what_is_read(
    operator: Operator, tmp_path: Path
) -> None:
    content = "channel,recipient,reason\nemail,a@example.com,invalid\n"
    path = written(tmp_path / "in.csv", content)
    assert import_file(operator, path, "--results", str(path)).status == 2
    assert path.read_text() == content
    assert import_file(operator, path, "--results", str(tmp_path / "no" / "r.csv")).status == 2
    assert import_file(operator, tmp_path / "none.csv").status == 2
    assert operator.console.events == []


def export_row(number: int, **cells: Any) -> dict[str, Any]:
    first = dict.fromkeys((*HEADER.split(","), "recipient_hash"))
    values = {"channel": "email", "reason": "invalid", "source": "api"}
    return {**first, **values, "recipient": f"u{number}@example.com", **cells}


def test_an_export_is_in_order_whatever_the_order_of_its_pages(operator: Operator) -> None:
    hashed = export_row(0, recipient=None, recipient_hash="ab" * 32)
    operator.console.will(
        "suppressions.export",
        {"data": [export_row(3), export_row(1, category="news")], "next": "1"},
        {"data": [export_row(1), export_row(2, channel="sms")], "next": "2"},
        {"data": [hashed, export_row(1, category="alerts", evidence='{"a":1}')], "next": None},
    )
    ended = operator.run("suppressions", "export", "--organization", ORGANIZATION)
    assert ended.status == 0
    rows = list(csv.reader(io.StringIO(ended.out)))
    assert [(row[0], row[1], row[2]) for row in rows[1:]] == [
        ("email", "", ""),
        ("email", "u1@example.com", ""),
        ("email", "u1@example.com", "alerts"),
        ("email", "u1@example.com", "news"),
        ("email", "u3@example.com", ""),
        ("sms", "u2@example.com", ""),
    ]
    assert operator.console.asked("suppressions.export") == [
        {"organization_id": ORGANIZATION, "active": True, "limit": 500, **after}
        for after in ({}, {"after": "1"}, {"after": "2"})
    ]
    assert ended.err.splitlines() == ["Exported: 2", "Exported: 4"]


def test_a_history_has_columns_of_its_own_and_can_be_taken_in(
    operator: Operator, login: Login, tmp_path: Path
) -> None:
    row = {"kind": "lift", "active": "false", "created_at": "2026-01-31T08:00:00+00:00"}
    operator.console.will("suppressions.export", {"data": [export_row(1, **row)], "next": None})
    out = tmp_path / "out.csv"
    arguments = ("suppressions", "export", "--organization", ORGANIZATION, "--all", "-o", str(out))
    ended = operator.run(*arguments, "--json")
    assert ended.document == {
        "organization_id": ORGANIZATION, "exported": 1, "output": str(out),
    }  # fmt: skip
    assert out.read_text().splitlines() == [
        f"{HEADER},recipient_hash,kind,active,created_at",
        "email,u1@example.com,,invalid,api,,,,lift,false,2026-01-31T08:00:00+00:00",
    ]
    with working(operator, login) as asking:
        asking.ask("tenant.create", name="acme")
        ended = operator.run("suppressions", "import", str(out), "--organization", "acme")
    assert (ended.status, ended.out) == (
        0,
        "1 line: 0 added, 0 known already, 0 refused, 1 passed over, for they do not hold any "
        "more.\n",
    )


def test_an_export_that_fails_leaves_the_file_as_it_was(operator: Operator, tmp_path: Path) -> None:
    out = written(tmp_path / "out.csv", "before")
    page = {"data": [export_row(1)], "next": "1"}
    operator.console.will("suppressions.export", page, no("unavailable", "It cannot be reached."))
    ended = operator.run("suppressions", "export", "--organization", ORGANIZATION, "-o", str(out))
    assert (ended.status, ended.out) == (4, "")
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.csv"]
    for output in (str(tmp_path / "no" / "out.csv"), str(tmp_path)):
        operator.console.will("suppressions.export", {"data": [], "next": None})
        ended = operator.run("suppressions", "export", "--organization", ORGANIZATION, "-o", output)
        assert ended.status == 2, output
    assert operator.run("suppressions", "export", "--organization", "x", "--json").status == 2
