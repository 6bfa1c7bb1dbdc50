"""PostgreSQL: each statement stands beside the one function that runs it."""
