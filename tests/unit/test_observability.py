"""Logs and metrics: exact dimensions, fixed sentences, and no text of a stranger's exception."""

import io
import json
import logging
from typing import Any

import pytest
from aws_lambda_powertools import Logger

from functions.core.errors import Unreadable
from functions.runtime.observability import (
    InvocationFailed,
    describe,
    emitter_for,
    failing_quietly,
    logger_for,
)
from functions.runtime.settings import Common

SENTINEL = "SENTINEL-8F3A"

emit_metrics = emitter_for(Common(service="second"))


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "dimensions", [{}, {"channel": "sms"}, {"channel": "sms", "priority": "high"}]
)
def test_a_metric_line_has_exactly_the_dimensions_given(
    dimensions: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "another")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Another")
    emit_metrics({"ReadyCount": 3, "OldestEligibleAgeSeconds": 1.5}, **dimensions)
    (line,) = lines(capsys)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Sendoff/second"
    assert directive["Dimensions"] == [list(dimensions)]
    assert directive["Metrics"] == [
        {"Name": "ReadyCount", "Unit": "Count"},
        {"Name": "OldestEligibleAgeSeconds", "Unit": "Seconds"},
    ]
    assert (line["ReadyCount"], line["OldestEligibleAgeSeconds"]) == ([3.0], [1.5])
    assert set(line) == {"_aws", "ReadyCount", "OldestEligibleAgeSeconds", *dimensions}
    assert {name: line[name] for name in dimensions} == dimensions


def test_one_line_carries_nothing_of_the_line_before(capsys: pytest.CaptureFixture[str]) -> None:
    emit_metrics({"ReadyCount": 1}, channel="sms", priority="low")
    emit_metrics({"DeadCount": 2}, channel="email")
    _, second = lines(capsys)
    assert set(second) == {"_aws", "DeadCount", "channel"}


def test_nothing_to_say_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    emit_metrics({}, channel="sms")
    assert lines(capsys) == []


def test_a_value_of_zero_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    emit_metrics({"DeadCount": 0})
    assert lines(capsys)[0]["DeadCount"] == [0.0]


def written() -> tuple[Logger, io.StringIO]:
    stream = io.StringIO()
    return Logger(service="test", stream=stream), stream


def test_a_failing_handler_fails_without_its_text() -> None:
    logger, stream = written()

    @failing_quietly(logger)
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        raise ValueError(f"Failing row contains ({SENTINEL}).")

    with pytest.raises(InvocationFailed) as raised:
        handler({}, None)
    assert SENTINEL not in str(raised.value)
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None
    (line,) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (line["level"], line["error"]) == ("ERROR", "ValueError")
    assert any("test_observability.py" in place for place in line["places"])
    assert SENTINEL not in stream.getvalue()


def test_a_handler_that_works_is_left_alone() -> None:
    logger, stream = written()

    @failing_quietly(logger)
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"event": event, "context": context}

    assert handler({"a": 1}, 7) == {"event": {"a": 1}, "context": 7}
    assert stream.getvalue() == ""
    assert handler.__name__ == "handler"


def test_our_own_errors_may_say_what_they_are() -> None:
    assert describe(Unreadable("The event is not one of a queue."))["detail"] == (
        "The event is not one of a queue."
    )
    assert "detail" not in describe(ValueError(SENTINEL))


def test_a_log_line_names_its_service_and_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    logger_for(Common(service="acme", log_level="INFO")).info("Delivered", extra={"channel": "sms"})
    (line,) = lines(capsys)
    assert (line["service"], line["message"], line["channel"]) == ("acme", "Delivered", "sms")
    assert line["timestamp"].endswith("+00:00")


def test_the_http_library_keeps_its_urls_to_itself() -> None:
    logger_for(Common())
    assert not logging.getLogger("urllib3.connectionpool").isEnabledFor(logging.WARNING)
