"""What our own side refused before any request is never said to be the provider's answer."""

import ast
from collections.abc import Iterator
from typing import Any

import pytest

from functions.core.evidence_words import attempt_words, why_unmade
from functions.core.explanation import explain
from functions.core.outcome import Scope
from functions.providers.webhook import FORBIDDEN
from tests.histories import Call, Change, Dossier, Row, Story, after
from tests.repo.repository import ROOT

GENERIC = "our own side refused to make one"


def codes_without_a_request() -> Iterator[str]:
    """Yield the codes of what providers reject or block without a status to show for it."""
    yield from FORBIDDEN
    for path in sorted((ROOT / "functions" / "providers").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            members = {one.arg: one.value for one in node.keywords}
            code = members.get("code")
            if node.func.id == "_blocked" and node.args:
                code = node.args[0]
            elif node.func.id not in ("Rejected", "Blocked") or "http_status" in members:
                continue
            if isinstance(code, ast.Constant) and isinstance(code.value, str):
                yield code.value


CODES = sorted({*codes_without_a_request(), "too_little_time", "deadline", "no_access_token"})


def test_the_codes_are_found() -> None:
    assert {
        *("forbidden_address", "forbidden_port", "invalid_parameters", "no_signing_secret"),
        *("not_configured", "payload_too_large", "platform_not_supported", "too_many_segments"),
        "access_token_refused",
    } <= set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_words_of_its_own(code: str) -> None:
    outcome = "transient" if code in ("too_little_time", "deadline") else "blocked"
    words = attempt_words(1, Call(outcome=outcome, code=code))
    assert words.startswith("Attempt 1 at http made no request, because ")
    assert words.endswith(f" ({code})")
    assert GENERIC not in words


@pytest.mark.parametrize("outcome", ["rejected", "blocked"])
def test_a_code_of_tomorrow_has_words_for_all(outcome: str) -> None:
    assert why_unmade(Call(outcome=outcome, code="too_blue")) == f"{GENERIC} (too_blue)"


@pytest.mark.parametrize(
    "call",
    [
        Call(outcome="rejected", code="422", http_status=422),
        Call(outcome="blocked", code="not_configured", http_status=400),
        Call(outcome="unknown", code="deadline"),
        Call(outcome="rejected", code="timeout", settled="never_accepted"),
        Call(outcome="transient", code="connection_refused"),
        Call(outcome="accepted"),
        Call(outcome=None, finished_at=None),
    ],
)
def test_what_may_have_been_a_request_is_not_said_to_be_none(call: Call) -> None:
    assert why_unmade(call) is None
    assert "made no request" not in attempt_words(1, call)


@pytest.mark.parametrize(
    ("scope", "what"),
    [
        (Scope.SENDER_IDENTITY, "the sender identity of its stream, or its settings, are not"),
        (Scope.DESTINATION, "the sender identity of its stream, or its settings, are not"),
        (Scope.PROVIDER, "our settings for the provider are not"),
    ],
)
def test_what_is_not_configured_names_whose_settings_and_which(scope: Scope, what: str) -> None:
    call = Call(outcome="blocked", code="not_configured", detail="project_id", scope=scope)
    assert why_unmade(call) == f"{what} usable (not_configured: project_id)"


def told_of_end(call: Call, *, status: str, reason: str) -> tuple[str, str]:
    """Return the headline, and the sentence of the attempt."""
    change = Change(to_status=status, reason=reason, lease_number=1, attempt_id=call.id)
    row = Row(status=status, reason=reason if status == "dead" else None)
    story = Story(notification=row, attempts=[call], transitions=[change])
    told: dict[str, Any] = explain(Dossier(history=story), now=after(100))
    return told["summary"], told["timeline"][-1]["sentence"]


def test_no_provider_is_said_to_have_rejected_what_it_was_not_asked() -> None:
    call = Call(provider="webhook", outcome="rejected", code="forbidden_address")
    assert told_of_end(call, status="dead", reason="rejected") == (
        "It is held for a person, since 2030-01-01T00:00:04Z: no request was made, because its URL "
        "leads to an address that may not be called (forbidden_address).",
        "Attempt 1 at webhook made no request, because its URL leads to an address that may not be "
        "called (forbidden_address): as it is, it can never be sent. It is held for a person to "
        "look at.",
    )


def test_what_waits_for_our_settings_is_not_said_to_be_blocked_at_the_provider() -> None:
    call = Call(
        provider="push",
        outcome="blocked",
        code="not_configured",
        detail="project_id",
        scope="sender_identity",
    )
    _, sentence = told_of_end(call, status="pending", reason="blocked")
    assert sentence.startswith(
        "Attempt 1 at push made no request, because the sender identity of its stream, or its "
        "settings, are not usable (not_configured: project_id); the attempt is not counted. It "
        "goes back to waiting"
    )
    summary, sentence = told_of_end(call, status="dead", reason="waited_too_long")
    assert ": it waited for too long, and no request was made, because the sender" in summary
    assert "(not_configured: project_id): it has waited for too long by now." in sentence
    assert "the provider has asked" not in summary + sentence


def test_what_moved_nothing_is_not_said_to_be_about_the_provider() -> None:
    call = Call(outcome="blocked", code="no_signing_secret", scope="provider")
    story = Story(notification=Row(status="cancelled"), attempts=[call])
    sentence = explain(Dossier(history=story), now=after(100))["timeline"][-1]["sentence"]
    assert sentence.startswith(
        "Attempt 1 at http made no request, because there is no secret to sign it with "
        "(no_signing_secret), which counts as blocked. It moved nothing"
    )
