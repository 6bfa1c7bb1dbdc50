"""The one calm screen of a running stack: where it is, a key, and a command to copy."""

import json
import secrets
import shlex
import sys
from pathlib import Path

from infra.config import LOCAL
from infra.local.state import DEFAULT_FOLDER, Local

COMMANDS = ("demo", "logs -f", "psql", "flush", "down")


def screen(local: Local) -> str:
    """Return what to print when ``local`` is ready."""
    return f"""
Sendoff runs.

  API          {local.api_url}/v1   (documents: {local.api_url}/v1/docs)
  Deliveries   {local.simulator_url}
  AWS          {local.aws_endpoint_url}
  PostgreSQL   {local.database_url}
  Key          {local.api_key}
  All of it    {local.state_dir}/local.json

Try:

{command(local)}

  {numbers()}
  {commands(local)}
"""


def commands(local: Local) -> str:
    """Return what to do with the running stack, with the option that names it if need be."""
    where = ""
    if Path(local.state_dir) != DEFAULT_FOLDER:
        where = f" --state-dir {shlex.quote(local.state_dir)}"
    return "\n  ".join(f"uv run sendoff {name}{where}" for name in COMMANDS)


def command(local: Local) -> str:
    """Return a shell command that sends one email; its key is fresh, so each screen sends anew."""
    body = json.dumps(
        {
            "channel": "email",
            "recipient": "ok+you@example.com",
            "content": {"subject": "Hello", "text": "It works."},
        }
    )
    return f"""\
curl -sS {local.api_url}/v1/notifications \\
  -H 'Authorization: Bearer {local.api_key}' \\
  -H 'Idempotency-Key: hello-{secrets.token_hex(4)}' \\
  -H 'Content-Type: application/json' \\
  -d '{body}'"""


def numbers() -> str:
    """Return the numbers that make the local channels fast."""
    sender, channel = LOCAL.sender, LOCAL.channel
    return (
        f"Local channels: retry base {channel['backoff_base_seconds']:g} s, "
        f"cap {channel['backoff_cap_seconds']:g} s, cutoff {channel['cutoff_seconds']:g} s, "
        f"provider deadline {sender.provider_deadline_seconds} s,\n"
        f"  sender timeout {sender.timeout_seconds} s, visibility {sender.visibility_seconds} s, "
        f"lease {sender.lease_seconds} s."
    )


def show(local: Local) -> None:
    """Print the screen as it is: nothing in it may be wrapped, or it could not be copied."""
    sys.stdout.write(screen(local))
    sys.stdout.flush()
