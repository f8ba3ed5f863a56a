"""Resizing a running pod: more or less cpu and memory, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api import pods
from dray.api.groups.core.pod.options import Part, PodValidationOptions
from dray.api.groups.core.pod.resources import is_sidecar, qos_class
from dray.api.scheme.strategy import SPEC, keep_fields
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod, PodSpec

_RESIZABLE: Final = ("cpu", "memory")
_ONLY: Final = "only cpu and memory resources are mutable"


def keep_all_but_resources(new: Pod, old: Pod, opts: PodValidationOptions) -> None:
    """Undo every change that is no resize; containers added, removed or moved are left for validation to refuse."""
    spec, before = new["spec"], old["spec"]
    if any(len(spec.get(p) or ()) != len(before.get(p) or ()) for p in ("containers", "initContainers")):
        return
    kept = before.copy()
    if spec.get("containers"):
        kept["containers"] = _with_resources(spec["containers"], before["containers"])
    if spec.get("initContainers"):
        kept["initContainers"] = _with_resources(spec["initContainers"], before["initContainers"])
    if opts.on("InPlacePodLevelResourcesVerticalScaling"):
        kept.pop("resources", None)
        if spec.get("resources") is not None:
            kept["resources"] = spec["resources"]
    new["spec"] = kept


def _with_resources(new: Sequence[Container], old: Sequence[Container]) -> list[Container]:
    if any(a.get("name") != b.get("name") for a, b in zip(new, old, strict=True)):
        return list(new)
    merged: list[Container] = []
    for container, before in zip(new, old, strict=True):
        kept = before.copy()
        keep_fields(kept, container, "resources", "resizePolicy")
        merged.append(kept)
    return merged


def check_resize(new: Pod, old: Pod, opts: PodValidationOptions) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    if pods.is_mirror(old):
        return [field.forbidden(Path("[]"), "static pods cannot be resized")]
    if (before.get("os") or {}).get("name") == "windows":
        return [field.forbidden(Path("[]"), "windows pods cannot be resized")]
    found: list[FieldError] = []
    quality = old.get("status", {}).get("qosClass") or qos_class(before)
    if quality != qos_class(spec):
        words = "Pod QOS Class may not change as a result of resizing"
        found.append(field.invalid(SPEC, new.get("status", {}).get("qosClass", ""), words))
    if not opts.resizes_with_claims and old.get("status", {}).get("nodeAllocatableResourceClaimStatuses"):
        words = "pods with node allocatable resource claims cannot be resized"
        found.append(field.forbidden(SPEC, words))
    if wrong := _check_order(spec, before):
        return found + wrong
    for part in ("initContainers", "containers"):
        for i, (container, other) in enumerate(
            zip(spec.get(part) or (), before.get(part) or (), strict=True)
        ):
            if part == "containers" or is_sidecar(other):
                found += _check_kept(container, other, SPEC.child(part).index(i).child("resources"))
                has_claims = bool((other.get("resources") or {}).get("claims"))
                if (has_claims and not opts.resizes_with_claims) or (
                    _without_amounts(container) != _without_amounts(other)
                ):
                    found.append(field.forbidden(SPEC, _ONLY))
            elif container != other:
                words = "resources for non-sidecar init containers are immutable"
                found.append(field.forbidden(SPEC, words))
    return found


def _check_order(spec: PodSpec, before: PodSpec) -> list[FieldError]:
    found: list[FieldError] = []
    for part in ("containers", "initContainers"):
        new, old = spec.get(part) or (), before.get(part) or ()
        if len(new) != len(old):
            words = f"{part} may not be added or removed on resize"
            found.append(field.forbidden(SPEC.child(part), words))
            continue
        for i, (container, other) in enumerate(zip(new, old, strict=True)):
            if container.get("name") != other.get("name"):
                words = "containers may not be renamed or reordered on resize"
                found.append(field.forbidden(SPEC.child(part).index(i).child("name"), words))
    return found


def _check_kept(container: Container, before: Container, path: Path) -> list[FieldError]:
    asked, other = container.get("resources") or {}, before.get("resources") or {}
    return [
        field.forbidden(path.child(part), f"resource {part} cannot be removed")
        for part in ("requests", "limits")
        if set(other.get(part) or {}) - set(asked.get(part) or {})
    ]


def _without_amounts(container: Container) -> Part:
    asked = {
        part: {name: amount for name, amount in amounts.items() if name not in _RESIZABLE}
        if isinstance(amounts, dict)
        else amounts
        for part, amounts in (container.get("resources") or {}).items()
    }
    rest = {part: amounts for part, amounts in asked.items() if amounts}
    return {**{k: v for k, v in container.items() if k != "resizePolicy"}, "resources": rest}
