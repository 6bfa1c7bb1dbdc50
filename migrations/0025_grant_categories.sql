-- Operators declare which categories are transactional; what else is declared of them they may write
-- since 0017.
GRANT UPDATE (transactional_categories) ON organizations TO sendoff_operator;
