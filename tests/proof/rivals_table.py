"""The comparison as the README shows it: a table of verdicts, and what each was read from."""

import re
from collections.abc import Mapping, Sequence

from tests.proof.rivals_probe import Finding, Probe

BLOCK = re.compile(r"(?<=<!-- rivals -->\n).*?(?=<!-- /rivals -->)", re.DOTALL)
SUBJECT = "A's claim was lost, and B was given the job"


def table_of(findings: Sequence[Finding], *, titles: Mapping[str, str]) -> str:
    """Return both tables in Markdown; ``titles`` has the heading of each system's column."""
    verdicts = {(one.probe, one.system): one.verdict for one in findings}
    rows = [
        ["", SUBJECT, *titles.values()],
        *(
            [str(number), probe, *(verdicts[probe, system] for system in titles)]
            for number, probe in enumerate(Probe, 1)
        ),
    ]
    notes = [
        ["", "", "what the database said"],
        *(
            [str(number), one.system, one.observed]
            for number, probe in enumerate(Probe, 1)
            for one in findings
            if one.probe is probe
        ),
    ]
    return "\n\n".join(
        [
            _lines(rows),
            "<details><summary>What each verdict was read from</summary>",
            _lines(notes),
            "</details>\n",
        ]
    )


def _lines(rows: Sequence[Sequence[str]]) -> str:
    heading, *others = ("| " + " | ".join(cells) + " |" for cells in rows)
    return "\n".join([heading, "|" + "---|" * len(rows[0]), *others])


def block_of(readme: str) -> str | None:
    """Return what the README has between its markers, if it has them."""
    found = BLOCK.search(readme)
    return found[0] if found else None


def column_of(block: str, system: str) -> dict[Probe, str]:
    """Return the verdicts that the table in ``block`` has in the column of ``system``."""
    heading, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in block.partition("\n\n")[0].splitlines()
    )
    place = next(place for place, title in enumerate(heading) if title.startswith(system))
    return {Probe(row[1]): row[place] for row in rows}
