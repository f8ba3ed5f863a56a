"""Device policies: which node and which devices a pod gets, of those that it could have. Pure functions, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.exports import lazy

if TYPE_CHECKING:
    from dray.placement.policies.fragmentation import Fragmentation
    from dray.placement.policies.model import DevicePolicy, NodeState, PolicyError, Request, Setting
    from dray.placement.policies.registry import policy_names, policy_type
    from dray.placement.policies.scorer import Scorer
    from dray.placement.policies.workload import KnownWorkload

__all__ = [
    "DevicePolicy",
    "Fragmentation",
    "KnownWorkload",
    "NodeState",
    "PolicyError",
    "Request",
    "Scorer",
    "Setting",
    "policy_names",
    "policy_type",
]

__getattr__ = lazy(
    __name__,
    {
        "DevicePolicy": "model",
        "Fragmentation": "fragmentation",
        "KnownWorkload": "workload",
        "NodeState": "model",
        "PolicyError": "model",
        "Request": "model",
        "Scorer": "scorer",
        "Setting": "model",
        "policy_names": "registry",
        "policy_type": "registry",
    },
)
