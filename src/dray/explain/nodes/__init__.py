"""Nodes: the scheduler's filters and allocation tried on each of them, what keeps a pod off, and what if."""
