"""What SendTextMessage's errors mean, where the order of the table or what it lacks decides."""

from typing import Any

import boto3
import pytest

from functions.core.outcome import Blocked, Outcome, Refused, Rejected, Scope, Throttled
from functions.core.suppression import SuppressionReason
from functions.providers.answer import Class
from functions.providers.aws import Declined
from functions.providers.aws_answer import outcome_of_failure
from functions.providers.sms import SERVICE
from functions.providers.sms_rules import RULES


def declined(code: str, reason: str = "", *fields: str, status: int = 400) -> Declined:
    return Declined(
        code=code, message="", http_status=status, headers={}, reason=reason, fields=fields
    )


def outcome_of(*error: str) -> Outcome:
    return outcome_of_failure(declined(*error), RULES)


def test_an_opted_out_number_is_refused_by_the_choice_of_its_holder() -> None:
    outcome = outcome_of("ConflictException", "DESTINATION_PHONE_NUMBER_OPTED_OUT")
    assert isinstance(outcome, Refused)
    assert (outcome.reason, outcome.source) == (
        SuppressionReason.RECIPIENT_CHOICE,
        "sms:opt_out_list",
    )


def test_a_country_s_refusal_goes_before_what_it_says_of_the_number() -> None:
    outcome = outcome_of("ValidationException", "COUNTRY_NOT_ENABLED", "DestinationPhoneNumber")
    assert isinstance(outcome, Blocked)
    assert outcome.scope == Scope.COUNTRY


def test_a_number_that_is_at_fault_goes_before_the_stream() -> None:
    fields = ("OriginationIdentity", "DestinationPhoneNumber")
    assert isinstance(outcome_of("ValidationException", "INVALID_PARAMETER", *fields), Rejected)


@pytest.mark.parametrize("reason", ["TEXT_QUOTA_OF_NEXT_YEAR", ""])
def test_a_quota_that_nobody_knew_is_ours_all_the_same(reason: str) -> None:
    outcome = outcome_of("ServiceQuotaExceededException", reason)
    assert (type(outcome), outcome.unforeseen) == (Blocked, True)


@pytest.mark.parametrize(
    "error",
    [
        ("ConflictException", "INVENTED"),
        ("ValidationException", "INVENTED"),
        ("ValidationException", ""),
        ("InventedException",),
    ],
)
def test_an_invented_refusal_is_rejected_and_marked(error: tuple[str, ...]) -> None:
    outcome = outcome_of(*error)
    assert (type(outcome), outcome.unforeseen) == (Rejected, True)


@pytest.mark.parametrize("code", ["AccessDeniedException", "ExpiredTokenException"])
@pytest.mark.parametrize("reason", ["", "ACCOUNT_DISABLED", "INSUFFICIENT_ACCOUNT_REPUTATION", "X"])
def test_whatever_is_wrong_with_our_account_blocks_the_provider(code: str, reason: str) -> None:
    outcome = outcome_of(code, reason)
    assert isinstance(outcome, Blocked)
    assert outcome.scope == Scope.PROVIDER


def test_throttling_slows_the_provider_and_spends_nothing() -> None:
    outcome = outcome_of("ThrottlingException")
    assert isinstance(outcome, Throttled)
    assert (outcome.scope, outcome.spends) == (Scope.PROVIDER, False)


def test_every_reason_and_field_of_the_table_is_one_that_the_service_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    session: Any = boto3.session.Session()
    model = session.client(SERVICE).meta.service_model
    fields = set(model.operation_model("SendTextMessage").input_shape.members)
    for rule in RULES:
        assert not rule.field or rule.field in fields, rule
        if rule.reason:
            known = model.shape_for(f"{rule.code}Reason").enum
            assert rule.reason in known, rule


def test_nothing_but_an_opt_out_suppresses_a_number() -> None:
    refusing = [rule for rule in RULES if rule.fate == Class.REFUSED]
    assert [rule.reason for rule in refusing] == ["DESTINATION_PHONE_NUMBER_OPTED_OUT"]
