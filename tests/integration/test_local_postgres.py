"""A PostgreSQL server of the local stack: started, in the way of another, killed, orphaned."""

import dataclasses
import os
import signal
import socket
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from infra.local import postgres
from infra.local.postgres import HOST, SUPERUSER, ClusterInUse, Postgres, PostgresFailed
from tests.conftest import TEST_OPTIONS, free_port
from tests.local import first_line, is_gone, kill, python, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests of this module keep one cluster, under a name with a space."""
    return tmp_path_factory.mktemp("a folder") / "with space" / "cluster"


@pytest.fixture
def server(cluster: Path, tmp_path: Path) -> Generator[Postgres]:
    server = Postgres(cluster, free_port(), tmp_path / "postgres.log", TEST_OPTIONS)
    yield server
    server.stop()


def ask(server: Postgres, statement: str) -> object:
    with psycopg.connect(
        host=HOST, port=server.port, dbname="postgres", user=SUPERUSER, autocommit=True
    ) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def test_a_server_starts_in_a_folder_whose_name_has_a_space(server: Postgres) -> None:
    server.start()
    assert str(ask(server, "SHOW server_version")).startswith("18.")
    assert ask(server, "SHOW server_encoding") == "UTF8"
    assert ask(server, "SHOW listen_addresses") == HOST
    assert ask(server, "SHOW unix_socket_directories") == ""


def test_the_server_does_not_run_as_root(server: Postgres) -> None:
    server.start()
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    assert f"NSpid:\t{server.process.pid}" in status  # the process is the server, not a wrapper
    assert server.note is None or "nobody" in server.note


def test_settings_of_the_caller_do_not_apply(
    server: Postgres, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("LC_ALL", "xx_YY.UTF-8")
    server.start()
    assert ask(server, "SHOW data_directory") == str(cluster)


def test_a_taken_port_is_named_together_with_the_option_that_moves_it(server: Postgres) -> None:
    with socket.socket() as other:
        other.bind((HOST, server.port))
        other.listen()
        with pytest.raises(ClusterInUse) as refused:
            server.start()
    assert f"Port {server.port} is taken" in refused.value.detail
    assert "--database-port" in refused.value.detail
    assert not server.is_running


def test_a_directory_in_use_is_said_to_be_so(
    server: Postgres, cluster: Path, tmp_path: Path
) -> None:
    server.start()
    second = Postgres(cluster, free_port(), tmp_path / "second.log", TEST_OPTIONS)
    with pytest.raises(ClusterInUse, match="Another PostgreSQL server already uses") as refused:
        second.start()
    assert str(cluster) in refused.value.detail
    assert ask(server, "SELECT 1") == 1


def test_a_server_that_is_ending_is_waited_for(
    server: Postgres, cluster: Path, tmp_path: Path
) -> None:
    server.start()
    assert server.process is not None
    second = Postgres(cluster, free_port(), tmp_path / "second.log", TEST_OPTIONS)
    session = psycopg.connect(
        host=HOST, port=server.port, dbname="postgres", user=SUPERUSER, autocommit=True
    )
    server.process.send_signal(signal.SIGTERM)  # "smart": it waits for the session

    def leave_once_the_second_was_refused() -> None:
        assert until(lambda: second.log.exists() and "FATAL" in second.log.read_text())
        session.close()

    try:
        with ThreadPoolExecutor(1) as thread:
            leaving = thread.submit(leave_once_the_second_was_refused)
            second.start(patience_seconds=20)
            leaving.result()
        assert ask(second, "SELECT 1") == 1
    finally:
        session.close()
        second.stop()


def test_an_unreadable_cluster_is_explained_by_the_servers_own_words(
    tmp_path: Path, server: Postgres
) -> None:
    server.start()
    server.stop()
    other = dataclasses.replace(server, options=("shared_buffers=nonsense",))
    with pytest.raises(PostgresFailed, match="shared_buffers"):
        other.start()
    assert not other.is_running


def test_a_server_killed_by_minus_nine_recovers_on_the_next_start(server: Postgres) -> None:
    server.options = ()  # durable, as in a local stack
    server.start()
    ask(server, "CREATE TABLE kept AS SELECT 7 AS number")
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    assert not server.is_running
    server.start(patience_seconds=20)
    assert ask(server, "SELECT number FROM kept") == 7


STARTS_A_SERVER = """
import sys, time
from pathlib import Path
from infra.local.postgres import Postgres
server = Postgres(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
server.start()
print(server.process.pid, flush=True)
time.sleep(600)
"""


def test_killing_the_supervisor_by_minus_nine_leaves_no_server(
    cluster: Path, tmp_path: Path, server: Postgres
) -> None:
    log = str(tmp_path / "orphan.log")
    with python(STARTS_A_SERVER, str(cluster), str(free_port()), log) as supervisor:
        pid = int(first_line(supervisor))
        kill(supervisor.pid)
        assert until(lambda: is_gone(pid))
    assert "database system is shut down" in Path(log).read_text()  # cleanly, not by a crash
    server.start(patience_seconds=20)


def test_root_without_user_namespaces_runs_the_server_as_nobody(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        assert postgres.identity(namespace=("false",)) == postgres.Identity()
        return
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    who = postgres.identity(namespace=("false",))
    assert who.owner == 65534
    assert who.note is not None
    assert "nobody" in who.note
    server = Postgres(
        private / "cluster", free_port(), tmp_path / "nobody.log", TEST_OPTIONS, identity=who
    )
    try:
        server.start()
        assert server.process is not None
        assert Path(f"/proc/{server.process.pid}").stat().st_uid == 65534
        assert ask(server, "SELECT 1") == 1
        server.stop()
        again = dataclasses.replace(server, identity=None)  # as usual: the files change hands
        again.start()
        assert ask(again, "SELECT 1") == 1
        again.stop()
    finally:
        server.stop()


def test_a_machine_on_which_nothing_works_is_told_what_to_do() -> None:
    with pytest.raises(PostgresFailed, match="normal user"):
        postgres.identity(user=0, namespace=("false",), privilege=("false",))


def test_a_normal_user_needs_no_prefix() -> None:
    assert postgres.identity(user=1000) == postgres.Identity()
