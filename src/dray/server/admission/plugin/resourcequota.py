"""ResourceQuota: refuses objects that would exceed a quota of their namespace.

The plugin writes the new usage into the quota's status before the object is stored, on condition that nobody else has
written the quota meanwhile, so that two requests never use the same remainder. The quota controller lowers the usage
when objects are deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from dray.api.objects import controller_of
from dray.api.quantity import Quantity
from dray.api.quota import claims as devices
from dray.api.quota import evaluators
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.apiserver import APIServer
from dray.server.storage.documents import Document
from dray.server.storage.watchcache import WatchCache
from dray.store.interface import KeyNotFound, RevisionMismatch

if TYPE_CHECKING:
    from dray.api.types.core import Pod, ResourceQuotaStatus
    from dray.api.types.core import ResourceQuota as CoreResourceQuota
    from dray.api.types.resource import DeviceClass, ResourceClaim

_ATTEMPTS: Final = 4
_CLAIMS: Final = ("resource.k8s.io", "resourceclaims")
_MADE_FOR_POD: Final = "resource.kubernetes.io/extended-resource-claim"
#: What is never charged: reviews and bindings are not stored, and events come and go by themselves.
_FREE: Final = frozenset(
    {
        ("", "bindings"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    }
)
#: Most kinds are only counted; these cost more or less after a change.
_CHANGEABLE: Final = frozenset(
    {
        ("", "pods", ""),
        ("", "pods", "resize"),
        ("", "services", ""),
        ("", "persistentvolumeclaims", ""),
        ("", "persistentvolumeclaims", "status"),
        (*_CLAIMS, ""),
    }
)

Usage = dict[str, Quantity]


@dataclass(frozen=True, slots=True)
class _Raised:
    """A quota whose usage a request raises."""

    document: Document
    used: Usage


class ResourceQuota:
    name = "ResourceQuota"

    def __init__(self, api: APIServer, listers: Listers) -> None:
        self._api = api
        self._listers = listers
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def handles(self, scope: RequestScope) -> bool:
        if scope.operation == UPDATE:
            return (scope.group, scope.resource, scope.subresource) in _CHANGEABLE
        counted = scope.resource != "namespaces" and (scope.group, scope.resource) not in _FREE
        return scope.operation == CREATE and not scope.subresource and counted

    async def validate(self, attributes: Attributes) -> None:
        stored = self._listers.cache("", "resourcequotas")
        if not stored or not attributes.namespace or _keeps_usage(attributes):
            return
        keys: Sequence[str] = stored.range(attributes.namespace)
        if not keys:
            return
        # Requests for one namespace take turns; what other servers write meanwhile shows as a conflict.
        lock = self._locks.get(attributes.namespace)
        if lock is None:
            lock = self._locks[attributes.namespace] = asyncio.Lock()
        async with lock:
            for _ in range(_ATTEMPTS):
                documents = [d for key in keys if (d := stored.get(key)) is not None]
                raised = self._check(attributes, documents)
                if attributes.dry_run:
                    return
                keys = [r.document.key for r in raised if not await self._write(stored, r)]
                if not keys:
                    return
        raise attributes.forbidden("resource quota evaluation timed out")

    def _check(self, attributes: Attributes, documents: Iterable[Document]) -> list[_Raised]:
        """The quotas that a request draws on, with their new sums; refuses what goes beyond one of them."""
        charging = _Charging(attributes, self._listers, self._api)
        obj, old = attributes.object, attributes.old
        concerned = []
        for document in documents:
            quota: CoreResourceQuota = document.hub
            names = charging.matching((quota.get("status") or {}).get("hard") or {})
            if not names or not charging.in_scope(obj, quota):
                continue
            if problem := charging.unstated(obj, names):
                raise attributes.forbidden(f"failed quota: {document.name}: {problem}")
            used = quota["status"].get("used") or {}
            if any(name not in used for name in names):
                words = f"status unknown for quota: {document.name}, resources: {','.join(names)}"
                raise attributes.forbidden(words)
            concerned.append(document)
        if not concerned:
            return []
        whole = charging.usage(obj)
        more = whole
        if attributes.operation == UPDATE and old is not None:
            more = _increase(whole, charging.usage(old))
        raised = []
        for document in concerned:
            known = more is not whole and old is not None and charging.in_scope(old, document.hub)
            if found := _drawn(attributes, document, more if known else whole):
                raised.append(found)
        return raised

    async def _write(self, stored: WatchCache, raised: _Raised) -> bool:
        """Store a quota's new usage; whether it was still the same quota."""
        document = raised.document
        quota: CoreResourceQuota = document.hub
        status: ResourceQuotaStatus = {
            **quota["status"],
            "used": {name: str(q) for name, q in raised.used.items()},
        }
        new: Any = {**quota, "metadata": {**document.metadata}, "status": status}
        value = stored.codecs.value(new)
        stored.announce(value, new)
        try:
            await self._api.store.update(stored.prefix + document.key, value, expected=document.revision)
        except (RevisionMismatch, KeyNotFound):
            await self._api.store.wait_until_fresh()
            return False
        finally:
            stored.retract(value)
        return True


def _keeps_usage(attributes: Attributes) -> bool:
    """Whether an update leaves a pod in the scopes that it is in."""
    if attributes.operation == CREATE or attributes.resource != "pods" or attributes.subresource:
        return False
    return _ends_by_itself(attributes.object) == _ends_by_itself(attributes.old)


def _ends_by_itself(pod: Pod | None) -> bool:
    seconds = None if pod is None else pod.get("spec", {}).get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _increase(new: Usage, old: Usage) -> Usage:
    return {
        name: max(amount - old.get(name, evaluators.ZERO), evaluators.ZERO) for name, amount in new.items()
    }


def _drawn(attributes: Attributes, document: Document, usage: Usage) -> _Raised | None:
    """What one quota has in use after the request; None if that is what it was."""
    status: ResourceQuotaStatus = document.hub["status"]
    hard, used = (
        {name: Quantity.parse(text) for name, text in (amounts or {}).items()}
        for amounts in (status.get("hard"), status.get("used"))
    )
    asked = {name: amount for name, amount in usage.items() if amount and name in hard}
    if not asked:
        return None
    after = evaluators.add(used, asked)
    exceeded = sorted(name for name in asked if after[name] > hard[name])
    if exceeded and attributes.subresource != "status":
        raise attributes.forbidden(
            f"exceeded quota: {document.name}, requested: {_show(asked, exceeded)}, "
            f"used: {_show(used, exceeded)}, limited: {_show(hard, exceeded)}"
        )
    return _Raised(document, after)


def _show(amounts: Mapping[str, Quantity], names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names if name in amounts)


class _Charging:
    """What the objects of one request are charged."""

    def __init__(self, attributes: Attributes, listers: Listers, api: APIServer) -> None:
        self._kind = (attributes.group, attributes.resource)
        self._listers = listers
        self._now = api.clock.seconds
        self._served: dict[str, str] | None = None  # extended resources by device class
        if self._kind == _CLAIMS and api.quirks.charges_extended_resources_to_claims:
            classes: Iterable[DeviceClass] = listers.all("resource.k8s.io", "deviceclasses")
            self._served = {
                c["metadata"]["name"]: name
                for c in classes
                if (name := c.get("spec", {}).get("extendedResourceName"))
            }

    def matching(self, names: Iterable[str]) -> list[str]:
        if self._kind == _CLAIMS:
            return sorted(devices.matching(names, extended_resources=self._served))
        return sorted(evaluators.matching_resources(*self._kind, names))

    def in_scope(self, obj: Any, quota: CoreResourceQuota) -> bool:
        return evaluators.in_scope(*self._kind, obj, quota)

    def unstated(self, obj: Any, names: Sequence[str]) -> str:
        return evaluators.constraint_problem(obj, names) if self._kind == ("", "pods") else ""

    def usage(self, obj: Any) -> Usage:
        if self._kind != _CLAIMS:
            return evaluators.usage(*self._kind, obj, now=self._now())
        paid = self._paid_by_pod(obj) if self._served is not None else {}
        charged = devices.charges(obj, extended_resources=self._served, pod_usage=paid)
        return {name: Quantity(count) for name, count in charged.items()}

    def _paid_by_pod(self, claim: ResourceClaim) -> dict[str, int]:
        """What the pod is charged already whose extended resources a claim was made for."""
        meta, owner = claim["metadata"], controller_of(claim)
        if (meta.get("annotations") or {}).get(_MADE_FOR_POD) != "true" or owner is None:
            return {}
        if owner.get("kind") != "Pod" or owner.get("apiVersion") != "v1":
            return {}
        pod: Pod | None = self._listers.get(
            "", "pods", f"{meta.get('namespace', '')}/{owner.get('name', '')}"
        )
        if pod is None or pod["metadata"].get("uid") != owner.get("uid"):
            return {}
        status = (pod.get("status") or {}).get("extendedResourceClaimStatus")
        if status is None:
            if any(_came_before(other, claim) for other in self._made_for(pod)):
                return {}
        elif status.get("resourceClaimName") != meta.get("name"):
            return {}
        charged = evaluators.pod_usage(pod, now=self._now())
        return {n: amount.value() for n, amount in charged.items() if n.startswith(devices.REQUESTS)}

    def _made_for(self, pod: Pod) -> Iterable[ResourceClaim]:
        uid = pod["metadata"]["uid"]
        claims: Iterable[ResourceClaim] = self._listers.all(*_CLAIMS, pod["metadata"]["namespace"])
        for claim in claims:
            owner = controller_of(claim)
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(_MADE_FOR_POD) == "true" and owner is not None and owner.get("uid") == uid:
                yield claim


def _came_before(other: ResourceClaim, claim: ResourceClaim) -> bool:
    """Of several claims for one pod only the first is paid for by it."""
    theirs, ours = (
        (c["metadata"].get("creationTimestamp", ""), c["metadata"].get("name", "")) for c in (other, claim)
    )
    return theirs < ours
