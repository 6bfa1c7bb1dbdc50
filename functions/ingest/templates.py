"""Make, list, read, preview and archive templates."""

import re
from typing import Any, cast

from pydantic import TypeAdapter

from functions.core.errors import Fault, NotFound, ValidationFailed
from functions.core.segment import encoded
from functions.core.states import Channel
from functions.ingest import representation
from functions.ingest.answer import Answer, answer
from functions.ingest.browse import read_limit
from functions.ingest.cursor import read_cursor, write_cursor
from functions.ingest.deployment import Deployment
from functions.ingest.faults import validate
from functions.ingest.request import Request
from functions.ingest.template_schemas import PreviewRequest
from functions.store import template as store
from functions.templates.choice import NAME

LIST_PARAMETERS = {"limit": False, "cursor": False}
"""Query parameters of the list, and whether each may be repeated."""

LIST = "/v1/templates"
TEMPLATE = "/v1/templates/<template_name>"
VERSIONS = f"{TEMPLATE}/versions"
VERSION = f"{VERSIONS}/<version>"
PREVIEW = f"{TEMPLATE}/preview"
ARCHIVE = f"{TEMPLATE}/archive"

_PREVIEW: TypeAdapter[PreviewRequest] = TypeAdapter(PreviewRequest)


def post_version(request: Request, deployment: Deployment) -> Answer:
    """201 with the new version; 200 with the latest when its document is equal."""
    from functions.templates.document import check_document  # costs 0.3 s, seldom needed

    request.parameters({})
    name = request.path_parameters.get("template_name", "")
    if not _is_name(name):
        detail = f"The name of a template matches {NAME}."
        raise ValidationFailed([Fault("", "not_allowed", detail)], detail)
    document = request.json_body()
    if faults := check_document(document):
        raise ValidationFailed(faults)
    version, is_new = store.add_version(
        deployment.database,
        organization_id=request.organization_id,
        name=name,
        document=document,
    )
    return answer(201 if is_new else 200, {"name": name, "version": version})


def list_templates(request: Request, deployment: Deployment) -> Answer:
    """200 with a page of templates in the order of their names, archived ones too."""
    parameters = request.parameters(LIST_PARAMETERS)
    limit = read_limit(parameters)
    rows = store.list_templates(
        deployment.database,
        organization_id=request.organization_id,
        after=_read_after(parameters, request, deployment),
        limit=limit + 1,
    )
    shown = rows[:limit]
    next_cursor = None
    if len(rows) > limit:
        next_cursor = _write_after(shown[-1].name, request, deployment)
    return answer(200, representation.page([_summary(row) for row in shown], next_cursor))


def get_template(request: Request, deployment: Deployment) -> Answer:
    """200 with the template and the words of its latest version."""
    request.parameters({})
    template, version = _read(request, deployment)
    return answer(200, {**_summary(template), **version.document})


def get_version(request: Request, deployment: Deployment) -> Answer:
    """200 with one version, as it was made."""
    request.parameters({})
    text = request.path_parameters.get("version", "")
    if re.fullmatch(r"[1-9][0-9]{0,8}", text, re.ASCII) is None:
        raise NotFound
    _, version = _read(request, deployment, version=int(text))
    return answer(
        200,
        {
            "name": version.name,
            "version": version.version,
            "created_at": version.created_at,
            **version.document,
        },
    )


def post_preview(request: Request, deployment: Deployment) -> Answer:
    """200 with the words as a recipient would get them; nothing is stored or sent."""
    from functions.templates.budget import Budget  # these cost 0.3 s, and are seldom needed
    from functions.templates.choice import locale_of
    from functions.templates.render import render
    from functions.templates.use import check_places

    request.parameters({})
    asked = cast("dict[str, Any]", validate(_PREVIEW, request.json_body()))
    _, found = _read(request, deployment, version=asked.get("version"))
    channel = asked["channel"]
    if not found.document["channels"].get(channel):
        raise ValidationFailed([Fault("/channel", "not_allowed", "It has no words for it.")])
    locale = locale_of(found.document, channel, asked["locale"])
    place = [(channel, locale)]
    if faults := check_places(found.document, place, place, data=asked["data"], budget=Budget()):
        raise ValidationFailed(faults)
    rendered = render(found.document, channel=channel, locale=locale, data=asked["data"])
    sms = encoded(str(rendered)) if channel == Channel.SMS else None
    return answer(
        200,
        {
            "name": found.name,
            "version": found.version,
            "channel": channel,
            "locale": locale,
            "rendered": rendered,
            "encoding": sms and sms.encoding,
            "segments": sms and sms.segments,
        },
    )


def post_archive(request: Request, deployment: Deployment) -> Answer:
    """200 with the template, archived: nothing new is accepted with it, whatever was is sent."""
    request.parameters({})
    request.no_body()
    archived = store.archive(
        deployment.database, organization_id=request.organization_id, name=_name(request)
    )
    return answer(200, _summary(archived))


def _read(
    request: Request, deployment: Deployment, *, version: int | None = None
) -> tuple[store.Template, store.Version]:
    return store.read_template(
        deployment.database,
        organization_id=request.organization_id,
        name=_name(request),
        version=version,
    )


def _name(request: Request) -> str:
    """Return the name in the path; a malformed one is not found, like a foreign one."""
    name = request.path_parameters.get("template_name", "")
    if not _is_name(name):
        raise NotFound
    return name


def _is_name(text: str) -> bool:
    return re.fullmatch(NAME[1:-1], text, re.ASCII) is not None


def _summary(template: store.Template) -> dict[str, Any]:
    return {
        "name": template.name,
        "latest_version": template.latest_version,
        "archived_at": template.archived_at,
        "created_at": template.created_at,
        "updated_at": template.updated_at,
    }


# A cursor of names: the name it goes on after, and the code of a cursor that is bound to it.


def _write_after(name: str, request: Request, deployment: Deployment) -> str:
    code = write_cursor(
        deployment.cursor_key,
        organization_id=request.organization_id,
        filters=_bound(name),
        last_id=request.organization_id,
    )
    return f"{name}~{code}"


def _read_after(
    parameters: dict[str, list[str]], request: Request, deployment: Deployment
) -> str | None:
    if "cursor" not in parameters:
        return None
    name, _, code = parameters["cursor"][0].rpartition("~")
    read_cursor(
        deployment.cursor_key,
        code,
        organization_id=request.organization_id,
        filters=_bound(name),
    )
    return name


def _bound(name: str) -> dict[str, str]:
    return {"list": "templates", "after": name}
