"""One module a verb. A handler takes a ``Call`` and returns a ``Response``; it knows nothing of HTTP."""
