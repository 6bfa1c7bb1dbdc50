-- The queue of record. Everything that decides a transition is a column of the notification:
-- after waiting for a row lock READ COMMITTED re-checks the locked row and nothing else.

CREATE TABLE batches (
    id uuid NOT NULL DEFAULT uuidv7(),
    organization_id uuid NOT NULL,
    notification_ids uuid [] NOT NULL,     -- in input order, duplicates included
    duplicate_indexes integer [] NOT NULL, -- positions that named a notification already known
    accepted_at timestamptz NOT NULL,
    CONSTRAINT batches_pkey PRIMARY KEY (id)
);

CREATE TABLE notifications (
    -- Intent: what was asked for. Never updated after insert (the grants below see to it).
    id uuid NOT NULL,
    organization_id uuid NOT NULL,         -- no foreign key: +16 % on the time to accept a batch
    batch_id uuid,                         -- no foreign key: +42 %
    batch_index integer,
    channel text NOT NULL,
    recipient text,
    recipient_id text,
    recipient_hash bytea NOT NULL,         -- keyed hash of the normalised address
    content jsonb NOT NULL,
    priority text NOT NULL,
    category text NOT NULL,
    event_id text,
    reference text,
    metadata jsonb NOT NULL,
    send_at timestamptz,
    expires_at timestamptz,
    max_attempts integer NOT NULL,
    parent_id uuid,
    created_at timestamptz NOT NULL,       -- the time inside the UUIDv7: order by id is order by time

    -- State: where it is.
    status text NOT NULL DEFAULT 'pending',
    reason text,
    ready boolean NOT NULL,                -- in the claim's index; rows not yet due stay outside it
    available_at timestamptz NOT NULL,
    eligible_at timestamptz NOT NULL,      -- what the objective is measured from; never moved by backoff
    updated_at timestamptz NOT NULL,
    final_at timestamptz,
    discarded_at timestamptz,
    hold_id uuid,

    -- Decision: what policy said, and which version of it.
    verdict text,
    policy_version integer,

    -- Lease and attempt.
    lease_number integer NOT NULL DEFAULT 0,
    lease_until timestamptz,
    leased_by text,
    attempt_id uuid,                       -- token of the open attempt
    attempts_spent integer NOT NULL DEFAULT 0,
    in_doubt integer NOT NULL DEFAULT 0,   -- attempts whose outcome is unknown
    starts integer NOT NULL DEFAULT 0,     -- handler starts that never finished
    waiting_since timestamptz,             -- first of a run of throttled or blocked answers
    provider text,
    key_epoch integer NOT NULL DEFAULT 0,  -- provider key is <id>, or <id>.<epoch> after a requeue
    key_first_used_at timestamptz,

    -- Evidence: the strongest seen so far.
    evidence_rank smallint NOT NULL DEFAULT 0,
    evidence_at timestamptz,
    evidence_key text,
    submitted_at timestamptz,
    next_check_at timestamptz,
    checks integer NOT NULL DEFAULT 0,
    complained boolean NOT NULL DEFAULT false,

    CONSTRAINT notifications_pkey PRIMARY KEY (id),
    CONSTRAINT notifications_status_is_known CHECK (status IN (
        'pending', 'leased', 'uncertain', 'submitted', 'delivered', 'failed',
        'unconfirmed', 'suppressed', 'cancelled', 'expired', 'dead'
    )),
    CONSTRAINT notifications_channel_is_known CHECK (channel IN ('email', 'sms', 'push', 'webhook')),
    CONSTRAINT notifications_priority_is_known CHECK (priority IN ('high', 'normal', 'low')),
    CONSTRAINT notifications_recipient_hash_is_a_digest CHECK (octet_length(recipient_hash) = 32),
    CONSTRAINT notifications_leased_has_a_lease CHECK (status <> 'leased' OR lease_until IS NOT NULL),
    CONSTRAINT notifications_uncertain_has_an_attempt CHECK (status <> 'uncertain' OR in_doubt > 0),
    CONSTRAINT notifications_only_dead_is_discarded CHECK (discarded_at IS NULL OR status = 'dead'),
    CONSTRAINT notifications_final_has_a_time CHECK (final_at IS NOT NULL OR status NOT IN (
        'delivered', 'failed', 'unconfirmed', 'suppressed', 'cancelled', 'expired'
    )),
    CONSTRAINT notifications_held_has_a_reason CHECK (status <> 'dead' OR reason IS NOT NULL),
    CONSTRAINT notifications_evidence_rank_is_known CHECK (evidence_rank BETWEEN 0 AND 4),
    CONSTRAINT notifications_evidence_is_whole CHECK (
        evidence_rank = 0 OR (evidence_at IS NOT NULL AND evidence_key IS NOT NULL)
    ),
    -- Bounds that no life reaches: a row written by hand must not break the statement it is in.
    CONSTRAINT notifications_counters_are_natural CHECK (
        lease_number BETWEEN 0 AND 1000000000 AND attempts_spent BETWEEN 0 AND 1000000
        AND in_doubt BETWEEN 0 AND 1000000 AND starts BETWEEN 0 AND 1000000
        AND checks BETWEEN 0 AND 1000000 AND max_attempts BETWEEN 1 AND 1000000
    ),
    CONSTRAINT notifications_times_are_readable CHECK (
        created_at BETWEEN '0001-01-02Z' AND '9999-12-31T23:59:59Z'
        AND updated_at BETWEEN '0001-01-02Z' AND '9999-12-31T23:59:59Z'
        AND available_at BETWEEN '0001-01-02Z' AND '9999-12-31T23:59:59.999999Z'
        AND eligible_at BETWEEN '0001-01-02Z' AND '9999-12-31T23:59:59.999999Z'
        AND send_at BETWEEN '0001-01-01Z' AND '9999-12-31T23:59:59.999999Z'
        AND expires_at BETWEEN '0001-01-01Z' AND '9999-12-31T23:59:59.999999Z'
    ),
    CONSTRAINT notifications_expire_after_they_are_sent CHECK (expires_at > send_at)
) WITH (fillfactor = 70);

-- These three hold final rows too; every other index is partial and holds only live ones.
CREATE INDEX notifications_by_organization ON notifications (organization_id, id);
CREATE UNIQUE INDEX notifications_event_is_unique
ON notifications (organization_id, event_id, channel, recipient_hash) WHERE event_id IS NOT NULL;

CREATE INDEX notifications_ready
ON notifications (channel, priority, organization_id, available_at, id) WHERE status = 'pending' AND ready;
CREATE INDEX notifications_waiting
ON notifications (available_at) WHERE status = 'pending' AND NOT ready;
CREATE INDEX notifications_leased
ON notifications (channel, lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX notifications_to_check
ON notifications (next_check_at) WHERE status IN ('submitted', 'uncertain');
CREATE INDEX notifications_to_expire
ON notifications (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;
CREATE INDEX notifications_held
ON notifications (channel, organization_id, id) WHERE status = 'dead' AND discarded_at IS NULL;

-- The ledger of calls: a row is committed before the provider is called.
CREATE TABLE attempts (
    notification_id uuid NOT NULL,
    lease_number integer NOT NULL,
    id uuid NOT NULL,                      -- the token that fences the close
    provider text NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    outcome text,                          -- null while open
    reference text,                        -- the provider's own id
    http_status integer,
    code text,
    detail text,
    retry_after_seconds integer,
    CONSTRAINT attempts_one_per_lease PRIMARY KEY (notification_id, lease_number),
    CONSTRAINT attempts_of_notification FOREIGN KEY (notification_id) REFERENCES notifications (id)
    ON DELETE CASCADE,
    CONSTRAINT attempts_outcome_is_known CHECK (outcome IN (
        'accepted', 'rejected', 'refused', 'transient', 'throttled', 'blocked', 'unknown'
    )),
    CONSTRAINT attempts_closed_has_an_outcome CHECK ((outcome IS NULL) = (finished_at IS NULL))
) WITH (fillfactor = 85);
CREATE INDEX attempts_by_reference ON attempts (provider, reference) WHERE reference IS NOT NULL;

-- Provider reports, raw and deduplicated; those that name nothing known yet wait to be matched.
CREATE TABLE receipts (
    id uuid NOT NULL DEFAULT uuidv7(),
    provider text NOT NULL,
    event_key text NOT NULL,
    organization_id uuid,
    notification_id uuid,
    attempt_id uuid,
    type text NOT NULL,
    evidence_rank smallint NOT NULL,
    permanent boolean NOT NULL DEFAULT false,
    complaint boolean NOT NULL DEFAULT false,
    address_at_fault boolean NOT NULL DEFAULT false,
    idempotency_key text,
    reference text,
    recipient_hash bytea,
    reason text,
    occurred_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL,
    applied boolean NOT NULL DEFAULT false,
    raw bytea NOT NULL,                    -- the bytes received: what was signed, and what a replay reads
    CONSTRAINT receipts_pkey PRIMARY KEY (id),
    CONSTRAINT receipts_event_is_unique UNIQUE (provider, event_key),
    CONSTRAINT receipts_evidence_rank_is_known CHECK (evidence_rank BETWEEN 0 AND 4)
);
CREATE INDEX receipts_by_notification ON receipts (notification_id) WHERE notification_id IS NOT NULL;
CREATE INDEX receipts_orphaned ON receipts (id) WHERE notification_id IS NULL;

-- Append-only, written in the statement that changes the status. A claim's own is derivable
-- (lease_number, attempts) and not stored.
CREATE TABLE transitions (
    id uuid NOT NULL DEFAULT uuidv7(),
    notification_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    from_status text NOT NULL,
    to_status text NOT NULL,
    reason text,
    lease_number integer,
    attempt_id uuid,
    receipt_id uuid,
    CONSTRAINT transitions_pkey PRIMARY KEY (notification_id, id),
    CONSTRAINT transitions_of_notification FOREIGN KEY (notification_id) REFERENCES notifications (id)
    ON DELETE CASCADE
);

-- Append-only facts about an address; the newest per category wins, and lifting one is a fact too.
CREATE TABLE suppressions (
    id uuid NOT NULL DEFAULT uuidv7(),
    organization_id uuid NOT NULL,
    channel text NOT NULL,
    recipient_hash bytea NOT NULL,
    category text,                         -- null: every category
    kind text NOT NULL,
    reason text NOT NULL,
    source text NOT NULL,
    source_at timestamptz NOT NULL,
    evidence jsonb,
    recipient text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT suppressions_pkey PRIMARY KEY (id),
    CONSTRAINT suppressions_kind_is_known CHECK (kind IN ('suppress', 'lift')),
    CONSTRAINT suppressions_recipient_hash_is_a_digest CHECK (octet_length(recipient_hash) = 32)
);
CREATE INDEX suppressions_by_recipient
ON suppressions (organization_id, channel, recipient_hash, category, id);
CREATE INDEX suppressions_by_organization ON suppressions (organization_id, id);
