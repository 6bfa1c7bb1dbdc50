"""`sendoff demo` against a stack that cannot do its job."""

import re
from collections.abc import Generator
from contextlib import contextmanager

from tests.journey.conftest import sendoff
from tests.journey.deployment import RECOVERY_SECONDS, Service, wait_for

ITEMS, TIMEOUT_SECONDS = 24, 8

NOTHING_WAITS = """
    SELECT count(*) = 0 FROM notifications WHERE channel = %s AND status IN ('pending', 'leased')
"""


def test_a_demo_whose_sender_is_cut_off_fails_and_names_the_offenders(service: Service) -> None:
    with cut_off(service, "email"):
        done = sendoff(
            "demo", "--items", str(ITEMS), "--timeout", str(TIMEOUT_SECONDS),
            "--state-dir", service.local.state_dir,
            timeout_seconds=RECOVERY_SECONDS,
        )  # fmt: skip
    assert done.returncode == 1, f"{done.stdout}\n{done.stderr}"
    offender = (
        r"^[0-9a-f-]{36}  email ok\+\S+: expected delivered, is (leased|pending).*"
        r"; expected 1 effects, saw 0$"
    )
    assert re.search(offender, done.stdout, re.MULTILINE), done.stdout
    assert re.search(rf"^\d+ of {ITEMS} as expected", done.stdout, re.MULTILINE), done.stdout


@contextmanager
def cut_off(service: Service, channel: str) -> Generator[None]:
    """Take the queue away from a sender; give it back and wait until it has caught up."""
    functions = service.aws.functions()
    sender = service.local.functions[f"sender-{channel}"]
    (mapping,) = functions.list_event_source_mappings(FunctionName=sender)["EventSourceMappings"]
    id = mapping.get("UUID", "")
    functions.update_event_source_mapping(UUID=id, Enabled=False)
    try:
        yield
    finally:
        functions.update_event_source_mapping(UUID=id, Enabled=True)
        functions.close()
        wait_for(
            lambda: service.query(NOTHING_WAITS, channel)[0][0],
            seconds=RECOVERY_SECONDS,
            what="the end of what was held up",
        )
