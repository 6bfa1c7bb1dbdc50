"""One reconciliation: match receipts that came too early, and close what passed its cutoff."""

from dataclasses import dataclass

from functions.store.check import CHECKED_AT_ONCE, check
from functions.store.connection import Database
from functions.store.receipt import MATCHED_AT_ONCE, match_orphans

MAX_ROUNDS = 40
"""Statements of 500 rows per run: what is left waits for the next minute."""


@dataclass(slots=True, kw_only=True)
class Report:
    """How many rows were looked at, and what was decided."""

    rematched: int = 0
    checked: int = 0
    unconfirmed: int = 0
    retried: int = 0
    held: int = 0


def run_reconcile(database: Database) -> Report:
    """Match orphans first: what they prove must count before a cutoff does."""
    report = Report()
    for _ in range(MAX_ROUNDS):
        matched = match_orphans(database)
        report.rematched += matched.stored
        if matched.stored < MATCHED_AT_ONCE:
            break
    for _ in range(MAX_ROUNDS):
        checked = check(database)
        report.checked += checked.looked_at
        report.unconfirmed += checked.unconfirmed
        report.retried += checked.retried
        report.held += checked.held
        if checked.looked_at < CHECKED_AT_ONCE:
            break
    return report
