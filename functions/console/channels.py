"""Commands on channels and their streams: show them, change them at run time, stop them.

What is impossible is refused by name: first each value by itself, then all of them together, as
they would be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from functions.console.arguments import list_of, one_of, optional, required
from functions.console.command import Command, Done, Equipment
from functions.console.tuning import (
    CLEARED_OF_CHANNEL,
    CLEARED_OF_STREAM,
    OF_CHANNEL,
    OF_STREAM,
    check_channel,
    merged,
    one_of_names,
    settings_of,
)
from functions.core.errors import NotFound, RequestRefused
from functions.core.states import Channel, Stream
from functions.core.stream import identity_of
from functions.store import tuning as store
from functions.store.action import Action
from functions.store.breaker import OpenBreaker, open_breakers
from functions.store.tuning import ChannelState, ChannelTuning, StreamTuning


def list_channels(equipment: Equipment) -> Done:
    """Return every channel with its state, its streams, and the breakers that are open."""
    breakers = open_breakers(equipment.database)
    rows = [
        _shown(equipment, one, breakers=breakers) for one in store.read_states(equipment.database)
    ]
    return Done(result={"data": rows}, counts={"listed": len(rows)})


def show_channel(equipment: Equipment, *, channel: Channel) -> Done:
    """Return one channel, as in the list."""
    found = [one for one in store.read_states(equipment.database) if one.name == channel]
    if not found:
        raise NotFound("There is no such channel.")
    return Done(result=_shown(equipment, found[0], breakers=open_breakers(equipment.database)))


def _shown(
    equipment: Equipment, one: ChannelState, *, breakers: Sequence[OpenBreaker]
) -> dict[str, Any]:
    """Return a channel; its state is paused, blocked by a breaker of its own, or running."""
    own = [breaker for breaker in breakers if breaker.channel == one.name]
    return {
        **asdict(one),
        "state": "paused" if one.paused else "blocked" if own else "running",
        "streams": store.read_stream_states(equipment.database, channel=one.name),
        "breakers": own,
    }


def set_channel(
    equipment: Equipment,
    *,
    channel: Channel,
    settings: Mapping[str, Any],
    clear: Sequence[str],
    action: Action,
) -> Done:
    """Change what is named. With its provider a channel loses the address of the one before."""
    changes = _changes(settings, clear)

    def change(before: ChannelTuning) -> ChannelTuning:
        addresses: dict[str, str | None] = {
            f"{name}_url": None
            for name in ("provider", "fallback_provider")
            if changes.get(name, getattr(before, name)) != getattr(before, name)
        }
        after = replace(before, **{**addresses, **changes})
        check_channel(after, channel=channel)
        return after

    changed = store.tune_channel(equipment.database, channel=channel, change=change, action=action)
    return _done(action, changed, channel=channel)


def set_stream(
    equipment: Equipment,
    *,
    channel: Channel,
    stream: Stream,
    settings: Mapping[str, Any],
    clear: Sequence[str],
    action: Action,
) -> Done:
    """Change what is named; of what its provider alone knows, too, where null takes one away."""
    changes = _changes(settings, clear)
    if changes.get("sender_identity") is not None:
        changes["sender_identity"] = identity_of(channel, changes["sender_identity"])

    def change(before: StreamTuning) -> StreamTuning:
        own = merged(before.settings, changes.get("settings", {}), channel=channel)
        return replace(before, **{**changes, "settings": own})

    changed = store.tune_stream(
        equipment.database, channel=channel, stream=stream, change=change, action=action
    )
    return _done(action, changed, channel=channel, stream=stream)


def pause(equipment: Equipment, *, channel: Channel, action: Action) -> Done:
    """Begin no attempt of the channel until it is resumed; what is under way ends."""
    return _pause(equipment, channel, paused=True, action=action)


def resume(equipment: Equipment, *, channel: Channel, action: Action) -> Done:
    """Let the channel go on."""
    return _pause(equipment, channel, paused=False, action=action)


def _pause(equipment: Equipment, channel: Channel, *, paused: bool, action: Action) -> Done:
    changed = store.tune_channel(
        equipment.database,
        channel=channel,
        change=lambda before: replace(before, paused=paused),
        action=action,
    )
    return _done(action, changed, channel=channel)


def _changes(settings: Mapping[str, Any], clear: Sequence[str]) -> dict[str, Any]:
    """Return by column what is to change; refuse nothing to do, and both at once."""
    if both := [name for name in clear if name in settings]:
        raise RequestRefused(f"{both[0]}: It is both set and cleared.")
    changes = {**settings, **dict.fromkeys(clear)}
    if not changes:
        raise RequestRefused("There is nothing to change.")
    return changes


def _done(action: Action, changed: Mapping[str, Any], **about: str) -> Done:
    return Done(
        result={"action_id": action.id, **about, "changed": changed},
        counts={"changed": len(changed)},
    )


COMMANDS: Mapping[str, Command] = {
    "channel.list": Command(parameters={}, run=list_channels),
    "channel.show": Command(parameters={"channel": required(one_of(Channel))}, run=show_channel),
    "channel.set": Command(
        parameters={
            "channel": required(one_of(Channel)),
            "settings": optional(settings_of(OF_CHANNEL), {}),
            "clear": optional(list_of(one_of_names(CLEARED_OF_CHANNEL)), ()),
        },
        run=set_channel,
        audited=True,
    ),
    "channel.stream": Command(
        parameters={
            "channel": required(one_of(Channel)),
            "stream": required(one_of(Stream)),
            "settings": optional(settings_of(OF_STREAM), {}),
            "clear": optional(list_of(one_of_names(CLEARED_OF_STREAM)), ()),
        },
        run=set_stream,
        audited=True,
    ),
    "channel.pause": Command(
        parameters={"channel": required(one_of(Channel))}, run=pause, audited=True
    ),
    "channel.resume": Command(
        parameters={"channel": required(one_of(Channel))}, run=resume, audited=True
    ),
}
