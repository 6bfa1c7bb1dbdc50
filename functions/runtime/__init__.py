"""Lambda plumbing: settings, observability, queue, credentials."""
