"""One reconciliation: match receipts that came too early, decide what has waited long enough, and
ask the providers that can be asked."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from functions.core.declaration import Declaration
from functions.core.evidence import Receipt
from functions.providers.provider import NeverAccepted
from functions.store.check import (
    CHECKED_AT_ONCE,
    LATE_SECONDS,
    Inquiry,
    check,
    give_back_polls,
    record_never_accepted,
)
from functions.store.connection import Database
from functions.store.receipt import MATCHED_AT_ONCE, match_orphans, record

MAX_ROUNDS = 40
"""Statements of 500 rows per run: what is left waits for the next minute."""

ASK_SECONDS = 5.0
"""Until when an answer is waited for."""

KEEP_SECONDS = 3.0
"""Left of the invocation for the last answers to be kept."""

CONCURRENT_QUESTIONS = 10
"""So many may be under way; while they all wait for a provider that hangs, turns go by unused."""

KEPT_TOGETHER = 20
"""Answers are kept in sets of this many, so that a run that is cut loses few."""

Answer = Receipt | NeverAccepted | None
Ask = Callable[[Inquiry], Answer]
"""Asks a provider once, within ASK_SECONDS; never raises."""


@dataclass(slots=True, kw_only=True)
class Report:
    """How many rows were looked at, what was decided, and whom the providers were asked about."""

    rematched: int = 0
    checked: int = 0
    unconfirmed: int = 0
    retried: int = 0
    held: int = 0
    asked: int = 0
    missed: int = 0
    """Questions that could not be asked in their turn: they wait for the next look."""
    answered: int = 0
    never_accepted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """What one invocation works with; ``ends_at`` is its end by ``time.monotonic``."""

    database: Database
    declarations: Sequence[Declaration]
    ask: Ask
    threads: ThreadPoolExecutor
    ends_at: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> Report:
        """Match orphans first: what they prove must count before a cutoff does. Decide next, for
        all that is due. Ask last, each question at its time."""
        report = Report()
        trouble: Exception | None = None
        try:
            self._match(report)
        except Exception as error:  # what is due is decided all the same; then it is told
            trouble = error
        self._ask(self._check(report), report)
        if trouble is not None:
            raise trouble
        return report

    def _match(self, report: Report) -> None:
        for _ in range(MAX_ROUNDS):
            matched = match_orphans(self.database, declarations=self.declarations)
            report.rematched += matched.stored
            if matched.stored < MATCHED_AT_ONCE:
                break

    def _check(self, report: Report) -> list["_Question"]:
        questions: list[_Question] = []
        for _ in range(MAX_ROUNDS):
            last_start = self.ends_at - ASK_SECONDS - KEEP_SECONDS
            checked = check(
                self.database,
                declarations=self.declarations,
                horizon_seconds=max(last_start - self.clock(), 0.0),
            )
            now = self.clock()
            report.checked += checked.looked_at
            report.unconfirmed += checked.unconfirmed
            report.retried += checked.retried
            report.held += checked.held
            questions += [
                _Question(at=now + one.offset_seconds, inquiry=one) for one in checked.inquiries
            ]
            if checked.looked_at < CHECKED_AT_ONCE:
                break
        return sorted(questions, key=lambda question: question.at)

    def _ask(self, questions: Sequence["_Question"], report: Report) -> None:
        """Ask in turns, and keep what is answered meanwhile."""
        pending: list[_Asked] = []
        missed = {question.inquiry.id for question in questions}
        try:
            for inquiry in self._turns(questions):
                done, under_way = _parted(pending)
                if len(done) >= KEPT_TOGETHER:
                    self._keep(done, report)
                    pending = under_way
                if len(under_way) < CONCURRENT_QUESTIONS:
                    report.asked += 1
                    missed.discard(inquiry.id)
                    answer = self.threads.submit(self.ask, inquiry)
                    pending.append(_Asked(inquiry=inquiry, answer=answer))
        finally:
            wait([one.answer for one in pending])  # a thread that is frozen thaws in a later run
        self._keep(pending, report)
        report.missed = len(questions) - report.asked
        give_back_polls(self.database, sorted(missed))

    def _turns(self, questions: Sequence["_Question"]) -> Iterator[Inquiry]:
        """Yield each inquiry in its turn, as long as there is time for an answer. What is late
        keeps its distance to the one before; what is too late waits for its next look, or it would
        come together with what another run asks in its own time."""
        last_at = self.ends_at - ASK_SECONDS - KEEP_SECONDS
        free_at: dict[str, float] = {}
        for question in questions:
            provider, turn_seconds = question.inquiry.provider, question.inquiry.turn_seconds
            at = max(question.at, free_at.get(provider, question.at))
            if (early := at - self.clock()) > 0:
                self.sleep(early)
            now = max(self.clock(), at)  # a sleep may end a little early
            if now > last_at:
                return
            if now < question.at + LATE_SECONDS:
                free_at[provider] = now + turn_seconds
                yield question.inquiry

    def _keep(self, asked: Sequence["_Asked"], report: Report) -> None:
        """Keep what was answered, and let what was never accepted be due again."""
        answers = [(one.inquiry.id, one.answer.result()) for one in asked]
        receipts = [answer for _, answer in answers if isinstance(answer, Receipt)]
        for door in sorted({receipt.provider for receipt in receipts}):
            record(
                self.database,
                [receipt for receipt in receipts if receipt.provider == door],
                provider=door,
                declarations=self.declarations,
            )
        report.answered += len(receipts)
        never = [id for id, answer in answers if isinstance(answer, NeverAccepted)]
        report.never_accepted += record_never_accepted(self.database, never)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """An inquiry, and when its turn begins (``time.monotonic``)."""

    at: float
    inquiry: Inquiry


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """An inquiry that was made, and the answer to come."""

    inquiry: Inquiry
    answer: Future[Answer]


def _parted(asked: Sequence[_Asked]) -> tuple[list[_Asked], list[_Asked]]:
    """Return those that are answered, and those that are not."""
    done: list[_Asked] = []
    under_way: list[_Asked] = []
    for one in asked:
        (done if one.answer.done() else under_way).append(one)
    return done, under_way
