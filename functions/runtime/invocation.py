"""Start functions without waiting for them."""

from collections.abc import Iterable

import boto3
from botocore.config import Config


def start(names: Iterable[str]) -> None:
    """Invoke each function once, asynchronously; an error is the caller's to tell."""
    client = boto3.client(  # pyright: ignore[reportUnknownMemberType]  # services without stubs
        "lambda",
        config=Config(
            retries={"mode": "standard", "total_max_attempts": 3},
            connect_timeout=2,
            read_timeout=10,
        ),
    )
    for name in names:
        client.invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")
