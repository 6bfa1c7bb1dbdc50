-- The role the functions connect as. Intent is written once: the role may insert every column of a
-- notification, but update only its state, so no statement of ours can change what was asked for.

DO $$
BEGIN
    CREATE ROLE sendoff_service LOGIN;
    -- Role defaults stand in for SET: a SET at connect would pin a proxied connection.
    ALTER ROLE sendoff_service SET statement_timeout = '15s';
    ALTER ROLE sendoff_service SET lock_timeout = '5s';
    ALTER ROLE sendoff_service SET idle_in_transaction_session_timeout = '15s';
    -- Everything the functions do is a look-up by an index. A plan that a connection keeps from when
    -- a table was small must not read all of it when it has grown, until somebody analyzes it.
    ALTER ROLE sendoff_service SET enable_seqscan = off;
    ALTER ROLE sendoff_service SET timezone = 'UTC';
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL; -- roles are shared by a server's databases
END
$$;

DO $$
BEGIN
    GRANT rds_iam TO sendoff_service; -- present on RDS only: log in by IAM token
EXCEPTION
    WHEN undefined_object THEN NULL;
END
$$;

GRANT SELECT ON organizations, api_keys TO sendoff_service;
GRANT SELECT, INSERT, DELETE ON idempotency_keys TO sendoff_service;
GRANT UPDATE (request_sha256, batch_id, response, created_at, expires_at) ON idempotency_keys TO sendoff_service;
GRANT SELECT, INSERT ON batches TO sendoff_service;
GRANT SELECT, INSERT ON notifications TO sendoff_service;
GRANT UPDATE (
    status, reason, ready, available_at, eligible_at, updated_at, final_at, discarded_at, hold_id,
    verdict, policy_version,
    lease_number, lease_until, leased_by, attempt_id, attempts_spent, in_doubt, starts, waiting_since,
    provider, key_epoch, key_first_used_at,
    evidence_rank, evidence_at, evidence_key, submitted_at, next_check_at, checks, complained
) ON notifications TO sendoff_service;
GRANT SELECT, INSERT ON attempts TO sendoff_service;
GRANT UPDATE (finished_at, outcome, reference, http_status, code, detail, retry_after_seconds)
ON attempts TO sendoff_service;
GRANT SELECT, INSERT ON receipts TO sendoff_service;
GRANT UPDATE (organization_id, notification_id, attempt_id, applied) ON receipts TO sendoff_service;
GRANT SELECT, INSERT ON transitions TO sendoff_service;
GRANT SELECT, INSERT ON suppressions TO sendoff_service;
GRANT SELECT ON channels TO sendoff_service;
GRANT UPDATE (tokens, refilled_at) ON channels TO sendoff_service;
GRANT SELECT, INSERT ON runs TO sendoff_service;
GRANT UPDATE (generation, started_at) ON runs TO sendoff_service;
