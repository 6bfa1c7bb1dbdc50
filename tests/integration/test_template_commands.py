"""`sendoff templates`: a folder of files brought to the API, and what is wrong with one."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from functions.store.connection import Database
from infra.local.state import StateFolder
from tests.api import Api, start
from tests.command_line import Ended, run
from tests.fake_console import own_environment
from tests.fakes import FIRST_ORGANIZATION
from tests.local import LOCAL
from tests.simulated import serving

KEY = "sk_admin_key"


@contextmanager
def served(api: Api) -> Generator[str]:
    """Serve ``api`` on a real socket, to those who have the key."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(size).decode() or None
            known = self.headers["authorization"] == f"Bearer {KEY}"
            caller = api if known else api.having(context={"error": "unauthenticated"})
            reply = caller.call(self.command, parts.path, query=parts.query, text=body)
            self.send_response(reply.status)
            self.send_header("content-type", reply.headers["content-type"])
            self.end_headers()
            self.wfile.write(reply.text.encode())

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: object) -> None:
            return

    with serving(Handler) as origin:
        yield origin


@pytest.fixture
def origin(database: Database, owner: psycopg.Connection) -> Generator[str]:
    owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'one')", [FIRST_ORGANIZATION])
    with served(start(database)) as origin:
        yield origin


def write(folder: Path, name: str, **files: str) -> None:
    """Write a template; ``__`` in a name of a file stands for a dot."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "template.toml").write_text('default_locale = "en"\n')
    for file, text in files.items():
        (place / f"{file.replace('__', '.')}.liquid").write_text(text)


def command(origin: str, *arguments: str) -> Ended:
    with own_environment(SENDOFF_API_URL=origin, SENDOFF_API_KEY=KEY):
        return run("templates", *arguments)


def states(ended: Ended) -> list[tuple[str, int, str]]:
    return [(one["name"], one["version"], one["state"]) for one in ended.document["data"]]


def test_only_what_is_new_or_changed_gets_a_version(origin: str, tmp_path: Path) -> None:
    write(tmp_path, "receipt", email__en__subject="Receipt\n", email__en__text="Hi {{ name }}\n\n")
    write(tmp_path, "code", sms__en__text="Code {{ code }}")
    (tmp_path / "README.md").write_text("not a template")
    planned = command(origin, "push", str(tmp_path), "--dry-run", "--json")
    assert states(planned) == [("code", 1, "new"), ("receipt", 1, "new")]
    assert command(origin, "list", "--json").document == {"data": []}
    pushed = command(origin, "push", str(tmp_path), "--json")
    assert (pushed.status, states(pushed)) == (0, states(planned))
    again = command(origin, "push", str(tmp_path))
    assert again.status == 0
    assert again.out.split()[:3] == ["TEMPLATE", "VERSION", "STATE"]
    assert again.out.count("unchanged") == 2
    write(tmp_path, "receipt", email__en__subject="Your receipt")
    dry = command(origin, "push", str(tmp_path), "-n")
    assert "changed" in dry.out
    assert dry.out.endswith("A push would make 1 version.\n")
    changed = command(origin, "push", str(tmp_path), "--json")
    assert states(changed) == [("code", 1, "unchanged"), ("receipt", 2, "changed")]
    shown = command(
        origin, "preview", "receipt", "--channel", "email", "--locale", "de",
        "--data", '{"name": "Tom & Jerry"}',
    )  # fmt: skip
    assert (shown.status, shown.out) == (
        0, "subject:\n  Your receipt\ntext:\n  Hi Tom & Jerry\n  \n",
    )  # fmt: skip


def test_what_was_archived_is_revived_by_other_words_or_when_asked_for(
    database: Database, origin: str, tmp_path: Path
) -> None:
    write(tmp_path, "code", sms__en__text="Code {{ code }}")
    command(origin, "push", str(tmp_path))
    start(database).call("POST", "/v1/templates/code/archive")
    told = command(origin, "push", str(tmp_path)).out
    assert "unchanged, archived" in told
    assert told.endswith("1 archived template can be used again by --unarchive.\n")
    assert command(origin, "list", "--json").document["data"][0]["archived_at"] is not None
    planned = command(origin, "push", str(tmp_path), "--unarchive", "-n")
    assert "A push would make 0 versions." in planned.out
    assert command(origin, "list", "--json").document["data"][0]["archived_at"] is not None
    again = command(origin, "push", str(tmp_path), "--unarchive", "--json")
    assert states(again) == [("code", 1, "unarchived")]
    assert command(origin, "list", "--json").document["data"][0]["archived_at"] is None
    start(database).call("POST", "/v1/templates/code/archive")
    assert "code" in command(origin, "list").out
    write(tmp_path, "code", sms__en__text="Your code: {{ code }}")
    assert states(command(origin, "push", str(tmp_path), "--json")) == [("code", 2, "changed")]
    assert command(origin, "list", "--json").document["data"][0]["archived_at"] is None


def test_every_file_at_fault_is_named_before_anything_is_sent(origin: str, tmp_path: Path) -> None:
    write(tmp_path, "fine", sms__en__text="x")
    write(
        tmp_path, "broken", sms__en__text="one\ntwo {% if %}", sms__english="x", push__en__text="x"
    )
    write(tmp_path, "lines", push__en__body="\n\n{{ name | upcas }}", sms__en__text="")
    write(tmp_path, "Upper", sms__en__text="x")
    write(tmp_path, "german", sms__de__text="x")
    write(tmp_path, "settings", sms__en__text="x")
    (tmp_path / "settings" / "template.toml").write_text('locale = "en"')
    write(tmp_path, "toml", sms__en__text="x")
    (tmp_path / "toml" / "template.toml").write_text("default_locale = en")
    write(tmp_path, "latin", sms__en__text="x")
    (tmp_path / "latin" / "sms.en.text.liquid").write_bytes(b"\xff")
    write(tmp_path, "bare", sms__en__text="x")
    (tmp_path / "bare" / "template.toml").unlink()
    ended = command(origin, "push", str(tmp_path))
    assert ended.status == 3
    assert ended.out == ""
    said = [line.removeprefix(f"{tmp_path}/") for line in ended.err.splitlines()]
    assert said == [
        "bare: It has templates and no template.toml.",
        "Upper: The name of a template matches ^[a-z0-9][a-z0-9._-]{0,127}$.",
        "broken/push.en.text.liquid: A file is called <channel>.<locale>.<part>.liquid.",
        "broken/sms.english.liquid: A file is called <channel>.<locale>.<part>.liquid.",
        "german/template.toml: The default locale is one of the locales of sms. (/default_locale)",
        "latin/sms.en.text.liquid: It is not UTF-8.",
        "lines/sms.en.text.liquid: It needs text.",
        "settings/template.toml: There is no setting 'locale'; there is default_locale.",
        "toml/template.toml: It is not TOML: Invalid value (at line 1, column 18).",
    ]
    assert command(origin, "list").out == "There is no template.\n"
    for name in ("broken", "Upper", "german", "settings", "toml", "latin", "bare"):
        for file in (tmp_path / name).iterdir():
            file.unlink()
        (tmp_path / name).rmdir()
    write(tmp_path, "lines", sms__en__text="x")
    ended = command(origin, "push", str(tmp_path), "--json")
    assert ended.document["errors"] == [
        f"{tmp_path}/lines/push.en.body.liquid:3: There is no filter 'upcas' here."
    ]
    (tmp_path / "empty").mkdir()
    assert "There is no template in it" in command(origin, "push", str(tmp_path / "empty")).err


def test_a_file_that_is_no_part_is_named_and_what_is_hidden_is_left_alone(
    origin: str, tmp_path: Path
) -> None:
    write(tmp_path, "code", sms__en__text="x")
    write(tmp_path, ".hidden", sms__en__text="{% if %}")
    place = tmp_path / "code"
    for name in (".sms.en.text.liquid.swp", "sms.en.text.liquid~", ".DS_Store"):
        (place / name).write_text("{% if %}")
    assert command(origin, "push", str(tmp_path)).status == 0
    named = ("notes.md", "sms.de.text.txt", "sms.en.text.LIQUID", "sms.fr.text.liquid.bak", "sub")
    for name in named[:-1]:
        (place / name).write_text("x")
    (place / "sub").mkdir()
    ended = command(origin, "push", str(tmp_path))
    assert ended.status == 3
    assert ended.err.splitlines() == [
        f"{place}/{name}: A file is called <channel>.<locale>.<part>.liquid." for name in named
    ]


def test_the_exit_status_says_why_it_did_not_work(origin: str, tmp_path: Path) -> None:
    write(tmp_path, "code", sms__en__text="x")
    folder = str(tmp_path)
    assert run("templates", "push", folder, "--api-url", origin).status == 2
    wrong = run("templates", "push", folder, "--api-url", origin, "--api-key", "sk_other")
    assert wrong.status == 3
    assert "key" in wrong.err
    gone = run("templates", "push", folder, "--api-url", "http://127.0.0.1:9", "--api-key", KEY)
    assert gone.status == 4
    away = run("templates", "list", "--state-dir", str(tmp_path / "no"), "--json")
    assert (away.status, away.document["code"]) == (4, "unreachable")
    assert run("templates", "push", str(tmp_path / "no")).status == 2
    refused = command(origin, "preview", "code", "--channel", "sms", "--locale", "en")
    assert (refused.status, "There is no such thing" in refused.err) == (3, True)
    assert command(
        origin, "preview", "code", "--channel", "sms", "--locale", "en", "--data", "{"
    ).status == 2  # fmt: skip


def test_the_local_stack_is_the_one_by_default(origin: str, tmp_path: Path) -> None:
    write(tmp_path / "words", "code", sms__en__text="{{ code }}")
    folder = StateFolder(tmp_path / "state")
    folder.create()
    with folder.held():
        folder.publish(
            replace(LOCAL, api_url=origin, admin_api_key=KEY, state_dir=str(folder.path))
        )
        ended = run("templates", "push", str(tmp_path / "words"), "--state-dir", str(folder.path))
        assert (ended.status, "new" in ended.out) == (0, True)
        (tmp_path / "data.json").write_text(json.dumps({"code": 7}))
        shown = run(
            "templates", "preview", "code", "--channel", "sms", "--locale", "en",
            "--data", f"@{tmp_path}/data.json", "--state-dir", str(folder.path),
        )  # fmt: skip
    assert shown.out == "text:\n  7\n1 part in GSM-7.\n"
