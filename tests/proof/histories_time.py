"""Events of random histories that time brings: sweep, expiry, reconcile and its look-ups."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from functions.core.evidence import Rank
from functions.store.check import Checked, Inquiry, check, record_never_accepted
from functions.store.receipt import match_orphans
from functions.store.sweep import expire, sweep
from tests.proof.histories_closing import not_accepted
from tests.proof.histories_coverage import Event
from tests.proof.histories_evidence import expect_proofs, tell_receipt
from tests.proof.histories_gateway import ALL, BY_NAME
from tests.proof.histories_model import Expected, ended, reconciled, swept
from tests.proof.histories_rows import Attempt, Row
from tests.proof.histories_world import ORPHANS_WAIT, Told, World

HORIZON_SECONDS = 60.0
"""Of a reconcile, for how long it may still ask: every question that is due finds its place."""


def sweep_channel(world: World, channel: str) -> None:
    """Take back the leases whose time has passed; no other row is touched."""
    over = [row for row in world.rows() if row.channel == channel and _is_over(row, world.now)]
    opened = {row.id: _open_attempt(world, row) for row in over}
    vouched = {
        row.id for row in over if (token := opened[row.id]) and world.has_vouched(row.id, token)
    }
    world.happen(
        f"sweep {channel}",
        lambda: sweep(
            world.to.service,
            channel=world.to.channels[channel],
            declarations=ALL,
            now=world.now,
        ),
        {
            row.id: swept(
                row,
                opened=opened[row.id] is not None,
                vouched=row.id in vouched,
                keyed=_is_keyed(row),
                now=world.now,
                numbers=world.to.numbers[channel],
            )
            for row in over
        },
        ledger={
            token: "accepted" if id in vouched else "unknown"
            for id, token in opened.items()
            if token is not None
        },
        promise="sweep_is_conditional",
    )
    for row in over:
        world.visit(row.status, _sweep_event(row, opened[row.id] is not None))


def _is_over(row: Row, now: datetime) -> bool:
    return row.lease_until is not None and row.lease_until <= now


def _open_attempt(world: World, row: Row) -> UUID | None:
    attempt = world.seen.attempt(row.id, row.attempt_id) if row.attempt_id else None
    return attempt.id if attempt is not None and attempt.outcome is None else None


def _is_keyed(row: Row) -> bool:
    return row.provider is not None and BY_NAME[row.provider].keyed


def _sweep_event(row: Row, opened: bool) -> Event:
    if not opened:
        return Event.SWEEP_FREE
    return Event.SWEEP_KEYED if _is_keyed(row) else Event.SWEEP_KEYLESS


def expire_rows(world: World) -> None:
    """End what waited past its expiry."""
    over = [
        row
        for row in world.rows()
        if row.status == "pending" and row.expires_at is not None and row.expires_at <= world.now
    ]
    world.happen(
        "expire",
        lambda: expire(world.to.service, now=world.now),
        {row.id: [ended(row, "expired", "expired")] for row in over},
        promise="sweep_is_conditional",
    )
    for _ in over:
        world.visit("pending", Event.EXPIRY)


def reconcile(world: World) -> None:
    """Match orphans, decide what has waited long enough, ask whom can be asked."""
    match(world)
    look(world)
    keep_answers(world)


def match(world: World) -> None:
    """Match the reports that came before what they name was known."""
    found = {
        told.event_key: (attempt.notification_id, attempt.id)
        for told in world.told.values()
        if told.notification is None
        and (told.received_at or world.now) > world.now - ORPHANS_WAIT
        and (attempt := world.attempt_of(told)) is not None
    }
    for key, (notification, attempt) in found.items():
        world.told[key] = world.told[key].matched(notification, attempt)
        world.visit(world.seen.rows[notification].status, Event.ORPHAN)
    told_now = [world.told[key] for key in found]
    expected, ledger = expect_proofs(world, told_now)
    world.happen(
        f"match {len(found)} orphans",
        lambda: match_orphans(world.to.service, declarations=ALL, now=world.now),
        expected,
        ledger=ledger,
        promise="order_free",
    )


def look(world: World) -> None:
    """Look at what is due: which rows, is the store's affair; what may come of it, is not."""
    before = world.seen.rows
    due = [
        row
        for row in before.values()
        if row.status in ("submitted", "uncertain")
        and row.next_check_at is not None
        and row.next_check_at <= world.now
    ]
    expected: dict[UUID, list[Expected]] = {}

    def work() -> Checked:
        checked = check(
            world.to.service,
            declarations=ALL,
            horizon_seconds=HORIZON_SECONDS,
            now=world.now,
        )
        asked = {inquiry.id for inquiry in checked.inquiries}
        for row in due:
            expected[row.id] = reconciled(
                row,
                now=world.now,
                numbers=world.to.numbers[row.channel],
                keyed=_is_keyed(row),
                asked=row.id in asked,
            )
        return checked

    checked = world.happen(f"look at {len(due)}", work, expected, promise="no_blind_resend")
    for row in due:
        moved = world.seen.rows[row.id].status != row.status
        world.visit(row.status, Event.DECISION if moved else Event.LOOK)
        if world.seen.rows[row.id].status == "pending" and not _is_keyed(row):
            world.excused |= {one.id for one in world.seen.doubts(row.id)}  # the policy: retry
    for inquiry in checked.inquiries:
        answer = _answer(world, inquiry)
        world.answers.append((world.now, answer))
        event = Event.LOOKED_UP if isinstance(answer, Told) else Event.NEVER_ACCEPTED
        world.visit(before[inquiry.id].status, event)


def _answer(world: World, inquiry: Inquiry) -> Told | UUID:
    """Return what the provider knows of a notification by now: its report, or that it never
    accepted it."""
    accepted = world.gateways.acceptance(BY_NAME[inquiry.provider], inquiry.idempotency_key)
    if accepted is None:
        return inquiry.id
    return Told(
        event_key=f"look-up:{inquiry.idempotency_key}:accepted",
        rank=Rank.ACCEPTED,
        at=world.now,
        key=inquiry.idempotency_key,
        reference=accepted.reference,
        door="http",
    )


def keep_answers(world: World) -> None:
    """Keep what the providers answered; a run that has ended meanwhile keeps nothing."""
    answers, world.answers = world.answers, []
    for at, answer in answers:
        if world.now - at > timedelta(seconds=HORIZON_SECONDS):
            continue
        if isinstance(answer, Told):
            tell_receipt(world, answer)
        else:
            _never_accepted(world, world.seen.rows[answer])


def _never_accepted(world: World, row: Row) -> None:
    """The provider says that it never accepted it: due again, if that was what it waited for. It
    speaks for its own attempts."""
    doubts = world.seen.doubts(row.id)
    own = [one for one in doubts if one.provider == row.provider]
    left = len(doubts) - len(own)
    over = row.status == "uncertain" and (row.decide_at is None or row.decide_at <= world.now)
    world.happen(
        "never accepted, says the provider",
        lambda: record_never_accepted(world.to.service, [row.id], now=world.now),
        {row.id: not_accepted(row, now=world.now, left=left)} if over else {},
        ledger=conclude(world, own) if over else {},
        promise="no_blind_resend",
    )


def conclude(world: World, doubts: Sequence[Attempt]) -> dict[UUID, str | None]:
    """Know of attempts in doubt that none was accepted, until proof says otherwise."""
    tokens = {one.id for one in doubts}
    world.concluded |= tokens
    return dict.fromkeys(tokens, "transient")


def step_clock(world: World, seconds: float) -> None:
    world.now += timedelta(seconds=seconds)


def times_ahead(world: World) -> list[datetime]:
    """Return when something becomes due, soonest first."""
    moments: set[datetime] = set()
    for row in world.rows():
        if row.status in ("pending", "leased", "uncertain", "submitted"):
            due = row.available_at if row.status == "pending" else None
            check_at = row.next_check_at if row.status in ("uncertain", "submitted") else None
            moments |= {
                moment
                for moment in (due, row.lease_until, check_at, row.decide_at, row.expires_at)
                if moment is not None and moment > world.now
            }
        elif row.lease_until is not None and row.lease_until > world.now:
            moments.add(row.lease_until)
    return sorted(moments)
