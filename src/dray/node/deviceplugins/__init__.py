"""Device plugins, from before DRA: they offer devices as counts of an extended resource, and the node hands them out.

``manager`` does the talking, ``allocation`` is what is decided without it, ``endpoint`` is one plugin.
"""
