"""Say whether this function and its database work."""

from functions.ingest.answer import Answer, answer
from functions.ingest.deployment import Deployment
from functions.ingest.request import Request
from functions.store.health import ask


def get_health(request: Request, deployment: Deployment) -> Answer:
    """200 while the database answers; 503 otherwise."""
    request.parameters({})
    ask(deployment.database)
    return answer(200, {"status": "ok", "database": "ok"})
