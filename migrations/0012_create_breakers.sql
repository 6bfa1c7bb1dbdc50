-- Blocked is not failed: while a breaker is open, what it is about waits, and one notification at a
-- time finds out whether it still has to.

CREATE TABLE breakers (
    channel text NOT NULL,
    provider text NOT NULL,
    scope text NOT NULL,
    key text NOT NULL,                     -- the provider, a stream (its sender identity), or a country
    opened_at timestamptz,                 -- null: closed
    code text,                             -- the answer that opened it last
    trips integer NOT NULL DEFAULT 0,      -- openings in a row, from which the distance of probes grows
    probe_at timestamptz,
    probe_id uuid,                         -- the notification that finds out
    -- of the window under way
    window_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    calls integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    CONSTRAINT breakers_pkey PRIMARY KEY (channel, provider, scope, key),
    CONSTRAINT breakers_of_channel FOREIGN KEY (channel) REFERENCES channels (name),
    CONSTRAINT breakers_scope_is_known CHECK (scope IN ('provider', 'sender_identity', 'country')),
    CONSTRAINT breakers_open_has_a_probe CHECK ((opened_at IS NULL) = (probe_at IS NULL)),
    CONSTRAINT breakers_counts_are_natural CHECK (
        trips BETWEEN 0 AND 1000000 AND calls BETWEEN 0 AND 1000000000 AND failures BETWEEN 0 AND calls
    )
) WITH (fillfactor = 50);

-- The origin of webhook URLs, per organization: what one receiver does to us is its own matter.
CREATE TABLE endpoints (
    id uuid NOT NULL DEFAULT uuidv7(),
    organization_id uuid NOT NULL,
    origin text NOT NULL,
    failures integer NOT NULL DEFAULT 0,   -- in a row
    failing_since timestamptz,
    code text,                             -- the last failure's
    paused_at timestamptz,
    disabled_at timestamptz,               -- it asked never to be called again
    trips integer NOT NULL DEFAULT 0,
    probe_at timestamptz,
    probe_id uuid,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT endpoints_pkey PRIMARY KEY (organization_id, origin),
    CONSTRAINT endpoints_id_is_unique UNIQUE (id),
    CONSTRAINT endpoints_paused_has_a_probe CHECK ((paused_at IS NULL) = (probe_at IS NULL)),
    CONSTRAINT endpoints_counts_are_natural CHECK (
        failures BETWEEN 0 AND 1000000000 AND trips BETWEEN 0 AND 1000000
    )
) WITH (fillfactor = 70);

GRANT SELECT, INSERT ON breakers, endpoints TO sendoff_service;
GRANT UPDATE (opened_at, code, trips, probe_at, probe_id, window_at, calls, failures) ON breakers
TO sendoff_service;
GRANT UPDATE (
    failures, failing_since, code, paused_at, disabled_at, trips, probe_at, probe_id, updated_at
) ON endpoints TO sendoff_service;
