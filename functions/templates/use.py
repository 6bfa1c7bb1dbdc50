"""May a version be used with these values? Asked when a notification is accepted, so that nothing
is found out when it is sent: every variable is there, and the words are words of the channel.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from functions.core.content import UnreadableContent, pointer_token, read_content
from functions.core.errors import Fault
from functions.core.segment import encoded
from functions.core.states import Channel
from functions.core.strict_json import MAX_FAULTS
from functions.templates.budget import Budget
from functions.templates.choice import PARTS, words_of
from functions.templates.errors import Malformed, Unrenderable
from functions.templates.reading import Steps
from functions.templates.render import Values, compiled_part, render, render_words
from functions.templates.values import data_faults

Document = Mapping[str, Any]
Place = tuple[str, str]
"""A channel and a locale of a version."""


def check_use(
    document: Document, *, channels: Iterable[str], data: Any, budget: Budget | None = None
) -> list[Fault]:
    """Return what is wrong with ``data`` for ``channels``, by pointers below the template.

    Every variable that the version refers to anywhere must be given; every locale of ``channels``
    is rendered as it would be sent. Variables beyond those do no harm. ``budget`` is the request's.
    """
    wanted = list(channels)
    if missing := [name for name in wanted if not document["channels"].get(name)]:
        detail = f"This version has no words for {', '.join(missing)}."
        return [Fault("/name", "not_allowed", detail)]
    places = [(channel, locale) for channel in wanted for locale in document["channels"][channel]]
    return check_places(document, places, _places(document), data=data, budget=budget or Budget())


def check_places(
    document: Document,
    rendered: Iterable[Place],
    read: Iterable[Place],
    *,
    data: Any,
    budget: Budget,
) -> list[Fault]:
    """Return the faults of ``data`` where it is ``read`` at all, and then where it is rendered."""
    if faults := data_faults(data):
        return faults
    try:
        budget.weigh(data)
        if faults := _missing(document, read, data, budget):
            return faults
        values = Values(data)
        for channel, locale in rendered:
            faults += _faults_of_words(document, channel, locale, values, budget)
    except Unrenderable as error:
        faults.append(Fault("", error.item_code, error.detail))
    return faults[:MAX_FAULTS]


def most_segments(document: Document, *, data: Any) -> int | None:
    """Return the most parts that an SMS of this version has, over its locales; None without SMS.

    Raises Unrenderable; never for what ``check_use`` found right.
    """
    locales = document["channels"].get(Channel.SMS) or ()
    texts = [render(document, channel=Channel.SMS, locale=locale, data=data) for locale in locales]
    return max((encoded(str(text)).segments for text in texts), default=None)


def _places(document: Document) -> list[Place]:
    channels = document["channels"]
    return [(channel, locale) for channel in PARTS for locale in channels.get(channel) or ()]


def _missing(
    document: Document, places: Iterable[Place], data: dict[str, Any], budget: Budget
) -> list[Fault]:
    paths: set[Steps] = set()
    for channel, locale in places:
        for part, source in words_of(document, channel, locale).items():
            budget.read(source)
            reads = compiled_part(part, source).reads
            budget.spend(len(reads))
            paths |= {path for path in reads if not _is_given(data, path)}
    return [
        Fault(
            "/data" + "".join(f"/{pointer_token(str(step))}" for step in path),
            "missing_variable",
            "The template needs it, and it is missing or null.",
        )
        for path in sorted(paths, key=lambda path: tuple(map(str, path)))[:MAX_FAULTS]
    ]


def _is_given(data: dict[str, Any], path: Steps) -> bool:
    """Whether ``path`` leads to a value. Within a list the rendering itself will show it."""
    value: Any = data
    for step in path:
        if isinstance(value, list) or (step == "size" and isinstance(value, str)):
            return True
        if not isinstance(value, dict) or step not in value:
            return False
        value = cast("dict[Any, Any]", value)[step]
    return value is not None


def _faults_of_words(
    document: Document, channel: str, locale: str, values: Values, budget: Budget
) -> list[Fault]:
    words = words_of(document, channel, locale)
    try:
        content = render_words(words, channel=channel, values=values, budget=budget)
        read_content(channel, content)
    except Unrenderable as error:
        return [Fault("/data", error.item_code, f"In {channel}, {locale}: {error.detail}")]
    except Malformed as error:  # a version made before a rule was added
        return [Fault("/name", "not_allowed", f"In {channel}, {locale}: {error.detail}")]
    except UnreadableContent as error:
        return [
            Fault("/data", fault.code, f"In {channel}, {locale}{fault.pointer}: {fault.detail}")
            for fault in error.faults
        ]
    return []
