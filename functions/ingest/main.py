"""The API: notifications, batches, suppressions, health, and its own description.

Trigger  API Gateway HTTP API, payload 2.0; every route but callbacks, behind the authorizer
Input    the request, and in requestContext.authorizer.lambda what the authorizer found
Output   the answer; every refusal as application/problem+json
Failure  the database is out: 503 with Retry-After, nothing is stored, and the same request with the
         same key is safe to repeat
"""

import os

from functions.ingest.api import build
from functions.ingest.settings import Settings
from functions.runtime.credentials import Vault
from functions.runtime.observability import logger_for
from functions.runtime.settings import load
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
vault = Vault(os.environ)
handler = build(
    Database(connector(lambda: vault.database_login(settings), application_name="sendoff-ingest")),
    hash_key=lambda: vault.secret(settings.hash_secret_arn)["current"].encode(),
    local_webhook_origin=settings.local_webhook_origin,
    logger=logger_for(settings),
)
