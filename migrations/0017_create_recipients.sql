-- Who may be told, on which channels, when, and in which language: the address stays behind the
-- reference, and what is decided is decided from here when a notification becomes eligible.

-- One for all: a recipient erased and made again never has a version that it had before.
CREATE SEQUENCE policy_versions;

CREATE TABLE recipients (
    organization_id uuid NOT NULL,
    recipient_id text NOT NULL,
    version bigint NOT NULL DEFAULT nextval('policy_versions'),
    locale text,
    time_zone text,
    quiet_start time,                      -- local time in the zone, both or neither
    quiet_end time,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT recipients_pkey PRIMARY KEY (organization_id, recipient_id),
    CONSTRAINT recipients_quiet_hours_are_a_window CHECK (
        (quiet_start IS NULL) = (quiet_end IS NULL) AND quiet_start <> quiet_end
        AND quiet_start < '24:00' AND quiet_end < '24:00'
    ),
    CONSTRAINT recipients_quiet_hours_have_a_zone CHECK (quiet_start IS NULL OR time_zone IS NOT NULL)
);

CREATE TABLE contact_points (
    organization_id uuid NOT NULL,
    recipient_id text NOT NULL,
    channel text NOT NULL,
    place integer NOT NULL,                -- in the recipient's own order
    address text NOT NULL,                 -- normalised
    address_hash bytea NOT NULL,
    verified boolean NOT NULL,
    country text,                          -- of a telephone number (ISO 3166), where it has one
    origin text,                           -- of a webhook's URL: scheme, host and port
    CONSTRAINT contact_points_pkey PRIMARY KEY (organization_id, recipient_id, channel, address_hash),
    CONSTRAINT contact_points_of_recipient FOREIGN KEY (organization_id, recipient_id)
    REFERENCES recipients (organization_id, recipient_id) ON DELETE CASCADE,
    CONSTRAINT contact_points_channel_is_known CHECK (channel IN ('email', 'sms', 'push', 'webhook')),
    CONSTRAINT contact_points_address_hash_is_a_digest CHECK (octet_length(address_hash) = 32)
);
CREATE INDEX contact_points_by_address ON contact_points (organization_id, channel, address_hash);

-- Every address that a recipient ever had, as its keyed hash: what was sent to an earlier one is to be
-- found when the recipient is erased.
CREATE TABLE contact_hashes (
    organization_id uuid NOT NULL,
    recipient_id text NOT NULL,
    channel text NOT NULL,
    address_hash bytea NOT NULL,
    CONSTRAINT contact_hashes_pkey PRIMARY KEY (organization_id, recipient_id, channel, address_hash),
    CONSTRAINT contact_hashes_of_recipient FOREIGN KEY (organization_id, recipient_id)
    REFERENCES recipients (organization_id, recipient_id) ON DELETE CASCADE
);

-- What a recipient said to a category on a channel; where nothing was said there is no row.
CREATE TABLE preferences (
    organization_id uuid NOT NULL,
    recipient_id text NOT NULL,
    category text NOT NULL,
    channel text NOT NULL,
    allowed boolean NOT NULL,
    CONSTRAINT preferences_pkey PRIMARY KEY (organization_id, recipient_id, category, channel),
    CONSTRAINT preferences_of_recipient FOREIGN KEY (organization_id, recipient_id)
    REFERENCES recipients (organization_id, recipient_id) ON DELETE CASCADE,
    CONSTRAINT preferences_channel_is_known CHECK (channel IN ('email', 'sms', 'push', 'webhook'))
);

-- What an organization declares of a category, beyond whether it is transactional.
CREATE TABLE category_rules (
    organization_id uuid NOT NULL,
    category text NOT NULL,
    version bigint NOT NULL DEFAULT nextval('policy_versions'),
    mandatory boolean NOT NULL DEFAULT false,                 -- transactional only: preferences do not apply
    high_bypasses_quiet_hours boolean NOT NULL DEFAULT false, -- transactional only
    window_start time,                     -- sent only then, in the recipient's zone; both or neither
    window_end time,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT category_rules_pkey PRIMARY KEY (organization_id, category),
    CONSTRAINT category_rules_of_organization FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT category_rules_have_a_window CHECK (
        (window_start IS NULL) = (window_end IS NULL) AND window_start <> window_end
        AND window_start < '24:00' AND window_end < '24:00'
    )
);

GRANT USAGE ON SEQUENCE policy_versions TO sendoff_service, sendoff_operator;
GRANT SELECT, INSERT, DELETE ON recipients, contact_points, contact_hashes, preferences TO sendoff_service;
GRANT UPDATE (version, locale, time_zone, quiet_start, quiet_end, updated_at) ON recipients TO sendoff_service;
GRANT SELECT ON category_rules TO sendoff_service;
GRANT SELECT ON recipients, contact_points, contact_hashes, preferences TO sendoff_operator;
GRANT SELECT, INSERT, DELETE ON category_rules TO sendoff_operator;
GRANT UPDATE (version, mandatory, high_bypasses_quiet_hours, window_start, window_end, updated_at)
ON category_rules TO sendoff_operator;
