"""Faults by plan and seed on a cluster of several machines, and checkers of the history that its clients saw."""
