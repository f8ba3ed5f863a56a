"""Devices: their states and health, which of them look the same, and what selectors see of them."""
