"""What an erased address is looked for as, and what is too short to be looked for."""

import pytest

from functions.core.recipient import normalise
from functions.core.spelling import references_of, spellings_of


@pytest.mark.parametrize(
    ("channel", "given", "spellings"),
    [
        ("email", "Ada@Example.COM", ["ada@example.com", "ada%40example.com"]),
        (
            "email",
            "ada@bücher.de",
            [
                "ada@xn--bcher-kva.de",
                "ada@bücher.de",
                "ada%40xn--bcher-kva.de",
                "ada%40bücher.de",
                "ada%40b%c3%bccher.de",
            ],
        ),
        ("email", "ada+news@a.de", ["ada+news@a.de", "ada+news%40a.de", "ada%2bnews%40a.de"]),
        ("sms", "+1 (555) 010-0001", ["15550100001", "05550100001"]),
        ("sms", "+683 4002", ["6834002"]),
        ("push", "sim-ok.1-Adas-Telephone", ["sim-ok.1-adas-telephone"]),
        ("push", "a", []),
        (
            "webhook",
            "https://Example.com/Ada?x=1",
            ["https://example.com/ada?x=1", "https%3a%2f%2fexample.com%2fada%3fx%3d1"],
        ),
        ("webhook", "https://example.com", ["https://example.com", "https%3a%2f%2fexample.com"]),
        (
            "webhook",
            "https://bücher.de:8443/a",
            [
                "https://xn--bcher-kva.de:8443/a",
                "https://bücher.de:8443/a",
                "https%3a%2f%2fxn--bcher-kva.de%3a8443%2fa",
                "https%3a%2f%2fb%c3%bccher.de%3a8443%2fa",
            ],
        ),
    ],
)
def test_an_address_is_looked_for_in_each_of_its_spellings(
    channel: str, given: str, spellings: list[str]
) -> None:
    assert spellings_of(channel, normalise(channel, given)) == spellings


def test_in_what_was_their_own_less_is_enough() -> None:
    assert spellings_of("push", "a-token", own=True) == ["a-token"]
    assert spellings_of("push", "a", own=True) == []
    assert spellings_of("sms", "+435121234", own=True) == ["435121234", "05121234"]


@pytest.mark.parametrize(
    ("channel", "address", "ids"),
    [
        ("sms", "+15550100001", ["15550100001"]),
        ("push", "sim-ok.1-adas-telephone", ["sim-ok.1-adas-telephone"]),
        ("push", "a", []),
        ("push", "sim-ok.1/adas-telephone", []),
        ("email", "ada@example.com", []),
        ("webhook", "https://example.com/", []),
    ],
)
def test_a_recipient_may_be_called_like_an_address(
    channel: str, address: str, ids: list[str]
) -> None:
    assert references_of(channel, address) == ids
