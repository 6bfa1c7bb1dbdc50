"""What an erased address is looked for as, and what is too short to be looked for."""

import pytest

from functions.core.recipient import normalise
from functions.core.spelling import spellings_of


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
            ],
        ),
        ("sms", "+1 (555) 010-0001", ["15550100001"]),
        ("push", "sim-ok.1-Adas-Telephone", ["sim-ok.1-adas-telephone"]),
        ("push", "a", []),
        ("webhook", "https://Example.com/Ada?x=1", ["https://example.com/ada?x=1"]),
        (
            "webhook",
            "https://bücher.de:8443/a",
            ["https://xn--bcher-kva.de:8443/a", "https://bücher.de:8443/a"],
        ),
    ],
)
def test_an_address_is_looked_for_in_each_of_its_spellings(
    channel: str, given: str, spellings: list[str]
) -> None:
    assert spellings_of(channel, normalise(channel, given)) == spellings
