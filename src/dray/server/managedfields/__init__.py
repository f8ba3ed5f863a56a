"""Managed fields: which manager owns which field of an object, and the types by which ownership is told."""
