"""Signing secrets per organization: derived by a known function, apart from each other, rotated."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from functions.core.signature import SECRET_PREFIX, key_of
from functions.core.webhook_key import MIN_MASTER_BYTES, OVERLAP, secret_of, secrets_of

MASTER = bytes(range(32))
OLD_MASTER = bytes(range(1, 33))
ORGANIZATION = UUID("01900000-0000-7000-8000-0000000000cc")
OTHER = UUID("01900000-0000-7000-8000-0000000000cd")
ROTATED = datetime(2026, 1, 2, tzinfo=UTC)

masters = st.binary(min_size=MIN_MASTER_BYTES, max_size=80)
numbers = st.integers(1, 1_000_000)


def live(**changes: Any) -> tuple[str, ...]:
    terms: dict[str, Any] = {
        "organization_id": ORGANIZATION,
        "number": 2,
        "rotated_at": ROTATED,
        "now": ROTATED,
    }
    return secrets_of(MASTER, **terms | changes)


def of(number: int, master: bytes = MASTER) -> str:
    return secret_of(master, organization_id=ORGANIZATION, number=number)


@given(masters, st.uuids(), numbers)
def test_it_is_hkdf_of_the_master_with_the_organization_and_the_number(
    master: bytes, organization_id: UUID, number: int
) -> None:
    info = b"v1/" + organization_id.bytes + number.to_bytes(4, "big")
    hkdf = HKDF(algorithm=hashes.SHA256(), length=32, salt=b"sendoff/webhook-signing", info=info)
    expected = SECRET_PREFIX + base64.b64encode(hkdf.derive(master)).decode()
    assert secret_of(master, organization_id=organization_id, number=number) == expected


def test_it_never_changes_for_the_receivers_that_have_it() -> None:
    assert of(1) == "whsec_MqvSYG4ZRvRm9V1ST5qtc7j3zN91ys1uTPL1POlrpL4="


def test_no_two_organizations_numbers_or_masters_share_a_secret() -> None:
    secrets = [
        secret_of(master, organization_id=organization_id, number=number)
        for master in (MASTER, OLD_MASTER)
        for organization_id in (ORGANIZATION, OTHER)
        for number in (1, 2, 256, 257, 1_000_000)
    ]
    assert len(set(secrets)) == len(secrets)
    assert {len(key_of(secret)) for secret in secrets} == {32}


def test_a_first_secret_signs_alone() -> None:
    assert live(number=1, rotated_at=None) == (of(1),)
    assert live(number=1) == (of(1),)
    assert live(number=2, rotated_at=None) == (of(2),)


def test_the_number_before_signs_too_for_seven_days() -> None:
    assert timedelta(days=7) == OVERLAP
    for later in (timedelta(0), timedelta(days=6, hours=23), OVERLAP - timedelta(seconds=1)):
        assert live(now=ROTATED + later) == (of(2), of(1))
    for later in (OVERLAP, OVERLAP + timedelta(days=365)):
        assert live(now=ROTATED + later) == (of(2),)


def test_a_clock_that_is_behind_the_databases_keeps_both() -> None:
    assert live(now=ROTATED - timedelta(seconds=5)) == (of(2), of(1))


def test_the_previous_master_signs_while_it_is_kept() -> None:
    both = live(previous_master=OLD_MASTER)
    assert both == (of(2), of(1), of(2, OLD_MASTER), of(1, OLD_MASTER))
    alone = live(previous_master=OLD_MASTER, now=ROTATED + OVERLAP)
    assert alone == (of(2), of(2, OLD_MASTER))
    assert live(previous_master=MASTER) == (of(2), of(1))


@pytest.mark.parametrize(("master", "number"), [(b"", 1), (bytes(31), 1), (MASTER, 0)])
def test_a_weak_master_and_a_number_below_one_are_refused(master: bytes, number: int) -> None:
    with pytest.raises(ValueError, match=r"at least|number 1"):
        of(number, master)
