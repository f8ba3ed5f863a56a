"""Tools that look at a cluster, or at a file, and say in words what is going on with its devices.

Everything works on a ``Snapshot``: gathered from an API server, read from a file, or made of manifests. What is found
out is plain frozen data; turning it into text, JSON or a table is the command line's part.
"""

from dray.explain.model.cluster import Cluster
from dray.explain.model.snapshot import Snapshot, SnapshotError

__all__ = ["Cluster", "Snapshot", "SnapshotError"]
