"""Words: versions of templates, checked when they are made and rendered within limits."""
