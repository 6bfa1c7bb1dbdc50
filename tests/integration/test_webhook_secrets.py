"""What an organization's webhooks are signed with: shown, rotated, nobody cut off in silence."""

import base64
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
import standardwebhooks

from functions.core.errors import Misconfigured, NotFound, Unavailable
from functions.core.login import Login
from functions.core.signature import SECRET_PREFIX, key_of, sign
from functions.core.webhook_key import OVERLAP, secret_of
from functions.sender.signing import SigningSecrets
from functions.store.connection import Database
from functions.store.webhook_key import read_webhook_key, rotate_webhook_key
from tests.function_process import HASH_ARN, WEBHOOK_ARN, function
from tests.operating import action, operating
from tests.operators import (
    Operator,
    asked,
    audit,
    console_environment,
    losing_commit,
    operator_database,
    operator_with,
)
from tests.reports import HASH_KEY
from tests.secrets_manager import REGION, secrets_manager

MASTER = SECRET_PREFIX + base64.b64encode(b"installation 1 of a test, 33 byte").decode()
BEFORE = SECRET_PREFIX + base64.b64encode(b"installation 0 of a test, 33 byte").decode()


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, None, {}, webhook_masters=lambda: (MASTER,))


@pytest.fixture
def acme(operator: Operator) -> UUID:
    return UUID(operator.ask("tenant.create", name="acme")["id"])


def of(id: UUID, number: int, *, master: str = MASTER) -> str:
    return secret_of(key_of(master), organization_id=id, number=number)


def signing(database: Database, id: UUID, *, masters: tuple[str, ...] = (MASTER,)) -> Any:
    """Return what a sender signs with that has just started."""
    return SigningSecrets(database, lambda: masters).of(id)


def received(secret: str, *, signed_by: Sequence[str]) -> bool:
    """Whether a receiver that has ``secret`` takes a webhook, by the public library."""
    body = b'{"type":"order.paid"}'
    at = int(datetime.now(UTC).timestamp())
    headers = sign(body, message_id="msg_1", timestamp=at, secrets=signed_by)
    return bool(standardwebhooks.Webhook(secret).verify(body, headers))


def rotated_ago(owner: psycopg.Connection, ago: timedelta) -> None:
    """Let the last rotation have been so long ago."""
    owner.execute("UPDATE organizations SET webhook_key_rotated_at = now() - %s", [ago])


def test_the_secret_that_is_shown_is_the_one_that_senders_sign_with(
    owner: psycopg.Connection, database: Database, operator: Operator, acme: UUID
) -> None:
    shown = operator.ask("webhook.secret", organization="acme")
    assert shown == {
        "action_id": shown["action_id"],
        "organization_id": str(acme),
        "number": 1,
        "secret": of(acme, 1),
        "previous": None,
        "of_previous_master": [],
    }
    assert operator.ask("webhook.secret", organization=str(acme))["secret"] == shown["secret"]
    assert signing(database, acme) == (shown["secret"],)
    assert received(shown["secret"], signed_by=signing(database, acme))


def test_a_rotation_leaves_the_secret_before_for_a_week(
    owner: psycopg.Connection, database: Database, operator: Operator, acme: UUID
) -> None:
    before = operator.ask("webhook.secret", organization="acme")["secret"]
    rotated = operator.ask("webhook.rotate", organization="acme")
    shown = operator.ask("webhook.secret", organization="acme")
    assert {**rotated, "action_id": ""} == {**shown, "action_id": ""}
    assert (rotated["number"], rotated["secret"]) == (2, of(acme, 2))
    ((rotated_at,),) = owner.execute("SELECT webhook_key_rotated_at FROM organizations").fetchall()
    assert rotated["previous"]["secret"] == before
    assert datetime.fromisoformat(rotated["previous"]["until"]) == rotated_at + OVERLAP
    # Whatever a receiver has of the two verifies.
    for secret in (rotated["secret"], before):
        assert received(secret, signed_by=signing(database, acme))
    rotated_ago(owner, OVERLAP)
    shown = operator.ask("webhook.secret", organization="acme")
    assert (shown["secret"], shown["previous"]) == (of(acme, 2), None)
    assert signing(database, acme) == (shown["secret"],)


def test_each_organization_has_secrets_of_its_own(operator: Operator, acme: UUID) -> None:
    other = UUID(operator.ask("tenant.create", name="other")["id"])
    operator.ask("webhook.rotate", organization="acme")
    shown = operator.ask("webhook.secret", organization="other")
    assert (shown["number"], shown["secret"]) == (1, of(other, 1))
    assert shown["secret"] not in (of(acme, 1), of(acme, 2))


def test_a_second_rotation_within_the_week_is_refused_until_it_is_asked_for(
    owner: psycopg.Connection, operator: Operator, acme: UUID
) -> None:
    operator.ask("webhook.rotate", organization="acme")
    kept = audit(owner)
    code, detail = operator.refusal("webhook.rotate", organization="acme")
    until = operator.ask("webhook.secret", organization="acme")["previous"]["until"]
    assert code == "refused"
    assert f"until {until[:19]}Z" in detail
    assert "cuts them off" in detail
    assert "say --now" in detail
    assert "at_once" not in detail
    assert audit(owner)[:-1] == kept  # but for the look
    rotated = operator.ask("webhook.rotate", organization="acme", at_once=True)
    assert (rotated["number"], rotated["previous"]["secret"]) == (3, of(acme, 2))


def test_after_the_week_it_goes_on_by_itself(
    owner: psycopg.Connection, operator: Operator, acme: UUID
) -> None:
    operator.ask("webhook.rotate", organization="acme")
    rotated_ago(owner, OVERLAP)
    assert operator.ask("webhook.rotate", organization="acme")["secret"] == of(acme, 3)


def test_of_two_operators_at_once_one_rotates(login: Login, acme: UUID) -> None:
    with operating(login, "ada") as ada, operating(login, "bob") as bob:

        def rotate(database: Database) -> bool:
            return rotate_webhook_key(database, id=acme, action=action("webhook.rotate")).done

        with ThreadPoolExecutor(2) as threads:
            assert sorted(threads.map(rotate, (ada, bob))) == [False, True]
        assert read_webhook_key(ada, id=acme).number == 2


def test_a_new_master_changes_the_secret_and_the_one_of_the_previous_signs_as_well(
    login: Login, acme: UUID
) -> None:
    with operator_database(login) as database:
        operator = operator_with(database, None, {}, webhook_masters=lambda: (MASTER, BEFORE))
        shown = operator.ask("webhook.rotate", organization="acme")
        assert (shown["secret"], shown["previous"]["secret"]) == (of(acme, 2), of(acme, 1))
        assert shown["of_previous_master"] == [
            of(acme, 2, master=BEFORE),
            of(acme, 1, master=BEFORE),
        ]
        everything = [shown["secret"], shown["previous"]["secret"], *shown["of_previous_master"]]
        assert tuple(everything) == signing(database, acme, masters=(MASTER, BEFORE))


def test_who_saw_and_who_rotated_is_kept_and_no_secret_is(
    owner: psycopg.Connection, operator: Operator, acme: UUID
) -> None:
    shown = operator.ask("webhook.secret", organization="acme")
    rotated = operator.ask("webhook.rotate", organization=str(acme), at_once=True)
    _, looked, went_on = audit(owner)
    assert (looked.command, looked.arguments, looked.result) == (
        "webhook.secret", {"organization": "acme"}, {"number": 1},
    )  # fmt: skip
    assert (went_on.command, went_on.result) == ("webhook.rotate", {"number": 2})
    assert [str(looked.id), str(went_on.id)] == [shown["action_id"], rotated["action_id"]]
    everything = str(owner.execute("SELECT to_jsonb(a)::text FROM operator_actions a").fetchall())
    everything += str(owner.execute("SELECT to_jsonb(o)::text FROM organizations o").fetchall())
    for secret in (shown["secret"], rotated["secret"], MASTER):
        assert secret.removeprefix(SECRET_PREFIX) not in everything


@pytest.mark.parametrize("command", ["webhook.secret", "webhook.rotate"])
def test_of_whom_nobody_knows_nothing_is_shown_or_kept(
    owner: psycopg.Connection, operator: Operator, acme: UUID, command: str
) -> None:
    for unknown in ("Acme", str(uuid4())):
        assert operator.refusal(command, organization=unknown)[0] == "not_found"
    assert operator.refusal(command)[0] == "invalid"
    assert operator.refusal(command, organization="acme", number=7)[0] == "invalid"
    assert [kept.command for kept in audit(owner)] == ["tenant.create"]


def test_the_store_refuses_an_organization_that_is_gone(login: Login) -> None:
    with operating(login) as database, pytest.raises(NotFound):
        rotate_webhook_key(database, id=uuid4(), action=action("webhook.rotate"))


def test_a_lost_answer_to_a_commit_rotates_once(
    owner: psycopg.Connection, login: Login, acme: UUID
) -> None:
    # The first piece of work takes the action's id, the second finds the organization.
    with losing_commit(login, number=3) as losing:
        operator = operator_with(losing, None, {}, webhook_masters=lambda: (MASTER,))
        rotated = operator.ask("webhook.rotate", organization="acme")
    assert (rotated["number"], rotated["secret"]) == (2, of(acme, 2))
    assert len(audit(owner)) == 2


def test_without_a_master_nothing_is_rotated_and_nothing_kept(
    owner: psycopg.Connection, login: Login, acme: UUID
) -> None:
    def unavailable() -> tuple[str, ...]:
        raise Unavailable("Secrets Manager cannot be reached.")

    short = SECRET_PREFIX + base64.b64encode(b"short").decode()
    with operator_database(login) as database:
        operator = operator_with(database, None, {}, webhook_masters=unavailable)
        assert operator.refusal("webhook.rotate", organization="acme")[0] == "unavailable"
        operator = operator_with(database, None, {}, webhook_masters=lambda: (short,))
        with pytest.raises(Misconfigured):
            operator.ask("webhook.rotate", organization="acme")
        assert read_webhook_key(database, id=acme).number == 1
    assert [kept.command for kept in audit(owner)] == ["tenant.create"]


def test_the_deployed_console_derives_from_its_secret_and_logs_none(
    login: Login, acme: UUID, tmp_path: Path
) -> None:
    stored = {
        HASH_ARN: {"current": HASH_KEY.decode()},
        WEBHOOK_ARN: {"current": MASTER.removeprefix(SECRET_PREFIX)},
    }
    urls = {name: f"https://queue/{name}" for name in ("email", "sms", "push", "webhook")}
    with secrets_manager(stored) as manager:
        environment = {
            **manager.environment,
            **console_environment(login, urls),
            "AWS_DEFAULT_REGION": REGION,
        }
        with function("console", environment, tmp_path) as process:
            answer = process.invoke(asked("webhook.secret", organization="acme"))
            assert answer["result"]["secret"] == of(acme, 1)
            assert "whsec_" not in process.output
            assert of(acme, 1).removeprefix(SECRET_PREFIX) not in process.output
