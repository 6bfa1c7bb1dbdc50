"""`sendoff demo` as a process beside the tests.

Most of its time it waits for the cutoff of recipients that never report and for the minute in which
that is noticed; so it is started early (a session fixture) and its end is looked at late.
"""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tests.journey.deployment import Service, wait_for

ITEMS = 1000
ACTIVE_SECONDS = 150.0

# Of the newest batch of that size.
ONLY_SILENT_ARE_LEFT = """
    SELECT coalesce(bool_and(
               status NOT IN ('pending', 'leased')
               AND (status <> 'submitted' OR recipient ~ 'silent|^\\+15550103')), false)
      FROM notifications
     WHERE batch_id = (SELECT id FROM batches WHERE cardinality(notification_ids) = %s
                       ORDER BY id DESC LIMIT 1)
"""


@contextmanager
def demo_under_way(service: Service) -> Generator[subprocess.Popen[str]]:
    """Yield a demo that has sent everything and only waits for what never reports."""
    command = [sys.executable, "-m", "functions.cli.main", "demo", "--items", str(ITEMS)]
    with subprocess.Popen(
        [*command, "--state-dir", service.local.state_dir],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        try:
            wait_for(
                lambda: demo.poll() is not None or service.query(ONLY_SILENT_ARE_LEFT, ITEMS)[0][0],
                seconds=ACTIVE_SECONDS,
                what="the end of all that report",
            )
            yield demo
        finally:
            demo.kill()
