"""The report: function × boundary × fault × redelivery → outcome, and the accounts of it all."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from tests.proof.crash_accounts import Outcome
from tests.proof.crash_boundary import Fault, Phase, Point, Strike
from tests.proof.crash_plan import DELIVERIES, Case, faults_at
from tests.proof.crash_run import Result

NOT_RUN = "·"
KINDS = ("lost", "unexpected", "doubled")
"""What a wrong account is, by its first word; anything else is not explained."""


def print_report(console: Console, results: Sequence[Result], *, seed: str | None) -> None:
    """Print a table per scene, one over all, and what it comes to."""
    for result in results:
        console.print(_matrix(result))
    console.print(_summary(results))
    for outcome in Outcome:
        console.print(f"  {outcome.value}  {outcome.meaning}", highlight=False)
    console.print(
        f"  {NOT_RUN}  not in this selection\n"
        "Cells: per phase (before, after; of a provider's call before, written, after) the outcome "
        "of one delivery, then of two.\n",
        highlight=False,
    )
    for line in _words(results, seed):
        console.print(line, highlight=False, soft_wrap=True)


def _matrix(result: Result) -> Table:
    table = Table(title=result.scene, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("#", justify="right")
    table.add_column("boundary", no_wrap=True)
    faults = [
        fault for fault in Fault if any(fault in _faults(result, point) for point in result.points)
    ]
    for fault in faults:
        table.add_column(fault.value, no_wrap=True)
    for number in sorted({point.number for point in result.points}):
        cells = [_cell(result, number, fault) for fault in faults]
        table.add_row(str(number), name_of(result.points, number), *cells)
    return table


def _faults(result: Result, point: Point) -> list[Fault]:
    return faults_at(point, result.points[point])


def _cell(result: Result, number: int, fault: Fault) -> str:
    groups: list[str] = []
    for phase in Phase:
        point = Point(number=number, phase=phase)
        if point not in result.points:
            continue
        if fault not in _faults(result, point):
            continue
        groups.append("".join(_outcome(result, point, fault, n) for n in DELIVERIES[fault]))
    return " ".join(groups)


def _outcome(result: Result, point: Point, fault: Fault, deliveries: int) -> str:
    case = Case(
        strike=Strike(point=point, fault=fault),
        label=result.points[point],
        deliveries=deliveries,
    )
    outcome = result.outcomes.get(case)
    return NOT_RUN if outcome is None else outcome.value


def name_of(points: dict[Point, str], number: int) -> str:
    """Return what a boundary is: of BEGIN and COMMIT also which transaction it is."""
    labels = {point.number: label for point, label in points.items()}
    match labels[number]:
        case "BEGIN":
            return f"BEGIN ({labels.get(number + 1, 'nothing')})"
        case "COMMIT":
            return f"COMMIT ({labels.get(number - 1, 'nothing')})"
        case label:
            return label


def _summary(results: Iterable[Result]) -> Table:
    table = Table(title="All of it", title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("function", no_wrap=True)
    for name in ("boundaries", "points", "cases", "run", *(outcome.value for outcome in Outcome)):
        table.add_column(name, justify="right")
    for name in ("effects", "once more"):
        table.add_column(name, justify="right")
    for result in results:
        counts = result.counts
        table.add_row(
            result.scene,
            *map(
                str,
                (
                    result.boundaries,
                    len(result.points),
                    result.cases,
                    len(result.outcomes),
                    *(counts[outcome] for outcome in Outcome),
                    result.effects,
                    result.extra,
                ),
            ),
        )
    return table


def _words(results: Sequence[Result], seed: str | None) -> Iterable[str]:
    ran = sum(len(result.outcomes) for result in results)
    cases = sum(result.cases for result in results)
    which = "all" if seed is None else f"a third, by seed {seed}"
    yield f"{ran} of {cases} cases ran ({which})."
    wrong = Counter(
        _kind_of(text) for result in results for wrong in result.wrong for text in wrong.texts
    )
    yield " · ".join(f"{kind} = {wrong[kind]}" for kind in (*KINDS, "unexplained"))
    notifications = sum(result.notifications for result in results)
    effects = sum(result.effects for result in results)
    extra = sum(result.extra for result in results)
    calls = sum(result.calls for result in results)
    yield (
        f"{notifications} notifications, {calls} calls, {effects} effects; {extra} of them once "
        "more, of attempts recorded as unknown under the policy retry."
    )
    for result in results:
        for problem in result.problems:
            yield f"{result.scene}: {problem}"


def _kind_of(text: str) -> str:
    """Return which account a text is about; the kind of notification may stand before it."""
    return next((kind for kind in KINDS if f"{kind}:" in text), "unexplained")
