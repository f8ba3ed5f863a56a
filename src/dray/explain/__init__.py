"""Explanations of a cluster's devices, claims and pods: why a pod is pending, which devices are free, what would fit.

Everything works on a ``Snapshot``: collected from an API server, read from a file, or made of manifests. The results are
frozen data, which the command line prints as text, JSON or a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.exports import lazy

if TYPE_CHECKING:
    from dray.explain.devices.states import DeviceState, DeviceView, list_devices
    from dray.explain.explainer import explain_claim, explain_pod
    from dray.explain.model.cluster import Cluster
    from dray.explain.model.collector import collect_snapshot
    from dray.explain.model.explanation import Explanation
    from dray.explain.model.snapshot import Snapshot, SnapshotError
    from dray.explain.model.snapshot import load as load_snapshot
    from dray.explain.model.snapshot import save as save_snapshot

__all__ = [
    "Cluster",
    "DeviceState",
    "DeviceView",
    "Explanation",
    "Snapshot",
    "SnapshotError",
    "collect_snapshot",
    "explain_claim",
    "explain_pod",
    "list_devices",
    "load_snapshot",
    "save_snapshot",
]

__getattr__ = lazy(
    __name__,
    {
        "Cluster": "model.cluster",
        "DeviceState": "devices.states",
        "DeviceView": "devices.states",
        "Explanation": "model.explanation",
        "Snapshot": "model.snapshot",
        "SnapshotError": "model.snapshot",
        "collect_snapshot": "model.collector",
        "explain_claim": "explainer",
        "explain_pod": "explainer",
        "list_devices": "devices.states",
        "load_snapshot": "model.snapshot:load",
        "save_snapshot": "model.snapshot:save",
    },
)
