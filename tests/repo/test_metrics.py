"""Every metric that code emits is alarmed or shown, and every one shown is emitted."""

import re
from pathlib import Path

from functions.core.outcome import OutcomeName
from tests.repo.repository import python_files, text_of

_METRIC = re.compile(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)+)"')


def emitted() -> set[str]:
    """Return the names of the metrics in the code of the functions."""
    names: set[str] = set()
    for path in python_files("functions"):
        text = text_of(path)
        if "counts" in text or "emit_metrics" in text or "LeaseReleased" in text:
            names |= set(_METRIC.findall(text))
    names |= {f"Attempt{outcome.capitalize()}" for outcome in OutcomeName}
    return {name for name in names if not name.startswith(("Retry", "Response", "Resource"))}


def test_every_metric_is_alarmed_or_shown() -> None:
    monitoring = text_of(Path("infra/monitoring_stack.py"))
    shown = set(_METRIC.findall(monitoring))
    missing = {name for name in emitted() if name not in shown and f"{name}" not in monitoring}
    assert missing == set()
