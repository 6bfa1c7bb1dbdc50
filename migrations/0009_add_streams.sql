-- Two streams per channel: what somebody waits for, and everything else. Each has its own sender
-- identity and may have its own pace, so that whatever stops the one leaves the other alone.

-- Intent, derived from it when it is accepted.
ALTER TABLE notifications ADD COLUMN stream text NOT NULL DEFAULT 'transactional';
ALTER TABLE notifications ADD COLUMN country text;  -- of a telephone number (ISO 3166), where it has one
ALTER TABLE notifications ADD COLUMN origin text;   -- of a webhook's URL: scheme, host and port
ALTER TABLE notifications ADD CONSTRAINT notifications_stream_is_known CHECK (
    stream IN ('transactional', 'bulk')
) NOT VALID;

-- With which provider it is due, where that is not the channel's own: the other one provably did not
-- take it.
ALTER TABLE notifications ADD COLUMN next_provider text;

CREATE TABLE streams (
    channel text NOT NULL,
    name text NOT NULL,
    sender_identity text,                        -- From address, origination number, application
    configuration_set text,
    settings jsonb NOT NULL DEFAULT '{}',        -- what one provider alone knows
    rate double precision,                       -- leases per second, within the channel's; null: its
    burst double precision NOT NULL DEFAULT 100,
    tokens double precision NOT NULL DEFAULT 100,
    refilled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_at timestamptz,
    CONSTRAINT streams_pkey PRIMARY KEY (channel, name),
    CONSTRAINT streams_of_channel FOREIGN KEY (channel) REFERENCES channels (name),
    CONSTRAINT streams_name_is_known CHECK (name IN ('transactional', 'bulk')),
    CONSTRAINT streams_pace_is_positive CHECK (rate > 0 AND burst >= 1),
    CONSTRAINT streams_bucket_is_not_negative CHECK (tokens >= 0)
) WITH (fillfactor = 50);

INSERT INTO streams (channel, name)
SELECT c.name, s.name
FROM channels AS c CROSS JOIN (VALUES ('transactional'), ('bulk')) AS s (name);

ALTER TABLE channels ADD COLUMN fallback_provider text;
ALTER TABLE channels ADD COLUMN fallback_provider_url text;
ALTER TABLE channels ADD COLUMN retries boolean NOT NULL DEFAULT true;    -- false: due retries wait
ALTER TABLE channels ADD COLUMN backoff_curve text NOT NULL DEFAULT 'exponential'
CONSTRAINT channels_backoff_curve_is_known CHECK (backoff_curve IN ('exponential', 'linear'));
ALTER TABLE channels ADD COLUMN endpoint_concurrency integer NOT NULL DEFAULT 10
CONSTRAINT channels_endpoint_concurrency_is_positive CHECK (endpoint_concurrency > 0);
-- A throttled provider gets a share of the rate, which grows back by itself.
ALTER TABLE channels ADD COLUMN slow_factor double precision NOT NULL DEFAULT 1
CONSTRAINT channels_slow_factor_is_a_share CHECK (slow_factor > 0 AND slow_factor <= 1);
ALTER TABLE channels ADD COLUMN slowed_at timestamptz;
-- What the last deployment set: the next one changes only what it sets anew, not what an operator did.
ALTER TABLE channels ADD COLUMN deployed jsonb NOT NULL DEFAULT '{}';

-- How far the answer to an attempt reaches, where it is about more than the one notification.
ALTER TABLE attempts ADD COLUMN scope text;

GRANT SELECT ON streams TO sendoff_service;
GRANT UPDATE (tokens, refilled_at) ON streams TO sendoff_service;
GRANT UPDATE (slow_factor, slowed_at) ON channels TO sendoff_service;
GRANT UPDATE (next_provider) ON notifications TO sendoff_service;
GRANT UPDATE (scope) ON attempts TO sendoff_service;
GRANT UPDATE (sender_identity, configuration_set, settings, rate, burst, paused_at) ON streams
TO sendoff_operator;
GRANT UPDATE (
    provider, provider_url, fallback_provider, fallback_provider_url, rate, burst, max_in_flight, page,
    provider_deadline_seconds, retries, backoff_curve, backoff_base_seconds, backoff_cap_seconds,
    max_attempts, waiting_limit_seconds, check_base_seconds, check_cap_seconds, cutoff_seconds,
    grace_seconds, unknown_policy, poll_rate, endpoint_concurrency
) ON channels TO sendoff_operator;
