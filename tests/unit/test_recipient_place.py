"""What an address says of its place: a URL's origin, a number's country."""

import pytest

from functions.core.recipient import country_of, normalise, origin_of


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Example.COM", "https://example.com"),
        ("https://example.com:443/a?b=c", "https://example.com"),
        ("https://example.com:8443?x", "https://example.com:8443"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example"),
        ("https://[2001:DB8::1]:8443/x", "https://[2001:db8::1]:8443"),
        ("https://example.com/https://other.example/", "https://example.com"),
        ("http://127.0.0.1:8081/hooks/ok", "http://127.0.0.1:8081"),
    ],
)
def test_the_origin_of_a_normalised_url_is_scheme_host_and_port(url: str, origin: str) -> None:
    local = "http://127.0.0.1:8081"
    assert origin_of(normalise("webhook", url, local_webhook_origin=local)) == origin


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://h.example:443/x", "https://h.example"),
        ("https://h.example:/x", "https://h.example"),
        ("https://[2001:db8::443]:443/x", "https://[2001:db8::443]"),
        ("https://h.example:4430/x", "https://h.example:4430"),
        ("http://127.0.0.1:443/x", "http://127.0.0.1:443"),
    ],
)
def test_the_port_that_https_has_anyway_makes_no_other_origin(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("number", "country"),
    [
        ("+12025550143", "US"),
        ("+14165550100", "CA"),
        ("+18765550100", "JM"),
        ("+442071234567", "GB"),
        ("+447781123456", "GG"),
        ("+4930123456", "DE"),
        ("+77012345678", "KZ"),
    ],
)
def test_a_number_is_of_the_country_whose_plan_has_it(number: str, country: str) -> None:
    assert country_of(number) == country


def test_a_number_of_no_known_plan_is_of_its_codes_main_country() -> None:
    assert country_of("+15550100000") == "US"


@pytest.mark.parametrize("number", ["+88213123456", "+80012345678", "+8701234567", "+979123456789"])
def test_satellites_and_international_services_have_no_country(number: str) -> None:
    assert country_of(number) is None


@pytest.mark.parametrize("number", ["", "nonsense", "+999123", "12025550143"])
def test_what_is_no_number_has_no_country(number: str) -> None:
    assert country_of(number) is None
