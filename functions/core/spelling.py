"""How an address may be spelt in somebody's free text: what is looked for when it is erased.

Only what can hardly mean anything else is looked for: a device token of a few characters stands in
every other word.
"""

import re

from functions.core.states import Channel

MIN_TOKEN_CHARACTERS = 16


def spellings_of(channel: str, address: str) -> list[str]:
    """Return the spellings of a normalised address, in lower case.

    A telephone number is its digits alone: what separates them in a text is passed over there.
    """
    match channel:
        case Channel.SMS:
            return [address.removeprefix("+")]
        case Channel.EMAIL:
            local, _, domain = address.lower().rpartition("@")
            names = [f"{local}@{name}" for name in _names_of(domain)]
            return [*names, *(name.replace("@", "%40") for name in names)]
        case Channel.WEBHOOK:
            scheme, _, rest = address.lower().partition("://")
            host = re.split("[:/]", rest, maxsplit=1)[0]
            return [f"{scheme}://{name}{rest[len(host) :]}" for name in _names_of(host)]
        case _:
            return [address.lower()] if len(address) >= MIN_TOKEN_CHARACTERS else []


def _names_of(host: str) -> list[str]:
    """Return ``host`` as it is stored, and as people write it."""
    if "xn--" not in host:
        return [host]
    import idna  # seldom: most hosts are ASCII

    try:
        return [host, idna.decode(host)]
    except (idna.IDNAError, UnicodeError):
        return [host]
