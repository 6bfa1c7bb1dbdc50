"""What outlives a random history: a connection per role, and the numbers of the channels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

import psycopg

from functions.store.channel import ChannelRow, read_channels
from functions.store.connection import Database
from tests.proof.histories_model import Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """What outlives a history: one connection per role, and the numbers of the channels."""

    service: Database
    operator: Database
    owner: psycopg.Connection
    channels: Mapping[str, ChannelRow]
    numbers: Mapping[str, Numbers]
    histories: Iterator[int] = field(default_factory=count)


def numbers_of(owner: psycopg.Connection, channels: Mapping[str, ChannelRow]) -> dict[str, Numbers]:
    """Return what the channels declare, as the model reads it."""
    policies = dict(owner.execute("SELECT name, unknown_policy FROM channels").fetchall())
    return {
        name: Numbers(
            lease=channel.lease_seconds,
            base=channel.backoff_base_seconds,
            cap=channel.backoff_cap_seconds,
            waiting_limit=channel.waiting_limit_seconds,
            cutoff=channel.cutoff_seconds,
            grace=channel.grace_seconds,
            policy=policies[name],
        )
        for name, channel in channels.items()
    }


def connections(service: Database, operator: Database, owner: psycopg.Connection) -> Connections:
    channels = read_channels(service)
    return Connections(
        service=service,
        operator=operator,
        owner=owner,
        channels=channels,
        numbers=numbers_of(owner, channels),
    )
