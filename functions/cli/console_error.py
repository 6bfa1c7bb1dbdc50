"""What can go wrong between the command line and the console, in words, with its exit status.

ConsoleError            exit
├── Refused             3     the console said no: invalid, not_found or refused
└── Unreachable         4     no answer: no stack, no credentials, no network, no database
"""

import contextlib
from collections.abc import Generator
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from functions.core.errors import SendoffError

MAYBE_DONE = "It may have been done all the same."
NEVER_BEGUN = "It was not begun."

_CLIENT_ERRORS: dict[str, str] = {
    "ResourceNotFoundException": "There is no function {name} in this account and region.",
    "AccessDeniedException": "This profile may not invoke {name}.",
    "TooManyRequestsException": "The console is busy with other commands. Try again.",
    "ExpiredTokenException": "The credentials of this profile have expired.",
}
_LOST = (ReadTimeoutError, ConnectionClosedError, ResponseStreamingError)
"""The request was written, and no whole answer came."""


class ConsoleError(SendoffError):
    """The console did not do what it was asked."""

    exit_status = 1

    def __init__(self, detail: str, *, code: str) -> None:
        super().__init__(detail)
        self.told_code = code
        self.partial: dict[str, Any] = {}
        """What had been done before, for the machine reading."""

    def document(self) -> dict[str, Any]:
        return {"code": self.told_code, "detail": self.detail, **self.partial}


class Refused(ConsoleError):
    """The console said no; nothing was changed."""

    exit_status = 3


class Unreachable(ConsoleError):
    """There is no answer; ``maybe_done``: nobody knows whether there was an effect."""

    exit_status = 4

    def __init__(self, detail: str, *, code: str = "unreachable", maybe_done: bool = False) -> None:
        super().__init__(detail, code=code)
        self.maybe_done = maybe_done


def code_of(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "an unknown error")


@contextlib.contextmanager
def in_words(*, name: str, changes: bool) -> Generator[None]:
    """Raise what AWS and the network say as Unreachable; ``changes``: the call was no mere look."""
    try:
        yield
    except ClientError as error:
        code = code_of(error)
        words = _CLIENT_ERRORS.get(code, "AWS answered {code}.").format(name=name, code=code)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
        raise unanswered(words, maybe_done=changes and status >= 500) from error
    except _LOST as error:
        words = f"The connection to {name} was lost before its answer came."
        raise unanswered(words, maybe_done=changes) from error
    except BotoCoreError as error:
        raise unanswered(_sentence(error), maybe_done=False) from error


def unanswered(words: str, *, maybe_done: bool) -> Unreachable:
    """Return the error of a call that was not answered, telling whether it may have been done."""
    return Unreachable(f"{words} {MAYBE_DONE}" if maybe_done else words, maybe_done=maybe_done)


def _sentence(error: BotoCoreError) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith(".") else f"{text}."
