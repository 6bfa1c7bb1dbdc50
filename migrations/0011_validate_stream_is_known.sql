-- The lock that a validation needs lets reads and writes pass; the one that added it did not.
ALTER TABLE notifications VALIDATE CONSTRAINT notifications_stream_is_known;
