"""What a pending notification waits for, in words: everything closed, paused, held or slow on its
way, since when, and what ends that."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.core.abuse import Because, Kind
from functions.core.breaker import FAILURE_CODE
from functions.core.evidence_words import moment
from functions.core.history import Dossier
from functions.core.outcome import Scope
from functions.core.way import Breaker, Endpoint, Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Something in the way: a whole sentence; and what has to happen, where that ends it."""

    sentence: str
    once: str | None = None


def waiting_words(dossier: Dossier, now: datetime) -> str:
    """Return what a pending notification waits for, and when it is taken up, as of ``now``."""
    row, way = dossier.history.notification, dossier.way
    hold, endpoint = way.hold, way.endpoint
    if hold is not None and hold.released_at is not None and hold.discarded:
        return (
            f"An operator discarded the hold it waits under ({hold.id}) at "
            f"{moment(hold.released_at)}: the command ends it unsent when it comes to it, and goes "
            "on where it was cut off when it is given again."
        )
    obstacles = list(_obstacles(dossier, now))
    told = "".join(f"{one.sentence} " for one in obstacles)
    available_at = now if hold is not None else row.available_at
    if row.expires_at is not None and row.expires_at <= max(available_at, now):
        when = "is passing" if row.expires_at <= now else f"passes at {moment(row.expires_at)}"
        return (
            f"{told}Its time to be sent {when}, before another try is due: the sweep ends it then."
        )
    due = f"from {moment(available_at)} on" if available_at > now else "as soon as possible"
    if endpoint is not None and endpoint.disabled_at is not None:
        ends = "unconfirmed" if row.in_doubt else "suppressed"
        return (
            f"{told}The claim takes it up {due}, and it ends as {ends}, unless an operator resumes "
            "the endpoint before that."
        )
    number = f"attempt {row.attempts_spent + 1} of {row.max_attempts}"
    provider = bound_for(dossier, now)
    elsewhere = f" at {provider}" if provider != dossier.channel.provider else ""
    take = f"he claim takes it up {due}, for {number}{elsewhere}."
    conditions = [one.once for one in obstacles if one.once]
    match conditions:
        case []:
            then = f"T{take}"
        case [condition]:
            then = f"Once {condition}, t{take}"
        case _:
            then = f"Once nothing of that stands in its way, t{take}"
    return told + then + _limits(dossier, now)


def bound_for(dossier: Dossier, now: datetime) -> str:
    """Return the provider whom the next attempt would be made with, as its sender would choose."""
    row, channel, way = dossier.history.notification, dossier.channel, dossier.way
    known = (channel.provider, channel.fallback_provider)
    if row.in_doubt > 0 and row.provider is not None and row.provider in known:
        return row.provider
    if way.next_provider is not None and way.next_provider in known:
        return way.next_provider
    own = [one for one in way.breakers if one.provider == channel.provider]
    is_due = any(one.probe_at <= now for one in own)
    if channel.fallback_provider is not None and own and not is_due:
        return channel.fallback_provider
    return channel.provider


def _obstacles(dossier: Dossier, now: datetime) -> Iterator[Obstacle]:
    """Yield everything in its way, the widest first."""
    channel, way = dossier.channel, dossier.way
    if channel.paused_at is not None:
        yield Obstacle(
            sentence=f"Its channel is paused since {moment(channel.paused_at)}.",
            once="it is resumed",
        )
    if way.stream_paused_at is not None:
        yield Obstacle(
            sentence=f"Its stream, {way.stream}, is paused since {moment(way.stream_paused_at)}.",
            once="it is resumed",
        )
    if way.hold is not None:
        yield _of_hold(way.hold, way.country)
    row = dossier.history.notification
    if not channel.retries and (row.attempts_spent > 0 or row.in_doubt > 0):
        yield Obstacle(
            sentence="Retries are off for its channel, and it was tried before.",
            once="they are on again",
        )
    yield from _of_providers(dossier, now)
    if way.endpoint is not None:
        yield _of_endpoint(way.endpoint, dossier, now)
    yield from _of_verdict(dossier, now)


def _of_hold(hold: Hold, country: str | None) -> Obstacle:
    if hold.released_at is not None:
        return Obstacle(
            sentence=(
                f"An operator released the hold it waits under ({hold.id}) at "
                f"{moment(hold.released_at)}: the command lets its messages go by and by, "
                "and goes on where it was cut off when it is given again."
            ),
            once="it is let go",
        )
    what = hold.key or "no country"
    if hold.kind == Kind.PREFIX:  # whose digits are most of somebody's number
        what = "numbers of its prefix" + (f" in {country}" if country else "")
    return Obstacle(
        sentence=(
            f"Messages to {what} are on hold since {moment(hold.opened_at)} (hold {hold.id}): "
            f"{hold.today:,} in 24 hours, where {hold.usual:,.1f} are usual."
        ),
        once="an operator releases the hold",
    )


def _of_providers(dossier: Dossier, now: datetime) -> Iterator[Obstacle]:
    """Yield the breakers of the provider it is bound for; of the other one, why it is not."""
    channel, way = dossier.channel, dossier.way
    provider = bound_for(dossier, now)
    for breaker in way.breakers:
        if breaker.provider == provider:
            yield Obstacle(sentence=_breaker_words(breaker, now), once="the breaker is closed")
    if provider == channel.provider:
        return
    if way.next_provider == provider:
        yield Obstacle(
            sentence=f"{channel.provider} provably did not take it: it was passed on to {provider}."
        )
        return
    for breaker in way.breakers:
        if breaker.provider == channel.provider:
            closed = _closed_words(breaker)
            yield Obstacle(sentence=f"{closed}, so that {provider} is asked meanwhile.")


def _breaker_words(breaker: Breaker, now: datetime) -> str:
    finds = _finds_words(breaker.probe_at, is_it=breaker.is_probed_by_it, now=now)
    return f"{_closed_words(breaker)}. {finds} whether it still is: the first success closes it."


def _closed_words(breaker: Breaker) -> str:
    """Return a clause that tells what a breaker is open for, since when, and why."""
    code = "too many failures" if breaker.code == FAILURE_CODE else breaker.code
    why = f" ({code})" if code else ""
    since = f"since {moment(breaker.opened_at)}{why}"
    match breaker.scope:
        case Scope.SENDER_IDENTITY:
            what = f"the sender identity of its stream, {breaker.key}, at {breaker.provider}"
        case Scope.COUNTRY:
            what = f"its country, {breaker.key}, at {breaker.provider}"
        case _:
            what = f"provider {breaker.provider}"
    return f"The breaker of {what} is open {since}"


def _finds_words(probe_at: datetime | None, *, is_it: bool, now: datetime) -> str:
    if is_it:
        return "This notification finds out"
    when = f"From {moment(probe_at)} on" if probe_at is not None and probe_at > now else "By now"
    return f"{when} the oldest notification that is due finds out"


def _of_endpoint(endpoint: Endpoint, dossier: Dossier, now: datetime) -> Obstacle:
    origin = f"Its endpoint, {endpoint.origin},"
    if endpoint.disabled_at is not None:
        return Obstacle(
            sentence=f"{origin} asked at {moment(endpoint.disabled_at)} never to be called again."
        )
    last = f", the last with {endpoint.code}" if endpoint.code else ""
    since = f" since {moment(endpoint.failing_since)}" if endpoint.failing_since else ""
    count = "1 failure" if endpoint.failures == 1 else f"{endpoint.failures:,} failures"
    failures = f"{count} in a row{since}{last}"
    if endpoint.paused_at is not None:
        finds = _finds_words(endpoint.probe_at, is_it=endpoint.is_probed_by_it, now=now)
        return Obstacle(
            sentence=(
                f"{origin} is paused since {moment(endpoint.paused_at)}, after {failures}. {finds} "
                "whether it still fails: the first success ends the pause."
            ),
            once="the pause is over",
        )
    most = dossier.channel.endpoint_concurrency
    return Obstacle(
        sentence=(
            f"{origin} had {failures}: calls to it are limited to {most:,} at once until one "
            "succeeds."
        )
    )


_VERDICTS: dict[str, str] = {
    Because.NUMBER_VELOCITY: "Its number had as many messages as one gets in an hour.",
    Because.PREFIX_VELOCITY: "The numbers of its prefix had as many messages as they get in an "
    "hour.",
    Because.BUDGET_SPENT: "Its organization's money for SMS is spent for the day (UTC).",
    Because.PRICE_UNKNOWN: "There are no prices to keep its organization's SMS budget by.",
    "unknown_time_zone": "The recipient's time zone is none that is known here.",
    "endpoint_busy": "As many calls to its endpoint as it gets at once were under way.",
}
"""Why it was put off, by the reason on its row, where nothing else on its way tells."""


def _of_verdict(dossier: Dossier, now: datetime) -> Iterator[Obstacle]:
    from functions.core.deferral import deferral_words  # seldom, and it reads time zones

    row = dossier.history.notification
    words = _VERDICTS.get(row.reason or "") or deferral_words(
        dossier.decided.decision,
        reason=row.reason,
        category=row.category,
        at=now,
        until=row.available_at,
        expires_at=row.expires_at,
    )
    if words:
        yield Obstacle(sentence=words)


def _limits(dossier: Dossier, now: datetime) -> str:
    """Return what else bounds its waiting: its time, the pace of its channel, patience."""
    row, channel, way = dossier.history.notification, dossier.channel, dossier.way
    words = ""
    if row.expires_at is not None:
        words += f" Without success by {moment(row.expires_at)} it expires."
    if channel.slowed_at is not None and channel.share_of_rate < 1:
        words += (
            f" Its provider asked at {moment(channel.slowed_at)} to slow down: the channel is at "
            f"{channel.share_of_rate:.0%} of its rate, which grows back by itself."
        )
    if way.waiting_since is not None:
        until = way.waiting_since + timedelta(seconds=channel.waiting_limit_seconds)
        when = f"after {moment(until)}" if until > now else "from now on"
        words += (
            f" It has been blocked or throttled since {moment(way.waiting_since)}: an answer of "
            f"that kind {when} holds it for a person."
        )
    return words
