"""The API describes itself: an OpenAPI document, and a page that shows it."""

from functools import lru_cache

from functions.ingest.answer import Answer
from functions.ingest.deployment import Deployment
from functions.ingest.request import Request


def get_openapi(request: Request, deployment: Deployment) -> Answer:
    """200 with the OpenAPI document."""
    del deployment
    request.parameters({})
    return Answer(status=200, body=_openapi_text(), headers=_FRESH, compress=True)


def get_docs(request: Request, deployment: Deployment) -> Answer:
    """200 with a page that needs nothing from elsewhere."""
    del deployment
    request.parameters({})
    return Answer(
        status=200,
        body=_docs_page(),
        headers=_FRESH,
        content_type="text/html; charset=utf-8",
        compress=True,
    )


_FRESH = {"Cache-Control": "no-cache"}


@lru_cache(maxsize=1)
def _openapi_text() -> str:
    from functions.ingest.openapi import openapi_text  # nobody who sends needs it

    return openapi_text()


@lru_cache(maxsize=1)
def _docs_page() -> str:
    from functions.ingest.docs_page import docs_page  # 1.7 MB that few requests need

    return docs_page()
