"""`sendoff demo` against the running stack: the main job."""

import re
import subprocess

DEMO_SECONDS = 300


def test_a_thousand_notifications_of_every_kind_end_as_they_should(
    demo: subprocess.Popen[str],
) -> None:
    said, _ = demo.communicate(timeout=DEMO_SECONDS)
    assert demo.returncode == 0, said
    assert "Expected and seen" in said
    bounced = r"email +bounce +12 +failed \+ suppression +failed \+ suppression +12 +12 +ok"
    assert re.search(bounced, said), said
    assert "1000 of 1000 as expected; 950 effects, 950 expected." in said
    assert re.search(r"From accept to the last final state: \d+\.\d s\.", said), said
