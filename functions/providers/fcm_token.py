"""The access token that FCM wants: got by google-auth from a service account, kept while it lives.

Its request goes over our own transport under a total deadline, and once: google-auth would sleep
and ask again. What stands in the way is an outcome: it is about the account, not the notification,
and it is remembered for some seconds, so that a set does not wait for each of its members.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.core.errors import Misconfigured, SendoffError
from functions.core.outcome import Blocked, Scope
from functions.providers.transport import Lost, Response, Transport

FCM_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
FETCH_SECONDS = 3.0
PAUSE_SECONDS = 5.0

ServiceAccount = Callable[[], Mapping[str, Any]]
"""Returns the JSON of a service account's key; may raise Unavailable or Misconfigured."""


@dataclass(slots=True, kw_only=True, eq=False)
class AccessToken:
    """A token; ``after_refusal``: the one before was refused, and nothing passed since."""

    text: str = field(repr=False)
    after_refusal: bool
    credentials: Any = field(repr=False)
    has_passed: bool = False


class AccessTokens:
    """The tokens of one environment, one at a time; safe to use from several threads."""

    def __init__(self, *, transport: Transport, account: ServiceAccount) -> None:
        self._transport = transport
        self._account = account
        self._lock = threading.Lock()
        self._current: AccessToken | None = None
        self._was_refused = False
        self._failure: Blocked | None = None
        self._failed_until = 0.0

    def get(self) -> AccessToken | Blocked:
        """Return a token that lives for minutes yet, or why there is none."""
        with self._lock:
            if self._current is not None and self._current.credentials.valid:
                return self._current
            if self._failure is not None and time.monotonic() < self._failed_until:
                return self._failure
            answer = self._fetch()
            if isinstance(answer, Blocked):
                self._failure, self._failed_until = answer, time.monotonic() + PAUSE_SECONDS
            else:
                self._current = answer
            return answer

    def passed(self, token: AccessToken) -> None:
        """Take note that FCM accepted a message under ``token``."""
        with self._lock:
            token.has_passed = True
            self._was_refused = False

    def refused(self, token: AccessToken) -> bool:
        """Forget ``token``; return whether another one would not help: it was new itself."""
        with self._lock:
            if self._current is token:
                self._current = None
            self._was_refused = True
            return token.after_refusal and not token.has_passed

    def _fetch(self) -> AccessToken | Blocked:
        try:
            # Two tenths of a second of google-auth and cryptography that SNS alone never needs.
            from google.auth.exceptions import RefreshError, TransportError
            from google.oauth2.service_account import Credentials

            key = dict(self._account())
            credentials: Any = Credentials.from_service_account_info(  # pyright: ignore[reportUnknownMemberType]
                key, scopes=[FCM_SCOPE]
            )
        except SendoffError as error:
            code = "not_configured" if isinstance(error, Misconfigured) else "no_access_token"
            return _blocked(code, type(error).__name__)
        except Exception as error:  # whatever its readers make of a key that is none
            return _blocked("not_configured", type(error).__name__)
        try:
            credentials.refresh(_Fetching(transport=self._transport, give_up=TransportError))
            return AccessToken(
                text=str(credentials.token),
                after_refusal=self._was_refused,
                credentials=credentials,
            )
        except RefreshError as error:
            return _blocked("access_token_refused", _reason_of(error))
        except Exception as error:  # no answer, or one that it cannot read
            return _blocked("no_access_token", type(error).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """A response as google-auth reads one."""

    status: int
    headers: Mapping[str, str]
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetching:
    """The request that google-auth makes: what it would ask again after a while is given up."""

    transport: Transport
    give_up: type[Exception]

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> _Answer:
        answer = self.transport.request(
            method,
            url,
            headers=headers or {},
            body=body or b"",
            deadline=time.monotonic() + (timeout or FETCH_SECONDS),
        )
        match answer:
            case Response(complete=True, status=status) if status < 500 and status not in (
                408,
                429,
            ):
                return _Answer(status=status, headers=answer.headers, data=answer.body)
            case Response(status=status):
                raise self.give_up(f"status {status}")
            case Lost(code=code):
                raise self.give_up(code)


def _blocked(code: str, detail: str) -> Blocked:
    return Blocked(code=code, detail=detail, scope=Scope.SENDER_IDENTITY)


def _reason_of(error: Exception) -> str:
    """Return OAuth's word for a refusal (invalid_grant), never its text: it names the account."""
    answer: Any = error.args[1] if len(error.args) > 1 else None
    reason: Any = answer.get("error") if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return reason[:64] if isinstance(reason, str) else "RefreshError"
