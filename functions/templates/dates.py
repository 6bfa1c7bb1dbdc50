"""The filter ``date``: writes a day or a time that was given, never the present one.

Its own, for that of the library reads "now", fills what is left out from the day of the rendering,
and writes in the zone and the language of the machine.
"""

import re
from datetime import datetime

from functions.templates.errors import Unrenderable

_DAY = r"\d{4}-\d\d-\d\d"
_TIME = r"[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?"
_READABLE = re.compile(rf"{_DAY}(?:{_TIME})?", re.ASCII)
MAX_FORM_CHARACTERS = 256
_DATE_STEPS = 4
_DIRECTIVE_STEPS = 4
_DIRECTIVE = re.compile(r"%(-?)(.?)", re.DOTALL)

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def steps_of(form: str) -> int:
    """Return the steps that it takes to write a date as ``form`` says, as long as that may be."""
    return _DATE_STEPS + form.count("%", 0, MAX_FORM_CHARACTERS) * _DIRECTIVE_STEPS


def date(value: str, form: str) -> str:
    """Return ``value`` (RFC 3339, or a day) as ``form`` says, in the offset that it came with.

    Known are %Y %y %m %d %e %j %H %I %M %S %p %b %B %a %A %z and %%, with a hyphen (``%-d``)
    for no leading zero. Names are English; a template in another language writes numbers.
    """
    if len(form) > MAX_FORM_CHARACTERS:
        raise Unrenderable(f"The form of a date has at most {MAX_FORM_CHARACTERS} characters.")
    if _READABLE.fullmatch(value) is None:
        raise Unrenderable("The filter date reads a day or a time as in RFC 3339.")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise Unrenderable("The filter date was given a day or a time that is none.") from None

    def written(directive: re.Match[str]) -> str:
        text = _written(moment, directive[2])
        return text.lstrip("0 ") or "0" if directive[1] else text

    return _DIRECTIVE.sub(written, form)


def _written(moment: datetime, directive: str) -> str:
    match directive:
        case "Y":
            return f"{moment.year:04}"
        case "y":
            return f"{moment.year % 100:02}"
        case "m":
            return f"{moment.month:02}"
        case "d":
            return f"{moment.day:02}"
        case "e":
            return f"{moment.day:2}"
        case "j":
            return f"{moment.timetuple().tm_yday:03}"
        case "H":
            return f"{moment.hour:02}"
        case "I":
            return f"{(moment.hour + 11) % 12 + 1:02}"
        case "M":
            return f"{moment.minute:02}"
        case "S":
            return f"{moment.second:02}"
        case "p":
            return "AM" if moment.hour < 12 else "PM"
        case "B" | "b":
            name = _MONTHS[moment.month - 1]
            return name if directive == "B" else name[:3]
        case "A" | "a":
            name = _DAYS[moment.weekday()]
            return name if directive == "A" else name[:3]
        case "z":
            return moment.isoformat()[-6:].replace(":", "") if moment.tzinfo else ""
        case "%":
            return "%"
        case _:
            raise Unrenderable(f"The filter date knows no %{directive[:1]}.")
