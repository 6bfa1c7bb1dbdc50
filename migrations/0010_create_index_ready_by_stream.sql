-- The claim takes the streams of a channel by turns.
CREATE INDEX notifications_ready_by_stream
ON notifications (channel, stream, priority, organization_id, available_at, id)
WHERE status = 'pending' AND ready;
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX notifications_ready;
