"""Containers of a pod: ordinary ones, those that run before them, and those added to look inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.api.groups.core.pod.env import check_env, check_env_from
from dray.api.groups.core.pod.mounts import check_devices, check_mounts
from dray.api.groups.core.pod.options import Part, PodValidationOptions
from dray.api.groups.core.pod.probes import check_lifecycle, check_probes
from dray.api.groups.core.pod.resources import check_requirements, is_sidecar
from dray.api.groups.core.pod.security import check_container_context
from dray.api.groups.core.pod.volumes import PULL_POLICIES
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Container, ContainerPort, ContainerResizePolicy, EphemeralContainer

_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_RESIZE_RESOURCES: Final = ("cpu", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
_NOT_FOR_INIT: Final = "may not be set for init containers without restartPolicy=Always"
_NOT_FOR_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
#: What an ephemeral container may not have, in the order of its struct.
_EPHEMERAL_FORBIDDEN: Final = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe", "readinessProbe",
    "startupProbe", "lifecycle",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PodContext:
    """What a container's checks need to know about its pod."""

    spec: Part
    volumes: Mapping[str, Part]
    claims: Iterable[str]
    opts: PodValidationOptions

    @property
    def host_users(self) -> bool:
        return self.spec.get("hostUsers") is not False


def check_containers(around: PodContext, path: Path) -> list[FieldError]:
    containers = around.spec.get("containers") or ()
    if not containers:
        return [field.required(path)]
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, container in enumerate(containers):
        at, name = path.index(i), container.get("name", "")
        found += _check_common(container, at, around)
        if name in seen:
            found.append(field.duplicate(at.child("name"), name))
        seen.add(name)
        found += check_lifecycle(container, around.spec, at, around.opts)
        found += check_probes(container, at, around.opts)
        if around.opts.on("ContainerRestartRules"):
            found += _check_restart(container, at, around.opts)
        elif container.get("restartPolicy") is not None:
            words = "may not be set for non-init containers"
            found.append(field.forbidden(at.child("restartPolicy"), words))
    return found + _check_host_ports(containers, path)


def check_init_containers(around: PodContext, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    seen = {container.get("name", "") for container in around.spec.get("containers") or ()}
    for i, container in enumerate(around.spec.get("initContainers") or ()):
        at, name = path.index(i), container.get("name", "")
        found += _check_common(container, at, around)
        found += _check_init_restart(container, at, around.opts)
        if name in seen:
            found.append(field.duplicate(at.child("name"), name))
        elif name:
            seen.add(name)
        found += _check_host_ports([container], path)
        if is_sidecar(container):
            found += check_lifecycle(container, around.spec, at, around.opts)
            found += check_probes(container, at, around.opts)
        else:
            for part in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if container.get(part) is not None:
                    found.append(field.forbidden(at.child(part), _NOT_FOR_INIT))
            for j, policy in enumerate(container.get("resizePolicy") or ()):
                if policy.get("restartPolicy") == "RestartContainer":
                    where = at.child("resizePolicy").index(j).child("restartPolicy")
                    words = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                    found.append(field.invalid(where, "RestartContainer", words))
    return found


def check_ephemeral_containers(around: PodContext, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    others = {
        container.get("name", "")
        for part in ("containers", "initContainers")
        for container in around.spec.get(part) or ()
    }
    seen = set(others)
    for i, container in enumerate(around.spec.get("ephemeralContainers") or ()):
        at, name = path.index(i), container.get("name", "")
        found += _check_common(container, at, around) + check_image_text(container, at)
        if name in seen:
            found.append(field.duplicate(at.child("name"), name))
        seen.add(name)
        target = container.get("targetContainerName", "")
        if target and target not in others:
            found.append(field.not_found(at.child("targetContainerName"), target))
        for part in _EPHEMERAL_FORBIDDEN:
            if container.get(part):
                found.append(field.forbidden(at.child(part), _NOT_FOR_EPHEMERAL))
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            for part in ("subPath", "subPathExpr"):
                if mount.get(part):
                    where = at.child("volumeMounts").index(j).child(part)
                    found.append(field.forbidden(where, _NOT_FOR_EPHEMERAL))
    return found


def check_image_text(container: Container, path: Path) -> list[FieldError]:
    """Templates may carry blanks around an image's name, pods may not."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [field.invalid(path.child("image"), image, "must not have leading or trailing whitespace")]


def _check_common(
    container: Container | EphemeralContainer, path: Path, around: PodContext
) -> list[FieldError]:
    name, opts = container.get("name", ""), around.opts
    found = checks.dns_label(name, path.child("name")) if name else [field.required(path.child("name"))]
    if not container.get("image"):
        found.append(field.required(path.child("image")))
    policy, at = container.get("terminationMessagePolicy", ""), path.child("terminationMessagePolicy")
    found += checks.one_of(policy, at, _MESSAGE_POLICIES)
    found += _check_ports(container.get("ports") or (), path.child("ports"))
    found += check_env(container.get("env") or (), path.child("env"), opts)
    found += check_env_from(container.get("envFrom") or (), path.child("envFrom"), opts)
    found += check_mounts(container, around.volumes, path.child("volumeMounts"))
    found += check_devices(container, around.volumes, path.child("volumeDevices"))
    found += checks.one_of(container.get("imagePullPolicy", ""), path.child("imagePullPolicy"), PULL_POLICIES)
    asked = container.get("resources") or {}
    found += check_requirements(asked, path.child("resources"), claims=around.claims)
    found += _check_resize(container.get("resizePolicy") or (), path.child("resizePolicy"), around.spec)
    return found + check_container_context(container, path, host_users=around.host_users)


def _check_ports(ports: Sequence[ContainerPort], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, port in enumerate(ports):
        at, name = path.index(i), port.get("name", "")
        if name:
            if messages := names.port_name(name):
                found += checks.each(name, at.child("name"), messages)
            elif name in seen:
                found.append(field.duplicate(at.child("name"), name))
            else:
                seen.add(name)
        number = port.get("containerPort", 0)
        where = at.child("containerPort")
        found += checks.port(number, where) if number else [field.required(where)]
        if port.get("hostPort"):
            found += checks.port(port["hostPort"], at.child("hostPort"))
        found += checks.one_of(port.get("protocol", ""), at.child("protocol"), checks.PROTOCOLS)
    return found


def _check_host_ports(containers: Sequence[Part], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            used = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if used in seen:
                found.append(field.duplicate(path.index(i).child("ports").index(j).child("hostPort"), used))
            seen.add(used)
    return found


def _check_resize(policies: Sequence[ContainerResizePolicy], path: Path, spec: Part) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            found.append(field.duplicate(path.index(i), name))
        seen.add(name)
        found += checks.one_of(name, path, _RESIZE_RESOURCES)
        found += checks.one_of(restart, path, _RESIZE_POLICIES)
        if spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            words = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            found.append(field.invalid(path, restart, words))
    return found


def _check_init_restart(container: Part, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if not rules:
            return []
        words = "must specify restartPolicy when restart rules are used"
        return [field.required(path.child("restartPolicy"), words)]
    if not opts.on("ContainerRestartRules"):
        return checks.one_of(policy, path.child("restartPolicy"), ("Always",))
    if policy != "Always" or opts.on("RestartAllContainersOnContainerExits"):
        return _check_restart(container, path, opts)
    if not rules:
        return []
    words = "restartPolicyRules are not allowed for init containers with restart policy Always"
    return [field.forbidden(path.child("restartPolicyRules"), words)]


def _check_restart(container: Part, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    at = path.child("restartPolicy")
    found: list[FieldError] = []
    if policy is None:
        if not rules:
            return []
        found.append(field.required(at, "must specify restartPolicy when restart rules are used"))
    elif policy not in _RESTARTS:
        found.append(field.not_supported(at, policy, _RESTARTS))
    if len(rules) > 20:
        found.append(field.too_many(path.child("restartPolicyRules"), len(rules), 20))
    actions = ["Restart"]
    if opts.on("RestartAllContainersOnContainerExits"):
        actions.append("RestartAllContainers")
    for i, rule in enumerate(rules):
        at = path.child("restartPolicyRules").index(i)
        if (action := rule.get("action", "")) not in actions:
            found.append(field.not_supported(at.child("action"), action, actions))
        codes = rule.get("exitCodes")
        if codes is None:
            found.append(field.required(at.child("exitCodes"), "must be specified"))
            continue
        at = at.child("exitCodes")
        if (operator := codes.get("operator", "")) not in ("In", "NotIn"):
            found.append(field.not_supported(at.child("operator"), operator, ("In", "NotIn")))
        if len(codes.get("values") or ()) > 255:
            found.append(field.too_many(at.child("values"), len(codes["values"]), 255))
    return found
