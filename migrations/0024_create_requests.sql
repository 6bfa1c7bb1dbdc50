-- Another way in: by SQL, inside the caller's own transaction. What is asked for is kept as it came;
-- the same code as behind the API takes it in, within a second. A rollback leaves nothing.

CREATE TABLE requests (
    id uuid NOT NULL,                      -- the notification that comes of it has the same
    organization_id uuid NOT NULL,
    item jsonb,                            -- as it came; gone once nobody needs it
    bytes integer NOT NULL,                -- of the item as text
    starts integer NOT NULL DEFAULT 0,     -- how often it was taken and not given back
    taken_until timestamptz,               -- for so long whoever took it has it to itself
    erased_at timestamptz,                 -- its recipient was erased while it waited: nothing is sent
    drained_at timestamptz,                -- null: it waits. What became a notification is deleted
    repeats uuid,                          -- … and what repeats an event names the first one,
    faults jsonb,                          -- … and what is invalid says why
    CONSTRAINT requests_pkey PRIMARY KEY (id),
    CONSTRAINT requests_have_one_end CHECK (
        num_nonnulls(repeats, faults) = CASE WHEN drained_at IS NULL THEN 0 ELSE 1 END
    ),
    CONSTRAINT requests_waiting_have_an_item CHECK (drained_at IS NOT NULL OR item IS NOT NULL),
    CONSTRAINT requests_only_waiting_are_taken CHECK (taken_until IS NULL OR drained_at IS NULL)
) WITH (
    -- Nearly every row is deleted within a second: what is left of it must not be walked over.
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000
);
CREATE INDEX requests_waiting ON requests (organization_id, id)
WHERE drained_at IS NULL AND taken_until IS NULL;
CREATE INDEX requests_taken ON requests (taken_until) WHERE taken_until IS NOT NULL;
CREATE INDEX requests_repeats ON requests (drained_at) WHERE repeats IS NOT NULL;
CREATE INDEX requests_invalid ON requests (organization_id, id) WHERE faults IS NOT NULL;

GRANT SELECT, DELETE ON requests TO sendoff_service;
GRANT UPDATE (item, starts, taken_until, erased_at, drained_at, repeats, faults) ON requests TO sendoff_service;

DO $$
BEGIN
    CREATE ROLE sendoff_producer NOLOGIN;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL; -- roles are shared by a server's databases
END
$$;

-- It runs as the owner, so that its callers need no right to any table; hence the fixed path, with
-- what a caller could put in its way last. It checks nothing that the drain can say better later.
CREATE FUNCTION enqueue_notification(organization uuid, item jsonb) RETURNS uuid
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    id uuid := uuidv7();
    bytes integer := octet_length(item::text);
BEGIN
    IF organization IS NULL OR item IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'null_value_not_allowed',
            MESSAGE = 'enqueue_notification needs an organization and an item.',
            HINT = 'The item is a JSON object, as one of POST /v1/notifications.';
    END IF;
    IF bytes > 1048576 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'program_limit_exceeded',
            MESSAGE = format('The item has %s bytes; it may have at most 1048576.', bytes),
            HINT = 'Contents that large are for a link in the message.';
    END IF;
    IF NOT EXISTS (SELECT FROM public.organizations AS o WHERE o.id = organization) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'foreign_key_violation',
            MESSAGE = format('There is no organization %s.', organization),
            HINT = '`sendoff tenant list` shows the organizations and their ids.';
    END IF;
    INSERT INTO public.requests (id, organization_id, item, bytes)
    VALUES (id, organization, item, bytes);
    RETURN id;
END
$$;
REVOKE ALL ON FUNCTION enqueue_notification(uuid, jsonb) FROM public;
GRANT EXECUTE ON FUNCTION enqueue_notification(uuid, jsonb) TO sendoff_producer;
COMMENT ON FUNCTION enqueue_notification(uuid, jsonb) IS
'Asks for a notification as part of this transaction; returns the id that it will have.';
