"""Sessions with containers over upgraded connections, in every protocol that clients use.

``handshake`` answers the request and picks the protocol; ``remotecommand_websocket`` and ``remotecommand_spdy`` carry a
command or an attached container, ``portforward`` carries forwarded ports; ``remotecommand`` is what both carriers of
commands have in common.
"""
