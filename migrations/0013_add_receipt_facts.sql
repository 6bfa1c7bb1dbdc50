-- What a report tells about the address itself: refused by the provider's own list, and with which
-- provenance it is suppressed.
ALTER TABLE receipts ADD COLUMN refused boolean NOT NULL DEFAULT false;
ALTER TABLE receipts ADD COLUMN fact jsonb;      -- reason, source, evidence

GRANT UPDATE (refused, fact) ON receipts TO sendoff_operator;
