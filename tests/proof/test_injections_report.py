"""The report of the injections where there is no terminal: each case on one line."""

import pytest

from tests.proof.injections import cells_of, report, report_console
from tests.proof.injections_expected import EXPECTED


def test_without_a_terminal_no_line_is_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    report(EXPECTED, report_console())
    lines = capsys.readouterr().out.splitlines()
    for case, end in EXPECTED.items():
        cells = cells_of(case, end)
        assert any(all(cell in line for cell in cells) for line in lines), case
