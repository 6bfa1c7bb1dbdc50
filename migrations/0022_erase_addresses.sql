-- To forget an address everywhere. Intent is written once, so what takes it away are functions that
-- run as the owner and can do nothing else: the role of the functions may call them.

-- What is being forgotten. The record of a recipient goes first, and with it whatever says what else
-- there is of them: without this row a crash on the way would leave the rest for ever. It stays a
-- little longer, for what was being accepted meanwhile.
CREATE TABLE erasures (
    organization_id uuid NOT NULL,
    key text NOT NULL,                     -- id:<recipient_id>, or <channel>:<hash of the address>
    recipient_id text,                     -- null: of an address, whosoever
    channel text,                          -- of that address
    hashes bytea [] NOT NULL,              -- what notifications are found by
    addresses bytea [] NOT NULL,           -- of addresses that nobody else has: nothing is to name them
    spellings text [] NOT NULL,            -- of these, in lower case: until it is done, and no longer
    started_at timestamptz NOT NULL,       -- what is accepted later is not erased
    continued_at timestamptz NOT NULL,
    finished_at timestamptz,
    erased integer NOT NULL DEFAULT 0,
    CONSTRAINT erasures_pkey PRIMARY KEY (organization_id, key),
    CONSTRAINT erasures_channel_is_known CHECK (channel IN ('email', 'sms', 'push', 'webhook')),
    CONSTRAINT erasures_are_of_somebody CHECK ((recipient_id IS NULL) <> (channel IS NULL))
);

-- Reports about nothing that is known, by the address they are about.
CREATE INDEX receipts_orphaned_by_address ON receipts (recipient_hash) WHERE notification_id IS NULL;
-- Which addresses were erased: a report that comes later may be about none of the notifications.
CREATE INDEX notifications_erased
ON notifications ((coalesce(contact_hash, recipient_hash))) WHERE erased_at IS NOT NULL;

-- Whether words hold one of the spellings; telephone numbers however they are divided.
CREATE FUNCTION is_named(words text, spellings text []) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN EXISTS (
    SELECT FROM unnest(spellings) AS s (spelling)
    WHERE
        position(s.spelling IN lower(words)) > 0
        OR s.spelling ~ '^[0-9]+$'
        AND position(s.spelling IN regexp_replace(words, '[ ()./+-]', '', 'g')) > 0
);

-- Words as long as they hold no spelling, else null.
CREATE FUNCTION unless_named(words text, spellings text []) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN NOT public.is_named(words, spellings) THEN words END;

-- What a provider says, as long as it is a code: its prose may hold an address in any spelling, also
-- one that is known here by its hash alone.
CREATE FUNCTION code_or_null(words text, spellings text []) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN words ~ '^[A-Za-z0-9][A-Za-z0-9_.:/ -]{0,63}$' AND words !~ '[0-9]{7}|://'
        THEN public.unless_named(words, spellings)
END;

-- Only of what was erased, or of nothing that is known.
CREATE FUNCTION erase_receipts(ids uuid [], spellings text []) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = ''
BEGIN ATOMIC
UPDATE public.receipts AS r
SET
    raw = '',
    reason = public.code_or_null(r.reason, spellings),
    fact = r.fact - 'evidence',
    type = coalesce(public.code_or_null(r.type, spellings), 'erased'),
    reference = public.unless_named(r.reference, spellings),
    idempotency_key = public.unless_named(r.idempotency_key, spellings),
    event_key = coalesce(public.unless_named(r.event_key, spellings), 'erased:' || r.id)
WHERE
    r.id = ANY(ids)
    AND (
        r.notification_id IS NULL
        OR EXISTS (
            SELECT FROM public.notifications AS n
            WHERE n.id = r.notification_id AND n.erased_at IS NOT NULL
        )
    );
END;

-- The intent of notifications, and what others said of them. Their hashes, codes and times stay. A
-- row's own address is looked for in its own words too.
CREATE FUNCTION erase_notifications(ids uuid [], spellings text [], moment timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = ''
BEGIN ATOMIC
UPDATE public.notifications AS n
SET
    recipient = NULL,
    recipient_id = CASE
        WHEN n.recipient_id IS NOT NULL
            THEN coalesce(public.unless_named(n.recipient_id, own.spellings), 'erased')
    END,
    content = 'null',
    metadata = '{}',
    reference = public.unless_named(n.reference, own.spellings),
    event_id = public.unless_named(n.event_id, own.spellings),
    reason = CASE
        WHEN n.reason IS NOT NULL
            THEN coalesce(public.code_or_null(n.reason, own.spellings), 'erased')
    END,
    erased_at = moment,
    updated_at = moment
FROM (
    SELECT
        m.id AS notification_id,
        CASE
            WHEN length(m.recipient) >= 6 THEN spellings || ltrim(lower(m.recipient), '+')
            ELSE spellings
        END AS spellings
    FROM public.notifications AS m
    WHERE m.id = ANY(ids)
) AS own
WHERE n.id = ANY(ids) AND n.id = own.notification_id AND n.erased_at IS NULL;

UPDATE public.attempts AS a
SET
    detail = NULL,
    code = public.code_or_null(a.code, spellings),
    reference = public.unless_named(a.reference, spellings)
WHERE a.notification_id = ANY(ids);

UPDATE public.transitions AS t
SET reason = NULL
WHERE
    t.notification_id = ANY(ids)
    AND t.reason IS NOT NULL AND public.code_or_null(t.reason, spellings) IS NULL;

SELECT public.erase_receipts(
    ARRAY(SELECT r.id FROM public.receipts AS r WHERE r.notification_id = ANY(ids)), spellings
);
END;

-- Facts go on suppressing: by the hash.
CREATE FUNCTION erase_facts(organization uuid, addresses bytea [], spellings text []) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = ''
BEGIN ATOMIC
UPDATE public.suppressions AS s
SET
    recipient = NULL,
    evidence = NULL,
    reason = coalesce(public.unless_named(s.reason, spellings), 'erased'),
    source = coalesce(public.unless_named(s.source, spellings), 'erased')
WHERE
    s.organization_id = organization
    AND s.channel IN ('email', 'sms', 'push', 'webhook')
    AND s.recipient_hash = ANY(addresses);
END;

-- Reports about nothing that is known: those about an address, and those that name nobody and spell
-- it.
CREATE FUNCTION erase_orphans(addresses bytea [], spellings text []) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = ''
BEGIN ATOMIC
SELECT public.erase_receipts(
    ARRAY(
        SELECT r.id FROM public.receipts AS r
        WHERE
            r.notification_id IS NULL AND r.raw <> ''
            AND r.recipient_hash = ANY(addresses)
    ) || ARRAY(
        SELECT r.id FROM public.receipts AS r
        WHERE
            r.notification_id IS NULL AND r.raw <> ''
            AND r.recipient_hash IS NULL
            AND public.is_named(encode(r.raw, 'escape'), spellings)
    ),
    spellings
);
END;

-- What operators noted with a command; only the address goes, for of everything else it is the record.
CREATE FUNCTION erase_notes(address text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = ''
BEGIN ATOMIC
UPDATE public.operator_actions AS o
SET
    arguments = regexp_replace(o.arguments::text, whole.word, 'erased', 'gi')::jsonb,
    result = regexp_replace(o.result::text, whole.word, 'erased', 'gi')::jsonb
FROM (
    SELECT
        '(?<![a-z0-9._%+-])' || regexp_replace(address, '([^a-z0-9@_])', '\\\1', 'g')
        || '(?![a-z0-9-])' AS word
) AS whole
WHERE
    address ~ '^[a-z0-9!#$%&''*+/=?^_`{|}~.-]+@[a-z0-9.-]+$|^\+[0-9]{7,15}$'
    AND (
        position(address IN lower(o.arguments::text)) > 0
        OR position(address IN lower(o.result::text)) > 0
    );
END;

REVOKE EXECUTE ON FUNCTION erase_receipts, erase_notifications, erase_facts, erase_orphans, erase_notes
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_receipts, erase_notifications, erase_facts, erase_orphans, erase_notes
TO sendoff_service;
GRANT SELECT, INSERT, DELETE ON erasures TO sendoff_service;
GRANT UPDATE (hashes, addresses, spellings, started_at, continued_at, finished_at, erased) ON erasures
TO sendoff_service;

-- Answers from before it was kept whose they are.
UPDATE idempotency_keys
SET notification_id = substring(response FROM '^\{"id":"([0-9a-f-]{36})"')::uuid
WHERE response IS NOT NULL AND notification_id IS NULL;
