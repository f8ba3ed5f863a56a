"""Authenticators: bearer tokens, service account tokens, bootstrap tokens, token files and client certificates."""
