"""The vault: secrets by signed requests, kept for minutes; and how to log in to the database."""

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from functions.core.errors import Misconfigured, Unavailable
from functions.runtime.credentials import KEPT_SECONDS, TOKEN_SECONDS, Vault
from functions.runtime.settings import WithDatabase
from tests.conftest import free_port
from tests.secrets_manager import REGION, SecretsManager, secrets_manager
from tests.wire import HOST, Received

ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:callback-AbCdEf"
KEY, OLD_KEY = "a" * 44, "b" * 44


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def vault(manager: SecretsManager, clock: Callable[[], float] | None = None) -> Vault:
    return Vault(manager.environment, clock=clock or Clock())


def asked(manager: SecretsManager) -> list[Received]:
    assert manager.server is not None
    return manager.server.requests


def test_a_secret_is_asked_for_by_a_signed_request() -> None:
    with secrets_manager({ARN: {"current": KEY}}) as manager:
        assert vault(manager).secret(ARN) == {"current": KEY}
        (request,) = asked(manager)
    assert (request.method, request.target) == ("POST", "/")
    assert request.headers["x-amz-target"] == "secretsmanager.GetSecretValue"
    assert request.headers["content-type"] == "application/x-amz-json-1.1"
    assert json.loads(request.body) == {"SecretId": ARN}
    authorization = request.headers["authorization"]
    assert authorization.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert f"/{REGION}/secretsmanager/aws4_request" in authorization
    assert "Signature=" in authorization
    assert request.headers["x-amz-security-token"] == "example-of-a-session-token"
    assert "x-amz-date" in request.headers


def test_a_secret_is_read_again_after_some_minutes() -> None:
    clock = Clock()
    with secrets_manager({ARN: {"current": KEY}}) as manager:
        one = vault(manager, clock)
        for _ in range(3):
            assert one.secret(ARN) == {"current": KEY}
        assert len(asked(manager)) == 1
        manager.secrets[ARN] = {"current": OLD_KEY}
        clock.seconds += KEPT_SECONDS - 1
        assert one.secret(ARN) == {"current": KEY}
        clock.seconds += 1
        assert one.secret(ARN) == {"current": OLD_KEY}
        assert len(asked(manager)) == 2


def test_while_a_secret_cannot_be_read_again_the_known_one_serves() -> None:
    clock = Clock()
    with secrets_manager({ARN: {"current": KEY}}) as manager:
        one = vault(manager, clock)
        one.secret(ARN)
        clock.seconds += KEPT_SECONDS
        manager.trouble = [503] * 4
        for _ in range(3):
            assert one.secret(ARN) == {"current": KEY}
        assert len(asked(manager)) == 2, "neither again and again, nor at every call"


def test_trouble_that_passes_is_waited_out() -> None:
    with secrets_manager({ARN: {"current": KEY}}) as manager:
        manager.trouble = [500, 503]
        assert vault(manager).secret(ARN) == {"current": KEY}
        assert len(asked(manager)) == 3


def test_trouble_that_stays_is_unavailable() -> None:
    with secrets_manager({}) as manager:
        manager.trouble = [503] * 10
        with pytest.raises(Unavailable):
            vault(manager).secret(ARN)
        environment = manager.environment | {"AWS_ENDPOINT_URL": f"http://{HOST}:{free_port()}"}
    with pytest.raises(Unavailable):
        Vault(environment).secret(ARN)


@pytest.mark.parametrize("value", ["not json", "[]", "700700700", '"text"', "null"])
def test_a_secret_that_is_no_object_is_a_misconfiguration(value: str) -> None:
    with secrets_manager({ARN: value}) as manager, pytest.raises(Misconfigured) as raised:
        vault(manager).secret(ARN)
    assert value not in raised.value.detail


def test_an_absent_secret_is_a_misconfiguration() -> None:
    with secrets_manager({}) as manager, pytest.raises(Misconfigured, match="400"):
        vault(manager).secret(ARN)


def test_webhook_secrets_are_the_current_and_the_previous_one() -> None:
    for value, secrets in (
        ({"current": KEY, "previous": OLD_KEY}, (f"whsec_{KEY}", f"whsec_{OLD_KEY}")),
        ({"current": KEY, "previous": ""}, (f"whsec_{KEY}",)),
        ({"current": KEY}, (f"whsec_{KEY}",)),
    ):
        with secrets_manager({ARN: value}) as manager:
            assert vault(manager).webhook_secrets(ARN) == secrets


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"current": ""},
        {"previous": KEY},
        {"current": "not base64!"},
        {"current": KEY, "previous": "é"},
    ],
)
def test_an_unusable_webhook_secret_is_a_misconfiguration(value: dict[str, str]) -> None:
    with secrets_manager({ARN: value}) as manager, pytest.raises(Misconfigured) as raised:
        vault(manager).webhook_secrets(ARN)
    assert "not base64!" not in raised.value.detail


def database(**changes: Any) -> WithDatabase:
    settings: dict[str, Any] = {"database_host": "db.example.eu-central-1.rds.amazonaws.com"}
    return WithDatabase(**settings | changes)


ENVIRONMENT = {
    "AWS_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "example-of-a-secret-key",
    "AWS_SESSION_TOKEN": "example/of+a session=token",
}


@pytest.mark.parametrize("with_session", [True, False])
def test_an_iam_token_is_the_one_that_boto3_makes_in_the_same_second(with_session: bool) -> None:
    environment = dict(ENVIRONMENT)
    if not with_session:
        del environment["AWS_SESSION_TOKEN"]
    one, settings = Vault(environment), database(database_port=6543)
    rds: Any = boto3.client(  # pyright: ignore[reportUnknownMemberType]
        "rds",
        region_name=REGION,
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=environment.get("AWS_SESSION_TOKEN"),
    )

    def tokens() -> list[str | None]:
        return [
            one.database_login(settings).password,
            rds.generate_db_auth_token(
                settings.database_host, settings.database_port, settings.database_user
            ),
            one.database_login(settings).password,
        ]

    before, theirs, after = tokens()
    while before != after:  # the second changed in between
        before, theirs, after = tokens()
    assert before == theirs
    assert f"X-Amz-Expires={TOKEN_SECONDS}" in str(theirs)


def test_an_iam_login_is_made_anew_at_each_connect_and_over_tls() -> None:
    login = Vault(ENVIRONMENT).database_login(database())
    assert login.tls
    assert (login.user, login.name, login.port) == ("sendoff_service", "sendoff", 5432)
    assert login.password is not None
    assert login.password not in repr(login)


def test_a_trusted_login_has_no_password() -> None:
    login = Vault({}).database_login(database(database_auth="trust"))
    assert (login.password, login.tls) == (None, False)


def test_a_secret_login_takes_user_and_password_from_the_secret() -> None:
    with secrets_manager({ARN: {"username": "owner", "password": "p-1", "port": 5432}}) as manager:
        settings = database(database_auth="secret", database_secret_arn=ARN)
        login = vault(manager).database_login(settings)
    assert (login.user, login.password, login.tls) == ("owner", "p-1", True)


def test_an_unknown_way_to_log_in_is_a_misconfiguration() -> None:
    with pytest.raises(Misconfigured, match="DATABASE_AUTH"):
        Vault({}).database_login(database(database_auth="password"))
