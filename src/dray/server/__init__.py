"""The API server: HTTP, verbs, admission, authentication, authorization, discovery, watch fan-out.

One direction: wire → versioned codec → hub → store → watch.
"""
