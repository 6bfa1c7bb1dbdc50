"""AWS operations that send: boto3 serialises, signs and parses; our own transport writes, once.

By itself boto3 writes a request that had no answer up to five times, its timeouts bound single
socket operations, and its errors do not always tell whether a byte left. So each request is handed
to ``Transport`` at the last moment (the event ``before-send``): one request, a total deadline, and
the knowledge of what was written. Its retries are switched off as well.
"""

import io
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.loaders
import botocore.session
import urllib3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from functions.providers.transport import Lost, Response, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsCall:
    """An operation of a client by its Python name, and its parameters."""

    operation: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a 2xx said, as parsed; a member that was to be there may be missing (PROVIDERS §0.3)."""

    result: Mapping[str, Any]
    http_status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """A modelled or unmodelled error; ``reason`` and ``fields`` where the service tells them."""

    code: str
    message: str
    http_status: int
    headers: Mapping[str, str]
    reason: str = ""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMade:
    """No request could be made: ours is the fault, in the parameters or in the surroundings."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Misread:
    """An answer came and cannot be read: whatever it was about may have happened."""

    error: Exception


Result = Answered | Declined | NotMade | Misread | Lost


class _Interrupted(Exception):
    """No answer that botocore could read came by the deadline."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(lost.code)
        self.lost = lost


_MODELS = botocore.loaders.create_loader()
"""The services' models are megabytes of JSON: read once for all clients of a process."""


class _Call(threading.local):
    """The call of this thread: botocore passes nothing of ours to its events."""

    deadline: float = 0.0
    written: bool = False


class AwsClient:
    """A client of one service; safe to use from several threads."""

    def __init__(
        self,
        service: str,
        *,
        transport: Transport,
        endpoint_url: str | None = None,
        region: str | None = None,
    ) -> None:
        self._transport = transport
        self._call = _Call()
        botocore_session = botocore.session.get_session()
        botocore_session.register_component("data_loader", _MODELS)
        session: Any = boto3.session.Session(botocore_session=botocore_session)
        self._client: Any = session.client(
            service,
            endpoint_url=endpoint_url,
            region_name=region,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": 1},
                connect_timeout=1,  # neither is used: the transport has the deadline
                read_timeout=1,
            ),
        )
        self._client.meta.events.register("before-send", self._write)

    def call(self, call: AwsCall, *, deadline: float) -> Result:
        """Make ``call`` once, by ``deadline`` (``time.monotonic``); never raise."""
        self._call.deadline = deadline
        self._call.written = False
        try:
            answer = getattr(self._client, call.operation)(**call.parameters)
            status = int(answer["ResponseMetadata"]["HTTPStatusCode"])
            return Answered(result=answer, http_status=status)
        except _Interrupted as error:
            return error.lost
        except ClientError as error:
            return _declined(error)
        except BotoCoreError as error:
            return Misread(error=error) if self._call.written else NotMade(error=error)
        except Exception as error:  # its parsers raise whatever an answer makes them
            return Misread(error=error) if self._call.written else NotMade(error=error)

    def _write(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        body: Any = request.body or b""
        self._call.written = True
        answer = self._transport.request(
            str(request.method),
            str(request.url),
            headers={name: _text(value) for name, value in request.headers.items()},
            body=body.encode() if isinstance(body, str) else bytes(body),
            deadline=self._call.deadline,
        )
        match answer:
            case Lost():
                raise _Interrupted(answer)
            case Response(complete=False):
                raise _Interrupted(
                    Lost(
                        begun=True,
                        code="unreadable_answer",
                        detail=f"status {answer.status}, cut or too long",
                    )
                )
            case Response():
                raw: Any = urllib3.HTTPResponse(io.BytesIO(answer.body), preload_content=False)
                headers: Any = dict(answer.headers)
                return AWSResponse(str(request.url), answer.status, headers, raw)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _declined(error: ClientError) -> Declined:
    response: dict[str, Any] = dict(error.response)
    metadata = response.get("ResponseMetadata", {})
    named = response.get("Error", {})
    fields: list[dict[str, Any]] = response.get("Fields") or []
    return Declined(
        code=str(named.get("Code") or "unknown"),
        message=str(named.get("Message") or ""),
        http_status=int(metadata.get("HTTPStatusCode") or 0),
        headers=metadata.get("HTTPHeaders") or {},
        reason=str(response.get("Reason") or ""),
        fields=tuple(str(field.get("Name") or "") for field in fields),
    )
