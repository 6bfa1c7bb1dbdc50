-- Who may ask for notifications, and the keys they ask with.
-- Forward only; runs inside the runner's transaction, under its advisory lock.

CREATE TABLE organizations (
    id uuid NOT NULL DEFAULT uuidv7(),
    name text NOT NULL,
    transactional_categories text [] NOT NULL DEFAULT '{transactional}', -- everything else is bulk
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT organizations_pkey PRIMARY KEY (id),
    CONSTRAINT organizations_name_is_unique UNIQUE (name)
);

-- A key reads sk_<id>_<secret>; only the SHA-256 of the secret is stored.
CREATE TABLE api_keys (
    id uuid NOT NULL DEFAULT uuidv7(),
    organization_id uuid NOT NULL,
    name text NOT NULL,
    secret_sha256 bytea NOT NULL,
    scopes text [] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (id),
    CONSTRAINT api_keys_of_organization FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT api_keys_secret_is_a_digest CHECK (octet_length(secret_sha256) = 32),
    CONSTRAINT api_keys_scopes_are_known CHECK (scopes <@ '{send,read,admin}' AND scopes <> '{}')
);
CREATE INDEX api_keys_by_organization ON api_keys (organization_id);

-- The first answer to a request, kept so that its repetition gets the same one (24 h).
-- Written in the accepting transaction: a crash or a refusal leaves the key free.
CREATE TABLE idempotency_keys (
    organization_id uuid NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    request_sha256 bytea NOT NULL, -- of the parsed JSON in canonical form
    batch_id uuid,                 -- a batch's answer is rebuilt from its row …
    response text,                 -- … a single notification's is kept as it was sent
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (organization_id, route, key),
    CONSTRAINT idempotency_keys_request_is_a_digest CHECK (octet_length(request_sha256) = 32)
);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);
