-- Webhooks are signed per organization, by a key derived from the installation's secret and this
-- number; the one before it signs too, until everybody has the new one.
ALTER TABLE organizations ADD COLUMN webhook_key_number integer NOT NULL DEFAULT 1
CONSTRAINT organizations_webhook_key_number_is_natural CHECK (
    webhook_key_number BETWEEN 1 AND 1000000
);
ALTER TABLE organizations ADD COLUMN webhook_key_rotated_at timestamptz;

GRANT UPDATE (webhook_key_number, webhook_key_rotated_at) ON organizations TO sendoff_operator;
