"""All scenes, in the order a notification meets them."""

from tests.proof.crash_scene import Scene
from tests.proof.crash_scenes_sending import CLAIM, INGEST, SEND
from tests.proof.crash_scenes_settling import CALLBACK, RECONCILE, SWEEP

SCENES: list[Scene] = [*INGEST, *CLAIM, *SEND, *CALLBACK, *RECONCILE, *SWEEP]
