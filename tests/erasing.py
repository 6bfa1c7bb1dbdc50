"""What is left of somebody: the whole database as text, searched for an address in any spelling."""

import os
import subprocess
from collections.abc import Sequence
from typing import Any

from infra.local.postgres import HOST, SUPERUSER, Postgres, binaries
from tests.api import Api, Reply

ADA: dict[str, Any] = {
    "contact_points": [
        {"channel": "email", "address": "Ada@Example.com", "verified": True},
        {"channel": "sms", "address": "+1 555 010-0001", "verified": True},
        {"channel": "push", "address": "sim-ok.1-Adas-Telephone-0123456789"},
        {"channel": "webhook", "address": "https://Hooks.Example.net/users/ada?x=1"},
    ],
    "locale": "de-at",
    "time_zone": "Europe/Vienna",
    "quiet_hours": {"start": "22:00", "end": "07:00"},
    "preferences": {"news": {"email": True, "sms": False}},
}
NAMES_OF_ADA = (
    "ada@example.com",
    "ada%40example.com",
    "15550100001",
    "010-0001",
    "adas-telephone",
    "hooks.example.net/users/ada",
)
"""As they would stand in a dump, in lower case."""


def put(api: Api, document: Any = ADA, recipient_id: str = "ada") -> Reply:
    return api.call("PUT", f"/v1/recipients/{recipient_id}", body=document)


def delete(api: Api, recipient_id: str = "ada") -> Reply:
    return api.call("DELETE", f"/v1/recipients/{recipient_id}")


def erase(api: Api, recipient: str = "ada@example.com", channel: str = "email") -> Reply:
    return api.call("POST", "/v1/erase", body={"channel": channel, "recipient": recipient})


def dump_of(postgres: Postgres, name: str) -> str:
    """Return everything there is in the database ``name``, bytes as the text they are."""
    command = [
        str(binaries() / "pg_dump"), "--data-only", "--inserts",
        "-h", HOST, "-p", str(postgres.port), "-U", SUPERUSER, name,
    ]  # fmt: skip
    environment = {**os.environ, "PGOPTIONS": "-c bytea_output=escape"}
    dumped = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dumped.stdout


def lines_naming(dump: str, names: Sequence[str] = NAMES_OF_ADA) -> list[str]:
    """Return the lines of ``dump`` that hold one of ``names``, in whatever case."""
    return [line for line in dump.splitlines() if any(name in line.lower() for name in names)]
