"""Every change that the store can write has a sentence of its own."""

import ast
import importlib
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest

from functions.claim.gate import RETRIES_OFF
from functions.claim.obstacle import COUNTRY_BLOCKED, ENDPOINT_BUSY
from functions.core.abuse import Because, Kind
from functions.core.cause import CAUSES, UNMADE_CAUSES, cause_of
from functions.core.chain import AFTER, STARTED, WITHDRAWN
from functions.core.outcome import OutcomeName, Scope
from functions.core.policy import Because as PolicyBecause
from functions.core.policy import QuietHours
from functions.core.sentence import Evidence, sentence
from functions.core.states import Finding, Reason, Status
from functions.core.summary import BECAUSE, summary
from tests.histories import START, Change, after
from tests.repo.repository import ROOT

ANYWHERE = (
    "pending",
    "leased",
    "uncertain",
    "submitted",
    "failed",
    "unconfirmed",
    "expired",
    "dead",
)
OPEN = UUID(int=1)
MIRRORED = (
    "pending",
    "uncertain",
    "submitted",
    "delivered",
    "failed",
    "unconfirmed",
    "suppressed",
    "cancelled",
    "expired",
    "dead",
)
"""What a parent may show of a child."""

# (actor, reason, whether an attempt was open) → {status before: statuses after}
WRITTEN: dict[tuple[str, str | None, bool], dict[tuple[str, ...], tuple[str, ...]]] = {
    ("client", None, False): {("pending", "leased"): ("cancelled",)},
    ("claim", "not_dispatched", False): {("leased",): ("pending",)},
    ("claim", "country_blocked", False): {("leased",): ("pending",)},
    ("claim", "endpoint_paused", False): {("leased",): ("pending",)},
    ("claim", "unknown_time_zone", False): {("leased",): ("pending",)},
    ("claim", "endpoint_busy", False): {("leased",): ("pending",)},
    ("claim", "retries_off", False): {("leased",): ("pending",)},
    ("claim", "lease_lost", False): {("leased",): ("pending",)},
    ("claim", "sms_guard_failed", False): {("leased",): ("pending",)},
    ("client", "erased", False): {
        ("pending", "leased", "uncertain", "dead"): ("suppressed", "unconfirmed")
    },
    ("policy", "opted_out", False): {("leased",): ("suppressed", "unconfirmed")},
    ("policy", "no_consent", False): {("leased",): ("suppressed", "unconfirmed")},
    ("policy", "no_contact_point", False): {("leased",): ("suppressed", "unconfirmed")},
    ("policy", "not_verified", False): {("leased",): ("suppressed", "unconfirmed")},
    ("policy", "contact_point_changed", False): {("leased",): ("unconfirmed",)},
    ("policy", "suppressed", False): {("leased",): ("suppressed", "unconfirmed")},
    ("policy", "no_send_time", False): {("leased",): ("suppressed", "unconfirmed")},
    ("policy", "erased", False): {("leased",): ("suppressed", "unconfirmed")},
    ("policy", "quiet_hours", False): {("leased",): ("pending",)},
    ("policy", "outside_send_window", False): {("leased",): ("pending",)},
    ("policy", "country_not_allowed", False): {("leased",): ("suppressed", "unconfirmed")},
    ("policy", "mix_shifted", False): {("leased",): ("pending",)},
    ("policy", "number_velocity", False): {("leased",): ("pending",)},
    ("policy", "prefix_velocity", False): {("leased",): ("pending",)},
    ("policy", "sms_budget_spent", False): {("leased",): ("pending",)},
    ("policy", "sms_price_unknown", False): {("leased",): ("pending",)},
    ("sender", "changed", False): {("leased",): ("pending",)},
    ("sender", "erased", False): {("leased",): ("suppressed", "unconfirmed")},
    ("sender", "paused", False): {("leased",): ("pending",)},
    ("sender", "blocked", False): {("leased",): ("pending",)},
    ("sender", "disabled", False): {("leased",): ("suppressed", "unconfirmed")},
    ("sender", "expired", False): {("leased",): ("expired", "unconfirmed")},
    ("sender", "suppressed", False): {("leased",): ("suppressed", "unconfirmed")},
    ("sender", "key_window_over", False): {("leased",): ("dead",)},
    ("sender", "provider_changed", False): {("leased",): ("dead",)},
    ("sender", "crash_loop", False): {("pending", "leased"): ("dead",)},
    ("sender", "unreadable", False): {("leased",): ("dead",)},
    ("sender", "accepted", True): {ANYWHERE: ("submitted", "delivered")},
    ("sender", "provider_gives_no_receipts", True): {
        ("pending", "leased", "uncertain", "expired", "dead"): ("unconfirmed",)
    },
    ("sender", "transient", True): {("leased", "uncertain"): ("pending",)},
    ("sender", "throttled", True): {("leased", "uncertain"): ("pending",)},
    ("sender", "blocked", True): {("leased", "uncertain"): ("pending",)},
    ("sender", "unknown", True): {("leased",): ("pending", "uncertain")},
    ("sender", "rejected", True): {("leased", "uncertain"): ("dead",)},
    ("sender", "refused", True): {("leased", "uncertain"): ("suppressed", "unconfirmed")},
    ("sender", "budget_spent", True): {("leased", "uncertain"): ("dead",)},
    ("sender", "outcome_unknown", True): {("leased", "uncertain"): ("dead",)},
    ("sender", "waited_too_long", True): {("leased", "uncertain"): ("dead",)},
    ("sender", "expired", True): {("leased", "uncertain"): ("expired", "unconfirmed")},
    ("sweeper", "lease_expired", False): {("leased",): ("pending",)},
    ("sweeper", "lease_expired", True): {
        ("leased",): ("pending", "uncertain", "dead", "unconfirmed")
    },
    ("sweeper", "expired", False): {("pending",): ("expired", "unconfirmed")},
    ("reconcile", "no_receipt_by_cutoff", False): {("submitted",): ("unconfirmed",)},
    ("reconcile", "outcome_unknown", True): {("uncertain",): ("dead",)},
    ("reconcile", "expired", True): {("uncertain",): ("unconfirmed",)},
    ("reconcile", "never_accepted", True): {("uncertain", "dead"): ("pending", "dead", "expired")},
    ("reconcile", "grace_over", True): {("uncertain",): ("pending", "dead")},
    ("accept", "invalid", False): {("pending",): ("dead",)},
    ("fallback", "fallback_started", False): {MIRRORED: ("pending",)},
    ("fallback", "fallback_after", False): {MIRRORED: ("pending",)},
    ("fallback", "fallback_delivered", False): {("pending", "leased"): ("cancelled",)},
    ("fallback", "fallback_double", False): {("delivered",): ("delivered",)},
    ("fallback", None, False): {MIRRORED: MIRRORED},
    ("operator", "requeued", False): {("dead",): ("pending",)},
    ("operator", "discarded", False): {("dead",): ("dead",)},
    ("operator", "settled_accepted", False): {("uncertain", "dead"): ("submitted",)},
    ("operator", "settled_delivered", False): {("uncertain", "dead"): ("delivered",)},
    ("operator", "settled_not_accepted", False): {
        ("uncertain", "dead"): ("pending", "dead", "expired")
    },
    ("operator", "settled_hold", True): {("uncertain", "dead"): ("dead",)},
    ("operator", "restored", True): {("pending", "leased"): ("uncertain",)},
    ("operator", "hold_released", False): {("pending",): ("pending",)},
    ("operator", "hold_discarded", False): {("pending",): ("suppressed", "unconfirmed")},
    ("operator", "replayed", False): {
        ANYWHERE: ("submitted", "delivered", "failed", "unconfirmed")
    },
}
REPORTED: dict[tuple[str, ...], tuple[str, ...]] = {
    ANYWHERE: ("submitted", "delivered", "failed"),
    ("delivered",): ("failed",),
}


def written() -> Iterator[Change]:
    for (actor, reason, is_open), moves in WRITTEN.items():
        for before, afterwards in moves.items():
            for from_status in before:
                for to_status in afterwards:
                    yield Change(
                        actor=actor,
                        from_status=from_status,
                        to_status=to_status,
                        reason=reason,
                        attempt_id=OPEN if is_open else None,
                    )
    for before, afterwards in REPORTED.items():
        for from_status in before:
            for to_status in afterwards:
                for actor, reason in (("provider", "a code"), ("operator", "replayed")):
                    yield Change(
                        actor=actor,
                        from_status=from_status,
                        to_status=to_status,
                        reason=reason,
                        receipt_id=UUID(int=2),
                    )


CHANGES = list(dict.fromkeys(written()))


def kind(change: Change) -> tuple[str, str | None, str, bool, bool]:
    return (
        change.actor,
        change.reason,
        change.to_status,
        change.attempt_id is None,
        change.receipt_id is None,
    )


def test_every_change_is_told_in_whole_sentences_of_its_own() -> None:
    kinds: dict[str, tuple[str, str | None, str, bool, bool]] = {}
    for change in CHANGES:
        assert cause_of(change) is not None, change
        text = sentence(change, Evidence())
        assert re.fullmatch(r"([A-Z][^.]*\. ?)+", text), text
        assert not text.endswith(" ")
        assert not re.search(r"None|[{}]|  ", text), text
        assert kinds.setdefault(text, kind(change)) == kind(change), text


def test_no_cause_is_left_that_nothing_writes() -> None:
    assert {cause_of(change) for change in CHANGES} == set(CAUSES)


def test_what_was_not_asked_of_a_provider_has_other_words_for_causes_that_there_are() -> None:
    assert set(UNMADE_CAUSES) < set(CAUSES)


def test_doubt_is_not_promised_evidence_nor_that_nothing_is_sent_again() -> None:
    change = Change(to_status="uncertain", reason="unknown", attempt_id=OPEN)
    assert sentence(change, Evidence()).endswith(
        "it waits for evidence, if any can come, before it may be sent again."
    )


STORE = sorted((ROOT / "functions" / "store").glob("*.py"))
STATEMENT = "INSERT INTO transitions"
OTHER_WORDS = {
    *Status,
    *OutcomeName,
    *("claim", "client", "policy", "provider", "sender", "sweeper", "reconcile", "operator"),
    *("accept", "fallback"),
    *("go", "mine", "stale", "held", "suppress", "lift", "defer", "allow", "retry", "hold"),
    *("hard_bounce", "complaint", "invalid", "type", "code", "restored"),
    *("reason", "source", "evidence"),  # members of a fact
    "rules_version",  # of a decision
    *("receipt_id", "notification_id", "attempt_id"),
    *("sender_identity", "transactional", "bulk", "unsubscribe"),  # a scope, streams, a source
    *("hex", "null"),  # a form of bytes, JSON's null
}
"""What stands in quotes in those statements and is no reason, or is one beside that."""


def constants(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_table_holds_every_reason_that_a_statement_can_write() -> None:
    reasons = {reason for _, reason, _ in WRITTEN}
    unknown: set[str] = set()
    for path in STORE:
        for text in constants(path):
            if STATEMENT in text:
                literals = set(re.findall(r"'([a-z_]{2,})'", text))
                unknown |= literals - reasons - OTHER_WORDS
    assert unknown == set()


def test_the_table_holds_every_pair_that_stands_in_a_statement() -> None:
    known = {(actor, reason) for actor, reason, _ in WRITTEN}
    found: set[tuple[str, str]] = set()
    for path in STORE:
        for text in constants(path):
            for statement in text.split(STATEMENT)[1:]:
                selected = statement.partition("SELECT")[2].partition("FROM")[0]
                literals = re.findall(r"'([a-z_]+)'", selected)
                if len(literals) > 1 and literals[-1] not in set(Status):
                    found.add((literals[0], literals[-1]))
    assert ("sweeper", "lease_expired") in found
    assert found <= known


def test_the_table_holds_every_reason_that_is_given_to_a_statement() -> None:
    reasons = {reason for _, reason, _ in WRITTEN}
    assert {f"settled_{finding}" for finding in Finding} <= reasons
    given = {
        keyword.value.value
        for path in STORE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "reason" and isinstance(keyword.value, ast.Constant)
    }
    assert "never_accepted" in given
    assert given - {None} <= reasons


JUDGES = ("functions.claim.gate", "functions.claim.obstacle", "functions.store.guard")
RULES = ("functions.core.abuse", "functions.core.policy")


def constants_passed_on(module: str) -> Iterator[str]:
    """Yield the texts that stand in a module under a name of their own, and are given to a call or
    are the default of a member: reasons of a verdict."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    names = vars(importlib.import_module(module))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        given: list[ast.expr] = []
        if isinstance(node, ast.Call):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            given = [node.value]
        for one in given:
            value = None
            if isinstance(one, ast.Name) and one.id.isupper():
                value = names[one.id]
            elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
                holder = names.get(one.value.id)
                value = getattr(holder, one.attr) if isinstance(holder, type) else None
            if not isinstance(value, str) or isinstance(value, Status | Kind | QuietHours):
                continue
            if re.fullmatch("[a-z_]+", value):
                yield value


def test_the_table_and_the_summary_hold_every_reason_that_a_verdict_can_carry() -> None:
    reasons = {reason for _, reason, _ in WRITTEN}
    carried = {text for module in (*JUDGES, *RULES) for text in constants_passed_on(module)}
    assert {RETRIES_OFF, ENDPOINT_BUSY, COUNTRY_BLOCKED, Because.BUDGET_SPENT} <= carried
    assert set(Because) <= carried
    carried |= set(PolicyBecause)
    assert carried - reasons == set()
    assert carried - set(BECAUSE) == set()


def test_the_table_holds_every_reason_of_a_chain() -> None:
    assert {("fallback", one, False) for one in (STARTED, AFTER, WITHDRAWN)} <= set(WRITTEN)


ACCOUNT, IDENTITY = "our account at the provider", "the sender identity of its stream"


@pytest.mark.parametrize(
    ("outcome", "scope", "about"),
    [
        ("throttled", Scope.PROVIDER, "the provider asked to slow down;"),
        ("throttled", Scope.SENDER_IDENTITY, f"slow down with {IDENTITY};"),
        ("throttled", Scope.COUNTRY, "slow down with its country;"),
        ("throttled", Scope.ENDPOINT, "its endpoint asked to slow down;"),
        ("throttled", Scope.DESTINATION, "slow down with this address;"),
        ("blocked", None, f"{ACCOUNT} is blocked"),
        ("blocked", Scope.PROVIDER, f"{ACCOUNT} is blocked"),
        ("blocked", Scope.SENDER_IDENTITY, f"{IDENTITY} is blocked"),
        ("blocked", Scope.COUNTRY, "its country is blocked"),
        ("refused", Scope.DESTINATION, "the provider refused the address"),
        ("refused", Scope.ENDPOINT, "its endpoint asked never to be called again"),
    ],
)
def test_an_answer_says_how_far_it_reaches(outcome: str, scope: str | None, about: str) -> None:
    to_status = "suppressed" if outcome == "refused" else "pending"
    change = Change(reason=outcome, to_status=to_status, attempt_id=OPEN)
    assert about in sentence(change, Evidence(scope=scope))


def test_what_is_passed_on_says_to_whom() -> None:
    change = Change(reason="transient", attempt_id=OPEN)
    assert sentence(change, Evidence(passed_on="http_keyless")).endswith(
        "It is passed on to http_keyless at once, without an attempt spent."
    )
    assert sentence(change, Evidence(instead="http_keyless")).endswith(
        "It goes back to waiting. The next attempt was made with http_keyless."
    )


@pytest.mark.parametrize("to_status", list(Status))
@pytest.mark.parametrize("reason", [None, "a reason of tomorrow", *Reason])
def test_a_change_that_nobody_foresaw_is_still_told(to_status: Status, reason: str | None) -> None:
    change = Change(actor="somebody", to_status=to_status, reason=reason)
    text = sentence(change, Evidence())
    assert text.startswith(f"It changed from leased to {to_status}")
    assert text.endswith(".")
    assert "None" not in text


def test_what_others_wrote_is_never_read_as_a_place_to_fill() -> None:
    change = Change(actor="provider", to_status="failed", receipt_id=UUID(int=2))
    text = sentence(change, Evidence(report="The provider reported {operator} and {0}"))
    assert text.startswith("The provider reported {operator} and {0}.")


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("reason", [None, "mailbox_full", *Reason])
def test_the_summary_says_where_it_stands_and_since_when(
    status: Status, reason: str | None
) -> None:
    text = summary(status, reason=reason, since=START, discarded_at=None)
    assert re.fullmatch(r"(It|The provider) [^.]* 2030-01-01T00:00:00Z[^.]*\.", text), text
    assert "None" not in text


@pytest.mark.parametrize("discarded_at", [after(5)])
def test_the_summary_of_a_discarded_one_keeps_why_it_was_held(discarded_at: datetime) -> None:
    text = summary("dead", reason="rejected", since=START, discarded_at=discarded_at)
    assert text == (
        "It was discarded at 2030-01-01T00:00:05Z, after it was held: the provider rejected it for "
        "good."
    )
