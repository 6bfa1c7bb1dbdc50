"""The numbers that must fit together: in the configuration, and in the template that came of it."""

import dataclasses
import json
from typing import Any

import pytest

from functions.core.states import Channel
from infra.config import (
    AWS,
    DEPLOY_OVERLAP,
    LOCAL,
    NUMBERS,
    VISIBILITY_FACTOR,
    DatabaseNumbers,
    FunctionNumbers,
    Inconsistent,
    Numbers,
    QueueNumbers,
    SenderNumbers,
    Target,
    check,
    faults,
)
from tests.infra.conftest import Assembly
from tests.infra.template import Template


def channel_numbers(template: Template) -> dict[str, dict[str, Any]]:
    """Return what the migration writes into ``channels``, with references as words."""
    migration = next(iter(template.of_type("Custom::Migration").values()))
    pieces = migration["Properties"]["Channels"]["Fn::Join"][1]
    return json.loads("".join(template.resolved(piece) for piece in pieces))


def broken(template: Template) -> list[str]:
    """Return every relation between the numbers in ``template`` that does not hold."""
    found: list[str] = []
    numbers = channel_numbers(template)
    for mapping in template.of_type("AWS::Lambda::EventSourceMapping").values():
        source = mapping["Properties"]
        if template.named(source["EventSourceArn"], "QueueName") == "sendoff-events":
            continue  # no lease and no deadline belong to it: see test_events
        function = template.functions[template.named(source["FunctionName"], "FunctionName")]
        name = template.named(source["EventSourceArn"], "QueueName")
        queue = template.queues[name]
        dead = template.queues[
            template.named(queue["RedrivePolicy"]["deadLetterTargetArn"], "QueueName")
        ]
        channel = numbers[name.rsplit("-", 1)[-1]]
        window = source.get("MaximumBatchingWindowInSeconds", 0)
        concurrency = source["ScalingConfig"]["MaximumConcurrency"]
        relations = {
            "visibility": (
                queue["VisibilityTimeout"] >= VISIBILITY_FACTOR * function["Timeout"] + window
            ),
            "lease": channel["lease_seconds"] > queue["VisibilityTimeout"],
            "deadline": channel["provider_deadline_seconds"] < function["Timeout"],
            "receives": queue["RedrivePolicy"]["maxReceiveCount"] >= 5,
            "retention": dead["MessageRetentionPeriod"] > queue["MessageRetentionPeriod"],
            "concurrency": 2 <= concurrency <= function["ReservedConcurrentExecutions"],
            "failures": source["FunctionResponseTypes"] == ["ReportBatchItemFailures"],
            "batch": source["BatchSize"] == 10,
        }
        found += [f"{name}: {relation}" for relation, holds in relations.items() if not holds]
    return found


def test_i1_visibility_lease_timeout_and_deadline_are_tied_together(service: Template) -> None:
    assert len(service.of_type("AWS::Lambda::EventSourceMapping")) == len(Channel) + 1
    assert broken(service) == []


@pytest.mark.parametrize("channel", list(Channel))
def test_i1_a_longer_sender_timeout_alone_is_found(service: Template, channel: Channel) -> None:
    changed = service.copy()
    changed.functions[f"sendoff-sender-{channel}"]["Timeout"] += 1
    assert broken(changed) == [f"sendoff-{channel}: visibility"]


def test_i1_a_batching_window_needs_a_longer_visibility(service: Template) -> None:
    changed = service.copy()
    for mapping in changed.of_type("AWS::Lambda::EventSourceMapping").values():
        mapping["Properties"]["MaximumBatchingWindowInSeconds"] = 1
    assert broken(changed) == [f"sendoff-{channel}: visibility" for channel in Channel]


def test_i1_a_longer_visibility_alone_outlives_the_lease(service: Template) -> None:
    changed = service.copy()
    changed.queues["sendoff-email"]["VisibilityTimeout"] += 3600
    assert broken(changed) == ["sendoff-email: lease"]


def test_i2_the_poller_never_receives_more_than_may_run(service: Template) -> None:
    changed = service.copy()
    changed.functions["sendoff-sender-sms"]["ReservedConcurrentExecutions"] = 5
    assert broken(changed) == ["sendoff-sms: concurrency"]


def test_i2_a_message_is_received_five_times_before_it_is_dead(service: Template) -> None:
    changed = service.copy()
    changed.queues["sendoff-push"]["RedrivePolicy"]["maxReceiveCount"] = 2
    assert broken(changed) == ["sendoff-push: receives"]


def test_i3_all_functions_together_stay_within_max_connections(aws: Assembly) -> None:
    reserved = sum(
        function["ReservedConcurrentExecutions"]
        for function in aws["ServiceStack"].functions.values()
    )
    group = next(iter(aws["DataStack"].of_type("AWS::RDS::DBParameterGroup").values()))
    limit = int(group["Properties"]["Parameters"]["max_connections"])
    assert reserved == AWS.reserved_concurrency
    assert DEPLOY_OVERLAP * reserved + AWS.database.operator_connections <= limit


def test_i3_every_function_that_connects_has_a_concurrency_of_its_own(service: Template) -> None:
    assert all(
        function.get("ReservedConcurrentExecutions", 0) > 0
        for function in service.functions.values()
    )


def test_the_numbers_of_both_targets_are_those_of_the_design() -> None:
    assert (AWS.sender.timeout_seconds, AWS.sender.visibility_seconds) == (30, 180)
    assert (AWS.sender.lease_seconds, AWS.sender.provider_deadline_seconds) == (240, 10)
    assert (LOCAL.sender.timeout_seconds, LOCAL.sender.visibility_seconds) == (5, 30)
    assert (LOCAL.sender.lease_seconds, LOCAL.sender.provider_deadline_seconds) == (40, 3)
    assert LOCAL.channel == {
        "backoff_base_seconds": 1,
        "backoff_cap_seconds": 8,
        "cutoff_seconds": 30,
    }


def test_the_channels_of_the_targets_differ_only_where_the_design_says(
    aws: Assembly, local: Assembly
) -> None:
    production = channel_numbers(aws["ServiceStack"])
    near = channel_numbers(local["ServiceStack"])
    assert list(production) == list(near) == sorted(Channel)
    for channel, columns in near.items():
        differing = {name for name in columns if columns[name] != production[channel].get(name)}
        assert differing - {"provider_url"} == {
            "lease_seconds",
            "provider_deadline_seconds",
            "backoff_base_seconds",
            "backoff_cap_seconds",
            "cutoff_seconds",
        }


@pytest.mark.parametrize("target", list(Target))
def test_the_numbers_of_a_target_fit_together(target: Target) -> None:
    assert faults(NUMBERS[target]) == []


def with_sender(**changes: int) -> Numbers:
    return dataclasses.replace(AWS, sender=dataclasses.replace(AWS.sender, **changes))


def with_function(name: str, **changes: int) -> Numbers:
    changed: FunctionNumbers = dataclasses.replace(AWS.functions[name], **changes)
    return dataclasses.replace(AWS, functions={**AWS.functions, name: changed})


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        (with_sender(timeout_seconds=10), "The provider deadline is shorter"),
        (with_sender(provider_deadline_seconds=30), "The provider deadline is shorter"),
        (with_sender(lease_margin_seconds=0), "The lease outlives"),
        (with_sender(maximum_concurrency=21), "The event source may use no more"),
        (with_sender(maximum_concurrency=1), "The event source may use no more"),
        (dataclasses.replace(AWS, queue=QueueNumbers(receives=4)), "at least five receives"),
        (
            dataclasses.replace(AWS, queue=QueueNumbers(dead_letter_retention_seconds=345_600)),
            "A dead letter is kept longer",
        ),
        (with_function("claim", timeout_seconds=150), "ends before its timeout"),
        (with_function("claim", reserved_concurrency=1), "Two runs of the claim loop"),
        (with_function("ingest", reserved_concurrency=150), "fit into the connection budget"),
        (with_function("ingest", reserved_concurrency=900), "fits into an account"),
        (
            dataclasses.replace(AWS, database=DatabaseNumbers(max_connections=1000)),
            "has the memory for its connections",
        ),
    ],
)
def test_a_number_that_does_not_fit_is_named_and_stops_the_synthesis(
    numbers: Numbers, fault: str
) -> None:
    assert [sentence for sentence in faults(numbers) if fault in sentence]
    with pytest.raises(Inconsistent, match=fault):
        check(numbers)


def test_visibility_and_lease_follow_a_changed_timeout() -> None:
    longer = SenderNumbers(
        timeout_seconds=31, window_seconds=5, provider_deadline_seconds=10, lease_margin_seconds=60
    )
    assert longer.visibility_seconds == 6 * 31 + 5
    assert longer.lease_seconds == longer.visibility_seconds + 60
