"""Where a container sees the pod's volumes: mounts and raw devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dray.api.groups.core.pod.options import Part
from dray.api.groups.core.pod.paths import check_descending, check_no_backsteps
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Container, EphemeralContainer

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def check_mounts(
    container: Container | EphemeralContainer, volumes: Mapping[str, Part], path: Path
) -> list[FieldError]:
    devices = {d.get("name", ""): d.get("devicePath", "") for d in container.get("volumeDevices") or ()}
    found: list[FieldError] = []
    taken: set[str] = set()
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        at, name, target = path.index(i), mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.append(field.required(at.child("name")))
        if name not in volumes:
            found.append(field.not_found(at.child("name"), name))
        if not target:
            found.append(field.required(at.child("mountPath")))
        if target in taken:
            found.append(field.invalid(at.child("mountPath"), target, "must be unique"))
        taken.add(target)
        if name in devices:
            found.append(field.invalid(at.child("name"), name, "must not already exist in volumeDevices"))
        if target in devices.values():
            words = "must not already exist as a path in volumeDevices"
            found.append(field.invalid(at.child("mountPath"), target, words))
        found += _check_sub_paths(mount, path, at)
        # Upstream reports these two without the index.
        found += _check_propagation(mount, container, path.child("mountPropagation"))
        found += _check_recursive(mount, path.child("recursiveReadOnly"))
    return found


def _check_sub_paths(mount: Part, path: Path, at: Path) -> list[FieldError]:
    plain, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    found = check_descending(plain, path.child("subPath")) if plain else []
    if expression:
        if plain:
            words = "subPathExpr and subPath are mutually exclusive"
            found.append(field.invalid(at.child("subPathExpr"), expression, words))
        found += check_descending(expression, path.child("subPathExpr"))
    return found


def _check_propagation(mount: Part, container: Part, path: Path) -> list[FieldError]:
    propagation = mount.get("mountPropagation")
    if propagation is None:
        return []
    found: list[FieldError] = []
    if propagation not in _PROPAGATIONS:
        found.append(field.not_supported(path, propagation, _PROPAGATIONS))
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        words = "Bidirectional mount propagation is available only to privileged containers"
        found.append(field.forbidden(path, words))
    return found


def _check_recursive(mount: Part, path: Path) -> list[FieldError]:
    recursive = mount.get("recursiveReadOnly")
    if recursive in (None, "Disabled"):
        return []
    if recursive not in _RECURSIVE:
        return [field.not_supported(path, recursive, _RECURSIVE)]
    found: list[FieldError] = []
    if not mount.get("readOnly"):
        found.append(field.forbidden(path, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation", "None") != "None":
        words = "may only be specified when mountPropagation is None or not specified"
        found.append(field.forbidden(path, words))
    return found


def check_devices(
    container: Container | EphemeralContainer, volumes: Mapping[str, Part], path: Path
) -> list[FieldError]:
    mounts = {m.get("name", ""): m.get("mountPath", "") for m in container.get("volumeMounts") or ()}
    found: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    for i, device in enumerate(container.get("volumeDevices") or ()):
        at, name, target = path.index(i), device.get("name", ""), device.get("devicePath", "")
        if not name:
            found.append(field.required(at.child("name")))
        if name in names:
            found.append(field.invalid(at.child("name"), name, "must be unique"))
        volume = volumes.get(name)
        if volume is None:
            found.append(field.not_found(at.child("name"), name))
        elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
            words = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            found.append(field.invalid(at.child("name"), name, words))
        if not target:
            found.append(field.required(at.child("devicePath")))
        if target in paths:
            found.append(field.invalid(at.child("devicePath"), target, "must be unique"))
        if check_no_backsteps(target, path):
            found.append(field.invalid(at.child("devicePath"), target, "can not contain backsteps ('..')"))
        else:
            paths.add(target)
        if name in mounts:
            found.append(field.invalid(at.child("name"), name, "must not already exist in volumeMounts"))
        if target in mounts.values():
            words = "must not already exist as a path in volumeMounts"
            found.append(field.invalid(at.child("devicePath"), target, words))
        if name:
            names.add(name)
    return found
