"""`sendoff demo` against the running stack: the main job, and a stack that cannot do it."""

import re
from collections.abc import Generator
from contextlib import contextmanager

from tests.journey.conftest import sendoff
from tests.journey.service import Service, wait_for

DEMO_SECONDS = 300
BROKEN_ITEMS, BROKEN_TIMEOUT_SECONDS = 24, 10


def test_a_thousand_notifications_of_every_kind_end_as_they_should(service: Service) -> None:
    done = sendoff(
        "demo", "--state-dir", service.local.state_dir, timeout_seconds=DEMO_SECONDS
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Expected and seen" in done.stdout
    row = "email bounce 12 failed + suppression failed + suppression 12 12 ok".split()
    assert row in [line.split() for line in done.stdout.splitlines()]
    assert "1000 of 1000 as expected; 950 effects, 950 expected." in done.stdout
    assert re.search(r"From accept to the last final state: \d+\.\d s\.", done.stdout)


def test_a_stack_whose_sender_is_cut_off_fails_and_names_the_offenders(service: Service) -> None:
    with cut_off(service, "email"):
        done = sendoff(
            "demo", "--items", str(BROKEN_ITEMS), "--timeout", str(BROKEN_TIMEOUT_SECONDS),
            "--state-dir", service.local.state_dir,
            timeout_seconds=DEMO_SECONDS,
        )  # fmt: skip
    assert done.returncode == 1, f"{done.stdout}\n{done.stderr}"
    assert re.search(
        r"^[0-9a-f-]{36}  email ok\+\S+: expected delivered, is (leased|pending)\S*"
        r".*; expected 1 effects, saw 0$",
        done.stdout,
        re.MULTILINE,
    ), done.stdout
    assert re.search(rf"^\d+ of {BROKEN_ITEMS} as expected", done.stdout, re.MULTILINE)


@contextmanager
def cut_off(service: Service, channel: str) -> Generator[None]:
    """Take the queue away from a sender; give it back and wait until it has caught up."""
    functions = service.aws.functions()
    mappings = functions.list_event_source_mappings(
        FunctionName=f"sendoff-sender-{channel}"
    )["EventSourceMappings"]
    (mapping,) = (one.get("UUID", "") for one in mappings)
    functions.update_event_source_mapping(UUID=mapping, Enabled=False)
    try:
        yield
    finally:
        functions.update_event_source_mapping(UUID=mapping, Enabled=True)
        functions.close()
        wait_for(
            lambda: service.query(NOTHING_WAITS, channel)[0][0],
            seconds=150,
            what="the end of what was held up",
        )


NOTHING_WAITS = """
    SELECT count(*) = 0 FROM notifications WHERE channel = %s AND status IN ('pending', 'leased')
"""
