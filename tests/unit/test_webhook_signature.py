"""What is sent verifies with the public library, over the bytes sent, and nothing else does."""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from functions.core.signature import ID, SIGNATURE, TIMESTAMP, BadSignature, authenticate, verify
from functions.core.webhook_key import OVERLAP, secret_of, secrets_of
from functions.providers.transport import Transport
from functions.providers.webhook import WebhookProvider
from tests.submissions import NOTIFICATION_ID, ORGANIZATION_ID, submission, submit
from tests.webhooks import MASTER, changed_signatures, hook, provider_at, secrets_for
from tests.wire import Received, answering, peer

(SECRET,) = secrets_for(ORGANIZATION_ID)
HEADERS = (ID, TIMESTAMP, SIGNATURE)


def received(what: Any = None, *, secrets: Sequence[str] = (SECRET,)) -> Received:
    with peer(answering(204, b"")) as server:
        provider = WebhookProvider(
            transport=Transport(), secrets=lambda _: secrets, local_origin=server.url
        )
        submit(provider, what or hook(f"{server.url}/hooks/ok"))
        (request,) = server.requests
    return request


def proof_of(request: Received) -> dict[str, str]:
    return {name: request.headers[name] for name in HEADERS}


def verifies(body: bytes, headers: Mapping[str, str], *, secret: str = SECRET) -> bool:
    """Whether it does by the public library and by ours, which have to agree."""
    try:
        Webhook(secret).verify(body, dict(headers))
    except (WebhookVerificationError, UnicodeDecodeError):  # it reads the bytes as text first
        theirs = False
    else:
        theirs = True
    try:
        authenticate(body, headers=headers, secrets=[secret])
    except BadSignature:
        ours = False
    else:
        ours = True
    assert ours == theirs
    return ours


@pytest.mark.parametrize(
    "content",
    [
        {"order": 7, "é": 1.0},
        "é  –  👍 \u2028 </script>",
        [1.0, 1e300, -0.0, "\\/\u0001", None, True],
        {},
        0,
        {"nested": {"b": [{"a": "  "}]}, "a": "\r\n\t"},
    ],
)
def test_the_bytes_that_arrive_are_the_bytes_that_were_signed(content: Any) -> None:
    with peer(answering()) as server:
        url = f"{server.url}/hooks/ok"
        what = submission(channel="webhook", recipient=url, content=content)
        submit(provider_at(server.url), what)
        (request,) = server.requests
    assert verifies(request.body, proof_of(request))
    assert Webhook(SECRET).verify(request.body, proof_of(request))["data"] == content
    assert int(request.headers["content-length"]) == len(request.body)


def test_the_public_librarys_signature_verifies_with_ours() -> None:
    request = received()
    sent_at = datetime.fromtimestamp(int(request.headers[TIMESTAMP]), UTC)
    signature = Webhook(SECRET).sign(request.headers[ID], sent_at, request.body.decode())
    assert signature == request.headers[SIGNATURE]
    headers = proof_of(request) | {SIGNATURE: signature}
    now = sent_at.timestamp()
    assert verify(request.body, headers=headers, secrets=[SECRET], now=now) == str(NOTIFICATION_ID)


def test_every_changed_byte_of_the_body_fails() -> None:
    request = received()
    headers = proof_of(request)
    for place in range(len(request.body)):
        for change in (1, 0x20):  # 0x20: the other case of a letter
            body = bytearray(request.body)
            body[place] ^= change
            assert not verifies(bytes(body), headers)
    for place in range(len(request.body)):
        assert not verifies(request.body[:place] + request.body[place + 1 :], headers)
    again = json.dumps(json.loads(request.body)).encode()
    for body in (request.body + b"\n", b" " + request.body, again, b""):
        assert not verifies(body, headers)


@pytest.mark.parametrize("name", [ID, TIMESTAMP])
def test_every_changed_byte_of_the_id_and_the_timestamp_fails(name: str) -> None:
    request = received()
    headers = proof_of(request)
    text = headers[name]
    for place, character in enumerate(text):
        other = str((int(character, 16) + 1) % 10) if character != "-" else "_"
        changed = text[:place] + other + text[place + 1 :]
        with pytest.raises(BadSignature):
            authenticate(request.body, headers=headers | {name: changed}, secrets=[SECRET])
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(request.body, headers | {name: changed})


def test_every_changed_byte_of_the_signature_fails() -> None:
    request = received()
    headers = proof_of(request)
    changed = changed_signatures(headers[SIGNATURE])
    assert len(changed) == 32
    for signature in changed:
        assert not verifies(request.body, headers | {SIGNATURE: signature})


def test_every_changed_byte_of_the_secret_fails() -> None:
    request = received()
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    for place in range(len(key)):
        other = bytearray(key)
        other[place] ^= 1
        secret = "whsec_" + base64.b64encode(bytes(other)).decode()
        assert not verifies(request.body, proof_of(request), secret=secret)


def test_an_organizations_secret_verifies_nobody_elses_webhooks() -> None:
    request = received()
    other = UUID(int=ORGANIZATION_ID.int + 1)
    (secret,) = secrets_for(other)
    assert not verifies(request.body, proof_of(request), secret=secret)


def test_during_a_rotation_both_secrets_verify_and_after_it_the_new_one_only() -> None:
    rotated_at = datetime(2026, 1, 2, tzinfo=UTC)
    old, new = (
        secret_of(MASTER, organization_id=ORGANIZATION_ID, number=number) for number in (1, 2)
    )
    for later, expected in (
        (timedelta(0), {old: True, new: True}),
        (OVERLAP - timedelta(seconds=1), {old: True, new: True}),
        (OVERLAP, {old: False, new: True}),
    ):
        secrets = secrets_of(
            MASTER,
            organization_id=ORGANIZATION_ID,
            number=2,
            rotated_at=rotated_at,
            now=rotated_at + later,
        )
        request = received(secrets=secrets)
        proof = proof_of(request)
        assert len(proof[SIGNATURE].split(" ")) == sum(expected.values())
        for secret, is_good in expected.items():
            assert verifies(request.body, proof, secret=secret) is is_good


def test_the_id_is_the_key_without_the_dot_that_would_cut_it_in_two() -> None:
    with peer(answering()) as server:
        for key, id in (
            (str(NOTIFICATION_ID), str(NOTIFICATION_ID)),
            (f"{NOTIFICATION_ID}.2", f"{NOTIFICATION_ID}_2"),
        ):
            submit(provider_at(server.url), hook(f"{server.url}/a", idempotency_key=key))
            request = server.requests[-1]
            assert request.headers[ID] == id
            assert verifies(request.body, proof_of(request))
