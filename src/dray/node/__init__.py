"""The node agent: what a kubelet does for pods and their claims, on any Kubernetes API server.

``run`` is the entry point. Decisions are pure (``lifecycle``, ``status``); ``worker`` carries them out for one pod,
``agent`` holds a node together, ``dra`` is about claims and drivers.
"""

from dray.node.run import run

__all__ = ["run"]
