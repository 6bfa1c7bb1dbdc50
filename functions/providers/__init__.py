"""The outside world: one module per provider, each with its code table as data."""
