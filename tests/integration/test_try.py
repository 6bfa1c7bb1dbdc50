from datetime import *

from functions.core.evidence import *
from functions.core.outcome import *
from functions.store import begin, channel, check, claim, close, delivery, gauge, receipt, sweep
from tests.fakes import *


def test_path(owner, database):
    ids = add_notifications(owner, 12)
    channels = channel.read_channels(database)
    assert claim.start_run(database, name="claim") == 1
    print(claim.promote(database), claim.survey(database, run="claim"))
    n = claim.reserve(database, channel="email", wanted=100, leased=0)
    assert n == 100
    rows = claim.lease_page(
        database,
        channel="email",
        priority="normal",
        page=10,
        after=claim.NO_ORGANIZATION,
        lease_seconds=30,
        leased_by="me",
    )
    assert len(rows) == 10, rows
    claim.record_verdicts(database, [(r, claim.Allow()) for r in rows])
    claim.release(database, [(rows[9].id, 1)])
    loaded = delivery.load(database, [r.id for r in rows])
    b = begin.begin(
        database,
        [
            begin.Opening(id=r.id, lease_number=r.lease_number, token=loaded[r.id].token)
            for r in rows
        ],
        provider="http",
        remaining_seconds=10,
    )
    print([(x.verdict, x.send, x.attempts_spent) for x in b.values()])
    outs = [
        Accepted(reference="m1"),
        Accepted(reference=None, final=True),
        Rejected(code="400"),
        Refused(),
        Transient(),
        Transient(begun=False),
        Throttled(retry_after_seconds=3),
        Blocked(),
        Unknown(),
    ]
    c = close.close(
        database,
        [
            close.Closing(
                id=r.id, lease_number=1, token=loaded[r.id].token, outcome=o, again_seconds=3.0
            )
            for r, o in zip(rows, outs)
        ],
        channel=channels["email"],
        keyed=True,
    )
    print([x.status for x in c.values()])
    r = receipt.record(
        database,
        [
            Receipt(
                provider="http",
                event_key="e1",
                type="delivered",
                rank=Rank.DELIVERED,
                occurred_at=None,
                reference="m1",
                raw=b"{}",
            ),
            Receipt(
                provider="http",
                event_key="e2",
                type="bounced",
                rank=Rank.HARD_FAILURE,
                occurred_at=datetime.now(UTC),
                idempotency_key=str(rows[0].id),
                address_at_fault=True,
                raw=b"{}",
            ),
            Receipt(
                provider="http",
                event_key="e3",
                type="delivered",
                rank=Rank.DELIVERED,
                occurred_at=None,
                reference="m9",
                raw=b"{}",
            ),
        ],
        provider="http",
    )
    print(r)
    print(receipt.match_orphans(database))
    print(
        sweep.sweep(
            database,
            channel=channels["email"],
            keyed_providers=["http"],
            now=datetime.now(UTC) + timedelta(hours=1),
        )
    )
    print(sweep.expire(database))
    print(check.check(database, now=datetime.now(UTC) + timedelta(days=4)))
    print(gauge.ready_gauges(database)[0], gauge.channel_gauges(database)[0])
    print(delivery.record_start(database, rows[9].id))
    for row in owner.execute(
        "select from_status,to_status,actor,reason from transitions order by id"
    ):
        print(row)
    for row in owner.execute(
        "select status,reason,in_doubt,attempts_spent,ready from notifications order by id"
    ):
        print(row)
