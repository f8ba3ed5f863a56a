"""Annotations of pods that have rules of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dray.api import pods
from dray.api.groups.core.pod.paths import check_descending
from dray.api.groups.core.pod.security import containers
from dray.api.scheme.strategy import METADATA
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec
    from dray.api.types.meta import ObjectMeta

_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_INTEGER: Final = re.compile(r"[+-]?\d+").fullmatch


def check_annotations(meta: ObjectMeta, spec: PodSpec, path: Path = METADATA) -> list[FieldError]:
    given = meta.get("annotations")
    if not given:
        return []
    at = path.child("annotations")
    found: list[FieldError] = []
    if pods.MIRROR_ANNOTATION in given and not spec.get("nodeName"):
        words = "must set spec.nodeName if mirror pod annotation is set"
        found.append(field.invalid(at.key(pods.MIRROR_ANNOTATION), given[pods.MIRROR_ANNOTATION], words))
    cost = given.get(_DELETION_COST)
    if cost is not None and not _int32(cost):
        found.append(field.invalid(at.key(_DELETION_COST), cost, "must be a 32bit integer"))
    for key in sorted(given):
        if key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            found += _check_seccomp(given[key], at.child(key))
        elif key.startswith(_APP_ARMOR):
            found += _check_app_armor(key, given[key], spec, at.key(key))
    return found


def _int32(text: str) -> bool:
    # A leading plus or zeros are refused, except for a lone zero.
    canonical = _INTEGER(text) and not text.startswith("+") and not (len(text) > 1 and text.startswith("0"))
    return bool(canonical) and -(1 << 31) <= int(text) < 1 << 31


def _check_seccomp(profile: str, path: Path) -> list[FieldError]:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return []
    if profile.startswith("localhost/"):
        return check_descending(profile.removeprefix("localhost/"), path)
    return [field.invalid(path, profile, "must be a valid seccomp profile")]


def _check_app_armor(key: str, profile: str, spec: PodSpec, path: Path) -> list[FieldError]:
    name = key.removeprefix(_APP_ARMOR)
    found: list[FieldError] = []
    if all(container.get("name") != name for container, _ in containers(spec, path)):
        found.append(field.invalid(path, name, "container not found"))
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith("localhost/"):
        found.append(field.invalid(path, profile, f"invalid AppArmor profile name: {field.quote(profile)}"))
    return found
