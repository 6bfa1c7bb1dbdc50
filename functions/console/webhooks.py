"""Commands on what an organization's webhooks are signed with: show it, go on to the next.

A secret is in the answer and nowhere else. That it was shown is kept, with its number alone.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from functions.console.arguments import flag, optional, required
from functions.console.command import Command, Done, Equipment
from functions.console.tenants import id_or_name, organization_of
from functions.core.errors import Misconfigured, RequestRefused
from functions.core.signature import key_of
from functions.core.webhook_key import MIN_MASTER_BYTES, OVERLAP, secrets_of
from functions.store.action import Action
from functions.store.webhook_key import WebhookKey, read_webhook_key, rotate_webhook_key


def show_secret(equipment: Equipment, *, organization: UUID | str, action: Action) -> Done:
    """Tell what signs now, the current secret and those that receivers may still have."""
    masters = _masters(equipment)  # first: without them nothing is shown, and nothing kept
    id = organization_of(equipment, organization).id
    key = read_webhook_key(equipment.database, id=id, action=action)
    return _shown(key, masters=masters, organization_id=id, action=action)


def rotate(
    equipment: Equipment, *, organization: UUID | str, at_once: bool, action: Action
) -> Done:
    """Go on to the next secret; while the one before signs too, only ``at_once``."""
    masters = _masters(equipment)
    id = organization_of(equipment, organization).id
    rotation = rotate_webhook_key(equipment.database, id=id, at_once=at_once, action=action)
    if not rotation.done:
        until = f"{_overlap_end(rotation.key):%Y-%m-%dT%H:%M:%SZ}"
        raise RequestRefused(
            f"It was rotated before: the secret before this one signs too until {until}, for "
            "receivers that have not taken this one over. To go on before then cuts them off: "
            "say --now to do so all the same."
        )
    return _shown(rotation.key, masters=masters, organization_id=id, action=action)


def _masters(equipment: Equipment) -> list[bytes]:
    """Return what secrets derive from, the current one first; raise Misconfigured, Unavailable."""
    masters = [key_of(secret) for secret in equipment.webhook_masters()]
    if min(map(len, masters)) < MIN_MASTER_BYTES:
        raise Misconfigured(f"A master secret has at least {MIN_MASTER_BYTES} bytes.")
    return masters


def _overlap_end(key: WebhookKey) -> datetime | None:
    return key.rotated_at.astimezone(UTC) + OVERLAP if key.rotated_at else None


def _shown(key: WebhookKey, *, masters: list[bytes], organization_id: UUID, action: Action) -> Done:
    at: Mapping[str, Any] = {
        "organization_id": organization_id,
        "number": key.number,
        "rotated_at": key.rotated_at,
        "now": datetime.now(UTC),
    }
    current, *previous = secrets_of(masters[0], **at)
    everything = secrets_of(masters[0], previous_master=masters[-1], **at)
    return Done(
        result={
            "action_id": action.id,
            "organization_id": organization_id,
            "number": key.number,
            "secret": current,
            "previous": ({"secret": previous[0], "until": _overlap_end(key)} if previous else None),
            "of_previous_master": everything[1 + len(previous) :],
        },
        counts={"shown": len(everything)},
    )


COMMANDS: Mapping[str, Command] = {
    "webhook.secret": Command(
        parameters={"organization": required(id_or_name)}, run=show_secret, audited=True
    ),
    "webhook.rotate": Command(
        parameters={
            "organization": required(id_or_name),
            "at_once": optional(flag, default=False),
        },
        run=rotate,
        audited=True,
    ),
}
