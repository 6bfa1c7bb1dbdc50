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
    own_spellings text [] NOT NULL,        -- … and of all that they had: for what was theirs
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

-- An address that a recipient had before is kept behind the recipient until that is erased: only who
-- knows it can find the texts that name it.
ALTER TABLE contact_hashes ADD COLUMN address text;
CREATE INDEX contact_hashes_by_address ON contact_hashes (organization_id, channel, address_hash);

-- What stands for words that name somebody: known again by those who say the same words, and no more.
CREATE FUNCTION as_digest(words text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN words ~ '^sha256:[0-9a-f]{64}$' THEN words
    ELSE 'sha256:' || encode(sha256(convert_to(words, 'UTF8')), 'hex')
END;

-- Whether words hold one of the spellings, be it as a part of something else; telephone numbers
-- however they are divided. It is asked of what was somebody's own, where too much costs nothing.
CREATE FUNCTION is_spelt(words text, spellings text []) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN EXISTS (
    SELECT FROM unnest(spellings) AS s (spelling)
    WHERE
        position(s.spelling IN lower(words)) > 0
        OR position(left(s.spelling, 1) IN '0123456789') > 0 AND s.spelling ~ '^[0-9]+$'
        AND position(ltrim(s.spelling, '0') IN regexp_replace(words, '[^0-9]', '', 'g')) > 0
);

-- A regular expression for a spelling where it ends on both sides: john@example.com is not
-- n@example.com, nor 16834002 the number 6834002. A number that begins with 0 has no country's code,
-- and is none that has another one. A letter that belongs to an escape (\n, \u003c, %20)
-- ends it too.
CREATE FUNCTION bounded(spelling text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN spelling ~ '^[0-9]+$'
        THEN
            CASE
                WHEN spelling ~ '^0' THEN '(?<![0-9+]|[+][0-9]{1,3}[^0-9a-z]{0,3})0?'
                ELSE '(?<![0-9])[+]?(?:00|011)?'
            END
            || left(ltrim(spelling, '0'), 1)
            || regexp_replace(substr(ltrim(spelling, '0'), 2), '(.)', '[^0-9a-z",:;\\\\{}[\]]{0,3}\1', 'g')
            || '(?![0-9])'
    ELSE
        '(?<![a-z0-9' || CASE WHEN spelling ~ '@|%40' THEN '._%+-' ELSE '_-' END || ']'
        || '(?<!\\[nrtbf]|\\u00[0-9a-f][0-9a-f]|%(?:0[9ad]|2[02678cf]|3[a-f]|5[bd]|7[bcd])))'
        || regexp_replace(spelling, '([][\\.^$*+?(){}|])', '\\\1', 'g')
        || CASE
            WHEN spelling ~ '://|%3a%2f%2f' THEN '(?![a-z0-9_~%=&@+]|[./?#-]+[a-z0-9])'
            WHEN spelling ~ '@|%40' THEN '(?![a-z0-9_]|(?:-[a-z0-9-]*)?[.][a-z0-9-]*[a-z])'
            ELSE '(?![a-z0-9_-])'
        END
END;

-- Whether words name an address in one of the spellings, and not something that is only like it. It
-- is asked of what may be somebody else's.
CREATE FUNCTION is_named(words text, spellings text []) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN public.is_spelt(words, spellings) AND EXISTS (
    SELECT FROM unnest(spellings) AS s (spelling)
    WHERE public.is_spelt(words, ARRAY[s.spelling]) AND lower(words) ~ public.bounded(s.spelling)
);

-- Words as long as they hold no spelling, else null; or else their digest.
CREATE FUNCTION unless_spelt(words text, spellings text []) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN NOT public.is_spelt(words, spellings) THEN words END;

-- A UUID names nobody, whatever digits it has: an attempt's is evidence.
CREATE FUNCTION digest_if_spelt(words text, spellings text []) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN words !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' AND public.is_spelt(words, spellings)
        THEN public.as_digest(words)
    ELSE words
END;

-- What a provider says, as long as it is a code: its prose may hold an address in any spelling, also
-- one that is known here by its hash alone.
CREATE FUNCTION code_or_null(words text, spellings text []) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN words ~ '^[A-Za-z0-9][A-Za-z0-9_.:/ -]{0,63}$' AND words !~ '[0-9]{7}|://'
        THEN public.unless_spelt(words, spellings)
END;

-- What a provider said to an attempt, or of it what stays once the notification was erased.
CREATE FUNCTION unless_erased(notification uuid, said_reference text, said_code text, said_detail text)
RETURNS TABLE (reference text, code text, detail text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
SELECT
    CASE WHEN n.erased_at IS NULL THEN said_reference ELSE public.as_digest(said_reference) END,
    CASE WHEN n.erased_at IS NULL THEN said_code ELSE public.code_or_null(said_code, '{}') END,
    CASE WHEN n.erased_at IS NULL THEN said_detail END
FROM public.notifications AS n
WHERE n.id = notification;
END;

-- Of a report what names somebody goes. It is still the same report when it comes once more, and it
-- is still about what its reference says: by digests, each found by who knows the words. What is
-- about nothing that is known may be about something of somebody else, and keeps its reference
-- unless that names the address.
CREATE FUNCTION strip_receipts(ids uuid [], spellings text []) RETURNS void
LANGUAGE sql SET search_path = ''
BEGIN ATOMIC
UPDATE public.receipts AS r
SET
    raw = '',
    reason = public.code_or_null(r.reason, spellings),
    fact = r.fact - 'evidence',
    type = coalesce(public.code_or_null(r.type, spellings), 'erased'),
    reference = CASE
        WHEN r.notification_id IS NOT NULL OR public.is_named(r.reference, spellings)
            THEN public.digest_if_spelt(r.reference, spellings)
        ELSE r.reference
    END,
    idempotency_key = CASE
        WHEN r.notification_id IS NULL AND NOT public.is_named(r.idempotency_key, spellings)
            THEN r.idempotency_key
        ELSE public.unless_spelt(r.idempotency_key, spellings)
    END,
    event_key = public.digest_if_spelt(r.event_key, spellings)
WHERE r.id = ANY(ids);
END;

-- What is told of a notification after it was erased. Of its address nothing is known any more but
-- the hash, so whatever is no code of a provider may name it.
CREATE FUNCTION erase_late_receipts(ids uuid []) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = ''
BEGIN ATOMIC
UPDATE public.receipts AS r
SET
    raw = '',
    reason = public.code_or_null(r.reason, '{}'),
    fact = r.fact - 'evidence',
    type = coalesce(public.code_or_null(r.type, '{}'), 'erased'),
    reference = public.as_digest(r.reference),
    idempotency_key = substring(r.idempotency_key FROM '^[0-9a-fA-F.-]{36,73}$'),
    event_key = public.as_digest(r.event_key)
WHERE
    r.id = ANY(ids)
    AND EXISTS (
        SELECT FROM public.notifications AS n
        WHERE n.id = r.notification_id AND n.erased_at IS NOT NULL
    );
END;

-- The intent of notifications, and what others said of them. Their hashes, codes and times stay.
CREATE FUNCTION strip_notifications(ids uuid [], spellings text [], moment timestamptz) RETURNS void
LANGUAGE sql SET search_path = ''
BEGIN ATOMIC
UPDATE public.notifications AS n
SET
    recipient = NULL,
    recipient_id = CASE
        WHEN n.recipient_id IS NOT NULL
            THEN coalesce(public.unless_spelt(n.recipient_id, spellings), 'erased')
    END,
    content = 'null',
    metadata = '{}',
    origin = NULL,
    reference = public.unless_spelt(n.reference, spellings),
    event_id = public.digest_if_spelt(n.event_id, spellings),
    evidence_key = public.digest_if_spelt(n.evidence_key, spellings),
    reason = CASE
        WHEN n.reason IS NOT NULL
            THEN coalesce(public.code_or_null(n.reason, spellings), 'erased')
    END,
    erased_at = moment,
    updated_at = moment
WHERE n.id = ANY(ids) AND n.erased_at IS NULL;

UPDATE public.attempts AS a
SET
    detail = NULL,
    code = public.code_or_null(a.code, spellings),
    reference = public.digest_if_spelt(a.reference, spellings)
WHERE a.notification_id = ANY(ids);

UPDATE public.transitions AS t
SET reason = NULL
WHERE
    t.notification_id = ANY(ids)
    AND t.reason IS NOT NULL AND public.code_or_null(t.reason, spellings) IS NULL;

SELECT public.strip_receipts(
    ARRAY(SELECT r.id FROM public.receipts AS r WHERE r.notification_id = ANY(ids)), spellings
);
END;

-- Their own addresses are looked for too.
CREATE FUNCTION erase_notifications(ids uuid [], spellings text [], moment timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = ''
BEGIN ATOMIC
SELECT public.strip_notifications(
    ids,
    spellings || ARRAY(
        SELECT DISTINCT ltrim(lower(n.recipient), '+') FROM public.notifications AS n
        WHERE n.id = ANY(ids) AND length(n.recipient) >= 6
    ),
    moment
);
END;

-- What an earlier address left at notifications that went on to another one. They are not over, and
-- stay as they are.
CREATE FUNCTION erase_traces(ids uuid [], addresses bytea [], spellings text []) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = ''
BEGIN ATOMIC
UPDATE public.attempts AS a
SET
    detail = public.unless_spelt(a.detail, spellings),
    code = public.unless_spelt(a.code, spellings),
    reference = public.digest_if_spelt(a.reference, spellings)
WHERE a.notification_id = ANY(ids);

UPDATE public.transitions AS t
SET reason = NULL
WHERE t.notification_id = ANY(ids) AND public.is_spelt(t.reason, spellings);

SELECT public.strip_receipts(
    ARRAY(
        SELECT r.id FROM public.receipts AS r
        WHERE
            r.notification_id = ANY(ids)
            AND (
                r.recipient_hash = ANY(addresses)
                OR public.is_named(encode(r.raw, 'escape'), spellings)
            )
    ),
    spellings
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
    reason = coalesce(public.unless_spelt(s.reason, spellings), 'erased'),
    source = coalesce(public.unless_spelt(s.source, spellings), 'erased')
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
SELECT public.strip_receipts(
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

-- JSON without the address. A number in it, and not in a text, becomes 0.
CREATE FUNCTION unnamed(document jsonb, spelling text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CAST(
    CASE
        WHEN NOT public.is_named(document::text, ARRAY[spelling]) THEN document::text
        WHEN
            regexp_replace(document::text, public.bounded(spelling), 'erased', 'gi') IS JSON
            THEN regexp_replace(document::text, public.bounded(spelling), 'erased', 'gi')
        WHEN
            regexp_replace(document::text, public.bounded(spelling), '0', 'gi') IS JSON
            THEN regexp_replace(document::text, public.bounded(spelling), '0', 'gi')
        ELSE '{"erased": true}'
    END AS jsonb
);

-- What operators noted with a command; only the address goes, for of everything else it is the
-- record. What was done for one organization is not for another to change.
CREATE FUNCTION erase_notes(organization uuid, spelling text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = ''
BEGIN ATOMIC
UPDATE public.operator_actions AS o
SET
    arguments = public.unnamed(o.arguments, spelling),
    result = public.unnamed(o.result, spelling)
WHERE
    (public.is_named(o.arguments::text, ARRAY[spelling]) OR public.is_named(o.result::text, ARRAY[spelling]))
    AND coalesce(
        coalesce(o.arguments ->> 'organization_id', o.arguments ->> 'organization') IN (
            organization::text,
            (SELECT n.name FROM public.organizations AS n WHERE n.id = organization)
        ),
        NOT o.arguments ?| '{organization_id,organization}'
    );
END;

REVOKE EXECUTE ON FUNCTION
strip_receipts, strip_notifications, erase_late_receipts, erase_notifications, erase_traces, erase_facts,
erase_orphans, erase_notes
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
erase_late_receipts, erase_notifications, erase_traces, erase_facts, erase_orphans, erase_notes
TO sendoff_service;
GRANT SELECT, INSERT, DELETE ON erasures TO sendoff_service;
GRANT UPDATE (
    hashes, addresses, spellings, own_spellings, started_at, continued_at, finished_at, erased
) ON erasures TO sendoff_service;
GRANT UPDATE (address) ON contact_hashes TO sendoff_service;
GRANT UPDATE (key) ON idempotency_keys TO sendoff_service;

-- Answers from before it was kept whose they are.
UPDATE idempotency_keys
SET notification_id = substring(response FROM '^\{"id":"([0-9a-f-]{36})"')::uuid
WHERE response IS NOT NULL AND notification_id IS NULL;
