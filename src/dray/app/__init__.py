"""Wiring: the only place that knows every part. It reads options, lays out the data directory, and runs components."""
