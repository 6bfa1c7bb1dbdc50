"""The dead-letter queues as the console sees them: on moto's SQS, and on clients that fail."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import botocore.exceptions
import pytest

from functions.core.errors import Unavailable
from functions.runtime.dead_letter import HIDDEN_SECONDS, DeadLetter, DeadLetters
from tests import operators
from tests.operators import Queues

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> Generator[Queues]:
    with operators.queues(monkeypatch) as made:
        yield made


def letters_of(queues: Queues) -> DeadLetters:
    return DeadLetters(queues.sqs, queues.urls, wait_seconds=0)


def all_of(letters: DeadLetters, channel: str = "email") -> list[DeadLetter]:
    """Receive everything that can be seen."""
    found: list[DeadLetter] = []
    while page := letters.receive(channel, 10):
        found += page
    return found


@pytest.mark.parametrize("number", [0, 1, 10, 11, 25])
def test_what_is_received_is_hidden_until_it_is_let_go(queues: Queues, number: int) -> None:
    letters = letters_of(queues)
    ids = queues.put(*(f"body {one}" for one in range(number)))
    found = all_of(letters)
    assert sorted(one.message_id for one in found) == sorted(ids)
    assert {one.body for one in found} == {f"body {one}" for one in range(number)}
    assert (queues.visible(), letters.count("email")) == (0, number)
    letters.release("email", found)
    assert (queues.visible(), letters.count("email")) == (number, number)


def test_no_more_is_received_than_was_asked_for(queues: Queues) -> None:
    letters = letters_of(queues)
    queues.put(*(str(one) for one in range(5)))
    assert len(letters.receive("email", 2)) == 2
    assert len(letters.receive("email", 500)) == 3


@pytest.mark.parametrize("number", [1, 10, 25])
def test_what_is_deleted_is_gone_for_good(queues: Queues, number: int) -> None:
    letters = letters_of(queues)
    queues.put(*(str(one) for one in range(number)))
    found = all_of(letters)
    kept, gone = found[:1], found[1:]
    assert letters.delete("email", gone) == {one.message_id for one in gone}
    letters.release("email", kept)
    assert [one.message_id for one in all_of(letters)] == [one.message_id for one in kept]
    assert letters.count("email") == 1


def test_each_channel_has_a_queue_of_its_own(queues: Queues) -> None:
    letters = letters_of(queues)
    queues.put("one", channel="sms")
    assert (letters.count("email"), letters.count("sms")) == (0, 1)
    assert [one.body for one in all_of(letters, "sms")] == ["one"]


class Failing:
    """A client whose every call fails the same way; it counts them."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> Any:
            self.calls += 1
            raise self.error

        return call


ERRORS = [
    botocore.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, "ReceiveMessage"),
    botocore.exceptions.ReadTimeoutError(endpoint_url="https://queue/SENTINEL"),
    botocore.exceptions.NoCredentialsError(),
    KeyError("what a parser makes of an HTML page"),
]


@pytest.mark.parametrize("error", ERRORS)
def test_a_queue_that_cannot_be_read_is_told_as_unavailable(error: Exception) -> None:
    letters = DeadLetters(cast("SQSClient", Failing(error)), {"email": "https://queue/email"})
    for call in (lambda: letters.count("email"), lambda: letters.receive("email", 10)):
        with pytest.raises(Unavailable) as raised:
            call()
        assert type(error).__name__ in raised.value.detail
        assert "SENTINEL" not in raised.value.detail


@pytest.mark.parametrize("error", ERRORS)
def test_what_may_not_have_been_deleted_is_not_told_as_gone(error: Exception) -> None:
    failing = Failing(error)
    letters = DeadLetters(cast("SQSClient", failing), {"email": "https://queue/email"})
    found = [DeadLetter(message_id=str(n), handle=str(n), body="") for n in range(25)]
    assert letters.delete("email", found) == set()
    letters.release("email", found)
    assert failing.calls == 6, "every ten are tried by themselves"


class Partly:
    """A client that deletes the first of each call, and says so."""

    def delete_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, str]]) -> Any:
        failed = [{"Id": one["Id"], "Code": "InternalError"} for one in Entries[1:]]
        return {"Successful": [{"Id": Entries[0]["Id"]}], "Failed": failed}


def test_an_entry_that_was_refused_is_not_told_as_gone() -> None:
    letters = DeadLetters(cast("SQSClient", Partly()), {"email": "https://queue/email"})
    found = [DeadLetter(message_id=str(n), handle=str(n), body="") for n in range(12)]
    assert letters.delete("email", found) == {"0", "10"}


def test_a_message_stays_hidden_for_longer_than_an_invocation_may_last() -> None:
    from infra.config import NUMBERS

    for numbers in NUMBERS.values():
        assert numbers.functions["console"].timeout_seconds < HIDDEN_SECONDS
