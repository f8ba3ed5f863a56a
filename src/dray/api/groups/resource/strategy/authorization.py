"""Who may ask for what beside the right to write the object: admin access, and parts of a claim's status."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.errors import forbidden
from dray.api.groups.resource.validation.checks import equal
from dray.api.groups.resource.validation.claimstatus import allocation_results
from dray.api.identity import shared_device_id
from dray.api.scheme.strategy import Context
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.resource import (
        AllocatedDeviceStatus,
        AllocationResult,
        DeviceRequest,
        ResourceClaim,
        ResourceClaimStatus,
    )

GROUP: Final = "resource.k8s.io"
ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
NODE_NAME_EXTRA: Final = "authentication.kubernetes.io/node-name"
_STATUS: Final = Path("status")


def admin_access(requests: Sequence[DeviceRequest], namespace: str, ctx: Context) -> list[FieldError]:
    """Admin access may be requested only in namespaces that are labelled for it."""
    for i, request in enumerate(requests):
        if (request.get("exactly") or {}).get("adminAccess"):
            # The path leaves out ``exactly`` and, in a template, the outer ``spec``: so does upstream.
            path = Path("spec").child("devices", "requests").index(i).child("adminAccess")
            return _labelled(namespace, path, ctx)
    return []


def admin_access_granted(new: ResourceClaim, old: ResourceClaim, ctx: Context) -> list[FieldError]:
    """The same for results of an allocation that is being written."""
    for i, result in enumerate(allocation_results(new.get("status") or {})):
        if result.get("adminAccess"):
            if any(known.get("adminAccess") for known in allocation_results(old.get("status") or {})):
                return []
            path = _STATUS.child("allocation", "devices", "results").index(i).child("adminAccess")
            return _labelled(new["metadata"].get("namespace", ""), path, ctx)
    return []


def _labelled(namespace: str, path: Path, ctx: Context) -> list[FieldError]:
    if not ctx.quirks.admin_access_needs_namespace_label:
        return []
    labels = ctx.namespace_labels(namespace)
    if labels is None:
        problem = f'could not retrieve namespace to verify admin access: namespaces "{namespace}" not found'
        return [field.internal(path, problem)]
    if labels.get(ADMIN_LABEL) == "true":
        return []
    problem = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
    return [field.forbidden(path, problem)]


def status_parts(new: ResourceClaim, old: ResourceClaim, ctx: Context) -> list[FieldError]:
    """Granular authorization: binding a claim and reporting on devices are rights of their own."""
    if "DRAResourceClaimGranularStatusAuthorization" not in ctx.gates:
        return []
    status, before = new.get("status") or {}, old.get("status") or {}
    errs = _binding(status, before, ctx)
    if "DRAResourceClaimDeviceStatus" in ctx.gates and status.get("allocation") is not None:
        errs += _devices(status, before, new["metadata"].get("namespace", ""), ctx)
    return errs


def _binding(status: ResourceClaimStatus, before: ResourceClaimStatus, ctx: Context) -> list[FieldError]:
    if equal(status.get("allocation"), before.get("allocation")) and equal(
        status.get("reservedFor"), before.get("reservedFor")
    ):
        return []
    if ctx.allows(ctx.verb, GROUP, "resourceclaims", "binding", "", ""):
        return []
    needs = f'resource="resourceclaims/binding", verb="{ctx.verb}" permission'
    why = _refusal(ctx, ctx.verb, "binding", "", "")
    problem = f"changing status.allocation or status.reservedFor requires {needs}: {why}"
    return [field.forbidden(_STATUS.child("allocation"), problem)]


def _devices(
    status: ResourceClaimStatus, before: ResourceClaimStatus, namespace: str, ctx: Context
) -> list[FieldError]:
    devices, devices_before = status.get("devices") or (), before.get("devices") or ()
    if not devices and not devices_before:
        return []
    drivers = _changed_drivers(devices, devices_before)
    if not drivers:
        return []
    verbs = [f"arbitrary-node:{ctx.verb}"]
    if _runs_on(ctx, _allocated_node(status.get("allocation") or {})):
        verbs.insert(0, f"associated-node:{ctx.verb}")
    errs = []
    for driver in sorted(drivers):
        if any(ctx.allows(verb, GROUP, "resourceclaims", "driver", namespace, driver) for verb in verbs):
            continue
        needs = f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission'
        why = _refusal(ctx, verbs[0], "driver", namespace, driver)
        problem = f"changing status.devices requires {needs}: {why}"
        errs.append(field.forbidden(_STATUS.child("devices"), problem))
    return errs


def _changed_drivers(
    devices: Sequence[AllocatedDeviceStatus], before: Sequence[AllocatedDeviceStatus]
) -> set[str]:
    """Drivers whose entries were added, removed or changed."""
    old = {shared_device_id(device): device for device in before}
    changed = set()
    for device in devices:
        was = old.pop(shared_device_id(device), None)
        if was is None or not equal(was, device):
            changed.add(device.get("driver", ""))
    return changed | {device.get("driver", "") for device in old.values()}


def _allocated_node(allocation: AllocationResult) -> str:
    """The node of an allocation that names exactly one."""
    selector = allocation.get("nodeSelector") or {}
    match selector.get("nodeSelectorTerms"):
        case [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}], **rest}]:
            return "" if rest.get("matchExpressions") else str(node)
        case _:
            return ""


def _runs_on(ctx: Context, node: str) -> bool:
    """Whether the caller is a service account whose token is bound to a pod on that node."""
    if not node or not re.fullmatch(r"system:serviceaccount:[^:]+:[^:]+", ctx.user.name):
        return False
    return tuple(ctx.user.extra.get(NODE_NAME_EXTRA, ())) == (node,)


def _refusal(ctx: Context, verb: str, subresource: str, namespace: str, name: str) -> str:
    """What the authorizer's refusal of a synthetic subresource reads like."""
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    what = f'resource "resourceclaims/{subresource}" in API group "{GROUP}"'
    user = field.quote(ctx.user.name)
    return forbidden("resourceclaims", GROUP, name, f"User {user} cannot {verb} {what} {where}").message
