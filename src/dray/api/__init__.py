"""The Kubernetes API as pure data: kinds, versions, defaulting, validation, conversion, printing, patching.

Nothing in this package does I/O, reads a clock or draws a random number.
"""
