-- Intent beyond one address and one text: a recipient by reference, words by template, several
-- channels in order; and what was decided of it.

-- Intent.
ALTER TABLE notifications ADD COLUMN template_name text;
ALTER TABLE notifications ADD COLUMN template_version integer;    -- pinned when it was accepted
ALTER TABLE notifications ADD COLUMN segments integer;            -- of an SMS by template: at most so many
ALTER TABLE notifications ADD COLUMN channels text [];            -- a parent's candidates, in order
ALTER TABLE notifications ADD COLUMN fallback_after_seconds double precision;

-- Decision: the contact point, the locale and the versions of what was read for it.
ALTER TABLE notifications ADD COLUMN contact_hash bytea;          -- of the address chosen behind a reference
ALTER TABLE notifications ADD COLUMN locale text;
ALTER TABLE notifications ADD COLUMN recipient_version bigint;
ALTER TABLE notifications ADD COLUMN decision jsonb;
-- The address that it goes to: chosen, or given.
ALTER TABLE notifications ADD COLUMN address_hash bytea
-- Virtual, so nothing is rewritten.
-- squawk-ignore adding-field-with-default
GENERATED ALWAYS AS (coalesce(contact_hash, recipient_hash)) VIRTUAL;
ALTER TABLE notifications ADD COLUMN erased_at timestamptz;

-- Fallback: a parent is never sent itself; each of its candidates is a child.
ALTER TABLE notifications ADD COLUMN candidate integer;           -- a child's place, a parent's newest child's
ALTER TABLE notifications ADD COLUMN told_status text;            -- what the parent was told of the child
ALTER TABLE notifications ADD COLUMN next_step_at timestamptz;    -- when the parent's next child starts anyway
ALTER TABLE notifications ADD COLUMN fallback_doubles integer NOT NULL DEFAULT 0;

ALTER TABLE notifications ADD CONSTRAINT notifications_template_has_a_version CHECK (
    (template_name IS NULL) = (template_version IS NULL)
) NOT VALID;
ALTER TABLE notifications ADD CONSTRAINT notifications_parent_is_not_sent CHECK (
    channels IS NULL OR (
        NOT ready AND lease_until IS NULL AND attempt_id IS NULL AND parent_id IS NULL
        AND recipient_id IS NOT NULL AND candidate IS NOT NULL
    )
) NOT VALID;
ALTER TABLE notifications ADD CONSTRAINT notifications_child_has_a_place CHECK (
    (parent_id IS NULL) OR (candidate IS NOT NULL)
) NOT VALID;
ALTER TABLE notifications ADD CONSTRAINT notifications_contact_hash_is_a_digest CHECK (
    octet_length(contact_hash) = 32
) NOT VALID;

ALTER TABLE channels ADD COLUMN fallback_after_seconds double precision NOT NULL DEFAULT 3600
CONSTRAINT channels_fallback_after_is_positive CHECK (
    fallback_after_seconds > 0 AND fallback_after_seconds <= 3155760000
);
UPDATE channels SET fallback_after_seconds = 300 WHERE name IN ('push', 'sms');

-- Whose answer it is: erased with the notification.
ALTER TABLE idempotency_keys ADD COLUMN notification_id uuid;

GRANT UPDATE (
    contact_hash, locale, recipient_version, decision, country, origin, candidate, told_status, next_step_at,
    fallback_doubles
) ON notifications TO sendoff_service;
GRANT UPDATE (notification_id) ON idempotency_keys TO sendoff_service;
GRANT UPDATE (fallback_after_seconds) ON channels TO sendoff_operator;
