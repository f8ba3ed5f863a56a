"""Served versions of the v1 generation: what each fills in by default, and how it maps to the hub and back.

The hub has the shape of v1. Objects are shared, so a codec copies whatever it changes.
"""
