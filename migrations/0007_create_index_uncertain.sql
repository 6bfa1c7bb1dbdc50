-- What waits for an operator's or the policy's word; a handful of rows, none of them final.
CREATE INDEX notifications_uncertain
ON notifications (channel, organization_id, id) WHERE status = 'uncertain';
