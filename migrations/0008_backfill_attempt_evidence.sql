-- What earlier acceptances proved: what their row has of them, else what an acceptance is worth.
UPDATE attempts a SET evidence_rank = CASE
    WHEN a.id::text = n.evidence_key THEN n.evidence_rank
    WHEN a.provider = 'webhook' THEN 3
    ELSE 1
END
FROM notifications n
WHERE n.id = a.notification_id AND a.outcome = 'accepted' AND a.evidence_rank = 0;
