"""Whatever dies at whatever boundary: nothing is lost, nothing doubled, every state explained.

The report over all of it: ``python -m tests.proof.crashes``.
"""

import os

import pytest

from functions.core.login import Login
from tests.proof.crash_plan import DEFAULT_SEED, SEED_VARIABLE
from tests.proof.crash_run import run_scene
from tests.proof.crash_scene import Scene
from tests.proof.crash_scenes import SCENES

SEED = os.environ.get(SEED_VARIABLE, DEFAULT_SEED)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: f"{scene.name}, seed {SEED}")
def test_a_third_of_all_crashes_loses_and_doubles_nothing(scene: Scene, login: Login) -> None:
    result = run_scene(scene, login, seed=SEED)
    assert result.problems == []
    assert len(result.outcomes) >= result.cases // 3


@pytest.mark.soak
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_no_crash_loses_or_doubles_anything(scene: Scene, login: Login) -> None:
    result = run_scene(scene, login, seed=None)
    assert result.problems == []
    assert len(result.outcomes) == result.cases
