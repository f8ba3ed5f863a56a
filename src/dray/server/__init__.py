"""The API server: endpoints, handlers, registry, watch cache, admission, authentication and authorization.

A write goes from the wire through the codec of its version and the hub version into the store; the watch cache follows
the store, and watches follow the watch cache.
"""
