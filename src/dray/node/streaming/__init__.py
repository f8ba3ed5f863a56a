"""Sessions with containers over upgraded connections, in every way that clients know.

``handshake`` answers the request and picks the way; ``channels`` and ``commands`` carry a command or an attached
container over a WebSocket or SPDY, ``ports`` carries forwarded ports; ``conversation`` is what they all have in common.
"""
