"""What comes next, in words: for every status, by the columns that decide it."""

import pytest

from functions.core.forecast import COPIES, next_of, next_sentence
from functions.core.states import FINAL, Status
from functions.providers.choice import DECLARATIONS
from tests.histories import Call, Policy, Row, after, told_of

NOW = after(10)
KEYED = ("http",)


def sentence(
    row: Row,
    *,
    channel: Policy | None = None,
    attempts: list[Call] | None = None,
) -> str | None:
    dossier = told_of(row, channel=channel, attempts=attempts)
    return next_sentence(dossier, now=NOW, keyed_providers=KEYED)


def test_what_is_due_is_taken_up_at_once() -> None:
    row = Row(available_at=after(5), attempts_spent=2)
    assert sentence(row) == "The claim takes it up as soon as possible, for attempt 3 of 5."


def test_what_waits_is_taken_up_in_its_time_and_may_expire() -> None:
    assert sentence(Row(available_at=after(60), expires_at=after(3600))) == (
        "The claim takes it up from 2030-01-01T00:01:00Z on, for attempt 1 of 5. Without success "
        "by 2030-01-01T01:00:00Z it expires."
    )


def test_what_expires_before_its_next_try_is_not_promised_one() -> None:
    assert sentence(Row(available_at=after(60), expires_at=after(30))) == (
        "Its time to be sent passes at 2030-01-01T00:00:30Z, before another try is due: the sweep "
        "ends it then."
    )
    assert "is passing" in (sentence(Row(available_at=after(60), expires_at=after(9))) or "")


def test_a_paused_channel_is_named_as_what_it_waits_for() -> None:
    channel = Policy(paused_at=after(1))
    assert sentence(Row(available_at=after(5)), channel=channel) == (
        "Its channel is paused since 2030-01-01T00:00:01Z. Once it is resumed, the claim takes it "
        "up as soon as possible, for attempt 1 of 5."
    )


LEASED = Row(status="leased", lease_number=2, lease_until=after(40))


def test_a_lease_without_an_attempt_is_taken_back_unsent() -> None:
    assert sentence(LEASED) == (
        "A sender opens an attempt within seconds. If none does, the sweep takes the lease back "
        "after 2030-01-01T00:00:40Z; nothing will have been sent."
    )


def test_an_open_attempt_is_closed_as_one_that_may_have_been_accepted() -> None:
    closed = Call(lease_number=1, outcome="transient")
    opened = Call(lease_number=2, outcome=None, finished_at=None)
    assert sentence(LEASED, attempts=[closed, opened]) == (
        "An attempt at http is open, and its answer is recorded within seconds. If none is, the "
        "sweep closes it after 2030-01-01T00:00:40Z as one that may have been accepted."
    )


def test_a_lease_that_ran_out_waits_for_the_sweep_alone() -> None:
    row = Row(status="leased", lease_number=2, lease_until=after(9))
    assert "takes the lease back with its next run" in (sentence(row) or "")


def uncertain(**columns: object) -> Row:
    values = {"status": "uncertain", "in_doubt": 1, "provider": "other", "decide_at": after(900)}
    return Row(**{**values, "next_check_at": after(900), **columns})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("row", "policy", "then"),
    [
        (uncertain(), "hold", "it is held for a person, as its channel's policy is."),
        (
            uncertain(),
            "retry",
            "it is tried again, as its channel's policy is, although that may send it twice.",
        ),
        (
            uncertain(provider="http"),
            "hold",
            "it is tried again under its key, which the provider recognises.",
        ),
        (
            uncertain(attempts_spent=5),
            "retry",
            "it is held for a person, for no attempt is left.",
        ),
        (
            uncertain(expires_at=after(800)),
            "retry",
            "it ends unconfirmed, for its time to be sent has passed.",
        ),
    ],
)
def test_doubt_says_what_decides_it_and_when(row: Row, policy: str, then: str) -> None:
    assert sentence(row, channel=Policy(unknown_policy=policy)) == (
        "A report of the provider settles it at once. Without one by 2030-01-01T00:15:00Z, " + then
    )


SILENT = "The provider gives no reports, so it cannot be found out whether it was accepted: "


@pytest.mark.parametrize(
    ("row", "policy", "then"),
    [
        (
            uncertain(provider="push"),
            "retry",
            "at 2030-01-01T00:15:00Z it is tried again, as its channel's policy is: a copy "
            "replaces the first by its collapse id, unless its stream turns that off.",
        ),
        (uncertain(provider="push", decide_at=NOW), "retry", "now it is tried again, as its"),
        (
            uncertain(provider="push"),
            "hold",
            "at 2030-01-01T00:15:00Z it is held for a person, as its channel's policy is.",
        ),
    ],
)
def test_doubt_with_a_provider_that_never_reports_promises_no_report(
    row: Row, policy: str, then: str
) -> None:
    told = sentence(row, channel=Policy(unknown_policy=policy)) or ""
    assert told.startswith(SILENT + then)


def test_what_a_copy_does_is_known_of_every_provider_that_leaves_doubt_to_itself() -> None:
    assert set(COPIES) == {
        one.name for one in DECLARATIONS if not one.keyed and not one.receipts and not one.looks_up
    }


def test_doubt_says_when_it_is_looked_at_before_that() -> None:
    told = sentence(uncertain(next_check_at=after(60))) or ""
    assert told.endswith(" It is looked at again at 2030-01-01T00:01:00Z.")


def test_doubt_whose_time_is_over_waits_for_the_next_run() -> None:
    assert "Without one by now, it is held" in (sentence(uncertain(decide_at=after(9))) or "")


def test_what_was_accepted_says_when_it_is_looked_at_and_when_waiting_ends() -> None:
    row = Row(status="submitted", submitted_at=after(4), next_check_at=after(34))
    assert sentence(row, channel=Policy(cutoff_seconds=600)) == (
        "A report of the provider moves it at once. Without one by 2030-01-01T00:10:04Z it ends as "
        "unconfirmed. It is looked at again at 2030-01-01T00:00:34Z."
    )


def test_what_is_held_says_what_a_person_may_do() -> None:
    assert sentence(Row(status="dead", reason="rejected")) == (
        "Nothing before a person decides: requeue it once its cause is gone, or discard it."
    )
    assert "settle it once the provider's own records tell" in (
        sentence(Row(status="dead", reason="outcome_unknown", in_doubt=1)) or ""
    )


def test_what_is_held_and_has_expired_can_only_be_discarded_or_settled() -> None:
    row = Row(status="dead", reason="rejected", expires_at=after(9))
    assert sentence(row) == (
        "Nothing before a person decides: discard it. Its time to be sent has passed."
    )
    row = Row(status="dead", reason="outcome_unknown", expires_at=after(9), in_doubt=1)
    assert "was accepted, or discard it." in (sentence(row) or "")


def test_what_is_held_with_an_open_attempt_cannot_be_requeued_yet() -> None:
    row = Row(status="dead", reason="crash_loop", lease_number=1, lease_until=after(40))
    opened = Call(lease_number=1, outcome=None, finished_at=None)
    assert "until then it cannot be requeued" in (sentence(row, attempts=[opened]) or "")


@pytest.mark.parametrize("status", sorted(FINAL))
def test_what_has_ended_has_nothing_ahead(status: Status) -> None:
    row = Row(status=status, final_at=after(5))
    assert next_of(row) is None
    assert sentence(row) is None


def test_what_was_discarded_has_nothing_ahead() -> None:
    row = Row(status="dead", reason="rejected", discarded_at=after(5))
    assert next_of(row) is None
    assert sentence(row) is None


@pytest.mark.parametrize("status", sorted(set(Status) - FINAL))
def test_every_other_status_has_a_next_with_its_sentence(status: Status) -> None:
    row = Row(status=status, lease_until=after(40), next_check_at=after(40), in_doubt=1)
    assert next_of(row) is not None
    text = sentence(row)
    assert text is not None
    assert text.endswith(".")
