-- What waits under a hold; none of it is final.
CREATE INDEX notifications_on_hold
ON notifications (hold_id, id) WHERE status = 'pending' AND hold_id IS NOT NULL;
