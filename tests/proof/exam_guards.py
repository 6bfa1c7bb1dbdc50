"""The guards that the promises stand on, each with the one edit that removes it.

An edit is a text that stands exactly once in its file, and what it becomes.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A guard, how to remove it, and the test modules that must turn red without it."""

    name: str
    path: str
    present: str
    absent: str
    tests: tuple[str, ...]


def _integration(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/integration/test_{name}.py" for name in names)


GUARDS = (
    Guard(
        name="the fence: only the open attempt's own close moves its row",
        path="functions/store/close.py",
        present="OR n.status = 'uncertain' AND n.in_doubt + l.doubt = 0 AS mine",
        absent="OR true AS mine",
        tests=_integration("close_races"),
    ),
    Guard(
        name="the lease of a message, when its attempt begins",
        path="functions/store/begin.py",
        present="WHEN n.lease_number <> m.lease_number OR n.status <> 'leased'",
        absent="WHEN n.status <> 'leased'",
        tests=_integration("begin", "begin_races"),
    ),
    Guard(
        name="the suppression read, by the statement that opens the attempt",
        path="functions/store/begin.py",
        present="WHEN 'suppress' = ANY(ARRAY(",
        absent="WHEN false AND 'suppress' = ANY(ARRAY(",
        tests=_integration("begin"),
    ),
    Guard(
        name="the lock before begin",
        path="functions/store/begin.py",
        present="        lock_notifications(connection, ids)\n",
        absent="",
        tests=_integration("begin_races"),
    ),
    Guard(
        name="DISTINCT in begin: a message twice in one set",
        path="functions/store/begin.py",
        present="SELECT DISTINCT ON (id) id, lease_number, token",
        absent="SELECT id, lease_number, token",
        tests=_integration("begin"),
    ),
    Guard(
        name="the window of a key in doubt",
        path="functions/store/begin.py",
        present="WHEN n.in_doubt > 0 AND n.key_first_used_at",
        absent="WHEN false AND n.key_first_used_at",
        tests=_integration("doubt", "requeue", "begin"),
    ),
    Guard(
        name="the rank of evidence, when a receipt comes",
        path="functions/store/evidence.py",
        present="""CASE WHEN b.rank = 0 OR n.evidence_rank = 0 THEN b.rank > n.evidence_rank
                    ELSE (b.rank, n.evidence_at, n.evidence_key)
                       > (n.evidence_rank, b.occurred_at, b.event_key) END AS better""",
        absent="b.rank > 0 AS better",
        tests=_integration("receipts"),
    ),
    Guard(
        name="the rank of evidence, when a late outcome comes",
        path="functions/store/close.py",
        present="""CASE WHEN n.evidence_rank = 0 OR o.rank = 0 THEN o.rank > n.evidence_rank
                    ELSE (o.rank, n.evidence_at, n.evidence_key)
                       > (n.evidence_rank, l.finished_at, o.token::text) END AS better""",
        absent="o.rank > 0 AS better",
        tests=_integration("close", "close_races", "receipts"),
    ),
    Guard(
        name="the recipient of a receipt",
        path="functions/store/evidence.py",
        present="AND (r.recipient_hash IS NULL OR r.recipient_hash = n.address_hash)",
        absent="",
        tests=_integration("receipts"),
    ),
    Guard(
        name="the deduplication of receipts",
        path="functions/store/receipt.py",
        present="THEN as_digest(i.event_key) ELSE i.event_key END,",
        absent="THEN as_digest(i.event_key) ELSE i.event_key || uuidv7() END,",
        tests=_integration("receipts"),
    ),
    Guard(
        name="the partial-batch report: what shall come again is named",
        path="functions/sender/main.py",
        present='{"batchItemFailures": [{"itemIdentifier": failed} for failed in report.failed]}',
        absent='{"batchItemFailures": []}',
        tests=_integration("handlers"),
    ),
    Guard(
        name="the partial-batch report: and nothing else is",
        path="functions/sender/deliver.py",
        present="                unopened = set(ready)\n",
        absent="",
        tests=_integration("sender"),
    ),
    Guard(
        name="cancel: no attempt is open",
        path="functions/store/cancel.py",
        present="THEN n.status IN ('pending', 'leased') AND n.attempt_id IS NULL",
        absent="THEN n.status IN ('pending', 'leased')",
        tests=_integration("begin_races", "cancel_api"),
    ),
    Guard(
        name="the sweep's condition: a lease that has not run out",
        path="functions/store/sweep.py",
        present="AND lease_until <= (SELECT coalesce(%(now)s, clock_timestamp()))\n     ORDER",
        absent="\n     ORDER",
        tests=_integration("sweep"),
    ),
    Guard(
        name="the doubt that a sweep leaves",
        path="functions/store/sweep.py",
        present="in_doubt = n.in_doubt + j.doubt",
        absent="in_doubt = n.in_doubt",
        tests=_integration("sweep"),
    ),
    Guard(
        name="the consent to a possible duplicate",
        path="functions/store/held.py",
        present="AND NOT %(may_send_twice)s THEN 'needs_consent'",
        absent="AND false THEN 'needs_consent'",
        tests=_integration("held"),
    ),
    Guard(
        name="the tenant predicate: reading one",
        path="functions/store/browse.py",
        present="""     WHERE organization_id = %(organization_id)s
       AND id = %(notification_id)s
""",
        absent="     WHERE id = %(notification_id)s\n",
        tests=_integration("ingest_browse"),
    ),
    Guard(
        name="the tenant predicate: a list",
        path="functions/store/notification_list.py",
        present="""     WHERE organization_id >= %(organization_id)s
       AND organization_id <= %(organization_id)s
""",
        absent="     WHERE true\n",
        tests=_integration("ingest_browse"),
    ),
    Guard(
        name="the tenant predicate: a batch",
        path="functions/store/batch.py",
        present="""AS total_count
      FROM batches
     WHERE organization_id = %(organization_id)s
""",
        absent="AS total_count\n      FROM batches\n     WHERE true\n",
        tests=_integration("ingest_browse"),
    ),
    Guard(
        name="the tenant predicate: a suppression",
        path="functions/store/begin.py",
        present="WHERE s.organization_id = n.organization_id AND s.channel = n.channel",
        absent="WHERE s.channel = n.channel",
        tests=_integration("begin"),
    ),
    Guard(
        name="the breaker, read by the statement that opens the attempt",
        path="functions/store/begin.py",
        present="WHEN blocked.until IS NOT NULL THEN 'blocked'",
        absent="",
        tests=_integration("breakers"),
    ),
    Guard(
        name="failover: never after an unknown outcome",
        path="functions/store/close.py",
        present="SELECT o.next_provider IS NOT NULL AND n.in_doubt + l.doubt = 0) pass",
        absent="SELECT o.next_provider IS NOT NULL) pass",
        tests=_integration("failover"),
    ),
    Guard(
        name="the recipient's version, read by the statement that opens the attempt",
        path="functions/store/begin.py",
        present="WHEN n.recipient_id IS NOT NULL\n                     AND (",
        absent="WHEN n.recipient_id IS NOT NULL AND false\n                     AND (",
        tests=_integration("begin_changed"),
    ),
    Guard(
        name="what was erased, read by the statement that opens the attempt",
        path="functions/store/begin.py",
        present="WHEN n.erased_at IS NOT NULL",
        absent="WHEN false",
        tests=_integration("begin_changed"),
    ),
    Guard(
        name="nobody consents by having an address",
        path="functions/core/policy.py",
        present="if rules.transactional or recipient.preference else Because.NO_CONSENT",
        absent="if True or recipient.preference else Because.NO_CONSENT",
        tests=("tests/unit/test_policy.py",),
    ),
    Guard(
        name="the tenant predicate: a recipient",
        path="functions/store/policy.py",
        present="WHERE organization_id = a.organization_id AND category = a.category",
        absent="WHERE category = a.category",
        tests=_integration("policy_claim"),
    ),
    Guard(
        name="a chain ends with a delivery",
        path="functions/core/chain.py",
        present="if not delivered and _may_start_after(newest, parent):",
        absent="if _may_start_after(newest, parent):",
        tests=("tests/unit/test_chain.py", *_integration("fallback")),
    ),
    Guard(
        name="the addresses of a webhook, each of them",
        path="functions/providers/egress.py",
        present="if not all(self.allows(address) for address in addresses):",
        absent="if not any(self.allows(address) for address in addresses):",
        tests=("tests/unit/test_egress.py", "tests/unit/test_egress_calls.py"),
    ),
    Guard(
        name="the topic of an SNS message",
        path="functions/providers/sns_envelope.py",
        present="    if envelope.topic_arn not in topics or topic is None:\n",
        absent="    if topic is None:\n",
        tests=("tests/unit/test_sns_envelope.py",),
    ),
)
