"""The story of several channels as its tenant reads it: the same as an operator is told."""

from uuid import UUID

import psycopg

from functions.core.explanation import explain
from functions.core.outcome import Rejected
from functions.store.connection import Database
from functions.store.dossier import read_dossier
from tests import chains
from tests.api import Api, start


def sentences(api: Api, id: UUID) -> list[str]:
    return [one["sentence"] for one in api.get(f"/v1/notifications/{id}").json["timeline"]]


def test_a_parent_and_its_candidates_tell_by_which_channels_they_went(
    owner: psycopg.Connection, database: Database
) -> None:
    api = start(database)
    story = chains.story(owner, database, ("push", "sms"))
    assert sentences(api, story.id)[0] == (
        "The request was accepted and stored, for push, then SMS, until one of them is delivered; "
        "the first is to be sent at once."
    )
    story.closed(Rejected(code="400", http_status=400))
    story.go_on()
    story.accepted()
    story.told(1)
    story.go_on()
    for id in (story.id, *[child.id for child in story.children]):
        dossier = read_dossier(database, notification_id=id)
        assert dossier is not None
        told = explain(dossier, now=dossier.now)["timeline"]
        assert sentences(api, id) == [one["sentence"] for one in told]
    of_parent = " ".join(sentences(api, story.id)[1:])
    assert "by push" in of_parent
    assert "by SMS" in of_parent
    assert sentences(api, story.newest.id)[0].startswith("It was started as candidate 2 of ")
