-- What operators do, and the role they do it by; what reconcile remembers of its looks.

-- Append-only: one row per command, written in the transaction that has its effect.
CREATE TABLE operator_actions (
    id uuid NOT NULL DEFAULT uuidv7(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,                   -- who, as the account knows them
    command text NOT NULL,
    arguments jsonb NOT NULL,
    result jsonb NOT NULL,
    CONSTRAINT operator_actions_pkey PRIMARY KEY (id)
);

ALTER TABLE transitions ADD COLUMN operator_action_id uuid;

-- Until when an uncertain row waits for evidence before its channel's policy decides, and how often
-- the provider was asked about a row.
ALTER TABLE notifications ADD COLUMN decide_at timestamptz;
ALTER TABLE notifications ADD COLUMN polls integer NOT NULL DEFAULT 0;

-- What the answer to an attempt proved: with the receipts the whole evidence there is of a row.
ALTER TABLE attempts ADD COLUMN evidence_rank smallint NOT NULL DEFAULT 0;

-- Who settled an unknown outcome as not accepted; what the call itself came to stays beside it.
ALTER TABLE attempts ADD COLUMN settled text;

-- Evidence of acceptance stops further attempts: no row that may still be sent has any.
ALTER TABLE notifications ADD CONSTRAINT notifications_evidence_stops_attempts CHECK (
    evidence_rank = 0
    OR status IN ('submitted', 'delivered', 'failed', 'unconfirmed', 'suppressed', 'cancelled')
) NOT VALID;

-- A provider is asked about its notifications at a steady pace, whoever asks: the time up to which
-- the asking is given away.
CREATE TABLE polls (
    provider text NOT NULL,
    reserved_until timestamptz NOT NULL,
    CONSTRAINT polls_pkey PRIMARY KEY (provider)
);

GRANT SELECT, INSERT ON polls TO sendoff_service;
GRANT UPDATE (reserved_until) ON polls TO sendoff_service;
GRANT UPDATE (decide_at, polls) ON notifications TO sendoff_service;
GRANT UPDATE (evidence_rank, settled) ON attempts TO sendoff_service;
GRANT SELECT ON operator_actions TO sendoff_service;

DO $$
BEGIN
    CREATE ROLE sendoff_operator LOGIN;
    ALTER ROLE sendoff_operator SET statement_timeout = '15s';
    ALTER ROLE sendoff_operator SET lock_timeout = '5s';
    ALTER ROLE sendoff_operator SET idle_in_transaction_session_timeout = '15s';
    ALTER ROLE sendoff_operator SET enable_seqscan = off;
    ALTER ROLE sendoff_operator SET timezone = 'UTC';
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL; -- roles are shared by a server's databases
END
$$;

DO $$
BEGIN
    GRANT rds_iam TO sendoff_operator; -- present on RDS only: log in by IAM token
EXCEPTION
    WHEN undefined_object THEN NULL;
END
$$;

DO $$
BEGIN
    GRANT sendoff_service TO sendoff_operator;
EXCEPTION
    WHEN unique_violation THEN NULL; -- two databases of a server at once
END
$$;

GRANT INSERT ON operator_actions, organizations, api_keys TO sendoff_operator;
GRANT UPDATE (name) ON organizations TO sendoff_operator;
GRANT UPDATE (revoked_at) ON api_keys TO sendoff_operator;
GRANT UPDATE (paused_at) ON channels TO sendoff_operator;
-- A replay reads what was received through the rules of today.
GRANT UPDATE (
    type, evidence_rank, permanent, complaint, address_at_fault, idempotency_key, reference,
    recipient_hash, reason, occurred_at
) ON receipts TO sendoff_operator;
