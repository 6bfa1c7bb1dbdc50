"""What comes next of a chain, whatever its candidates have come to."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from functions.core.chain import (
    AFTER,
    STARTED,
    WITHDRAWN,
    Candidate,
    Parent,
    Step,
    next_step,
)
from functions.core.states import FINAL, Status

NOW = datetime(2026, 3, 29, 1, tzinfo=UTC)
CHAIN = UUID(int=1)
ENDED = frozenset({Status.SUPPRESSED, Status.FAILED, Status.DEAD})
LIVE = frozenset({Status.PENDING, Status.LEASED, Status.UNCERTAIN, Status.SUBMITTED})

moments = st.sampled_from([NOW - timedelta(hours=1), NOW, NOW + timedelta(hours=1)])


@st.composite
def candidates(draw: st.DrawFn, place: int) -> Candidate:
    status = draw(st.sampled_from(list(Status)))
    doubtful = status == Status.UNCERTAIN or draw(st.booleans())
    reason = WITHDRAWN if status == Status.CANCELLED and draw(st.booleans()) else None
    return Candidate(
        id=UUID(int=100 + place),
        parent_id=CHAIN,
        place=place,
        status=status,
        reason=reason,
        told_status=None,
        final_at=draw(moments) if status in FINAL else None,
        attempt_id=draw(st.none() | st.uuids()),
        in_doubt=int(doubtful),
        evidence_rank=draw(st.integers(0, 1)),
        complained=draw(st.booleans()),
        next_at=draw(moments),
    )


@st.composite
def chains(draw: st.DrawFn) -> tuple[Parent, list[Candidate]]:
    count = draw(st.integers(1, 4))
    parent = Parent(
        id=CHAIN,
        status=draw(st.sampled_from(list(Status))),
        channel_count=count,
        expires_at=draw(st.none() | moments),
        is_cancelled=draw(st.booleans()),
        is_erased=draw(st.booleans()),
        fallback_doubles=draw(st.integers(0, 1)),
        at=NOW,
    )
    started = draw(st.integers(1, count))
    return parent, [draw(candidates(place)) for place in range(started)]


@given(chains())
def test_a_next_one_starts_only_where_nobody_was_told_and_nothing_stops_it(
    chain: tuple[Parent, list[Candidate]],
) -> None:
    parent, children = chain
    step, newest = next_step(parent, children), children[-1]
    if step.starts is None:
        assert step.place == newest.place
        return
    assert step.place == newest.place + 1 < parent.channel_count
    assert all(one.status != Status.DELIVERED for one in children)
    assert (parent.is_cancelled, parent.is_erased) == (False, False)
    assert parent.expires_at is None or parent.expires_at > NOW
    at_once = newest.status in ENDED or newest.is_withdrawn
    assert step.starts == (STARTED if at_once else AFTER)
    assert at_once or newest.next_at <= NOW
    assert at_once or newest.status not in (Status.CANCELLED, Status.EXPIRED)
    assert (step.status, step.next_at, list(step.withdrawn)) == (Status.PENDING, None, [])


@given(chains())
def test_a_chain_that_goes_on_says_when_and_shows_no_end(
    chain: tuple[Parent, list[Candidate]],
) -> None:
    parent, children = chain
    step = next_step(parent, children)
    if step.next_at is not None:
        assert step.next_at == children[-1].next_at > NOW
        assert step.starts is None
        assert step.status in (Status.PENDING, Status.UNCERTAIN, Status.SUBMITTED)
    elif step.starts is None and children[-1].status in ENDED and parent.expires_at is None:
        assert (
            children[-1].place + 1 == parent.channel_count
            or parent.is_cancelled
            or parent.is_erased
            or any(one.status == Status.DELIVERED for one in children)
        )


@given(chains())
def test_what_is_delivered_is_shown_and_only_what_was_not_sent_gives_way(
    chain: tuple[Parent, list[Candidate]],
) -> None:
    parent, children = chain
    step = next_step(parent, children)
    delivered = [one for one in children if one.status == Status.DELIVERED]
    live = [one for one in children if one.status in LIVE]
    if delivered:
        assert (step.status, step.shown.status) == (Status.DELIVERED, Status.DELIVERED)
        assert step.shown.final_at == min(one.final_at for one in delivered if one.final_at)
    elif live:
        assert step.shown == live[-1]
        assert step.status in LIVE
    else:
        told = [one for one in children if one.status != Status.CANCELLED]
        later = children[told[-1].place + 1 :] if told else children
        assert step.shown in (*told[-1:], *later)
        if any(one.may_be_accepted for one in children) and told:
            assert step.shown == told[-1]
        elif not all(one.is_withdrawn for one in later):
            assert step.shown == [one for one in later if not one.is_withdrawn][-1]
    for one in step.withdrawn:
        assert delivered
        assert one.status in (Status.PENDING, Status.LEASED)
        assert (one.attempt_id, one.in_doubt, one.evidence_rank) == (None, 0, 0)
    assert step.status != Status.LEASED
    assert step.doubles == max(parent.fallback_doubles, len(delivered) - 1)


def test_what_is_unconfirmed_while_its_chain_goes_on_may_still_be_accepted_or_delivered() -> None:
    parent = Parent(
        id=CHAIN, status=Status.PENDING, channel_count=2, expires_at=None, is_cancelled=False,
        is_erased=False, fallback_doubles=0, at=NOW,
    )  # fmt: skip

    def shown(in_doubt: int, *, later: timedelta) -> Step:
        candidate = Candidate(
            id=UUID(int=2), parent_id=CHAIN, place=0, status=Status.UNCONFIRMED, reason=None,
            told_status=None, final_at=NOW, attempt_id=None, in_doubt=in_doubt, evidence_rank=0,
            complained=False, next_at=NOW + later,
        )  # fmt: skip
        return next_step(parent, [candidate])

    assert shown(1, later=timedelta(hours=1)).status == Status.UNCERTAIN
    assert shown(0, later=timedelta(hours=1)).status == Status.SUBMITTED
    assert shown(0, later=timedelta(0)).starts == AFTER
