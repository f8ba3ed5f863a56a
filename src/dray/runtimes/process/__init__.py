"""Containers as children of this host: no images, but real processes in namespaces of their own.

``supervisor`` is a small process beside the node agent that starts and watches them and writes their logs; it
outlives an agent that crashes. ``children`` forks them, ``isolation`` is what happens between fork and exec, and
``runtime`` is the agent's side. All but the last use the standard library only: they start in milliseconds and stay
small.
"""
