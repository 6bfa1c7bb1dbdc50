"""Ingest: the API, and the other doors to the same acceptance: SQL, events, schedules.

Trigger  API Gateway HTTP API, payload 2.0; every route but callbacks, behind the authorizer. And
         asynchronously: an event bus, a schedule, the claim where it sees requests that wait
Input    the request, and in requestContext.authorizer.lambda what the authorizer found; or a batch
         in an event's detail or as a schedule's input (event.py); or {"drain": true}
Output   the answer; every refusal as application/problem+json
Failure  the database is out: 503 with Retry-After, nothing is stored, and the same request with the
         same key is safe to repeat. An event fails, is repeated twice and then kept as a dead
         letter; requests wait
"""

import os

from functions.ingest.api import build
from functions.ingest.deployment import Deployment
from functions.ingest.dispatch import dispatching
from functions.ingest.settings import Settings
from functions.runtime.credentials import Vault
from functions.runtime.observability import emitter_for, logger_for
from functions.runtime.settings import load
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
vault = Vault(os.environ)
logger = logger_for(settings)
deployment = Deployment(
    database=Database(
        connector(lambda: vault.database_login(settings), application_name="sendoff-ingest")
    ),
    hash_key=lambda: vault.secret(settings.hash_secret_arn)["current"].encode(),
    local_webhook_origin=settings.local_webhook_origin,
)
handler = dispatching(
    build(
        deployment.database,
        hash_key=deployment.hash_key,
        local_webhook_origin=deployment.local_webhook_origin,
        logger=logger,
    ),
    deployment=deployment,
    logger=logger,
    emit_metrics=emitter_for(settings),
)
