"""What a pending notification waits for, in words: everything that may stand in its way."""

import pytest

from functions.core.abuse import Because
from functions.core.breaker import FAILURE_CODE
from functions.core.forecast import next_of, next_sentence
from functions.core.outcome import Scope
from functions.core.waiting import bound_for
from tests.histories import FailingEndpoint, OpenBreaker, OpenHold, Policy, Row, Way, after, told_of

NOW = after(10)
TAKEN_UP = "he claim takes it up as soon as possible, for attempt 1 of 5."
AT_2 = "2030-01-01T00:00:02Z"


def told(way: Way, *, row: Row | None = None, channel: Policy | None = None) -> str:
    dossier = told_of(row or Row(), channel=channel, way=way)
    text = next_sentence(dossier, now=NOW, keyed_providers=("http",)) or ""
    assert text.endswith(".")
    assert "None" not in text
    assert "  " not in text
    return text


def test_a_paused_stream_is_named() -> None:
    assert told(Way(stream="bulk", stream_paused_at=after(2))) == (
        f"Its stream, bulk, is paused since {AT_2}. Once it is resumed, t{TAKEN_UP}"
    )


def test_with_several_obstacles_each_is_named() -> None:
    way = Way(stream_paused_at=after(2), breakers=[OpenBreaker()])
    text = told(way, channel=Policy(paused_at=after(3)))
    assert text.startswith("Its channel is paused since 2030-01-01T00:00:03Z. Its stream, trans")
    assert "The breaker of provider http is open" in text
    assert text.endswith(f"Once nothing of that stands in its way, t{TAKEN_UP}")


@pytest.mark.parametrize(
    ("breaker", "words"),
    [
        (OpenBreaker(), f"provider http is open since {AT_2} (401)."),
        (
            OpenBreaker(code=FAILURE_CODE),
            f"provider http is open since {AT_2} (too many failures).",
        ),
        (
            OpenBreaker(scope=Scope.SENDER_IDENTITY, key="bulk", code="SendingPausedException"),
            "the sender identity of its stream, bulk, at http is open since "
            f"{AT_2} (SendingPausedException).",
        ),
        (
            OpenBreaker(scope=Scope.COUNTRY, key="FR", code=None),
            f"its country, FR, at http is open since {AT_2}.",
        ),
    ],
    ids=lambda value: getattr(value, "scope", ""),
)
def test_an_open_breaker_says_of_what_since_when_and_that_it_closes_by_itself(
    breaker: OpenBreaker, words: str
) -> None:
    assert told(Way(breakers=[breaker])) == (
        f"The breaker of {words} From 2030-01-01T00:01:40Z on the oldest notification that is due "
        "finds out whether it still is: the first success closes it. Once the breaker is closed, "
        f"t{TAKEN_UP}"
    )


def test_whoever_finds_out_about_a_breaker_says_so() -> None:
    assert "By now the oldest notification that is due finds out whether" in told(
        Way(breakers=[OpenBreaker(probe_at=after(9))])
    )
    assert "This notification finds out whether" in told(
        Way(breakers=[OpenBreaker(is_probed_by_it=True)])
    )


TWO = Policy(fallback_provider="other")


def test_the_other_provider_is_asked_while_the_breaker_of_the_first_is_open() -> None:
    text = told(Way(breakers=[OpenBreaker()]), channel=TWO)
    assert text == (
        f"The breaker of provider http is open since {AT_2} (401), so that other is asked "
        "meanwhile. The claim takes it up as soon as possible, for attempt 1 of 5 at other."
    )


def test_what_was_passed_on_says_to_whom() -> None:
    text = told(Way(next_provider="other"), channel=TWO)
    assert text == (
        "http provably did not take it: it was passed on to other. The claim takes it up as soon "
        "as possible, for attempt 1 of 5 at other."
    )


def test_where_neither_provider_works_it_waits_for_the_one_it_is_bound_for() -> None:
    breakers = [OpenBreaker(), OpenBreaker(provider="other", key="other")]
    text = told(Way(breakers=breakers), channel=TWO)
    assert "The breaker of provider other is open" in text
    assert "The breaker of provider http is open" in text
    assert text.endswith("for attempt 1 of 5 at other.")


@pytest.mark.parametrize(
    ("row", "way", "channel", "provider"),
    [
        (Row(), Way(), TWO, "http"),
        (Row(), Way(next_provider="other"), TWO, "other"),
        (Row(), Way(next_provider="gone"), TWO, "http"),
        (Row(in_doubt=1), Way(next_provider="other"), TWO, "http"),
        (Row(in_doubt=1, provider="gone"), Way(), TWO, "http"),
        (Row(), Way(breakers=[OpenBreaker()]), TWO, "other"),
        (Row(), Way(breakers=[OpenBreaker(probe_at=after(9))]), TWO, "http"),
        (Row(), Way(breakers=[OpenBreaker()]), Policy(), "http"),
    ],
)
def test_it_is_bound_for_whom_its_sender_would_choose(
    row: Row, way: Way, channel: Policy, provider: str
) -> None:
    assert bound_for(told_of(row, way=way, channel=channel), NOW) == provider


def test_an_endpoint_that_is_paused_says_since_when_why_and_what_ends_it() -> None:
    endpoint = FailingEndpoint(failures=12, paused_at=after(5), probe_at=after(60))
    assert told(Way(endpoint=endpoint)) == (
        "Its endpoint, https://hooks.example, is paused since 2030-01-01T00:00:05Z, after 12 "
        f"failures in a row since {AT_2}, the last with 503. From 2030-01-01T00:01:00Z on the "
        "oldest notification that is due finds out whether it still fails: the first success ends "
        f"the pause. Once the pause is over, t{TAKEN_UP}"
    )


def test_an_endpoint_that_fails_says_how_many_calls_it_gets() -> None:
    row = Row(reason="endpoint_busy", available_at=after(20))
    assert told(Way(endpoint=FailingEndpoint()), row=row) == (
        f"Its endpoint, https://hooks.example, had 3 failures in a row since {AT_2}, the last with "
        "503: calls to it are limited to 10 at once until one succeeds. As many calls to its "
        "endpoint as it gets at once were under way. The claim takes it up from "
        "2030-01-01T00:00:20Z on, for attempt 1 of 5."
    )
    assert "had 1 failure in a row since" in told(Way(endpoint=FailingEndpoint(failures=1)))


@pytest.mark.parametrize(("in_doubt", "status"), [(0, "suppressed"), (1, "unconfirmed")])
def test_an_endpoint_that_is_disabled_ends_it_unless_it_is_resumed(
    in_doubt: int, status: str
) -> None:
    endpoint = FailingEndpoint(disabled_at=after(5), code="410")
    assert told(Way(endpoint=endpoint), row=Row(in_doubt=in_doubt)) == (
        "Its endpoint, https://hooks.example, asked at 2030-01-01T00:00:05Z never to be called "
        f"again. The claim takes it up as soon as possible, and it ends as {status}, unless an "
        "operator resumes the endpoint before that."
    )


def test_retries_that_are_off_concern_only_what_was_tried() -> None:
    channel = Policy(retries=False)
    assert told(Way(), channel=channel) == f"T{TAKEN_UP}"
    for row in (Row(attempts_spent=1), Row(in_doubt=1)):
        assert told(Way(), row=row, channel=channel).startswith(
            "Retries are off for its channel, and it was tried before. Once they are on again, the "
            "claim takes it up as soon as possible"
        )


HELD = Row(available_at=after(1e10), hold_id=OpenHold().id)


def test_a_hold_says_of_what_and_why_and_that_a_person_decides() -> None:
    assert told(Way(hold=OpenHold()), row=HELD) == (
        f"Messages to MV are on hold since {AT_2} (hold {OpenHold().id}): 21 in 24 hours, where "
        f"0.5 are usual. Once an operator releases the hold, t{TAKEN_UP}"
    )
    assert "Messages to no country are" in told(Way(hold=OpenHold(key="")), row=HELD)
    prefix = told(Way(hold=OpenHold(kind="prefix", key="+9607712")), row=HELD)
    assert "Messages to numbers of its prefix are on hold" in prefix
    way = Way(hold=OpenHold(kind="prefix", key="+9607712"), country="MV")
    assert "Messages to numbers of its prefix in MV are on hold" in told(way, row=HELD)
    assert "9607712" not in prefix + told(way, row=HELD)  # most of somebody's number


def test_what_is_on_hold_waits_for_a_person_or_expires() -> None:
    after_it = next_of(HELD)
    assert after_it is not None
    assert (after_it.action, after_it.at) == ("decide", None)
    expiring = Row(available_at=after(1e10), hold_id=OpenHold().id, expires_at=after(60))
    after_it = next_of(expiring)
    assert after_it is not None
    assert (after_it.action, after_it.at) == ("expire", after(60))
    assert told(Way(hold=OpenHold()), row=expiring).endswith(
        " Without success by 2030-01-01T00:01:00Z it expires."
    )


def test_a_hold_that_is_over_and_has_not_come_to_it_yet_says_so() -> None:
    released = told(Way(hold=OpenHold(released_at=after(5))), row=HELD)
    assert "An operator released the hold it waits under" in released
    assert "Once it is let go, the claim takes it up as soon as possible" in released
    discarded = told(Way(hold=OpenHold(released_at=after(5), discarded=True)), row=HELD)
    assert "the command ends it unsent when it comes to it" in discarded


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Because.NUMBER_VELOCITY, "Its number had as many messages as one gets in an hour."),
        (Because.PREFIX_VELOCITY, "The numbers of its prefix had as many messages as they get in"),
        (Because.BUDGET_SPENT, "Its organization's money for SMS is spent for the day (UTC)."),
        (Because.PRICE_UNKNOWN, "There are no prices to keep its organization's SMS budget by."),
    ],
)
def test_what_the_guard_put_off_says_why_and_until_when(reason: str, words: str) -> None:
    text = told(Way(), row=Row(reason=reason, available_at=after(60)))
    assert text.startswith(words)
    assert text.endswith("The claim takes it up from 2030-01-01T00:01:00Z on, for attempt 1 of 5.")


def test_what_expires_before_it_is_due_says_what_it_waited_for_all_the_same() -> None:
    row = Row(reason=Because.BUDGET_SPENT, available_at=after(60), expires_at=after(30))
    assert told(Way(), row=row) == (
        "Its organization's money for SMS is spent for the day (UTC). Its time to be sent passes "
        "at 2030-01-01T00:00:30Z, before another try is due: the sweep ends it then."
    )


def test_a_channel_that_was_slowed_says_how_much_is_left_and_that_it_grows_back() -> None:
    assert told(Way(), channel=Policy(slowed_at=after(2), share_of_rate=0.25)).endswith(
        f" Its provider asked at {AT_2} to slow down: the channel is at 25% of its rate, which "
        "grows back by itself."
    )
    assert "slow down" not in told(Way(), channel=Policy(slowed_at=after(2), share_of_rate=1.0))


def test_what_is_throttled_or_blocked_for_long_says_when_that_ends() -> None:
    channel = Policy(waiting_limit_seconds=100)
    assert told(Way(waiting_since=after(2)), channel=channel).endswith(
        f" It has been blocked or throttled since {AT_2}: an answer of that kind after "
        "2030-01-01T00:01:42Z holds it for a person."
    )
    channel = Policy(waiting_limit_seconds=1)
    assert "of that kind from now on holds" in told(Way(waiting_since=after(2)), channel=channel)
