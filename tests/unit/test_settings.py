"""Settings: read once, every fault named at once, and described for people."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated

import pytest

from functions.callbacks.settings import Settings as CallbacksSettings
from functions.core.errors import Misconfigured
from functions.migrate.settings import Settings as MigrateSettings
from functions.reconcile.settings import Settings as ReconcileSettings
from functions.runtime.settings import Common, WithDatabase, load, variables
from functions.sender.settings import Settings as SenderSettings

SENDER = {
    "DATABASE_HOST": "db.internal",
    "CHANNEL": "sms",
    "GATEWAY_SECRET_ARN": "arn:gateway",
    "HASH_SECRET_ARN": "arn:hash",
    "WEBHOOK_SECRET_ARN": "arn:webhook",
    "PUSH_SECRET_ARN": "arn:push",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers(Common):
    whole: Annotated[int, "A whole number"]
    broken: Annotated[float, "Any number"] = 0.5


def test_settings_are_read_by_the_upper_case_of_their_names() -> None:
    settings = load(SenderSettings, {**SENDER, "DATABASE_PORT": "6000", "UNKNOWN": "ignored"})
    assert (settings.database_host, settings.database_port) == ("db.internal", 6000)
    assert (settings.channel, settings.gateway_secret_arn) == ("sms", "arn:gateway")
    assert (settings.database_auth, settings.local_webhook_origin) == ("iam", "")


def test_every_missing_and_malformed_name_is_reported_at_once() -> None:
    with pytest.raises(Misconfigured) as raised:
        load(SenderSettings, {"DATABASE_PORT": "many", "CHANNEL": ""})
    for name in ("DATABASE_HOST", "DATABASE_PORT", "CHANNEL", "GATEWAY_SECRET_ARN"):
        assert name in raised.value.detail
    assert "LOCAL_WEBHOOK_ORIGIN" not in raised.value.detail
    assert "functions.sender.settings" in raised.value.detail


def test_an_empty_variable_is_a_missing_one() -> None:
    assert load(WithDatabase, {"DATABASE_HOST": "h", "DATABASE_PORT": ""}).database_port == 5432


@pytest.mark.parametrize("text", ["x", "1.5", "1e3", "0x1", "None", "१x"])
def test_a_whole_number_is_nothing_else(text: str) -> None:
    with pytest.raises(Misconfigured, match="WHOLE"):
        load(Numbers, {"WHOLE": text})


def test_numbers_are_converted() -> None:
    settings = load(Numbers, {"WHOLE": "7", "BROKEN": "1e-1"})
    assert (settings.whole, settings.broken) == (7, 0.1)


@pytest.mark.parametrize(
    "settings_class", [SenderSettings, CallbacksSettings, ReconcileSettings, MigrateSettings]
)
def test_every_variable_has_a_type_and_a_meaning(settings_class: type) -> None:
    found = variables(settings_class)
    assert [variable.name.lower() for variable in found] == [
        field.name for field in dataclasses.fields(settings_class)
    ]
    for variable in found:
        assert variable.meaning, variable
        assert variable.type in ("str", "int", "float")
        assert variable.required is (variable.default is None)


def test_settings_do_not_change() -> None:
    settings = load(WithDatabase, {"DATABASE_HOST": "h"})
    with pytest.raises(AttributeError):
        settings.database_host = "other"  # pyright: ignore[reportAttributeAccessIssue]
