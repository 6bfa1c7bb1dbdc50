-- Every tunable number of a channel, its token bucket and its pause; and the generations of the
-- single active loop.

CREATE TABLE channels (
    name text NOT NULL,
    provider text NOT NULL DEFAULT 'http',
    provider_url text,
    -- pace
    rate double precision NOT NULL DEFAULT 100,   -- leases per second
    burst double precision NOT NULL DEFAULT 100,
    tokens double precision NOT NULL DEFAULT 100,
    refilled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    max_in_flight integer NOT NULL DEFAULT 200,
    page integer NOT NULL DEFAULT 100,
    lease_seconds double precision NOT NULL DEFAULT 240,
    provider_deadline_seconds double precision NOT NULL DEFAULT 10,
    paused_at timestamptz,
    -- retry
    backoff_base_seconds double precision NOT NULL DEFAULT 60,
    backoff_cap_seconds double precision NOT NULL DEFAULT 1800,
    max_attempts integer NOT NULL DEFAULT 5,
    waiting_limit_seconds double precision NOT NULL DEFAULT 259200,
    -- confirmation
    check_base_seconds double precision NOT NULL DEFAULT 30,
    check_cap_seconds double precision NOT NULL DEFAULT 21600,
    cutoff_seconds double precision NOT NULL,
    grace_seconds double precision NOT NULL,
    unknown_policy text NOT NULL,
    poll_rate double precision NOT NULL DEFAULT 10,
    CONSTRAINT channels_pkey PRIMARY KEY (name),
    CONSTRAINT channels_name_is_known CHECK (name IN ('email', 'sms', 'push', 'webhook')),
    CONSTRAINT channels_pace_is_positive CHECK (
        rate > 0 AND burst >= 1 AND max_in_flight > 0 AND page BETWEEN 1 AND 1000
    ),
    CONSTRAINT channels_bucket_is_not_negative CHECK (tokens >= 0),
    CONSTRAINT channels_times_are_positive CHECK (
        lease_seconds > 0 AND provider_deadline_seconds > 0 AND backoff_base_seconds > 0
        AND backoff_cap_seconds >= backoff_base_seconds AND check_base_seconds > 0
        AND check_cap_seconds >= check_base_seconds AND cutoff_seconds > 0 AND grace_seconds >= 0
        AND greatest( -- a hundred years: no sum with a time can leave what a time can be
            lease_seconds, provider_deadline_seconds, backoff_cap_seconds, waiting_limit_seconds,
            check_cap_seconds, cutoff_seconds, grace_seconds
        ) <= 3155760000
    ),
    CONSTRAINT channels_max_attempts_is_positive CHECK (max_attempts > 0),
    CONSTRAINT channels_unknown_policy_is_known CHECK (unknown_policy IN ('retry', 'hold'))
) WITH (fillfactor = 50);

INSERT INTO channels (name, provider, cutoff_seconds, grace_seconds, unknown_policy) VALUES
('email', 'http', 259200, 900, 'hold'),
('sms', 'http', 518400, 900, 'hold'), -- time to live 72 h + 72 h
('push', 'http', 86400, 0, 'retry'),
('webhook', 'webhook', 86400, 900, 'retry');

-- One active loop: a run goes on only while its generation is the newest of its name.
CREATE TABLE runs (
    name text NOT NULL,
    generation bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT runs_pkey PRIMARY KEY (name)
);
