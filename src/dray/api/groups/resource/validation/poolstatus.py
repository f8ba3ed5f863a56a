"""ResourcePoolStatusRequests: a question asked once and answered once.

Upstream states these rules declaratively, hence the words that differ from those of the other kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.validation import field, names, objectmeta
from dray.api.validation.field import Path
from dray.api.validation.names import size

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha3 import (
        PoolStatus,
        ResourcePoolStatusRequestSpec,
        ResourcePoolStatusRequestStatus,
    )

_MAX_LIMIT: Final = 1000
_MAX_POOLS: Final = 1000
_MAX_CONDITIONS: Final = 10
_COUNTS: Final = ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")


def pool_status_spec(spec: ResourcePoolStatusRequestSpec, path: Path, errs: Errors) -> None:
    _driver(spec, path, errs)
    if (pool := spec.get("poolName")) is not None:
        if errs.declared and not pool:
            errs.append(field.invalid(path.child("poolName"), "", "segment 0: must not be empty"))
        else:
            checks.pool_name(pool, path.child("poolName"), errs)
    if (attribute := spec.get("defaultPartitionTypeAttribute")) is not None:
        checks.fully_qualified_name(attribute, path.child("defaultPartitionTypeAttribute"), errs)
    if (limit := spec.get("limit")) is not None:
        _minimum(limit, 1, path.child("limit"), errs)
        if limit > _MAX_LIMIT:
            errs.append(
                field.invalid(path.child("limit"), limit, f"must be less than or equal to {_MAX_LIMIT}")
            )


def pool_status(status: ResourcePoolStatusRequestStatus, path: Path, errs: Errors) -> None:
    """The answer, when it is given."""
    conditions = status.get("conditions") or ()
    errs += objectmeta.validate_conditions(conditions, path.child("conditions"), declared=errs.declared)
    if (count := status.get("poolCount")) is None:
        errs.append(field.required(path.child("poolCount")))
    else:
        _minimum(count, 0, path.child("poolCount"), errs)
    pools = status.get("pools") or ()
    if checks.within(pools, _MAX_POOLS, path, "pools", errs):
        for i, pool in enumerate(pools):
            _pool(pool, path.child("pools").index(i), errs)
    checks.within(conditions, _MAX_CONDITIONS, path, "conditions", errs)


def _pool(pool: PoolStatus, path: Path, errs: Errors) -> None:
    _driver(pool, path, errs)
    if name := pool.get("poolName", ""):
        checks.pool_name(name, path.child("poolName"), errs)
    else:
        errs.append(field.required(path.child("poolName")))
    _minimum(pool.get("generation", 0), 0, path.child("generation"), errs)
    if (slices := pool.get("resourceSliceCount")) is not None:
        _minimum(slices, 1, path.child("resourceSliceCount"), errs)
    counts: Mapping[str, Any] = pool
    for name in _COUNTS:
        if (count := counts.get(name)) is not None:
            _minimum(count, 0, path.child(name), errs)
    if (node := pool.get("nodeName")) is not None:
        checks.subdomain(node, path.child("nodeName"), errs)
    if size(pool.get("validationError") or "") > 256:
        errs.append(field.too_long(path.child("validationError"), 256))


def _driver(parent: PoolStatus | ResourcePoolStatusRequestSpec, path: Path, errs: Errors) -> None:
    driver = parent.get("driver", "")
    if not driver:
        errs.append(field.required(path.child("driver")))
        return
    checks.refuse(errs, path.child("driver"), driver, names.dns1123_subdomain_caseless(driver))


def _minimum(value: int, least: int, path: Path, errs: Errors) -> None:
    if value < least:
        errs.append(field.invalid(path, value, f"must be greater than or equal to {least}"))
