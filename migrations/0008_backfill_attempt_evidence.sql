-- What earlier acceptances proved: where acceptance is delivery, delivery.
UPDATE attempts SET evidence_rank = CASE WHEN provider = 'webhook' THEN 3 ELSE 1 END
WHERE outcome = 'accepted' AND evidence_rank = 0;
