"""The migrate function as two Lambda-backed custom resources: do it, and tell CloudFormation.

Custom::Migration   ``Version`` (changes with the migration files, so that a deployment runs it
                    again) and ``Channels``, a JSON object of channel → column → number
Custom::Start       ``Functions``, the names of the loops to start, and ``Version`` of their code

Deleting either changes nothing: the schema belongs to the database, which outlives the service.

CloudFormation is told once. A failure that it was told of is not raised as well: the platform would
run the function again, in the middle of the rollback.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import urllib3

from functions.core.errors import SendoffError
from functions.migrate.migrate import configure, migrate
from functions.store.connection import Connect

START = "Custom::Start"
RESOURCE_IDS = {START: "loops"}
RESOURCE_ID = "schema"
_TIMEOUT = urllib3.Timeout(connect=5.0, read=10.0)


def answer_to(
    event: dict[str, Any],
    *,
    connect: Connect,
    start: Callable[[Sequence[str]], None],
    log_stream: str,
) -> dict[str, Any]:
    """Do what ``event`` asks and answer its ResponseURL; return what was done, or why it failed.

    Called without a ResponseURL (by hand), it raises instead of answering.
    """
    if "ResponseURL" not in event:
        return _migrate(event.get("ResourceProperties", {}), connect)
    done: dict[str, Any] = {"applied": []}
    try:
        if event["RequestType"] != "Delete":
            properties = event["ResourceProperties"]
            if event["ResourceType"] == START:
                start(properties["Functions"])
                done = {"started": properties["Functions"]}
            else:
                done = _migrate(properties, connect)
    except Exception as error:
        reason = f"{_say(error)} (log stream {log_stream})"
        _respond(event, status="FAILED", reason=reason)
        return {"failed": reason}
    _respond(event, status="SUCCESS", reason="")
    return done


def _say(error: Exception) -> str:
    """Return what an operator needs to know, without the row that a database error may quote."""
    if isinstance(error, SendoffError):
        return error.detail
    name = type(error).__name__
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return f"{name}: {primary}" if primary else name


def _migrate(properties: dict[str, Any], connect: Connect) -> dict[str, Any]:
    with connect() as connection:
        applied = migrate(connection)
        configure(connection, json.loads(properties.get("Channels", "{}")))
    return {"applied": applied}


def _respond(event: dict[str, Any], *, status: str, reason: str) -> None:
    body = {
        "Status": status,
        "Reason": reason,
        "PhysicalResourceId": RESOURCE_IDS.get(event["ResourceType"], RESOURCE_ID),
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    answer = urllib3.request(
        "PUT",
        event["ResponseURL"],
        body=json.dumps(body).encode(),
        headers={"Content-Type": ""},  # the presigned URL was signed without one
        timeout=_TIMEOUT,
        retries=3,
    )
    if answer.status >= 300:
        raise SendoffError(f"CloudFormation's answer URL refused the answer ({answer.status}).")
