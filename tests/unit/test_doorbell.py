"""The doorbell: one ring at a time, nobody waits for it, and what failed is told by the next."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, cast

from functions.claim.watch import DRAIN
from functions.runtime.doorbell import Doorbell
from tests.api import recorded

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


@dataclass(slots=True)
class FakeLambda:
    """Lambda as the doorbell uses it: keeps the calls, and answers once it is let to."""

    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    answers: Event = field(default_factory=Event)
    refusing: Exception | None = None
    made: int = 0

    def invoke(self, **arguments: Any) -> dict[str, Any]:
        self.calls.append(arguments)
        assert self.answers.wait(timeout=30)
        if self.refusing is not None:
            raise self.refusing
        return {"StatusCode": 202}

    def client(self) -> "LambdaClient":
        self.made += 1
        return cast("LambdaClient", self)


def bell_of(fake: FakeLambda, make_client: "Callable[[], LambdaClient] | None" = None) -> Doorbell:
    return Doorbell("sendoff-ingest", payload=DRAIN, make_client=make_client or fake.client)


def test_a_ring_starts_the_function_and_waits_for_nothing() -> None:
    fake = FakeLambda()
    bell = bell_of(fake)
    assert fake.made == 0, "a client is dear, and most runs need none"
    bell.ring()
    fake.answers.set()
    bell.rest()
    assert fake.calls == [
        {"FunctionName": "sendoff-ingest", "InvocationType": "Event", "Payload": DRAIN}
    ]


def test_one_ring_is_on_its_way_at_a_time() -> None:
    fake = FakeLambda()
    bell = bell_of(fake)
    for _ in range(5):
        assert bell.ring() is None
    fake.answers.set()
    bell.rest()
    assert len(fake.calls) == 1
    bell.ring()
    bell.rest()
    assert (len(fake.calls), fake.made) == (2, 1)


def test_a_ring_that_failed_is_told_by_the_next_which_rings_all_the_same() -> None:
    fake = FakeLambda(refusing=ConnectionError("refused"))
    fake.answers.set()
    bell = bell_of(fake)
    assert bell.ring() is None
    bell.rest()
    fake.refusing = None
    assert isinstance(bell.ring(), ConnectionError)
    bell.rest()
    assert bell.ring() is None
    bell.rest()
    assert len(fake.calls) == 3


def test_a_client_that_cannot_be_made_is_tried_again() -> None:
    fake = FakeLambda()
    fake.answers.set()
    failures = [RuntimeError("no region")]

    def make() -> "LambdaClient":
        if failures:
            raise failures.pop()
        return fake.client()

    bell = bell_of(fake, make)
    bell.ring()
    bell.rest()
    assert isinstance(bell.ring(), RuntimeError)
    bell.rest()
    assert len(fake.calls) == 1


def test_a_bell_that_never_rang_rests_at_once() -> None:
    bell_of(FakeLambda()).rest()


def test_it_rings_with_the_recorded_event() -> None:
    import json

    assert json.loads(DRAIN) == recorded("ingest.drain")
