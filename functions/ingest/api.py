"""The API as one function: event in, answer out.

Powertools finds the route; here the caller is recognised and allowed, and every exception becomes a
problem answer. One log line per request: the route's pattern, never its path, query, headers or
body, for those hold addresses, contents and keys.
"""

import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError

from functions.core.errors import RequestRefused, Unavailable
from functions.core.problem import CONTENT_TYPE, Problem, problem_of, unavailable
from functions.ingest.caller import NOBODY, allow, caller_of
from functions.ingest.deployment import Deployment
from functions.ingest.request import Request, part
from functions.ingest.routes import ROUTES, Route, methods_at
from functions.store.connection import Database

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]

PREFIX = "/api"
"""``/api/v1/…`` routes to the same use cases as ``/v1/…``."""


def build(
    database: Database,
    *,
    hash_key: Callable[[], bytes],
    local_webhook_origin: str,
    logger: Logger,
) -> Handler:
    """Return the handler of the API over ``database``."""
    deployment = Deployment(
        database=database, hash_key=hash_key, local_webhook_origin=local_webhook_origin
    )
    return _Api(deployment, logger).handle


class _Api:
    """The routes of one function environment, which serves one request at a time."""

    def __init__(self, deployment: Deployment, logger: Logger) -> None:
        self._deployment = deployment
        self._logger = logger
        # debug=False: POWERTOOLS_DEV would print whole events.
        self._resolver = APIGatewayHttpResolver(strip_prefixes=[PREFIX], debug=False)
        for route in ROUTES:
            self._resolver.route(route.path, method=route.method)(self._serving(route))
        self._resolver.exception_handler(NotFoundError)(self._no_route)
        self._resolver.exception_handler(Exception)(self._explain)
        self._line: dict[str, Any] = {}

    def handle(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return the answer to an API Gateway event (HTTP API, payload 2.0)."""
        started = time.monotonic()
        event = _with_plain_path(event)
        self._line = {"request_id": part(event, "requestContext").get("requestId")}
        answer = self._resolver.resolve(event, context)
        milliseconds = round((time.monotonic() - started) * 1000, 1)
        line = {**self._line, "status": answer["statusCode"], "milliseconds": milliseconds}
        write = self._logger.error if answer["statusCode"] >= 500 else self._logger.info
        write("The request was answered.", extra=line)
        return answer

    def _serving(self, route: Route) -> Callable[..., Response[str]]:
        def serve(**path_parameters: str) -> Response[str]:
            event: Mapping[str, Any] = self._resolver.current_event.raw_event
            self._line["route"] = f"{route.method} {route.path}"
            caller = NOBODY
            if route.scope is not None:
                caller = caller_of(event)
                self._line["organization_id"] = str(caller.organization_id)
                self._line["key_id"] = caller.key_id
                allow(caller, route.scope)
            request = Request(
                event=event,
                organization_id=caller.organization_id,
                path_parameters=path_parameters,
            )
            answer = route.serve(request, self._deployment)
            return Response(
                status_code=answer.status,
                content_type=answer.content_type,
                body=answer.body,
                headers={"Cache-Control": "no-store", **answer.headers},
                compress=answer.compress,
            )

        return serve

    def _no_route(self, _: Exception) -> Response[str]:
        event = self._resolver.current_event
        path = event.path
        methods = methods_at(path[len(PREFIX) :] if path.startswith(f"{PREFIX}/") else path)
        if methods and event.http_method.upper() not in methods:  # else: an id of no id's form
            allowed = ", ".join(methods)
            return self._problem(
                Problem(
                    code="method_not_allowed",
                    detail=f"Here only {allowed} is known.",
                    headers={"Allow": allowed},
                )
            )
        return self._problem(Problem(code="not_found", detail="There is no such route."))

    def _explain(self, error: Exception) -> Response[str]:
        match error:
            case RequestRefused():
                return self._problem(problem_of(error))
            case Unavailable():
                self._line["error"] = error.detail
                return self._problem(unavailable())
            case _:
                # Its message may quote a value, so only its kind and its places are logged.
                self._line["error"] = type(error).__name__
                self._line["places"] = [
                    f"{frame.filename}:{frame.lineno}"
                    for frame in traceback.extract_tb(error.__traceback__)
                ]
                return self._problem(
                    Problem(code="internal_error", detail="The service made a mistake.")
                )

    def _problem(self, problem: Problem) -> Response[str]:
        self._line["code"] = problem.code
        return Response(
            status_code=problem.status,
            content_type=CONTENT_TYPE,
            body=problem.body(),
            headers={"Cache-Control": "no-store", **problem.headers},
        )


def _with_plain_path(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event with a path that no route has, if its own holds control characters.

    The resolver's pattern ends in ``$``, which also stands before a last newline.
    """
    path = event.get("rawPath")
    if isinstance(path, str) and not path.isprintable():
        return {**event, "rawPath": "/"}
    return event
