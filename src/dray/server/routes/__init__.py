"""Paths that are about no resource: discovery, OpenAPI, health checks, version, metrics and the index."""
