"""`sendoff channel`: how channels and their streams work; change it, stop them, let them go on."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from functions.cli.channel_set import set_channel
from functions.cli.channel_tuning import (
    ClearedOfStream,
    OfChannel,
    OfStream,
    given,
    number,
    read_named,
    shown,
    tell_changes,
)
from functions.cli.console import Target
from functions.cli.listing import NOTHING, number_of, say, short_time, show_table, write_json
from functions.cli.operating import (
    AsJson,
    Prefix,
    Profile,
    Region,
    operating,
    options_of,
    target_of,
)
from functions.cli.stack import StateDir
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="Channels: how they work, and whether they do.")
app.command("set")(set_channel)

NOT_SETTINGS = frozenset(
    {"name", "paused", "paused_at", "slowed_at", "effective_rate", "leased", "deployed",
     "streams", "breakers", "lease_seconds", "state"}
)  # fmt: skip


@app.command("list")
def list_channels(
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List the channels: with whom they send, how fast, and whether they run."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        found = console.call("channel.list")
    if as_json:
        write_json(found)
        return
    columns = ("CHANNEL", "PROVIDER", "FALLBACK", "RATE", "NOW", "IN FLIGHT", "RETRIES", "STATE")
    show_table(
        columns,
        [
            (
                row["name"],
                row["provider"],
                row["fallback_provider"],
                shown(row["rate"]),
                shown(round(row["effective_rate"], 2)),
                f"{row['leased']} of {row['max_in_flight']}",
                "on" if row["retries"] else "off",
                _state_of(row),
            )
            for row in found["data"]
        ],
    )
    say("")
    say(f"`sendoff channel show <channel>{options_of(target)}` tells everything about one.")


def _state_of(row: Mapping[str, Any]) -> str:
    """Return whether a channel runs, or all that keeps it from it."""
    words: list[str] = []
    if row["paused"]:
        words.append(f"paused since {short_time(row['paused_at'])}")
    if row["breakers"]:
        words.append(f"blocked ({number_of(len(row['breakers']), 'open breaker')})")
    if not row["paused"]:
        words += [f"{stream['name']} paused" for stream in row["streams"] if stream["paused"]]
    return ", ".join(words) or "running"


@app.command()
def show(
    channel: OfChannel,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Show how a channel works, what of it is not as deployed, its streams, and what is blocked."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        row = console.call("channel.show", channel=channel)
    if as_json:
        write_json(row)
        return
    say(f"{row['name']}: {_state_of(row)}, {row['leased']} in flight.")
    if row["effective_rate"] < row["rate"]:
        say(
            f"Its provider asked to slow down at {short_time(row['slowed_at'])}: "
            f"{shown(round(row['effective_rate'], 2))} leases per second for now."
        )
    deployed = row["deployed"]
    say("")
    show_table(
        ("SETTING", "VALUE", "DEPLOYED AS"),
        [
            (name, shown(value), shown(deployed[name]) if name in deployed else "")
            for name, value in row.items()
            if name not in NOT_SETTINGS
        ],
    )
    for stream in row["streams"]:
        _show_stream(stream)
    _show_breakers(row["breakers"])


def _show_stream(stream: Mapping[str, Any]) -> None:
    pace = "at the channel's pace" if stream["rate"] is None else f"{shown(stream['rate'])}/s"
    state = f"paused since {short_time(stream['paused_at'])}" if stream["paused"] else "running"
    say("")
    say(f"{stream['name']}: {state}, {pace}.")
    deployed = stream["deployed"]
    columns = ("sender_identity", "configuration_set", "settings", "rate", "burst")
    show_table(
        ("SETTING", "VALUE", "DEPLOYED AS"),
        [
            (name, shown(stream[name]), shown(deployed[name]) if name in deployed else "")
            for name in columns
        ],
    )


def _show_breakers(breakers: list[Any]) -> None:
    if not breakers:
        return
    say("")
    show_table(
        ("BLOCKED", "WHICH", "SINCE", "LAST ANSWER", "TRIED AGAIN"),
        [
            (
                one["scope"],
                one["key"],
                short_time(one["opened_at"]),
                one["code"] or NOTHING,
                short_time(one["probe_at"]),
            )
            for one in breakers
        ],
    )


@app.command("stream")
def set_stream(
    channel: OfChannel,
    stream: OfStream,
    identity: Annotated[
        str | None, typer.Option("--identity", help="Who sends: an address, a number, an ARN.")
    ] = None,
    configuration_set: Annotated[
        str | None, typer.Option("--configuration-set", help="Of SES or SMS.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--setting",
            metavar="NAME=VALUE",
            help="What its provider alone knows; no secret. NAME= takes it away.",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", parser=number, metavar="NUMBER", help="Leases per second, its own."),
    ] = None,
    burst: Annotated[
        float | None,
        typer.Option("--burst", parser=number, metavar="NUMBER", help="Leases at once, its own."),
    ] = None,
    paused: Annotated[
        bool | None, typer.Option("--pause/--resume", help="Stop it, or let it go on.")
    ] = None,
    clear: Annotated[
        list[ClearedOfStream] | None,
        typer.Option("--clear", help="Do without it; repeat it for several."),
    ] = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Change who a stream of a channel sends as and how fast; pause it, or let it go on.

    Whatever stops one stream leaves the other alone.
    """
    settings = given(
        {
            "sender_identity": identity,
            "configuration_set": configuration_set,
            "settings": read_named(setting, channel=channel),
            "rate": rate,
            "burst": burst,
            "paused": paused,
        },
        clear,
    )
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call(
            "channel.stream",
            channel=channel,
            stream=stream,
            settings=settings or None,
            clear=[one.column for one in clear] if clear else None,
        )
    if as_json:
        write_json(done)
    else:
        tell_changes(done)


@app.command()
def pause(
    channel: OfChannel,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Send nothing more of a channel until it is resumed; what is under way ends."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    _pause(target, "channel.pause", channel, as_json=as_json)


@app.command()
def resume(
    channel: OfChannel,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Let a paused channel go on."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    _pause(target, "channel.resume", channel, as_json=as_json)


def _pause(target: Target, command: str, channel: str, *, as_json: bool) -> None:
    with operating(target, as_json=as_json) as console:
        done = console.call(command, channel=channel)
    if as_json:
        write_json(done)
        return
    paused = command == "channel.pause"
    if not done["changed"]:
        say("It was paused before." if paused else "It was not paused.")
    else:
        say("It is paused: no attempt begins." if paused else "It goes on.")
