-- After the columns were added: it reads the table without keeping writers out.
ALTER TABLE notifications VALIDATE CONSTRAINT notifications_template_has_a_version;
ALTER TABLE notifications VALIDATE CONSTRAINT notifications_parent_is_not_sent;
ALTER TABLE notifications VALIDATE CONSTRAINT notifications_child_has_a_place;
ALTER TABLE notifications VALIDATE CONSTRAINT notifications_contact_hash_is_a_digest;
