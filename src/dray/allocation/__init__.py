"""Allocation of devices to claims: a snapshot and the claims of a pod in, a plan or reasons out.

``allocate`` is a pure function. ``Inventory`` (slices and classes) and ``Usage`` (what claims have allocated) are kept
up to date by whoever watches the cluster; an allocation only reads them.
"""

from dray.allocation.allocator import Plan, Unallocatable, allocate
from dray.allocation.errors import AllocationError, AllocationTimeout
from dray.allocation.features import Features
from dray.allocation.inventory import Inventory
from dray.allocation.policies import DEFAULT, PACK, POLICIES, SPREAD, Policy
from dray.allocation.reasons import Cause, Miss, Reasons, Removal, RequestReasons
from dray.allocation.usage import Usage
from dray.api.identity import DeviceID, PoolID

__all__ = [
    "DEFAULT",
    "PACK",
    "POLICIES",
    "SPREAD",
    "AllocationError",
    "AllocationTimeout",
    "Cause",
    "DeviceID",
    "Features",
    "Inventory",
    "Miss",
    "Plan",
    "Policy",
    "PoolID",
    "Reasons",
    "Removal",
    "RequestReasons",
    "Unallocatable",
    "Usage",
    "allocate",
]
