"""The scheduler's cache: nodes with their pods, claims and devices, and what is assumed but not written yet.

The owner of a cache fills it: the scheduler from its informers, ``dray explain`` from a snapshot.
"""
