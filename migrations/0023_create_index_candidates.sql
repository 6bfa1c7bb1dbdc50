-- No place of a chain is filled twice, whatever runs beside or dies in between.
CREATE UNIQUE INDEX notifications_candidates ON notifications (parent_id, candidate)
WHERE parent_id IS NOT NULL;
