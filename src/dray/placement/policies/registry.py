"""Device policies by name: those that come with dray, and those of other packages (entry points ``dray.policies``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from dray.placement.policies.fragmentation import FGD
from dray.placement.policies.model import DevicePolicy, PolicyError
from dray.placement.policies.published import BestFit, DotProd, GpuClustering, GpuPacking, Random
from dray.placement.policies.standard import Default, Pack, Spread

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "dray.policies"

BUILT_IN: Mapping[str, type[DevicePolicy]] = {
    policy.name: policy
    for policy in (Default, Pack, Spread, Random, BestFit, DotProd, GpuPacking, GpuClustering, FGD)
}


@cache
def _installed() -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def policy_names() -> list[str]:
    """Every policy that can be named; those that come with dray first."""
    return [*BUILT_IN, *(name for name in sorted(_installed()) if name not in BUILT_IN)]


def policy_type(name: str | type[DevicePolicy]) -> type[DevicePolicy]:
    """The policy of this name; a policy itself is taken as it is."""
    if not isinstance(name, str):
        return name
    found = BUILT_IN.get(name)
    if found is not None:
        return found
    point = _installed().get(name)
    if point is None:
        raise PolicyError(f"there is no device policy {name!r}; there are {', '.join(policy_names())}")
    try:
        loaded = point.load()
    except Exception as problem:  # whatever the package of somebody else raises
        raise PolicyError(
            f"device policy {name!r} cannot be loaded from {point.value}: {type(problem).__name__}: {problem}"
        ) from problem
    if not (isinstance(loaded, type) and issubclass(loaded, DevicePolicy)):
        raise PolicyError(f"device policy {name!r}: {point.value} is not a subclass of DevicePolicy")
    return loaded
