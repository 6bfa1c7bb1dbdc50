"""Events of random histories around an attempt: begin, call, close; late, twice, or never."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from functions.core.declaration import Declaration
from functions.store.begin import Begun, Opening, begin
from functions.store.close import Closing, close
from tests.proof.histories_closing import Word, closed, is_news
from tests.proof.histories_coverage import Event
from tests.proof.histories_gateway import ALL, Call, outcome_of
from tests.proof.histories_invariants import Broken
from tests.proof.histories_model import Expected, after_opening, begun, opening_verdict
from tests.proof.histories_rows import Row
from tests.proof.histories_world import Message, World

REMAINING_SECONDS = 30.0
CALL_SECONDS = 25.0
"""Of an invocation, until when its sender may still write a request."""

AGAIN_SECONDS = 60.0
"""The wait before another attempt, as the sender draws it."""


def deliver(world: World, messages: Sequence[Message]) -> list[Call]:
    """Hand messages of one channel to a sender; return the calls it may make."""
    channel = messages[0].channel
    leases: dict[UUID, int] = {}
    for message in messages:
        leases[message.id] = max(message.lease, leases.get(message.id, 0))
    openings = [
        Opening(id=message.id, lease_number=message.lease, token=world.new_id())
        for message in messages
    ]
    before = world.seen.rows
    verdicts = {id: _verdicts(world, before[id], lease) for id, lease in leases.items()}
    expected = {
        id: [
            _after(world, before[id], verdict, one.token)
            for verdict in either
            for one in openings
            if (one.id, one.lease_number) == (id, leases[id])
        ]
        for id, either in verdicts.items()
    }
    answers = _begin(world, openings, channel, expected)
    calls: list[Call] = []
    for id, either in verdicts.items():
        verdict = _agreed(answers.get(id), either)
        world.visit(before[id].status, Event(f"begin: {verdict}"))
        if verdict == "go":
            calls.append(_call_of(world, world.seen.rows[id]))
    world.calls += calls
    return calls


def begin_again(world: World, call: Call) -> None:
    """Repeat a begin whose COMMIT's answer was lost: it is the same attempt, or too late for it."""
    row = world.seen.rows[call.id]
    verdicts = _verdicts(world, row, call.lease, token=call.token)
    opening = Opening(id=call.id, lease_number=call.lease, token=call.token)
    answers = _begin(world, [opening], call.channel, {})
    _agreed(answers.get(call.id), verdicts)
    world.visit(row.status, Event.BEGIN_MINE)


def _begin(
    world: World,
    openings: Sequence[Opening],
    channel: str,
    expected: Mapping[UUID, Sequence[Expected]],
) -> dict[UUID, Begun]:
    return world.happen(
        f"begin {[f'{one.id} under {one.lease_number}' for one in openings]}",
        lambda: begin(
            world.to.service,
            openings,
            declaration=world.declaration(channel),
            declarations=ALL,
            remaining_seconds=REMAINING_SECONDS,
            now=world.now,
        ),
        expected,
        ledger={one.token: None for one in openings if one.id in expected},
        promise="no_blind_resend",
    )


def _agreed(answer: Begun | None, verdicts: Sequence[str]) -> str:
    """Return what the product says, if it is one of ``verdicts``."""
    if answer is None or answer.verdict not in verdicts:
        raise Broken("fenced", f"begin says {answer}, not {verdicts}")
    if answer.send is not (answer.verdict in ("go", "mine")):
        raise Broken("fenced", f"begin says {answer.verdict}, and send: {answer.send}")
    return answer.verdict


def _after(world: World, row: Row, verdict: str, token: UUID) -> Expected:
    if verdict != "go":
        return after_opening(row, verdict)
    provider = world.declaration(row.channel).name
    return begun(row, token=token, provider=provider, now=world.now, remaining=REMAINING_SECONDS)


def _call_of(world: World, row: Row) -> Call:
    """Return the call that an attempt was just opened for, with the key its provider will see."""
    declaration = world.declaration(row.channel)
    token = row.attempt_id
    if token is None:
        raise Broken("attempt_before_submit", "begin says go, and no attempt is open")
    key = f"{row.id}.{row.key_epoch}" if row.key_epoch else str(row.id)
    return Call(
        id=row.id,
        lease=row.lease_number,
        token=token,
        channel=row.channel,
        declaration=declaration,
        key=key if declaration.keyed else f"{row.id}.{token}",
        deadline=world.now + timedelta(seconds=CALL_SECONDS),
    )


def _verdicts(world: World, row: Row, lease: int, *, token: UUID | None = None) -> list[str]:
    """Return what an opening may come to. There is one answer, but for a doubt that policy or a
    person has excused once: when its key's window is over, it may as well be held again."""
    verdict = opening_verdict(
        row,
        lease=lease,
        token=token,
        now=world.now,
        suppressed=is_suppressed(world, row),
        paused=row.channel in world.paused,
        unsafe=is_unsafe(world, row, excused=world.excused),
    )
    again = row.in_doubt > 0 and _is_window_over(world, row)
    return ["go", "held"] if verdict == "go" and again else [verdict]


def _is_window_over(world: World, row: Row) -> bool:
    """Whether the provider may have forgotten the row's key."""
    window = world.declaration(row.channel).key_window_seconds
    first = row.key_first_used_at
    return (
        window is not None and first is not None and first + timedelta(seconds=window) <= world.now
    )


def is_suppressed(world: World, row: Row) -> bool:
    """Whether the newest fact of any category that concerns the row suppresses its address."""
    newest: dict[str | None, str] = {}
    for fact in world.seen.facts:
        whose = (fact.organization_id, fact.channel, fact.recipient_hash)
        if whose == (row.organization_id, row.channel, row.recipient_hash) and (
            fact.category in (None, row.category)
        ):
            newest[fact.category] = fact.kind
    return "suppress" in newest.values()


def is_unsafe(world: World, row: Row, *, excused: Collection[UUID]) -> bool:
    """Whether another attempt might send twice: one is in doubt, not ``excused``, and the
    provider's own key does not make it harmless."""
    declaration = world.declaration(row.channel)
    for attempt in world.seen.doubts(row.id):
        if attempt.id in excused:
            continue
        if not declaration.keyed or attempt.provider != declaration.name:
            return True
        if _is_window_over(world, row):
            return True
    return False


def call(world: World, one: Call, behaviour: str) -> None:
    """Let the sender call the provider; one that is past its time gives the attempt back."""
    row = world.seen.rows[one.id]
    if world.now >= one.deadline:
        one.outcome = "not begun"
        return
    if row.status in ("cancelled", "suppressed", "expired"):
        raise Broken("cancel_is_true", f"a call for a row that is {row.status}")
    world.story.append(f"the provider answers {behaviour} to {one.token} under {one.key}")
    world.gateways.submit(one, behaviour, now=world.now)


def close_calls(world: World, calls: Sequence[Call]) -> None:
    """Close attempts of one channel and provider together, each by what its sender knows."""
    first = calls[0]
    words = {one.id: _word(world, one) for one in calls}
    rows = {one.id: world.seen.rows[one.id] for one in calls}
    attempts = {one.id: world.seen.attempt(one.id, one.token) for one in calls}
    numbers = world.to.numbers[first.channel]
    expected = {
        id: closed(rows[id], attempts[id], word, now=world.now, numbers=numbers)
        for id, word in words.items()
    }
    news = {id for id, word in words.items() if is_news(attempts[id], word)}
    ledger = {word.token: word.stored for id, word in words.items() if id in news}
    for id in news:
        attempt, word = attempts[id], words[id]
        proof = word.evidence((attempt and attempt.finished_at) or world.now)
        if proof is not None:
            world.proofs.setdefault(id, []).append(proof)
        if word.stored == "refused":
            row = rows[id]
            fact = (row.organization_id, row.channel, row.recipient_hash, None, "suppress")
            world.facts.append(fact)
    world.concluded -= ledger.keys()
    world.happen(
        f"close {[f'{one.token} {one.outcome}' for one in calls]}",
        lambda: _close(world, calls, first.declaration),
        expected,
        ledger=ledger,
    )
    for one in calls:
        mine = rows[one.id].attempt_id == one.token
        world.visit(rows[one.id].status, _event_of(words[one.id], one.id in news, mine=mine))
    world.calls = [one for one in world.calls if one not in calls]
    world.closed += [one for one in calls if one not in world.closed]


def _close(world: World, calls: Sequence[Call], declaration: Declaration) -> None:
    closings = [
        Closing(
            id=one.id,
            lease_number=one.lease,
            token=one.token,
            outcome=outcome_of(one),
            again_seconds=AGAIN_SECONDS,
        )
        for one in calls
    ]
    channel = world.to.channels[calls[0].channel]
    close(world.to.service, closings, channel=channel, declaration=declaration, now=world.now)


def _word(world: World, one: Call) -> Word:
    doubts = world.seen.doubts(one.id)
    return Word(
        token=one.token,
        outcome=one.outcome or "not begun",
        keyed=one.declaration.keyed,
        receipts=one.declaration.receipts,
        again_seconds=AGAIN_SECONDS,
        vouched=world.has_vouched(one.id, one.token),
        alone=all(other.provider == one.declaration.name for other in doubts),
    )


def _event_of(word: Word, is_new: bool, *, mine: bool) -> Event:
    if not is_new:
        return Event.CLOSE_AGAIN
    if mine:
        return Event(f"close: {word.outcome}")
    return Event.LATE_ACCEPTED if word.stored == "accepted" else Event.LATE_OTHER


def lose(world: World, one: Call) -> None:
    """The sender dies: nobody will ever close this attempt but the sweep."""
    world.story.append(f"the sender of {one.token} dies")
    world.calls.remove(one)
