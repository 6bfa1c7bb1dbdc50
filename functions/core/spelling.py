"""How an address may be spelt in somebody's free text: what is looked for when it is erased.

Elsewhere only what can hardly mean anything else is looked for: a device token of a few characters
stands in every other word. In what was the recipient's own a part of a word is enough.
"""

import re
from urllib.parse import quote

from functions.core.states import Channel

MIN_TOKEN_CHARACTERS = 16
MIN_OWN_TOKEN_CHARACTERS = 6
MIN_NATIONAL_DIGITS = 8
MIN_OWN_NATIONAL_DIGITS = 6


def spellings_of(channel: str, address: str, *, own: bool = False) -> list[str]:
    """Return the spellings of a normalised address, in lower case: as it is looked for anywhere, or
    in its ``own`` notifications.

    A telephone number is its digits alone, with the country's code, and with a 0 instead: what
    separates them in a text is passed over there.
    """
    match channel:
        case Channel.SMS:
            least = MIN_OWN_NATIONAL_DIGITS if own else MIN_NATIONAL_DIGITS
            national = _national_digits(address)
            return [
                address.removeprefix("+"),
                *([f"0{national}"] if len(national) >= least else []),
            ]
        case Channel.EMAIL:
            local, _, domain = address.lower().rpartition("@")
            names = [f"{local}@{name}" for name in _names_of(domain)]
            return _also_encoded(names, [name.replace("@", "%40") for name in names])
        case Channel.WEBHOOK:
            scheme, _, rest = address.lower().partition("://")
            host = re.split("[:/]", rest, maxsplit=1)[0]
            names = [f"{scheme}://{name}{rest[len(host) :]}" for name in _names_of(host)]
            if rest.endswith("/") and rest.count("/") == 1:  # nobody writes the slash after a host
                names = [name.removesuffix("/") for name in names]
            return _also_encoded(names, [])
        case _:
            least = MIN_OWN_TOKEN_CHARACTERS if own else MIN_TOKEN_CHARACTERS
            return _also_encoded([address.lower()], []) if len(address) >= least else []


def references_of(channel: str, address: str) -> list[str]:
    """Return the ids that a recipient may have who is called like this very address."""
    match channel:
        case Channel.SMS:
            return [address.removeprefix("+")]
        case Channel.PUSH if re.fullmatch(r"[A-Za-z0-9._:-]{16,128}", address):
            return [address]
        case _:
            return []


def _also_encoded(names: list[str], others: list[str]) -> list[str]:
    """Return the spellings and what else there is of them, as in the query of a URL last."""
    encoded = [quote(name, safe="").lower() for name in names]
    return list(dict.fromkeys([*names, *others, *encoded]))


def _national_digits(number: str) -> str:
    """Return the digits of a telephone number in E.164 without the country's code."""
    from phonenumbers import NumberParseException, parse  # 60 ms that are seldom needed

    try:
        return str(parse(number, None).national_number or "")
    except NumberParseException:
        return ""


def _names_of(host: str) -> list[str]:
    """Return ``host`` as it is stored, and as people write it."""
    if "xn--" not in host:
        return [host]
    import idna  # seldom: most hosts are ASCII

    try:
        return [host, idna.decode(host)]
    except (idna.IDNAError, UnicodeError):
        return [host]
