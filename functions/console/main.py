"""Console: trigger an operator's command by IAM invoke, output an answer (console.py has both).

A failure tells nothing but that it failed; what changes something has then changed it with its
audit, or not at all, and the log says where it failed.
"""

import os
from typing import Any

from functions.console import console
from functions.console.command import Equipment
from functions.console.settings import Settings
from functions.runtime.credentials import Vault
from functions.runtime.dead_letter import DeadLetters, client
from functions.runtime.observability import failing_quietly, logger_for
from functions.runtime.settings import load
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
vault = Vault(os.environ)
equipment = Equipment(
    database=Database(
        connector(lambda: vault.database_login(settings), application_name="sendoff-console")
    ),
    dead_letters=DeadLetters(
        client(),
        {
            "email": settings.email_dead_letters_url,
            "sms": settings.sms_dead_letters_url,
            "push": settings.push_dead_letters_url,
            "webhook": settings.webhook_dead_letters_url,
        },
    ),
    hash_key=lambda: vault.secret(settings.hash_secret_arn)["current"].encode(),
    webhook_masters=lambda: vault.webhook_secrets(settings.webhook_secret_arn),
)


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    asked = console.read(event)
    logger.append_keys(command=asked.command, actor=asked.actor)
    answer = console.answer(asked, equipment)
    logger.info("Answered an operator", extra=answer.counts)
    return answer.body
