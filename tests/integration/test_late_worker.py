"""What a late worker can do here: the column of Sendoff in the README's comparison.

The other columns need other packages, and are made by ``python -m tests.proof.rivals``.
"""

import psycopg
import pytest

from functions.core.login import Login
from functions.core.states import MAX_STARTS
from tests.proof.rivals_probe import PROBES, Probe, crash_loop
from tests.proof.rivals_sendoff import Sendoff
from tests.proof.rivals_table import block_of, column_of
from tests.repo.readme import README

VERDICTS = {
    Probe.LATE_SUCCESS: "accepted; B's result is kept too",
    Probe.LATE_FAILURE: "refused, counted; B's result counts",
    Probe.LATE_RETRY: "refused, counted; B's result counts",
    Probe.LATE_HEARTBEAT: "refused, counted; C gets the job",
    Probe.CRASH_LOOP: "stopped after 5",
    Probe.RESCUE_THEN_SUCCESS: "runs once",
    Probe.SUCCESS_THEN_RESCUE: "runs once",
    Probe.RESCUE_THEN_FAILURE: "runs again",
    Probe.FAILURE_THEN_RESCUE: "runs once",
}


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name.lower())
def test_a_late_worker_finds_what_the_readme_says(
    probe: Probe, login: Login, owner: psycopg.Connection
) -> None:
    finding = PROBES[probe](Sendoff(login, owner))
    assert finding.verdict == VERDICTS[probe], finding.observed


def test_what_kills_its_sender_before_its_attempt_is_opened_is_stopped_too(
    login: Login, owner: psycopg.Connection
) -> None:
    finding = crash_loop(Sendoff(login, owner, dies_unopened=True))
    assert finding.observed == f"{MAX_STARTS} workers were killed; then dead (crash_loop)"


def test_the_readme_shows_these_verdicts() -> None:
    block = block_of(README.read_text(encoding="utf-8"))
    assert block is not None, "the README has no comparison between its marks"
    assert column_of(block, Sendoff.name) == VERDICTS
