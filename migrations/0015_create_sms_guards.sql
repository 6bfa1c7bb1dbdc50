-- The guard in front of SMS: to which countries an organization writes, how fast, in which mix, and
-- for how much a day. One row per organization; who decides for it locks that row first.
CREATE TABLE sms_guards (
    organization_id uuid NOT NULL,
    -- what operators set; null: the default, and of the first two: no limit
    countries text [],
    daily_budget numeric(14, 6),
    number_per_hour integer,               -- 0: no limit, as of the next two
    prefix_per_hour integer,
    unusual_per_day integer,
    growth double precision,
    -- what is known
    first_at timestamptz,                  -- when the first message was let out
    surge double precision NOT NULL DEFAULT 1, -- how much more than usual was coming …
    surge_at timestamptz,                      -- … when all that waited was last counted
    CONSTRAINT sms_guards_pkey PRIMARY KEY (organization_id),
    CONSTRAINT sms_guards_countries_are_codes CHECK (
        array_position(countries, NULL) IS NULL AND array_to_string(countries, '') ~ '^([A-Z]{2})*$'
    ),
    CONSTRAINT sms_guards_limits_are_natural CHECK (
        daily_budget BETWEEN 0 AND 10000000
        AND number_per_hour BETWEEN 0 AND 1000000 AND prefix_per_hour BETWEEN 0 AND 1000000
        AND unusual_per_day BETWEEN 0 AND 1000000 AND growth BETWEEN 1 AND 1000
    ),
    CONSTRAINT sms_guards_surge_is_a_factor CHECK (surge BETWEEN 1 AND 1e12)
) WITH (fillfactor = 50);

-- What was let out to a country or a prefix: hour by hour for a day, and as a mean before.
CREATE TABLE sms_slices (
    organization_id uuid NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,                     -- '' is the country of numbers that have none
    hour integer NOT NULL,                 -- the last of the hours, since 1970
    hours integer [] NOT NULL,
    usual double precision NOT NULL,
    total bigint NOT NULL,
    trusted_until timestamptz,             -- a person released what was held of it
    full_at timestamptz,                   -- of its bucket
    place_at timestamptz,
    CONSTRAINT sms_slices_pkey PRIMARY KEY (organization_id, kind, key),
    CONSTRAINT sms_slices_kind_is_known CHECK (kind IN ('country', 'prefix')),
    CONSTRAINT sms_slices_hours_are_a_day CHECK (
        cardinality(hours) = 24 AND array_position(hours, NULL) IS NULL AND 0 <= ALL (hours)
    ),
    CONSTRAINT sms_slices_counts_are_natural CHECK (
        hour BETWEEN 0 AND 100000000 AND usual BETWEEN 0 AND 1e12 AND total >= 0
    )
) WITH (fillfactor = 70);
CREATE INDEX sms_slices_by_hour ON sms_slices (hour);

-- How fast one number of an organization is written to. A bucket that is full says nothing.
CREATE TABLE sms_numbers (
    organization_id uuid NOT NULL,
    recipient_hash bytea NOT NULL,
    full_at timestamptz NOT NULL,
    place_at timestamptz,
    CONSTRAINT sms_numbers_pkey PRIMARY KEY (organization_id, recipient_hash)
) WITH (fillfactor = 70);
CREATE INDEX sms_numbers_by_time ON sms_numbers (full_at);

-- By the country, per part of a message; a country without a price has the highest one.
CREATE TABLE sms_prices (
    country text NOT NULL,
    amount numeric(12, 6) NOT NULL,
    CONSTRAINT sms_prices_pkey PRIMARY KEY (country),
    CONSTRAINT sms_prices_country_is_a_code CHECK (country ~ '^[A-Z]{2}$'),
    CONSTRAINT sms_prices_amount_is_positive CHECK (amount BETWEEN 0 AND 1000)
);

CREATE TABLE sms_spend (
    organization_id uuid NOT NULL,
    day date NOT NULL,                     -- in UTC
    amount numeric(14, 6) NOT NULL,
    messages integer NOT NULL,
    CONSTRAINT sms_spend_pkey PRIMARY KEY (organization_id, day),
    CONSTRAINT sms_spend_is_not_negative CHECK (amount >= 0 AND messages >= 0)
) WITH (fillfactor = 70);

-- Which lease of a message was let out and paid for. A later one pays again only if an attempt since
-- then may have been accepted. No foreign key: its check would wait for whoever holds the message.
CREATE TABLE sms_reservations (
    notification_id uuid NOT NULL,
    lease_number integer NOT NULL,
    day date NOT NULL,
    CONSTRAINT sms_reservations_pkey PRIMARY KEY (notification_id)
) WITH (fillfactor = 70);
CREATE INDEX sms_reservations_by_day ON sms_reservations (day);

-- What waits for a person. Its messages name it in hold_id.
CREATE TABLE holds (
    id uuid NOT NULL DEFAULT uuidv7(),
    organization_id uuid NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    reason text NOT NULL,
    today integer NOT NULL,                -- messages in 24 hours that made it be opened …
    usual double precision NOT NULL,       -- … and of a usual day
    opened_at timestamptz NOT NULL,
    released_at timestamptz,
    discarded boolean NOT NULL DEFAULT false, -- its messages end, instead of going out
    done_at timestamptz,                   -- none of its messages waits any more
    CONSTRAINT holds_pkey PRIMARY KEY (id),
    CONSTRAINT holds_kind_is_known CHECK (kind IN ('country', 'prefix'))
);
CREATE UNIQUE INDEX holds_one_open_per_slice ON holds (organization_id, kind, key)
WHERE released_at IS NULL;
CREATE INDEX holds_to_release ON holds (id) WHERE done_at IS NULL;

GRANT SELECT ON sms_guards, sms_slices, sms_numbers, sms_prices, sms_spend, sms_reservations, holds
TO sendoff_service;
GRANT INSERT (organization_id) ON sms_guards TO sendoff_service;
GRANT UPDATE (first_at, surge, surge_at) ON sms_guards TO sendoff_service;
GRANT INSERT (organization_id, kind, key, hour, hours, usual, total, full_at, place_at) ON sms_slices
TO sendoff_service;
GRANT UPDATE (hour, hours, usual, total, full_at, place_at) ON sms_slices TO sendoff_service;
GRANT INSERT ON sms_numbers, sms_spend, sms_reservations TO sendoff_service;
GRANT UPDATE (full_at, place_at) ON sms_numbers TO sendoff_service;
GRANT UPDATE (amount, messages) ON sms_spend TO sendoff_service;
GRANT UPDATE (lease_number, day) ON sms_reservations TO sendoff_service;
GRANT DELETE ON sms_slices, sms_numbers, sms_reservations TO sendoff_service;
GRANT INSERT (organization_id, kind, key, reason, today, usual, opened_at) ON holds
TO sendoff_service;

-- What is decided by is set by people alone.
GRANT UPDATE (
    countries, daily_budget, number_per_hour, prefix_per_hour, unusual_per_day, growth
) ON sms_guards TO sendoff_operator;
GRANT INSERT ON sms_prices TO sendoff_operator;
GRANT UPDATE (amount) ON sms_prices TO sendoff_operator;
GRANT INSERT (trusted_until) ON sms_slices TO sendoff_operator;
GRANT UPDATE (trusted_until) ON sms_slices TO sendoff_operator;
GRANT UPDATE (released_at, discarded, done_at) ON holds TO sendoff_operator;
