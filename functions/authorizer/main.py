"""Authorizer: trigger a request to the HTTP API, output who presents its key.

Input    an authorizer event, payload 2.0; no identity source, so nothing is cached by the gateway
Output   the simple response, always authorized, with what was found as context
Failure  the database is out: the context says so, and the function behind answers 503
"""

import os
from typing import Any

from functions.authorizer.authorize import KeyCache, authorize
from functions.authorizer.settings import Settings
from functions.runtime.credentials import Vault
from functions.runtime.observability import logger_for
from functions.runtime.settings import load
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
vault = Vault(os.environ)
keys = KeyCache(
    Database(
        connector(lambda: vault.database_login(settings), application_name="sendoff-authorizer")
    )
)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    answer = authorize(event, keys=keys)
    logger.info("Recognised a caller", extra={**answer["context"]})
    return answer
