"""Migrate: trigger a deployment (CloudFormation custom resources), output what was done.

A failure is reported to CloudFormation, which rolls the deployment back; what was applied stays,
since migrations only ever expand what the previous version needs.
"""

import os
from typing import Any

from functions.migrate.deployment import answer_to
from functions.migrate.settings import Settings
from functions.runtime.credentials import Vault
from functions.runtime.invocation import start
from functions.runtime.observability import failing_quietly, logger_for
from functions.runtime.settings import load
from functions.store.connection import connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
vault = Vault(os.environ)
connect = connector(lambda: vault.database_login(settings), application_name="sendoff-migrate")


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    answer = answer_to(event, connect=connect, start=start, log_stream=context.log_stream_name)
    write = logger.error if "failed" in answer else logger.info
    write("Migrated", extra=answer)
    return answer
