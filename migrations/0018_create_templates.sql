-- Words by name and version: a version is one document over channels and locales, never changed and
-- never deleted, for what was accepted with it is sent with it, however late.

CREATE TABLE templates (
    organization_id uuid NOT NULL,
    name text NOT NULL,
    latest_version integer NOT NULL,
    archived_at timestamptz,               -- nothing new is accepted with it
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT templates_pkey PRIMARY KEY (organization_id, name),
    CONSTRAINT templates_of_organization FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT templates_latest_version_is_positive CHECK (latest_version > 0)
);

CREATE TABLE template_versions (
    organization_id uuid NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    document jsonb NOT NULL,               -- channels, default_locale: as the client gave it
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT template_versions_pkey PRIMARY KEY (organization_id, name, version),
    CONSTRAINT template_versions_of_template FOREIGN KEY (organization_id, name)
    REFERENCES templates (organization_id, name),
    CONSTRAINT template_versions_version_is_positive CHECK (version > 0)
);

GRANT SELECT, INSERT ON templates, template_versions TO sendoff_service;
GRANT UPDATE (latest_version, archived_at, updated_at) ON templates TO sendoff_service;
GRANT SELECT ON templates, template_versions TO sendoff_operator;
