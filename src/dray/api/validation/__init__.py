"""Validation that every group shares: field paths and errors, names, metadata, addresses, node selectors, and the interface to CEL."""
