"""How a notification to the simulator has to end, from its recipient alone."""

from dataclasses import dataclass

from functions.core.states import Channel, Status
from infra.local.simulator_behaviour import Kind, behaviour_of

MAX_ATTEMPTS = 5
"""The channels' default budget: of ``flaky.<n>`` the attempt n + 1 has to be one of them."""


@dataclass(frozen=True, slots=True)
class Expectation:
    status: Status
    effects: int
    is_suppressed: bool = False
    """Whether the address is suppressed afterwards."""


DELIVERED = Expectation(Status.DELIVERED, 1)
HELD = Expectation(Status.DEAD, 0)


def expected_end(channel: str, recipient: str, *, max_attempts: int = MAX_ATTEMPTS) -> Expectation:
    """Return the final status of a notification and how often it must have taken effect."""
    behaviour = behaviour_of(channel, recipient)
    is_hook = channel == Channel.WEBHOOK  # acceptance is delivery; no report can follow
    match behaviour.kind:
        case Kind.REJECT:
            return HELD
        case Kind.FLAKY if behaviour.number >= max_attempts:
            return HELD
        case Kind.SILENT if not is_hook:
            return Expectation(Status.UNCONFIRMED, 1)
        case Kind.BOUNCE if not is_hook:
            return Expectation(Status.FAILED, 1, is_suppressed=True)
        case _:
            return DELIVERED
