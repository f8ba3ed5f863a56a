"""Validation of the resource.k8s.io kinds, in upstream's order and words.

Checks append to a list of errors. On the happy path they only look: a ``Path`` is built when there is something to
report, which keeps a slice with 128 devices well below a millisecond or two.
"""
