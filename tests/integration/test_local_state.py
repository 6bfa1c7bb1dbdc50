"""The state folder: one holder, private secrets, and what it refuses to touch."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from functions.core.signature import key_of
from infra.local.state import FolderInUse, FolderRefused, StateFolder, with_prefix
from tests.local import LOCAL, first_line, kill, python

HOLDS_A_FOLDER = """
import sys, time
from pathlib import Path
from infra.local.state import StateFolder
with StateFolder(Path(sys.argv[1])).held() as was_killed:
    print(was_killed, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "state folder")
    folder.create()
    return folder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_one_process_holds_the_folder_and_others_learn_which(folder: StateFolder) -> None:
    with python(HOLDS_A_FOLDER, str(folder.path)) as other:
        assert first_line(other) == "False"
        assert folder.holder() == other.pid
        with pytest.raises(FolderInUse, match="Another stack already runs"), folder.held():
            pass


def test_a_killed_holder_leaves_the_folder_free_and_a_word_that_it_was_killed(
    folder: StateFolder,
) -> None:
    with python(HOLDS_A_FOLDER, str(folder.path)) as other:
        first_line(other)
        kill(other.pid)
        other.wait()
        assert folder.holder() is None
        with folder.held() as was_killed:
            assert was_killed
        with folder.held() as was_killed:
            assert not was_killed


def test_what_is_published_is_read_only_while_a_stack_runs(folder: StateFolder) -> None:
    with folder.held():
        assert folder.local() is None
        folder.publish(LOCAL)
        assert folder.local() == LOCAL
        assert json.loads((folder.path / "local.json").read_text()) == asdict(LOCAL)
    assert folder.local() is None  # a file that a killed stack left says nothing


def test_secrets_are_made_once_and_readable_by_their_owner_alone(folder: StateFolder) -> None:
    made = folder.secrets()
    assert folder.secrets() == made
    assert mode(folder.path) == 0o700
    assert mode(folder.path / "secrets.json") == 0o600
    folder.publish(LOCAL)
    assert mode(folder.path / "local.json") == 0o600
    for secret in (made.callback, made.gateway, made.webhook):
        assert len(key_of(with_prefix(secret))) == 33
    assert len({made.hash, made.callback, made.gateway, made.webhook}) == 4


def test_a_folder_from_before_there_was_a_secret_gets_it_and_keeps_the_others(
    folder: StateFolder,
) -> None:
    before = asdict(folder.secrets())
    del before["webhook"]
    (folder.path / "secrets.json").write_text(json.dumps(before))
    after = folder.secrets()
    assert len(key_of(with_prefix(after.webhook))) == 33
    assert asdict(after) == {**before, "webhook": after.webhook}
    assert folder.secrets() == after


def test_damaged_secrets_are_said_to_be_so(folder: StateFolder) -> None:
    (folder.path / "secrets.json").write_text("{")
    with pytest.raises(FolderRefused, match=r"secrets\.json is damaged"):
        folder.secrets()


def test_a_folder_of_somebody_elses_is_neither_used_nor_deleted(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "precious").write_text("mine")
    folder = StateFolder(tmp_path)
    with pytest.raises(FolderRefused, match="--state-dir"):
        folder.create()
    folder.delete()
    assert (tmp_path / "log" / "precious").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderRefused, match="--state-dir"):
        StateFolder(tmp_path / "file" / "state").create()


def test_bundles_of_the_synthesis_alone_do_not_make_it_somebody_elses(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.bundles.mkdir()
    folder.create()
    assert folder.holder() is None


def test_deleting_removes_what_a_stack_left_and_nothing_else(folder: StateFolder) -> None:
    folder.secrets()
    folder.cluster.mkdir()
    (folder.cluster / "PG_VERSION").write_text("18")
    (folder.path / "note").write_text("mine")
    folder.delete()
    assert [path.name for path in folder.path.iterdir()] == ["note"]
    (folder.path / "note").unlink()
    folder.create()
    folder.delete()
    assert not folder.path.exists()


def test_the_folder_of_a_running_stack_is_not_deleted(folder: StateFolder) -> None:
    folder.secrets()
    with python(HOLDS_A_FOLDER, str(folder.path)) as other:
        first_line(other)
        with pytest.raises(FolderInUse):
            folder.delete()
    assert (folder.path / "secrets.json").exists()
