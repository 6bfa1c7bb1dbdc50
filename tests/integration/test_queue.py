"""The queues as the claim sees them, on SQS as moto has it and on clients that fail (FAULTS D1)."""

import json
import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import botocore.exceptions
import pytest
from moto import mock_aws

from functions.core.message import LeaseMessage
from functions.core.states import Channel
from functions.runtime.queue import MAX_ENTRIES, Queues, client

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

ALLOWED_BY_SQS = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
SMALLEST_LIMIT = 256 * 1024


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Generator["SQSClient"]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        yield client()


def messages(count: int) -> list[LeaseMessage]:
    return [
        LeaseMessage(id=uuid4(), lease_number=number + 1, channel=Channel.EMAIL)
        for number in range(count)
    ]


def received(sqs: "SQSClient", url: str) -> list[str]:
    """Return the bodies of all that is on the queue."""
    bodies: list[str] = []
    while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in found:
            assert "Body" in message
            bodies.append(message["Body"])
    return bodies


@pytest.mark.parametrize("count", [0, 1, 10, 11, 100])
def test_every_message_is_put_on_its_queue_once(sqs: "SQSClient", count: int) -> None:
    url = sqs.create_queue(QueueName="sendoff-email")["QueueUrl"]
    other = sqs.create_queue(QueueName="sendoff-sms")["QueueUrl"]
    sent = messages(count)
    assert Queues(client(), {"email": url, "sms": other}).send("email", sent) == []
    arrived = [LeaseMessage.loads(body) for body in received(sqs, url)]
    assert {message.id for message in arrived} == {message.id for message in sent}
    assert len(arrived) == count
    assert received(sqs, other) == []


Entries = list[dict[str, str]]
Script = Callable[[Entries], dict[str, Any]]


class Scripted:
    """A client that answers a call as the test says; ``calls`` are the entries of each."""

    def __init__(self, answer: Script | Exception) -> None:
        self.answer = answer
        self.calls: list[Entries] = []

    def send_message_batch(self, *, QueueUrl: str, Entries: Entries) -> dict[str, Any]:
        assert QueueUrl == "https://queue/email"
        self.calls.append(Entries)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(Entries)


def send(answer: Script | Exception, sent: list[LeaseMessage]) -> tuple[list[UUID], Scripted]:
    scripted = Scripted(answer)
    queues = Queues(cast("SQSClient", scripted), {"email": "https://queue/email"})
    return [message.id for message in queues.send("email", sent)], scripted


def test_d1_a_refused_entry_comes_back_and_the_other_nine_go() -> None:
    def refuse_the_fourth(entries: Entries) -> dict[str, Any]:
        return {
            "Successful": [{"Id": one["Id"]} for place, one in enumerate(entries) if place != 3],
            "Failed": [{"Id": entries[3]["Id"], "SenderFault": True, "Code": "InvalidMessage"}],
        }

    sent = messages(10)
    failed, scripted = send(refuse_the_fourth, sent)
    assert failed == [sent[3].id]
    assert len(scripted.calls) == 1


def test_d1_what_the_answer_does_not_name_was_not_accepted() -> None:
    def nothing(entries: Entries) -> dict[str, Any]:
        del entries
        return {}

    def the_first(entries: Entries) -> dict[str, Any]:
        return {"Successful": [{"Id": entries[0]["Id"]}], "Failed": []}

    sent = messages(3)
    assert send(nothing, sent)[0] == [message.id for message in sent]
    assert send(the_first, sent)[0] == [message.id for message in sent[1:]]


@pytest.mark.parametrize(
    "error",
    [
        botocore.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, "SendMessageBatch"),
        botocore.exceptions.ReadTimeoutError(endpoint_url="https://queue"),
        botocore.exceptions.EndpointConnectionError(endpoint_url="https://queue"),
        botocore.exceptions.NoCredentialsError(),
        KeyError("what a parser makes of an HTML page"),
    ],
)
def test_d1_a_call_that_fails_gives_all_its_messages_back(error: Exception) -> None:
    sent = messages(25)
    failed, scripted = send(error, sent)
    assert sorted(failed) == sorted(message.id for message in sent)
    assert len(scripted.calls) == 3


def test_d1_a_call_has_ten_entries_at_most_far_below_the_byte_limit_and_clean() -> None:
    def all_of_them(entries: Entries) -> dict[str, Any]:
        return {"Successful": entries}

    failed, scripted = send(all_of_them, messages(1000))
    assert failed == []
    assert sum(len(entries) for entries in scripted.calls) == 1000
    for entries in scripted.calls:
        assert len(entries) <= MAX_ENTRIES
        assert len({entry["Id"] for entry in entries}) == len(entries)
        assert sum(len(entry["MessageBody"].encode()) for entry in entries) < SMALLEST_LIMIT / 10
        for entry in entries:
            assert set(entry) == {"Id", "MessageBody"}
            assert ALLOWED_BY_SQS.fullmatch(entry["MessageBody"])
            assert set(json.loads(entry["MessageBody"])) == {"v", "id", "lease", "channel"}


def test_an_unknown_channel_is_our_mistake_and_no_refusal() -> None:
    queues = Queues(cast("SQSClient", Scripted(AssertionError())), {"email": "https://queue/email"})
    with pytest.raises(KeyError):
        queues.send("fax", messages(1))
