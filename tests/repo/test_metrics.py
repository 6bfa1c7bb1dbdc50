"""Every metric that is declared is emitted, and nothing else is."""

import ast
from pathlib import Path

import pytest

from functions.core.metric import ChannelMetric, Metric, PriorityMetric, ServiceMetric
from functions.core.outcome import OutcomeName
from tests.repo.repository import python_files, tree_of

DECLARED = Path("functions/core/metric.py")
ENUMERATIONS = {cls.__name__ for cls in (ServiceMetric, ChannelMetric, PriorityMetric)}


def used() -> set[str]:
    """Return the members of the metric enumerations that the functions' code names."""
    names = {f"ATTEMPT_{outcome.name}" for outcome in OutcomeName}  # by the outcome's own name
    for path in python_files("functions"):
        for node in ast.walk(tree_of(path)):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in ENUMERATIONS
            ):
                names.add(node.attr)
    return names


@pytest.mark.parametrize("metric", [*ServiceMetric, *ChannelMetric, *PriorityMetric])
def test_a_declared_metric_is_emitted(metric: Metric) -> None:
    assert metric.name in used()


def test_every_outcome_is_counted() -> None:
    assert {f"Attempt{outcome.capitalize()}" for outcome in OutcomeName} <= set(ChannelMetric)


def test_no_other_name_is_emitted() -> None:
    known = {str(metric) for metric in (*ServiceMetric, *ChannelMetric, *PriorityMetric)}
    for path in python_files("functions"):
        if path != DECLARED:
            literals = {
                node.value
                for node in ast.walk(tree_of(path))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            assert literals & known == set(), f"{path} spells a metric out"
