"""The floor for connections: HTTP/1.1 at both ends, WebSocket, SPDY, unix sockets. It knows nothing of Kubernetes and imports no other package of dray."""
