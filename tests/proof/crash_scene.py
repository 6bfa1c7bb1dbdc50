"""A scene: what a function finds when it is called, what it is called with, and by whom again.

Every row gets where it is by the product itself, on the world's connections.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from functions.core.declaration import Declaration
from functions.providers import http, keyless
from functions.providers.choice import DECLARATIONS
from functions.store.begin import Opening, begin
from functions.store.delivery import load
from tests.proof.crash_boundary import Asked
from tests.proof.crash_outside import SUBMIT
from tests.proof.crash_process import CHANNEL, INVOCATION_SECONDS
from tests.proof.crash_rest import claim
from tests.proof.crash_world import World

KEYED, KEYLESS = http.DECLARATION, keyless.DECLARATION
RETRY, HOLD = "retry", "hold"


def nothing(world: World) -> Any:
    """There is nothing to prepare, to hand over or to deliver again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A function, what it finds, and the event it gets.

    ``prepare`` makes the rows, once; ``event`` is made for every case; ``again`` delivers it to
    another process of the function.
    """

    name: str
    function: str
    prepare: Callable[[World], None] = nothing
    event: Callable[[World], Any] = nothing
    again: Callable[[World], None] = nothing
    declaration: Declaration = KEYED
    policy: str = HOLD


def arrange(owner: psycopg.Connection, scene: Scene) -> None:
    """Give the channel the provider and the policy of the scene, and room for all its rows."""
    owner.execute(
        """
        UPDATE channels
           SET provider = %s, unknown_policy = %s, poll_rate = 1000, rate = 1000, burst = 1000,
               tokens = 1000
         WHERE name = %s
        """,
        [scene.declaration.name, scene.policy, CHANNEL],
    )


def item(kind: str, **members: Any) -> dict[str, Any]:
    recipient, content = f"{kind}@example.com", f"for {kind}"
    return {"channel": CHANNEL, "recipient": recipient, "content": content, **members}


def accept(world: World, *kinds: str, **members: Any) -> list[UUID]:
    """Have notifications accepted; return their ids."""
    body = {"notifications": [item(kind, **members) for kind in kinds]}
    world.post(world.api.event("POST", "/v1/notifications/batches", body=body))
    return world.memory.acknowledged[-len(kinds) :]


def leased(world: World, *kinds: str, **members: Any) -> list[UUID]:
    """Have notifications accepted and claimed, their messages on the queue; return their ids."""
    ids = accept(world, *kinds, **members)
    claim(world)
    return ids


def half_sent(
    world: World, id: UUID, *, is_taken: bool, declaration: Declaration | None = None
) -> None:
    """Leave a notification as a sender does that dies in its call: the attempt is open; the
    provider, the scene's or another, took the request or did not get it."""
    declaration = declaration or world.declaration
    delivery = load(world.database, [id])[id]
    begin(
        world.database,
        [Opening(id=id, lease_number=delivery.lease_number, token=delivery.token)],
        declaration=declaration,
        declarations=DECLARATIONS,
        remaining_seconds=INVOCATION_SECONDS,
    )
    if not is_taken:
        return
    arguments = {
        "key": str(id) if declaration.keyed else f"{id}.{delivery.token}",
        "notification_id": str(id),
        "attempt_id": str(delivery.token),
        "recipient": delivery.recipient,
    }
    world.answer(Asked(what=SUBMIT, arguments=arguments))
