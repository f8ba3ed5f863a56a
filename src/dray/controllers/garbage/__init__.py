"""Garbage collection by owner references, for every kind a server has.

``graph`` knows who owns whom, ``deciding`` what that means for an object, ``monitors`` keeps the graph up to date, and
``collector`` does what was decided. The order of things and the preconditions are upstream's.
"""
