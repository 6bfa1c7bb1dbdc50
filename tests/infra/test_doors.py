"""The doors besides the API: who may come in, how often it is tried, where failures are kept."""

import dataclasses
from typing import Any

import pytest

from functions.store.idempotency import KEPT_HOURS
from infra.config import AWS, RECOGNISED_SECONDS, DoorNumbers, faults
from tests.infra.conftest import Assembly, synthesize
from tests.infra.template import Template


def rule_of(service: Template) -> dict[str, Any]:
    return service.properties("AWS::Events::Rule", "Name")["sendoff-ingest"]


def dead_letters(service: Template) -> dict[str, Any]:
    return service.queues["sendoff-ingest-dlq"]


def queue_named(service: Template, arn: dict[str, Any]) -> str:
    return service.named(arn, "QueueName")


def test_events_of_the_domain_lead_to_ingest(service: Template) -> None:
    rule = rule_of(service)
    assert rule["EventPattern"] == {
        "source": {"Ref": "EventSources"},
        "detail-type": {"Ref": "EventDetailTypes"},
    }
    assert "EventBusName" not in rule, "the default bus"
    (target,) = rule["Targets"]
    assert service.named(target["Arn"], "FunctionName") == "sendoff-ingest"
    assert "Input" not in target, "the whole event: its id is the idempotency key"


def test_which_events_is_a_parameter_with_several_values(service: Template) -> None:
    parameters = service.text["Parameters"]
    for name, default in (("EventSources", "billing"), ("EventDetailTypes", "PaymentSettled")):
        assert parameters[name]["Type"] == "CommaDelimitedList"
        assert parameters[name]["Default"] == default


def test_the_context_chooses_other_defaults(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("doors")
    context = {"event_sources": "billing,shop", "event_detail_types": "PaymentSettled,OrderShipped"}
    named = synthesize(folder, target="local", **context)["ServiceStack"]
    parameters = named.text["Parameters"]
    assert parameters["EventSources"]["Default"] == "billing,shop"
    assert parameters["EventDetailTypes"]["Default"] == "PaymentSettled,OrderShipped"


def test_only_this_rule_of_the_bus_may_invoke_ingest(service: Template) -> None:
    permissions = [
        one["Properties"]
        for one in service.of_type("AWS::Lambda::Permission").values()
        if one["Properties"]["Principal"] == "events.amazonaws.com"
        and service.named(one["Properties"]["FunctionName"], "FunctionName") == "sendoff-ingest"
    ]
    (permission,) = permissions
    assert permission["Action"] == "lambda:InvokeFunction"
    assert service.named(permission["SourceArn"], "Name") == "sendoff-ingest"


def test_what_cannot_be_delivered_or_taken_in_is_kept(service: Template) -> None:
    (target,) = rule_of(service)["Targets"]
    assert queue_named(service, target["DeadLetterConfig"]["Arn"]) == "sendoff-ingest-dlq"
    assert target["RetryPolicy"] == {
        "MaximumEventAgeInSeconds": AWS.doors.delivery_age_seconds,
        "MaximumRetryAttempts": AWS.doors.delivery_retries,
    }
    (configured,) = (
        one["Properties"]
        for one in service.of_type("AWS::Lambda::EventInvokeConfig").values()
        if service.named(one["Properties"]["FunctionName"], "FunctionName") == "sendoff-ingest"
    )
    assert configured["Qualifier"] == "$LATEST"
    assert configured["MaximumRetryAttempts"] == 2
    assert configured["MaximumEventAgeInSeconds"] == AWS.doors.event_age_seconds
    kept = configured["DestinationConfig"]["OnFailure"]["Destination"]
    assert queue_named(service, kept) == "sendoff-ingest-dlq"


def test_the_dead_letters_are_kept_long_encrypted_and_written_by_these_alone(
    service: Template,
) -> None:
    queue = dead_letters(service)
    assert queue["MessageRetentionPeriod"] == 14 * 86_400
    assert queue["SqsManagedSseEnabled"] is True
    (policy,) = (
        one["Properties"]["PolicyDocument"]["Statement"]
        for one in service.of_type("AWS::SQS::QueuePolicy").values()
        if queue_named(service, one["Properties"]["Queues"][0]) == "sendoff-ingest-dlq"
    )
    (allowed,) = (one for one in policy if one["Effect"] == "Allow")
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    assert allowed["Action"] == "sqs:SendMessage"
    rule = allowed["Condition"]["ArnEquals"]["aws:SourceArn"]
    assert service.named(rule, "Name") == "sendoff-ingest"


def statements(role: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for policy in role["Policies"]:
        (statement,) = policy["PolicyDocument"]["Statement"]
        found[policy["PolicyName"]] = statement
    return found


def test_ingest_keeps_its_failures_and_the_claim_has_it_drain(service: Template) -> None:
    keeping = statements(service.role_of("sendoff-ingest"))["failures"]
    assert keeping["Action"] == "sqs:SendMessage"
    assert queue_named(service, keeping["Resource"]) == "sendoff-ingest-dlq"
    draining = statements(service.role_of("sendoff-claim"))["drain"]
    assert draining["Action"] == "lambda:InvokeFunction"
    assert service.named(draining["Resource"], "FunctionName") == "sendoff-ingest"
    told = service.environment("sendoff-claim")["INGEST_FUNCTION"]
    assert service.named(told, "FunctionName") == "sendoff-ingest"


def test_schedules_have_a_role_that_invokes_ingest_and_nothing_else(service: Template) -> None:
    (role,) = (
        one["Properties"]
        for one in service.of_type("AWS::IAM::Role").values()
        if one["Properties"].get("RoleName") == "sendoff-scheduler"
    )
    (trusted,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trusted["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trusted["Condition"] == {
        "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    }
    allowed = statements(role)
    assert set(allowed) == {"invoke", "failures"}
    assert allowed["invoke"]["Action"] == "lambda:InvokeFunction"
    assert service.named(allowed["invoke"]["Resource"], "FunctionName") == "sendoff-ingest"
    assert allowed["failures"]["Action"] == "sqs:SendMessage"
    assert queue_named(service, allowed["failures"]["Resource"]) == "sendoff-ingest-dlq"


def test_what_a_schedule_is_made_with_is_told(service: Template) -> None:
    told = {name: one["Value"] for name, one in service.text["Outputs"].items()}
    assert service.named(told["IngestArn"], "FunctionName") == "sendoff-ingest"
    assert queue_named(service, told["IngestDeadLettersArn"]) == "sendoff-ingest-dlq"
    assert service.named(told["SchedulerRoleArn"], "RoleName") == "sendoff-scheduler"


def test_an_event_comes_again_for_less_long_than_it_is_recognised() -> None:
    assert KEPT_HOURS * 3600 == RECOGNISED_SECONDS
    longer = DoorNumbers(delivery_age_seconds=20 * 3600)
    (found,) = faults(dataclasses.replace(AWS, doors=longer))
    assert found.startswith("An event comes again for less long")


def test_a_dead_letter_and_requests_that_wait_ring(aws: Assembly) -> None:
    alarms = aws["MonitoringStack"].alarms
    lost = alarms["sendoff-ingest-dead-letters"]
    assert lost["Dimensions"] == [{"Name": "QueueName", "Value": "sendoff-ingest-dlq"}]
    waiting = alarms["sendoff-oldest-request-age"]
    assert waiting["MetricName"] == "OldestRequestAgeSeconds"
    assert waiting["Threshold"] == AWS.alarm.oldest_request_age_seconds
    assert waiting["EvaluationPeriods"] == AWS.alarm.oldest_request_minutes
    for alarm in (lost, waiting):
        assert alarm["TreatMissingData"] == "notBreaching", "nothing waits, nothing is told"
