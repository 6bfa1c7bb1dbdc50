"""Unsubscribe links: looking changes nothing, posting stops one category for one address.

Scanners and mail programs fetch every link of a message, so GET and HEAD only show what a POST
would do. The POST comes from the page's own form or from the mailbox provider (RFC 8058), without
a key and without cookies: the token in the path is all the authority there is and all that is
needed. What else the request holds is not read, body or query: no choice of anybody's is lost over
how a form was encoded, or what was added to the link on its way.
"""

from functions.core.errors import NotFound
from functions.core.problem import Refused
from functions.core.suppression import SuppressionReason
from functions.core.unsubscribe import PATH_BEFORE, Subject, read_token, unsubscribe_key
from functions.ingest import unsubscribe_page as page
from functions.ingest.answer import Answer
from functions.ingest.deployment import Deployment
from functions.ingest.request import Request
from functions.store import suppression as store

PATH = f"{PATH_BEFORE}<token>"
MAX_BODY_BYTES = 16 * 1024
"""Of a form with one field, however it is encoded."""
SOURCE = "unsubscribe"
_BROKEN = "This is not an unsubscribe link of ours; it may have been cut off on its way."


def get_unsubscribe(request: Request, deployment: Deployment) -> Answer:
    """200 with the page that asks; changes nothing. 404 for a token that is not ours."""
    subject = _subject(request, deployment)
    if subject is None:
        return _broken(request)
    is_needed = store.is_transactional(
        deployment.database,
        organization_id=subject.organization_id,
        category=subject.category,
    )
    show = page.needed if is_needed else page.question
    return _answer(show(subject.channel, subject.category))


def head_unsubscribe(request: Request, deployment: Deployment) -> Answer:
    """What GET answers, without the page."""
    shown = get_unsubscribe(request, deployment)
    return Answer(
        status=shown.status, body="", headers=shown.headers, content_type=shown.content_type
    )


def post_unsubscribe(request: Request, deployment: Deployment) -> Answer:
    """200 once no message of the category will be begun any more, again and again.

    Also 200, with a page that says so and nothing stored, where the organization has made the
    category transactional since the message: a link in a newsletter never stops a code.
    """
    subject = _subject(request, deployment)
    if subject is None:
        return _broken(request)
    if len(request.body_bytes()) > MAX_BODY_BYTES:
        raise Refused("too_large", f"A body has at most {MAX_BODY_BYTES} bytes here.")
    is_stopped = store.unsubscribe(
        deployment.database,
        organization_id=subject.organization_id,
        fact=store.NewSuppression(
            channel=subject.channel,
            recipient=None,  # the token holds no address
            recipient_hash=subject.recipient_hash,
            category=subject.category,
            reason=SuppressionReason.RECIPIENT_CHOICE,
            source=SOURCE,
            source_at=None,
            evidence=None,
        ),
    )
    show = page.done if is_stopped else page.needed
    return _answer(show(subject.channel, subject.category))


def _subject(request: Request, deployment: Deployment) -> Subject | None:
    return read_token(unsubscribe_key(deployment.hash_key()), request.path_parameters["token"])


def _answer(body: str, *, status: int = 200) -> Answer:
    return Answer(status=status, body=body, headers=page.HEADERS, content_type=page.CONTENT_TYPE)


def _broken(request: Request) -> Answer:
    """Return 404: a page for a person, a problem for a program."""
    if "text/html" not in request.headers.get("accept", "").lower():
        raise NotFound(_BROKEN)
    return _answer(page.broken(), status=404)
