"""Say whether this function and its database work."""

from functions.ingest.request import Request
from functions.ingest.service import Answer, Service, answer
from functions.store.health import ask


def get_health(request: Request, service: Service) -> Answer:
    """200 while the database answers; 503 otherwise."""
    request.parameters({})
    ask(service.database)
    return answer(200, {"status": "ok", "database": "ok"})
