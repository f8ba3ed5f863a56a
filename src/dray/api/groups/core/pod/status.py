"""A pod's status: who may say what about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.golang import structs
from dray.api.groups.core import resourcenames
from dray.api.groups.core.pod.options import Part, PodValidationOptions
from dray.api.groups.core.pod.resources import is_sidecar
from dray.api.quantity import Quantity
from dray.api.scheme.strategy import STATUS, immutable
from dray.api.validation import addresses, checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import (
        NodeAllocatableResourceClaimStatus,
        Pod,
        PodCondition,
        PodExtendedResourceClaimStatus,
        PodResourceClaimStatus,
        PodSpec,
        PodStatus,
    )

_OWN_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")
_HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
_HIGHEST_ID: Final = (1 << 31) - 1
_ID_RANGE: Final = f"must be between 0 and {_HIGHEST_ID}, inclusive"
_QOS_CLASS: Final = STATUS.child("qosClass")
#: The statuses of containers and the containers they are of.
STATUSES: Final = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
)


def check_status(new: Pod, old: Pod, opts: PodValidationOptions) -> list[FieldError]:
    status, before, spec = new.get("status", {}), old.get("status", {}), old["spec"]
    found: list[FieldError] = []
    if conditions := status.get("conditions"):
        found += _check_conditions(conditions)
    if status.get("nominatedNodeName"):
        found += _check_nomination(status, before, spec, opts)
    if status.get("observedGeneration", 0) < 0:
        path = STATUS.child("observedGeneration")
        found.append(field.invalid(path, status["observedGeneration"], "must be a non-negative integer"))
    found += immutable(status.get("qosClass", ""), before.get("qosClass", ""), _QOS_CLASS)
    for part, containers in STATUSES:
        if before.get(part):
            found += _check_revival(status, before, part, _may_restart(spec, containers, opts))
    if generated := status.get("resourceClaimStatuses"):
        found += _check_claims(generated, spec)
    if (extended := status.get("extendedResourceClaimStatus")) is not None:
        found += _check_extended_claim(extended, spec)
    if allocatable := status.get("nodeAllocatableResourceClaimStatuses"):
        found += _check_node_allocatable(allocatable, status, spec)
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        if status.get(one) or status.get(many):
            found += _check_ips(status, before, one, many, opts)
    by_part: Mapping[str, Any] = status
    listed: Mapping[str, Any] = spec
    reported = [(part, containers, given) for part, containers in STATUSES if (given := by_part.get(part))]
    for part, _, given in reported:
        found += _check_users(given, STATUS.child(part), spec)
    for part, containers, given in reported:
        found += _check_health(given, STATUS.child(part), listed.get(containers) or ())
    return found


def _check_conditions(conditions: Sequence[PodCondition]) -> list[FieldError]:
    found: list[FieldError] = []
    for i, condition in enumerate(conditions):
        path, kind = STATUS.child("conditions").index(i), condition.get("type", "")
        if (seen := condition.get("observedGeneration", 0)) < 0:
            found.append(
                field.invalid(path.child("observedGeneration"), seen, "must be a non-negative integer")
            )
        if kind not in _OWN_CONDITIONS:
            found += checks.qualified_name(kind, path.child("Type"))
    return found


def _check_nomination(
    status: PodStatus, before: PodStatus, spec: PodSpec, opts: PodValidationOptions
) -> list[FieldError]:
    node, path = status["nominatedNodeName"], STATUS.child("nominatedNodeName")
    if node == before.get("nominatedNodeName", ""):
        return []
    found = checks.dns_subdomain(node, path)
    if spec.get("nodeName") and opts.on("ClearingNominatedNodeNameAfterBinding"):
        found.append(field.forbidden(path, "may not be set on pods that are already bound to a node"))
    return found


def _may_restart(
    spec: Mapping[str, Any], part: str, opts: PodValidationOptions
) -> Callable[[str, int], bool]:
    """Whether a container that ended with a code may run again."""
    containers = {container.get("name", ""): container for container in spec.get(part) or ()}
    policy = spec.get("restartPolicy")
    ruled = opts.on("ContainerRestartRules")
    every = [c for p in ("containers", "initContainers") for c in spec.get(p) or ()]
    all_together = opts.on("RestartAllContainersOnContainerExits") and any(
        rule.get("action") == "RestartAllContainers"
        for container in every
        for rule in container.get("restartPolicyRules") or ()
    )

    def may(name: str, code: int) -> bool:
        container = containers.get(name)
        if part == "ephemeralContainers":
            return False
        if ruled and all_together:
            return True
        if not ruled:
            sidecar = part == "initContainers" and container is not None and is_sidecar(container)
            return policy == "Always" or sidecar or (policy == "OnFailure" and code != 0)
        return container is not None and _restarts(container, policy, code)

    return may


def _restarts(container: Part, policy: str | None, code: int) -> bool:
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        listed = code in (codes.get("values") or ())
        if rule.get("action") == "Restart" and listed == (codes.get("operator") == "In"):
            return True
    own = container.get("restartPolicy") or policy
    return own == "Always" or (own == "OnFailure" and code != 0)


def _check_revival(
    status: Mapping[str, Any], before: Mapping[str, Any], part: str, may_restart: Callable[[str, int], bool]
) -> list[FieldError]:
    running = {
        s.get("name", "") for s in status.get(part) or () if (s.get("state") or {}).get("terminated") is None
    }
    words = "may not be transitioned to non-terminated state"
    return [
        field.forbidden(STATUS.child(part).index(i).child("state"), words)
        for i, old in enumerate(before.get(part) or ())
        if (ended := (old.get("state") or {}).get("terminated")) is not None
        and old.get("name", "") in running
        and not may_restart(old.get("name", ""), ended.get("exitCode", 0))
    ]


def _check_claims(generated: Sequence[PodResourceClaimStatus], spec: PodSpec) -> list[FieldError]:
    known = {entry.get("name", "") for entry in spec.get("resourceClaims") or ()}
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, entry in enumerate(generated):
        path, name = STATUS.child("resourceClaimStatuses").index(i), entry.get("name", "")
        if name not in known:
            words = "must match the name of an entry in `spec.resourceClaims`"
            found.append(field.invalid(path.child("name"), name, words))
        if name in seen:
            found.append(field.duplicate(path.child("name"), name))
        seen.add(name)
        claim = entry.get("resourceClaimName")
        if claim is not None and (problems := names.dns1123_subdomain(claim)):
            found += checks.each(claim, path.child("resourceClaimName"), problems)
    return found


def _check_extended_claim(status: PodExtendedResourceClaimStatus, spec: PodSpec) -> list[FieldError]:
    path = STATUS.child("extendedResourceClaimStatus")
    containers = {
        c.get("name", ""): c for part in ("initContainers", "containers") for c in spec.get(part) or ()
    }
    mappings, at = status.get("requestMappings") or (), path.child("requestMappings")
    found: list[FieldError] = []
    if not mappings:
        found.append(field.required(at, "at least one request mapping is required"))
    seen: set[tuple[str, str, str]] = set()
    for i, mapping in enumerate(mappings):
        container, resource, request = (
            mapping.get(part, "") for part in ("containerName", "resourceName", "requestName")
        )
        where = at.index(i)
        if container not in containers:
            words = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            found.append(field.invalid(where.child("containerName"), container, words))
        elif resource not in (containers[container].get("resources", {}).get("requests") or {}):
            words = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            found.append(field.invalid(where.child("resourceName"), resource, words))
        found += checks.dns_label(request, path.child("requestName"))
        if (container, resource, request) in seen:
            found.append(field.duplicate(where.child("containerName"), container))
            found.append(field.duplicate(where.child("resourceName"), resource))
            found.append(field.duplicate(where.child("requestName"), request))
        seen.add((container, resource, request))
    claim, where = status.get("resourceClaimName", ""), path.child("resourceClaimName")
    return found + (checks.dns_subdomain(claim, where) if claim else [field.required(where)])


def _check_node_allocatable(
    entries: Sequence[NodeAllocatableResourceClaimStatus], status: PodStatus, spec: PodSpec
) -> list[FieldError]:
    known = {
        entry.get("resourceClaimName")
        for entry in (*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ()))
    }
    found: list[FieldError] = []
    for i, entry in enumerate(entries):
        path, claim = (
            STATUS.child("nodeAllocatableResourceClaimStatuses").index(i),
            entry.get("resourceClaimName", ""),
        )
        if not claim:
            found.append(field.required(path.child("resourceClaimName"), "must not be empty"))
        if claim not in known:
            words = "no mapping found in pod reference"
            found.append(field.invalid(path.child("resourceClaimName"), claim, words))
        needed = ("containers",) if "mapping" in entry or "overhead" in entry else ("containers", "resources")
        missing = [part for part in needed if not entry.get(part)]
        found += [field.required(path.child(part), "must not be empty") for part in missing]
        for at, name, amount in _node_allocatable_amounts(entry, path):
            if not resourcenames.is_native(name):
                found.append(field.invalid(at, name, "must be a node allocatable resource name"))
            if Quantity.parse(amount).sign < 0:
                found.append(field.invalid(at, amount, "must be non-negative"))
    return found


def _node_allocatable_amounts(
    entry: NodeAllocatableResourceClaimStatus, path: Path
) -> Iterator[tuple[Path, str, str]]:
    """Where each amount stands, the resource and the amount: 1.36's sums, or since 1.37 mapping and overhead."""
    for name, amount in sorted((entry.get("resources") or {}).items()):
        yield path.child("resources").key(name), name, amount
    for i, mapped in enumerate(entry.get("mapping") or ()):
        yield path.child("mapping").index(i), mapped.get("name", ""), mapped.get("quantity", "0")
    for i, over in enumerate(entry.get("overhead") or ()):
        amounts = (over.get("perPod"), over.get("perContainer"))
        for amount in filter(None, amounts):
            yield path.child("overhead").index(i), over.get("name", ""), amount


def _check_ips(
    status: Mapping[str, Any], before: Mapping[str, Any], one: str, many: str, opts: PodValidationOptions
) -> list[FieldError]:
    entries, path = status.get(many) or (), STATUS.child(many)
    if not entries:
        return []
    ips = [entry.get("ip", "") for entry in entries]
    accepted = {entry.get("ip") for entry in before.get(many) or ()}
    found: list[FieldError] = []
    if status.get(one, "") != ips[0] and one == "hostIP":
        found.append(field.invalid(path.index(0).child("ip"), ips[0], "must be equal to `hostIP`"))
    for i, ip in enumerate(ips):
        if ip not in accepted:
            found += addresses.check_ip(ip, path.index(i), strict=opts.on("StrictIPCIDRValidation"))
    versions = [address.version for ip in ips if (address := addresses.parse(ip))]
    if len(ips) > 1 and (len(ips) > 2 or set(versions) != {4, 6}):
        shown = [{"IP": ip} for ip in ips]
        found.append(field.invalid(path, shown, "may specify no more than one IP for each IP family"))
    return found


def _check_users(statuses: Sequence[Part], path: Path, spec: PodSpec) -> list[FieldError]:
    windows = (spec.get("os") or {}).get("name") == "windows"
    found: list[FieldError] = []
    for i, status in enumerate(statuses):
        user, at = (status.get("user") or {}).get("linux"), path.index(i).child("user", "linux")
        if user is None:
            continue
        if windows:
            found.append(field.forbidden(at, "cannot be set for a windows pod"))
            continue
        wrong = [part for part in ("uid", "gid") if not 0 <= user.get(part, 0) <= _HIGHEST_ID]
        found += [field.invalid(at.child(part), user[part], _ID_RANGE) for part in wrong]
        for j, group in enumerate(user.get("supplementalGroups") or ()):
            if not 0 <= group <= _HIGHEST_ID:
                found.append(field.invalid(at.child("supplementalGroups").index(j), group, _ID_RANGE))
    return found


def _check_health(statuses: Sequence[Part], path: Path, containers: Sequence[Part]) -> list[FieldError]:
    """Health of devices is reported for what a container asked for."""
    ephemeral = str(path).endswith("ephemeralContainerStatuses")
    by_name = {container.get("name", ""): container for container in containers}
    found: list[FieldError] = []
    for i, status in enumerate(statuses):
        at = path.index(i).child("allocatedResourcesStatus")
        entries = status.get("allocatedResourcesStatus") or ()
        if ephemeral:
            if entries:
                found.append(field.forbidden(at, "must not be specified in container status"))
            continue
        for j, entry in enumerate(entries):
            container = by_name.get(status.get("name", ""))
            if container is not None:
                found += _check_asked(entry.get("name", ""), container, at.index(j).child("name"))
            found += _check_devices(entry.get("resources") or (), at.index(j).child("resources"))
    return found


def _check_asked(name: str, container: Part, path: Path) -> list[FieldError]:
    asked = container.get("resources") or {}
    if name.startswith("claim:"):
        known = {
            f"claim:{c['name']}/{c['request']}" if c.get("request") else f"claim:{c['name']}"
            for c in asked.get("claims") or ()
        }
        words = (
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
            "'claim:<claimName>' if request is empty"
        )
    else:
        known = set(asked.get("requests") or {})
        words = "must match one of the container's resource requests"
    return [] if name in known else [field.invalid(path, name, words)]


def _check_devices(devices: Sequence[Part], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, device in enumerate(devices):
        at, health, message = path.index(i), device.get("health", ""), device.get("message")
        if health not in _HEALTHS:
            found.append(field.not_supported(at.child("health"), health, _HEALTHS))
        if message is not None:
            if not message:
                found.append(field.required(at.child("message"), "must be non-empty if specified"))
            elif len(message.encode()) > 1024:
                found.append(field.too_long(at.child("message"), 1024))
        name = device.get("resourceID", "")
        if name in seen:
            found.append(field.duplicate(at.child("resourceID"), name))
        seen.add(name)
    return found


def check_ephemeral_update(new: Pod, old: Pod) -> list[FieldError]:
    """Ephemeral containers come to stay: none is changed or removed."""
    path = Path("spec").child("ephemeralContainers")
    after = {c.get("name", ""): c for c in new["spec"].get("ephemeralContainers") or ()}
    found: list[FieldError] = []
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name", "")
        shown = field.quote(name)
        if name not in after:
            found.append(field.forbidden(path, f"existing ephemeral containers {shown} may not be removed\n"))
        elif after[name] != container:
            change = structs.diff("core/v1.EphemeralContainer", container, after[name])
            words = f"existing ephemeral containers {shown} may not be changed\n{change}"
            found.append(field.forbidden(path, words))
    return found
