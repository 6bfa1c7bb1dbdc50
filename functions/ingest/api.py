"""The API as one function: event in, answer out.

Powertools finds the route; here the caller is known by what the authorizer found, allowed by scope,
and every exception becomes a problem answer. One log line per request: never its path, its query,
its body or a header, for those hold addresses, contents and keys.
"""

import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError

from functions.core.errors import RequestRefused, Unavailable
from functions.ingest.admission import Door
from functions.ingest.problem import CONTENT_TYPE, Problem, Refused, problem_of, unavailable
from functions.ingest.request import Request
from functions.ingest.routes import ROUTES, Route, Scope, methods_at
from functions.ingest.service import Answer, Service
from functions.store.connection import Database

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]

PREFIX = "/api"
"""``/api/v1/…`` routes to the same use cases as ``/v1/…``."""

NOBODY = UUID(int=0)
"""The organization of a request that needs no key."""


def build(
    database: Database,
    *,
    hash_key: bytes,
    cursor_key: bytes,
    local_webhook_origin: str,
    logger: Logger,
) -> Handler:
    """Return the handler of the API over ``database``."""
    service = Service(
        database=database,
        door=Door(hash_key=hash_key, local_webhook_origin=local_webhook_origin),
        cursor_key=cursor_key,
    )
    # debug=False: POWERTOOLS_DEV would print whole events.
    resolver = APIGatewayHttpResolver(strip_prefixes=[PREFIX], debug=False)
    for route in ROUTES:
        resolver.route(route.path, method=route.method)(partial(_serve, resolver, service, route))
    resolver.not_found(partial(_no_route, resolver))
    resolver.exception_handler(Exception)(partial(_explain, resolver, logger))
    return partial(_handle, resolver, logger)


def _handle(
    resolver: APIGatewayHttpResolver, logger: Logger, event: dict[str, Any], context: Any
) -> dict[str, Any]:
    started = time.monotonic()
    response = resolver.resolve(event, context)
    route = ...
    return response
