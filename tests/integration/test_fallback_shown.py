"""What a client and an operator see of a notification by several channels: the channel of the
candidate that it is like, and a chain that goes on where an earlier candidate outlived the last."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.explanation import explain
from functions.core.login import Login
from functions.core.outcome import Rejected
from functions.store.connection import Database
from functions.store.dossier import read_dossier
from tests.api import Api, start
from tests.chains import Story
from tests.fakes import moves_of, row_of
from tests.operating import discarded, operating, requeued
from tests.referring import add_organizations, erase, put, refer
from tests.steps import lease, now_of


@pytest.fixture
def api(owner: psycopg.Connection, database: Database) -> Api:
    add_organizations(owner)
    api = start(database)
    put(api)
    return api


@pytest.fixture
def ask(owner: psycopg.Connection, database: Database, api: Api) -> Callable[..., Story]:
    def of(*channels: str, **members: Any) -> Story:
        reply = api.post(refer(channel=None, channels=channels, **members))
        assert reply.status == 202, reply
        return Story(owner=owner, database=database, id=UUID(reply.json["id"]))

    return of


def rejected(chain: Story) -> None:
    assert chain.closed(Rejected(code="400", http_status=400)) == "dead"
    chain.go_on()


def outlived(chain: Story, login: Login) -> None:
    """Both were rejected, the last was discarded, and the first is sent again."""
    rejected(chain)
    rejected(chain)
    with operating(login) as operator:
        assert discarded(operator, chain.children[1].id) == ["discarded"]
        chain.go_on()
        assert (chain.parent.discarded_at, chain.parent.candidate) == (
            chain.newest.discarded_at, 1
        )  # fmt: skip
        assert requeued(operator, chain.children[0].id) == ["requeued"]


def explained(database: Database, id: UUID) -> dict[str, Any]:
    dossier = read_dossier(database, notification_id=id)
    assert dossier is not None
    return explain(dossier, now=dossier.now)


def test_a_parent_shows_by_which_channel_it_was_delivered(
    api: Api, ask: Callable[..., Story], database: Database
) -> None:
    chain = ask("push", "sms", "email", event_id="order-7")

    def channels() -> set[str]:
        (listed,) = api.get("/v1/notifications", "event_id=order-7").json["data"]
        return {
            api.get(f"/v1/notifications/{chain.id}").json["channel"],
            listed["channel"],
            explained(database, chain.id)["notification"]["channel"],
            explained(database, chain.newest.id)["parent"]["channel"],
        }

    def found(channel: str) -> bool:
        listed = api.get("/v1/notifications", f"channel={channel}").json["data"]
        return str(chain.id) in [one["id"] for one in listed]

    assert channels() == {"push"}
    rejected(chain)
    assert channels() == {"sms"}
    chain.accepted()
    chain.go_on(now=chain.parent.next_step_at)
    assert channels() == {"email"}
    chain.accepted()
    chain.go_on()
    chain.told(1)
    chain.go_on()
    assert chain.standing[0] == "delivered"
    assert channels() == {"sms"}
    assert [one for one in ("push", "sms", "email") if found(one)] == ["sms"]
    assert chain.parent.channel == "push"  # of its event, for ever
    again = api.post(refer(channel=None, channels=["push", "sms", "email"], event_id="order-7"))
    assert again.json["id"] == str(chain.id)


def test_a_batch_counts_a_parent_for_the_channel_that_it_was_delivered_by(
    api: Api, owner: psycopg.Connection, database: Database
) -> None:
    later = now_of(owner, hours=1).isoformat()
    batch = api.post_batch(
        refer(channel=None, channels=["push", "email"]),
        refer(send_at=later),
        refer(channel=None, channels=["sms", "email"]),
    ).json
    by_email, by_sms = (
        Story(owner=owner, database=database, id=UUID(batch["notifications"][place]["id"]))
        for place in (0, 2)
    )
    by_sms.accepted()
    by_sms.told(0)
    rejected(by_email)
    by_email.accepted()
    by_email.told(1)
    by_email.go_on()
    told = api.get(f"/v1/batches/{batch['batch_id']}").json
    assert told["counts"] == {"delivered": 2, "pending": 1}
    assert told["counts_by_channel"] == {
        "email": {"delivered": 1, "pending": 1},
        "sms": {"delivered": 1},
    }
    listed = api.get("/v1/notifications", f"batch_id={batch['batch_id']}&channel=sms").json
    assert [one["id"] for one in listed["data"]] == [str(by_sms.id)]


def test_an_earlier_candidate_that_is_sent_again_is_what_its_parent_shows(
    api: Api, ask: Callable[..., Story], database: Database, login: Login
) -> None:
    chain = ask("push", "sms")
    outlived(chain, login)
    chain.go_on()
    assert chain.standing == ("pending", [("push", "pending"), ("sms", "dead")])
    parent = chain.parent
    assert (parent.reason, parent.discarded_at, parent.final_at) == (None, None, None)
    shown = api.get(f"/v1/notifications/{chain.id}").json
    assert (shown["channel"], shown["final_at"], shown["held"]) == ("push", None, False)
    told = explained(database, chain.id)
    assert told["next"]["action"] == "send"
    assert told["next"]["sentence"].endswith("if it is delivered, so is this notification.")
    assert told["timeline"][-1]["sentence"] == (
        "It follows its candidate by push. It waits to be sent."
    )
    assert chain.closed(Rejected(code="400", http_status=400), place=0) == "dead"
    chain.go_on()
    assert (chain.parent.status, chain.parent.candidate) == ("dead", 1)
    assert chain.parent.discarded_at == chain.newest.discarded_at


@pytest.mark.parametrize("is_told", [False, True])
@pytest.mark.parametrize("is_leased", [False, True])
@pytest.mark.parametrize("whole_batch", [False, True])
def test_a_parent_that_shows_a_discarded_candidate_is_cancelled_with_the_one_that_waits(
    api: Api,
    owner: psycopg.Connection,
    database: Database,
    login: Login,
    is_told: bool,
    is_leased: bool,
    whole_batch: bool,
) -> None:
    batch = api.post_batch(refer(channel=None, channels=["push", "sms"])).json
    chain = Story(owner=owner, database=database, id=UUID(batch["notifications"][0]["id"]))
    outlived(chain, login)
    if is_told:
        chain.go_on()
    if is_leased:
        assert len(lease(database, channel="push")) == 1
    which = f"batches/{batch['batch_id']}" if whole_batch else f"notifications/{chain.id}"
    reply = api.call("POST", f"/v1/{which}/cancel")
    assert reply.status == 200, reply
    chain.go_on()
    assert chain.standing == ("cancelled", [("push", "cancelled"), ("sms", "dead")])
    assert chain.parent.discarded_at is None
    assert moves_of(owner, chain.id)[-1][:1] == ("client",)
    assert api.call("POST", f"/v1/notifications/{chain.id}/cancel").status == 200


def test_what_ended_unsent_is_not_said_to_have_been_sent(
    api: Api, ask: Callable[..., Story], login: Login
) -> None:
    chain = ask("push", "sms")
    rejected(chain)
    chain.suppressed()
    chain.go_on()
    reply = api.call("POST", f"/v1/notifications/{chain.id}/cancel")
    assert (reply.status, reply.json["detail"]) == (
        409,
        "The notification has ended already; it cannot be cancelled. Its status is suppressed.",
    )
    with operating(login) as operator:
        assert requeued(operator, chain.children[0].id) == ["requeued"]
    assert api.call("POST", f"/v1/notifications/{chain.id}/cancel").status == 200


def test_one_that_may_still_arrive_is_shown_when_a_later_one_came_to_nothing(
    api: Api, ask: Callable[..., Story]
) -> None:
    chain = ask("push", "sms", fallback_after=60)
    chain.accepted()
    chain.go_on(now=chain.parent.next_step_at)
    rejected(chain)
    assert chain.standing == ("submitted", [("push", "submitted"), ("sms", "dead")])
    assert api.get(f"/v1/notifications/{chain.id}").json["channel"] == "push"
    assert api.call("POST", f"/v1/notifications/{chain.id}/cancel").code == "too_late"
    chain.told(0, Rank.HARD_FAILURE)
    chain.go_on()
    assert (chain.parent.status, chain.parent.reason) == ("dead", "rejected")
    assert row_of(chain.owner, chain.id).candidate == 1


def test_an_erased_parent_shows_the_candidate_that_may_still_arrive(
    api: Api, ask: Callable[..., Story]
) -> None:
    chain = ask("push", "sms", fallback_after=60)
    chain.accepted()
    chain.go_on(now=chain.parent.next_step_at)
    erase(api)
    chain.go_on()
    assert chain.standing == ("submitted", [("push", "submitted"), ("sms", "suppressed")])
    assert (chain.parent.candidate, chain.parent.final_at) == (0, None)
    chain.told(0)
    chain.go_on()
    assert chain.standing[0] == "delivered"
