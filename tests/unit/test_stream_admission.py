"""What the door derives from a recipient: the country of a number, the origin of a URL."""

from typing import Any

import pytest

from functions.ingest.admission import Door, admit_single

DOOR = Door(hash_key=b"key", local_webhook_origin="http://127.0.0.1:8081")


@pytest.mark.parametrize(
    ("channel", "recipient", "content", "country", "origin"),
    [
        ("sms", "+49 1511 2345678", "Hello", "DE", None),
        ("sms", "+44 7400 123456", "Hello", "GB", None),
        ("webhook", "https://Hooks.example.com/a", {"a": 1}, None, "https://hooks.example.com"),
        ("webhook", "https://a.example:8443/x?y=1", None, None, "https://a.example:8443"),
        ("webhook", "http://127.0.0.1:8081/hooks/ok", {}, None, "http://127.0.0.1:8081"),
        ("email", "ada@example.com", "Hello", None, None),
        ("push", "sim-ok", "Hello", None, None),
    ],
)
def test_an_item_is_admitted_with_its_country_or_its_origin(
    channel: str, recipient: str, content: Any, country: str | None, origin: str | None
) -> None:
    body = {"channel": channel, "recipient": recipient, "content": content}
    admitted = admit_single(body, door=DOOR)
    assert (admitted.country, admitted.origin) == (country, origin)
