"""May a version be used with these values? Asked when a notification is accepted, so that nothing
is found out when it is sent: every variable is there, and the words are words of the channel.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from functions.core.content import UnreadableContent, pointer_token, read_content
from functions.core.errors import Fault
from functions.core.segment import encoded
from functions.core.states import Channel
from functions.core.strict_json import MAX_FAULTS
from functions.templates.budget import IN_AN_ITEM, ITEM_STEPS, Budget
from functions.templates.choice import PARTS, words_of
from functions.templates.errors import Malformed, Overdrawn, Unrenderable
from functions.templates.given import Steps, lacking
from functions.templates.render import read_part, render_words
from functions.templates.values import Refused, Values

Document = Mapping[str, Any]
Place = tuple[str, str]
"""A channel and a locale of a version."""

_PLACE_STEPS = 5
"""To come to the words of a language, whatever they are."""
_PATHS_PER_STEP = 4
"""To put together what several languages refer to."""


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
    faults: list[Fault] = []
    try:
        values = Values(data)
        budget.weigh([values.form, values.form])  # to bring it into its form, and to measure that
        faults = _missing(document, read, values, budget)
        if faults:
            return faults
        with budget.within(ITEM_STEPS, IN_AN_ITEM, kind=Overdrawn) as share:
            for channel, locale in rendered:
                faults += _faults_of_words(document, channel, locale, values, share)
    except Refused as error:
        return [error.fault]
    except Unrenderable as error:
        faults.append(Fault("", error.item_code, error.detail))
    except Malformed as error:  # a version made before a rule was added
        faults.append(Fault("/name", "not_allowed", error.detail))
    return faults[:MAX_FAULTS]


def most_segments(document: Document, *, data: Any, budget: Budget | None = None) -> int | None:
    """Return the most parts that an SMS of this version has, over its locales; None without SMS.

    Raises Unrenderable; never for what ``check_use`` found right, unless it is for the ``budget``
    of the request.
    """
    locales = document["channels"].get(Channel.SMS)
    if not locales:
        return None
    values = Values(data)
    with (budget or Budget()).within(ITEM_STEPS, IN_AN_ITEM, kind=Overdrawn) as share:
        return max(
            encoded(str(_words(document, Channel.SMS, locale, values, share))).segments
            for locale in locales
        )


def _places(document: Document) -> list[Place]:
    channels = document["channels"]
    return [(channel, locale) for channel in PARTS for locale in channels.get(channel) or ()]


def _missing(
    document: Document, places: Iterable[Place], values: Values, budget: Budget
) -> list[Fault]:
    paths: set[Steps] = set()
    for channel, locale in places:
        budget.spend(_PLACE_STEPS)
        for part, source in words_of(document, channel, locale).items():
            reads = read_part(part, source, budget).reads
            budget.spend(len(reads) // _PATHS_PER_STEP)
            paths |= reads
    found = (lacking(values.form, path, budget) for path in paths)
    missing = {place for place in found if place is not None}
    return [
        Fault(
            "/data" + "".join(f"/{pointer_token(str(step))}" for step in place),
            "missing_variable",
            "The template needs it, and it is missing or null.",
        )
        for place in sorted(missing, key=lambda place: tuple(map(str, place)))[:MAX_FAULTS]
    ]


def _faults_of_words(
    document: Document, channel: str, locale: str, values: Values, budget: Budget
) -> list[Fault]:
    here = f"In {channel}, {locale}"
    try:
        read_content(channel, _words(document, channel, locale, values, budget))
    except Overdrawn:
        raise
    except Unrenderable as error:
        return [Fault("/data", error.item_code, f"{here}: {error.detail}")]
    except UnreadableContent as error:
        return [
            Fault("/data", fault.code, f"{here}{fault.pointer}: {fault.detail}")
            for fault in error.faults
        ]
    return []


def _words(
    document: Document, channel: str, locale: str, values: Values, budget: Budget
) -> dict[str, str] | str:
    budget.spend(_PLACE_STEPS)
    words = words_of(document, channel, locale)
    return render_words(words, channel=channel, values=values, budget=budget)
