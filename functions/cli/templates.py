"""`sendoff templates`: words kept as files, brought to the service, shown and previewed."""

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from functions.cli.api_client import ApiClient, ApiKey, ApiRefused, ApiUrl, using_api
from functions.cli.listing import number_of, say, short_time, show_table, write_json
from functions.cli.operating import REFUSED, AsJson
from functions.cli.stack import StateDir
from functions.cli.template_files import FilesRefused, TemplateFiles, read_folder
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="Templates: words by name and version.")

NEW, CHANGED, UNCHANGED, UNARCHIVED = "new", "changed", "unchanged", "unarchived"


@app.command()
def push(
    folder: Annotated[
        Path,
        typer.Argument(
            exists=True,
            file_okay=False,
            metavar="DIR",
            help="One folder per template, by its name.",
            show_default=False,
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be done, and do nothing.")
    ] = False,
    unarchive: Annotated[
        bool, typer.Option("--unarchive", help="Let what is archived and unchanged be used again.")
    ] = False,
    as_json: AsJson = False,
    api_url: ApiUrl = None,
    api_key: ApiKey = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Make a version of every template in DIR that is new or has changed.

    DIR/<name>/template.toml says `default_locale = "en"`. Beside it lies a file for each part:
    email.en.subject.liquid, email.en.text.liquid, email.en.html.liquid, sms.de-AT.text.liquid,
    push.en.title.liquid, push.en.body.liquid.

    Subjects, titles, bodies of push and SMS are one line: a line break, the template's or a
    value's, becomes a space. Hidden files, hidden folders and an editor's copies (name~) are left
    alone.

    Every file is checked before the first template is sent. A version is never changed: what was
    accepted with an earlier one is sent with that one. What was archived and has changed is in
    use again; what has not changed stays archived without --unarchive.
    """
    templates = _read(folder, as_json=as_json)
    done: list[dict[str, Any]] = []
    with using_api(state_dir, api_url=api_url, api_key=api_key, as_json=as_json) as api:
        for template in templates:
            try:
                done.append(_push(api, template, dry_run=dry_run, unarchive=unarchive))
            except ApiRefused as error:
                error.partial = {"data": done, "name": template.name}
                error.detail = "\n".join(_refusal(template, error))
                raise
    if as_json:
        write_json({"dry_run": dry_run, "data": done})
        return
    show_table(
        ("TEMPLATE", "VERSION", "STATE"),
        [(one["name"], one["version"], _words(one)) for one in done],
    )
    if archived := sum(one["archived"] for one in done):
        say(f"{number_of(archived, 'archived template')} can be used again by --unarchive.")
    if dry_run:
        count = sum(one["state"] in (NEW, CHANGED) for one in done)
        say(f"A push would make {number_of(count, 'version')}.")


def _read(folder: Path, *, as_json: bool) -> list[TemplateFiles]:
    try:
        return read_folder(folder)
    except FilesRefused as error:
        if as_json:
            write_json({"code": error.code, "detail": error.detail, "errors": list(error.lines)})
        typer.echo(error.detail, err=True)
        raise typer.Exit(REFUSED) from None


def _push(
    api: ApiClient, template: TemplateFiles, *, dry_run: bool, unarchive: bool
) -> dict[str, Any]:
    """Bring one template to the service; return what became of it."""
    path = f"/v1/templates/{template.name}"
    current = _current(api, path)
    version = 0 if current is None else current["latest_version"]
    is_archived = current is not None and current["archived_at"] is not None
    state = NEW
    if current is not None:
        same = {name: current[name] for name in template.document} == template.document
        unchanged = UNARCHIVED if is_archived and unarchive else UNCHANGED
        state = unchanged if same else CHANGED
    if state == UNCHANGED:
        return _done(template, version, state, is_archived=is_archived)
    if dry_run:
        return _done(template, version + (state != UNARCHIVED), state, is_archived=False)
    _, added = api.ask("POST", f"{path}/versions", template.document)
    return _done(template, added["version"], state, is_archived=False)


def _done(
    template: TemplateFiles, version: int, state: str, *, is_archived: bool
) -> dict[str, Any]:
    return {"name": template.name, "version": version, "state": state, "archived": is_archived}


def _current(api: ApiClient, path: str) -> dict[str, Any] | None:
    try:
        return api.ask("GET", path)[1]
    except ApiRefused as error:
        if error.status == 404:
            return None
        raise


def _refusal(template: TemplateFiles, error: ApiRefused) -> list[str]:
    lines = [template.line_of(fault) for fault in error.faults]
    return lines or [f"{template.name}: {error.detail}"]


def _words(done: dict[str, Any]) -> str:
    return f"{done['state']}, archived" if done["archived"] else done["state"]


@app.command("list")
def list_templates(
    as_json: AsJson = False,
    api_url: ApiUrl = None,
    api_key: ApiKey = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List the templates of the key's organization."""
    found: list[dict[str, Any]] = []
    with using_api(state_dir, api_url=api_url, api_key=api_key, as_json=as_json) as api:
        cursor: str | None = ""
        while cursor is not None:
            query = f"&cursor={cursor}" if cursor else ""
            _, page = api.ask("GET", f"/v1/templates?limit=100{query}")
            found += page["data"]
            cursor = page["next_cursor"]
    if as_json:
        write_json({"data": found})
    elif found:
        show_table(
            ("TEMPLATE", "VERSION", "CHANGED", "ARCHIVED"),
            [
                (
                    one["name"],
                    one["latest_version"],
                    short_time(one["updated_at"]),
                    short_time(one["archived_at"]),
                )
                for one in found
            ],
        )
    else:
        say("There is no template.")


@app.command()
def preview(
    name: Annotated[str, typer.Argument(help="The template.", show_default=False)],
    channel: Annotated[
        str, typer.Option("--channel", help="email, sms or push.", show_default=False)
    ],
    locale: Annotated[
        str, typer.Option("--locale", help="What the recipient reads.", show_default=False)
    ],
    data: Annotated[
        str, typer.Option("--data", help="The values as JSON, or @FILE of them.")
    ] = "{}",
    version: Annotated[int | None, typer.Option("--version", min=1)] = None,
    as_json: AsJson = False,
    api_url: ApiUrl = None,
    api_key: ApiKey = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Show the words that a recipient would get; nothing is sent."""
    body = {"channel": channel, "locale": locale, "data": _values(data), "version": version}
    with using_api(state_dir, api_url=api_url, api_key=api_key, as_json=as_json) as api:
        try:
            _, shown = api.ask("POST", f"/v1/templates/{quote(name, safe='')}/preview", body)
        except ApiRefused as error:
            lines = [f"{fault.pointer}: {fault.detail}" for fault in error.faults]
            error.detail = "\n".join(lines) or error.detail
            raise
    if as_json:
        write_json(shown)
        return
    rendered: Any = shown["rendered"]
    parts: dict[str, str] = {"text": rendered} if isinstance(rendered, str) else rendered
    for part, text in parts.items():
        say(f"{part}:")
        for line in text.split("\n"):
            say(f"  {line}")
    if shown["segments"] is not None:
        say(f"{number_of(shown['segments'], 'part')} in {shown['encoding']}.")


def _values(text: str) -> Any:
    """Return the values on the command line, or in the file that it names."""
    try:
        if text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(
            "It is JSON, or @ and a file of it.", param_hint="--data"
        ) from error
