-- The fourth that holds every final row: what went to an address is to be found when it is erased.
CREATE INDEX notifications_by_address
ON notifications (organization_id, (coalesce(contact_hash, recipient_hash)));
-- Children whose parent does not know yet how they stand.
CREATE INDEX notifications_untold ON notifications (updated_at)
WHERE parent_id IS NOT NULL AND status <> 'leased' AND told_status IS DISTINCT FROM status;
CREATE INDEX notifications_next_step ON notifications (next_step_at) WHERE next_step_at IS NOT NULL;
CREATE INDEX idempotency_keys_by_notification ON idempotency_keys (notification_id)
WHERE notification_id IS NOT NULL;
