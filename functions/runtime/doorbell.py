"""Tell a function that there is work for it, without waiting: the claim has its own to do."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


def client() -> "LambdaClient":
    """Return a client that gives up soon: whoever rings does so again."""
    return boto3.client(  # pyright: ignore[reportUnknownMemberType]  # services without stubs
        "lambda",
        config=Config(
            retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=1, read_timeout=2
        ),
    )


class Doorbell:
    """Starts the function ``name`` asynchronously with ``payload``, one ring at a time.

    ``make_client`` is asked at the first ring: a client takes a quarter of a second to make.
    """

    def __init__(
        self,
        name: str,
        *,
        payload: bytes,
        make_client: Callable[[], "LambdaClient"] = client,
    ) -> None:
        self._name = name
        self._payload = payload
        self._make_client = make_client
        self._client: LambdaClient | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="doorbell")
        self._ringing: Future[None] | None = None

    def ring(self) -> Exception | None:
        """Ring, unless the last ring is still on its way; return why the one before failed."""
        if self._ringing is None:
            self._ringing = self._thread.submit(self._ring)
            return None
        if not self._ringing.done():
            return None
        failed = self._ringing.exception()
        self._ringing = self._thread.submit(self._ring)
        return failed if isinstance(failed, Exception) else None

    def rest(self) -> None:
        """Wait for a ring on its way: a thread that is frozen in it would go on much later."""
        if self._ringing is not None:
            self._ringing.exception()

    def _ring(self) -> None:
        if self._client is None:
            self._client = self._make_client()
        self._client.invoke(FunctionName=self._name, InvocationType="Event", Payload=self._payload)
