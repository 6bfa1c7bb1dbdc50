"""Whatever goes wrong between us and a provider ends as designed, and ``explain`` says how.

The report over all of it: ``python -m tests.proof.injections``.
"""

import dataclasses
import re
from collections.abc import Generator

import pytest

from functions.core.states import FINAL, HELD, Status
from functions.providers.choice import DECLARATIONS
from infra.local.postgres import Postgres
from tests.proof.injections import as_markdown, clone_of_template, fault_of, run_case
from tests.proof.injections_expected import EXPECTED, Injection, cases
from tests.proof.injections_services import SERVICES, Service
from tests.pushing import set_credentials

FOUR = (Injection.DROPPED, Injection.DELAYED, Injection.EXPIRED, Injection.SUPPRESSED)


@pytest.fixture(autouse=True)
def credentials() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        set_credentials(patch)
        yield


@pytest.mark.parametrize(
    ("service", "injection"), cases(), ids=lambda value: getattr(value, "name", "")
)
def test_each_injection_ends_as_designed(
    service: Service, injection: Injection, postgres: Postgres
) -> None:
    end = run_case(service, injection, fresh=lambda: clone_of_template(postgres))
    assert fault_of((service.name, injection), end) is None


def test_every_provider_has_the_four_injections() -> None:
    assert {service.name.partition(" ")[0] for service in SERVICES} == {
        declaration.name for declaration in DECLARATIONS
    }
    for service in SERVICES:
        assert {(service.name, injection) for injection in FOUR} <= set(EXPECTED)


def test_nothing_takes_effect_twice_and_nothing_is_lost() -> None:
    for (name, injection), end in EXPECTED.items():
        assert end.effects == int(injection is not Injection.SUPPRESSED), name
        assert end.status in {Status.SUBMITTED, *FINAL, *HELD}
        assert end.path[-1] == end.status


def test_the_table_can_stand_on_a_page() -> None:
    """Every line is whole, and the same whenever and wherever it is made."""
    header, rule, *lines = as_markdown(EXPECTED).splitlines()
    assert len(lines) == len(cases())
    for line in (header, rule, *lines):
        assert line.count("|") == header.count("|")
        assert line.startswith("| ")
        assert line.endswith(" |")
        assert not re.search(r"\d{4}-\d\d-\d\d|[0-9a-f]{8}-[0-9a-f]{4}|127\.0\.0\.1|\*|<|`", line)


def test_another_end_than_the_designed_one_is_told() -> None:
    case = ("ses", Injection.DELAYED)
    assert fault_of(case, EXPECTED[case]) is None
    told = fault_of(case, dataclasses.replace(EXPECTED[case], sends=2, status="submitted"))
    assert told == ("ses, acceptance delayed: status is 'submitted', not 'dead'; sends is 2, not 1")
