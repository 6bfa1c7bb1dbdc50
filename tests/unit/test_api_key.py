"""A key is written once, read back by its halves, and compared by digest."""

from uuid import UUID

import pytest

from functions.core import api_key

ID = UUID("01900000-0000-7000-8000-00000000000a")


def test_a_key_is_read_as_it_was_written() -> None:
    secret = api_key.new_secret()
    text = api_key.write(key_id=ID, secret=secret)
    assert text.startswith("sk_")
    assert text.count("_") == 2
    assert api_key.read(text) == api_key.PresentedKey(id=ID, secret=secret)


def test_no_two_secrets_are_equal() -> None:
    assert len({api_key.new_secret() for _ in range(1000)}) == 1000


def test_a_secret_matches_its_own_digest_only() -> None:
    digest = api_key.digest("secret")
    assert api_key.matches("secret", digest)
    assert not api_key.matches("secret ", digest)
    assert not api_key.matches("secret", bytes(32))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sk",
        "sk_",
        "sk__x",
        f"sk_{ID.hex}",
        f"sk_{ID.hex}_",
        f"pk_{ID.hex}_x",
        f"sk_{ID}_x",
        f"sk_{'g' * 32}_x",
        f"sk_{ID.hex}_é",
        f"sk_{ID.hex}_" + "x" * 600,
    ],
)
def test_what_is_no_key_is_not_read(text: str) -> None:
    assert api_key.read(text) is None
