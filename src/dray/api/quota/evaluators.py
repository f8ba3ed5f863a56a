"""What objects cost: the resources a ResourceQuota charges for pods, services, volume claims, and for mere existence.

Shared by admission, which refuses what would be too much, and by the controller, which counts what is there. Charges
for resource claims are in ``dray.api.quota.claims``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from dray.api.groups.core import resourcenames
from dray.api.groups.core.pod.resources import qos_class
from dray.api.quantity import Quantity
from dray.api.times import to_epoch

if TYPE_CHECKING:
    from dray.api.types.core import (
        Affinity,
        Container,
        PersistentVolumeClaim,
        Pod,
        PodSpec,
        PodStatus,
        ResourceQuota,
        ScopedResourceSelectorRequirement,
        Service,
    )

Usage = dict[str, Quantity]

ONE: Final = Quantity(1)
ZERO: Final = Quantity(0)

_REQUESTS: Final = "requests."
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES: Final = frozenset(
    {"count/pods", "pods"} | {prefix + name for prefix in ("", _REQUESTS, "limits.") for name in _COMPUTE}
)
_SERVICE_NAMES: Final = frozenset(
    {"count/services", "services", "services.nodeports", "services.loadbalancers"}
)
_VOLUME_NAMES: Final = frozenset({"persistentvolumeclaims", "requests.storage"})
_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
#: Kinds that can be counted by an older name too.
ALIASES: Final = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})
#: Where a quota names these, every container has to say how much it wants of them.
_MANDATORY: Final = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)


# -- which resources of a quota an object is charged for -------------------------------------------------------------


def count_name(group: str, plural: str) -> str:
    """``count/deployments.apps``, ``count/pods``"""
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def matching_resources(group: str, plural: str, names: Iterable[str]) -> list[str]:
    """Those of a quota's resources that objects of a kind are charged for."""
    match group, plural:
        case "", "pods":
            return [n for n in names if n in _POD_NAMES or _is_of_pods(n)]
        case "", "services":
            return [n for n in names if n in _SERVICE_NAMES]
        case "", "persistentvolumeclaims":
            return [n for n in names if _is_of_volumes(n)]
    counted = {count_name(group, plural), *((plural,) if not group and plural in ALIASES else ())}
    return [n for n in names if n in counted]


def _is_of_pods(name: str) -> bool:
    if resourcenames.is_quota_huge_pages(name):
        return True
    return name.startswith(_REQUESTS) and (
        not resourcenames.is_native(name) or name.startswith(_REQUESTS + _DEVICE_CLASS)
    )


def _is_of_volumes(name: str) -> bool:
    if name == "count/persistentvolumeclaims" or name in _VOLUME_NAMES:
        return True
    _, found, rest = name.partition(_STORAGE_CLASS)
    return bool(found) and rest in _VOLUME_NAMES


# -- usage ----------------------------------------------------------------------------------------------------------


def usage(group: str, plural: str, obj: Any, *, now: float) -> Usage:
    """What one object is charged."""
    match group, plural:
        case "", "pods":
            return pod_usage(obj, now=now)
        case "", "services":
            return service_usage(obj)
        case "", "persistentvolumeclaims":
            return volume_claim_usage(obj)
    found = {count_name(group, plural): ONE}
    return found | {plural: ONE} if not group and plural in ALIASES else found


def pod_usage(pod: Pod, *, now: float) -> Usage:
    """A pod that has ended, or should have by now, counts only as an object."""
    found = {"count/pods": ONE}
    if not is_charged(pod, now=now):
        return found
    return found | _compute(_requests(pod), _limits(pod))


def is_charged(pod: Pod, *, now: float) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    metadata = pod["metadata"]
    deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    # One that is stuck in deletion must not keep its successor from being made.
    return deleted is None or grace is None or now <= to_epoch(deleted) + grace


def service_usage(service: Service) -> Usage:
    spec = service.get("spec") or {}
    ports, kind = spec.get("ports") or (), spec.get("type")
    node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    return {
        "count/services": ONE,
        "services": ONE,
        "services.loadbalancers": ONE if kind == "LoadBalancer" else ZERO,
        "services.nodeports": Quantity(node_ports),
    }


def volume_claim_usage(claim: PersistentVolumeClaim) -> Usage:
    found = {"count/persistentvolumeclaims": ONE, "persistentvolumeclaims": ONE}
    annotations = claim["metadata"].get("annotations") or {}
    spec = claim.get("spec") or {}
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if asked is not None:
        wanted = Quantity.parse(asked)
        given = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
        if given is not None:
            wanted = max(wanted, Quantity.parse(given))
        found["requests.storage"] = wanted.rounded_up()
    # The annotation is older than the field and still wins.
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
    if storage_class:
        found |= {
            f"{storage_class}{_STORAGE_CLASS}{name}": found[name] for name in _VOLUME_NAMES if name in found
        }
    return found


def _compute(requests: Usage, limits: Usage) -> Usage:
    found = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            found[name] = found[_REQUESTS + name] = requests[name]
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if resourcenames.is_huge_pages(name):
            found[name] = found[_REQUESTS + name] = amount
        elif resourcenames.is_extended(name) or name.startswith(_DEVICE_CLASS):
            found[_REQUESTS + name] = amount
    return found


# -- sums over containers -------------------------------------------------------------------------------------------


def add(a: Mapping[str, Quantity], b: Mapping[str, Quantity]) -> Usage:
    return {**a, **{name: a[name] + amount if name in a else amount for name, amount in b.items()}}


def larger(a: Mapping[str, Quantity], b: Mapping[str, Quantity]) -> Usage:
    return {**a, **{name: max(a[name], amount) if name in a else amount for name, amount in b.items()}}


def _requests(pod: Pod) -> Usage:
    total = _over_containers(pod, "requests")
    total |= _of_whole_pod(pod["spec"], "requests")
    return add(total, _parsed(pod["spec"].get("overhead")))


def _limits(pod: Pod) -> Usage:
    total = _over_containers(pod, "limits")
    total |= _of_whole_pod(pod["spec"], "limits")
    overhead = _parsed(pod["spec"].get("overhead"))
    return {
        name: amount + overhead[name] if amount and name in overhead else amount
        for name, amount in total.items()
    }


def _of_whole_pod(spec: Mapping[str, Any], part: str) -> Usage:
    own = (spec.get("resources") or {}).get(part) or {}
    return _parsed({n: v for n, v in own.items() if n in ("cpu", "memory") or resourcenames.is_huge_pages(n)})


def _over_containers(pod: Pod, part: Literal["requests", "limits"]) -> Usage:
    """Containers and sidecars run together; an ordinary init container runs beside the sidecars before it."""
    spec = pod["spec"]
    total: Usage = {}
    for container in spec.get("containers") or ():
        total = add(total, _of_container(pod, container, part))
    sidecars: Usage = {}
    peak: Usage = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            own = _of_container(pod, container, part)
            total, sidecars = add(total, own), add(sidecars, own)
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, add(_parsed((container.get("resources") or {}).get(part)), sidecars))
    return larger(total, peak)


def _of_container(pod: Pod, container: Container, part: Literal["requests", "limits"]) -> Usage:
    """While a container is being resized, the larger of what it has and what it is to have."""
    asked = _parsed((container.get("resources") or {}).get(part))
    status = pod.get("status") or {}
    for known in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if known["name"] == container["name"] and known.get("resources") is not None:
            actual = _parsed(known["resources"].get(part))
            if part == "requests":
                actual = larger(actual, _parsed(known.get("allocatedResources")))
            return actual if _is_infeasible(status) else larger(asked, actual)
    return asked


def _is_infeasible(status: PodStatus) -> bool:
    conditions = status.get("conditions") or ()
    return any(c["type"] == "PodResizePending" and c.get("reason") == "Infeasible" for c in conditions)


def _parsed(amounts: Mapping[str, str] | None) -> Usage:
    return {name: Quantity.parse(str(amount)) for name, amount in (amounts or {}).items()}


# -- what quotas ask of pods, and which pods they are about ----------------------------------------------------------


def constraint_problem(pod: Pod, names: Collection[str]) -> str:
    """The message that refuses a pod whose containers do not state what a quota over ``names`` charges; or nothing."""
    required = _MANDATORY.intersection(names)
    spec = pod["spec"]
    if not required or any(_of_whole_pod(spec, part) for part in ("requests", "limits")):
        return ""
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        stated = _compute(_parsed(resources.get("requests")), _parsed(resources.get("limits")))
        for name in required.difference(stated):
            missing.setdefault(name, set()).add(container["name"])
    listed = (f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {'; '.join(listed)}" if missing else ""


def in_scope(group: str, plural: str, obj: Any, quota: ResourceQuota) -> bool:
    """Whether a quota is about an object: it is if the object is in all of the quota's scopes."""
    return all(_TESTS.get((group, plural), _never)(term, obj) for term in scopes(quota))


def scopes(quota: ResourceQuota) -> list[ScopedResourceSelectorRequirement]:
    """A quota's scopes, all of them as terms of a selector."""
    spec = quota.get("spec") or {}
    plain: list[ScopedResourceSelectorRequirement] = [
        {"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()
    ]
    return [*plain, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def _never(term: ScopedResourceSelectorRequirement, obj: Any) -> bool:
    return False


def _pod_in(term: ScopedResourceSelectorRequirement, pod: Pod) -> bool:
    spec = pod["spec"]
    match term["scopeName"]:
        case "Terminating":
            return _ends_by_itself(spec)
        case "NotTerminating":
            return not _ends_by_itself(spec)
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _selects(term, spec.get("priorityClassName"))
        case "CrossNamespacePodAffinity":
            return _looks_elsewhere(spec.get("affinity") or {})
    return False


def _ends_by_itself(spec: PodSpec) -> bool:
    seconds = spec.get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _selects(term: ScopedResourceSelectorRequirement, value: str | None) -> bool:
    values = term.get("values") or ()
    match term["operator"]:
        case "Exists":
            return bool(value)
        case "DoesNotExist":
            return not value
        case "In":
            return bool(value) and value in values
        case "NotIn":
            return not value or value not in values
    return False


def _looks_elsewhere(affinity: Affinity) -> bool:
    """Whether a pod wants to be near, or far from, pods of other namespaces."""
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = [
            *(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()),
            *(
                t["podAffinityTerm"]
                for t in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
            ),
        ]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def _volume_in(term: ScopedResourceSelectorRequirement, claim: PersistentVolumeClaim) -> bool:
    """A claim is in the scope of every attributes class that it wants or has."""
    if term["scopeName"] != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    names = {
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    } - {None, ""}
    if not names:
        return _selects(term, None)
    return any(_selects(term, name) for name in names)


_TESTS: Final[Mapping[tuple[str, str], Callable[[ScopedResourceSelectorRequirement, Any], bool]]] = {
    ("", "pods"): _pod_in,
    ("", "persistentvolumeclaims"): _volume_in,
}
