"""Metric families, their registry and Prometheus' text format. Components define their own families with it."""
