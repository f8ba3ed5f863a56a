"""The resource quota controller: it writes into each quota how much of it is used.

It counts when objects are deleted or use less, and every few minutes. Admission counts new objects and writes the sum
before an object exists; if the controller counted then as well, it would undo that sum until it sees the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from dray.api.objects import controller_of
from dray.api.quantity import Quantity
from dray.api.quota import claims as devices
from dray.api.quota import evaluators
from dray.client.informers import Informer
from dray.client.resources import (
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SERVICES,
    ObjectKey,
    Resource,
    T,
    key_of,
)
from dray.controllers.controller import Controller, ControllerContext, NotServed
from dray.controllers.discovery import discover

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Pod, ResourceQuota, ResourceQuotaStatus, ResourceRequirements
    from dray.api.types.resource import DeviceClass, ResourceClaim


RESYNC_SECONDS: Final = 300.0
_CLAIM_VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")


def calculate_usage(
    quota: ResourceQuota, resource: Resource[Any], objects: Iterable[Any], *, now: float
) -> dict[str, Quantity]:
    """What the objects of one kind use of a quota's resources; those of which nothing is used are zero."""
    kind = resource.group, resource.plural
    names = evaluators.matching_resources(*kind, quota["spec"].get("hard") or {})
    total = dict.fromkeys(names, evaluators.ZERO)
    for obj in objects:
        if evaluators.in_scope(*kind, obj, quota):
            charged = evaluators.usage(*kind, obj, now=now)
            total = evaluators.add(total, {n: charged[n] for n in names if n in charged})
    return total


def status_of(quota: ResourceQuota, counted: Mapping[str, Quantity]) -> ResourceQuotaStatus | None:
    """The status with new sums; None if it says so already. What could not be counted stays as it was."""
    hard = quota["spec"].get("hard") or {}
    status = quota.get("status") or {}
    before = status.get("used") or {}
    used = {n: str(counted[n]) if n in counted else before[n] for n in hard if n in counted or n in before}
    same = _parsed(before) == _parsed(used) and _parsed(status.get("hard")) == _parsed(hard)
    return None if same and "used" in status else {"hard": hard, "used": used}


def _parsed(amounts: Mapping[str, str] | None) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in (amounts or {}).items()}


def is_replenished(
    resource: Resource[Any], old: Any, new: Any, *, now: float, all_changes: bool = True
) -> bool:
    """Whether a change to an object can leave more of a quota to others.

    Without ``all_changes``, of a pod only its end counts, not that it falls under other quotas or was given less.
    """
    if resource == PODS:
        if evaluators.is_charged(old, now=now) and not evaluators.is_charged(new, now=now):
            return True
        return all_changes and (_deadline(old) != _deadline(new) or _was_resized(old, new))
    if resource in (SERVICES, PERSISTENT_VOLUME_CLAIMS):
        kind = resource.group, resource.plural
        return evaluators.usage(*kind, old, now=now) != evaluators.usage(*kind, new, now=now)
    return False


def _deadline(pod: Pod) -> bool:
    return pod["spec"].get("activeDeadlineSeconds") is not None


def _was_resized(old: Pod, new: Pod) -> bool:
    before, after = _given(old), _given(new)
    return any(name in after and after[name] != given for name, given in before.items())


def _given(pod: Pod) -> dict[str, ResourceRequirements | None]:
    """The resources that containers have got, by the containers' names."""
    status = pod.get("status") or {}
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return {c["name"]: c.get("resources") for c in statuses}


class ResourceQuotaController(Controller[ObjectKey]):
    """Kinds are looked at once a quota counts them."""

    name = "resourcequota-controller"

    def __init__(self, context: ControllerContext, *, resync_seconds: float = RESYNC_SECONDS) -> None:
        super().__init__(context)
        self._resync = resync_seconds
        self._quotas = context.informers.get(RESOURCE_QUOTAS)
        self._tracked: dict[Resource[Any], Informer[Any]] = {}
        self._claims: Resource[ResourceClaim] | None = None
        self._classes: Informer[DeviceClass] | None = None
        try:
            self._claims = context.resource(RESOURCE_CLAIMS, *_CLAIM_VERSIONS)
            if context.quirks.charges_extended_resources_to_claims:
                self._classes = context.informers.get(context.resource(DEVICE_CLASSES, *_CLAIM_VERSIONS))
        except NotServed:
            pass
        self._quotas.add_handler(on_add=lambda new: self.enqueue(key_of(new)), on_update=self._quota_changed)

    def _quota_changed(self, old: ResourceQuota, new: ResourceQuota) -> None:
        # Its status is written by us and by admission.
        if old["spec"] != new["spec"]:
            self.enqueue(key_of(new))

    def _replenish(self, namespace: str) -> None:
        for quota in self._quotas.items():
            if quota["metadata"]["namespace"] == namespace:
                self.enqueue(key_of(quota))

    async def _track(self, resource: Resource[T]) -> Informer[T]:
        informer: Informer[T] | None = self._tracked.get(resource)
        if informer is None:
            informer = self._tracked[resource] = self.context.informers.get(resource)
            now, all_changes = self.context.clock, self.context.quirks.recalculates_quota_on_pod_updates

            def changed(old: T, new: T) -> None:
                if is_replenished(resource, old, new, now=now(), all_changes=all_changes):
                    self._replenish(new["metadata"]["namespace"])

            informer.add_handler(
                on_update=changed, on_delete=lambda old: self._replenish(old["metadata"]["namespace"])
            )
        await informer.synced()
        return informer

    async def sync(self, key: ObjectKey) -> float | None:
        quota = self._quotas.get(*key)
        if quota is None:
            return None
        counted = await self._count(quota)
        status = status_of(quota, counted)
        if status is not None:
            await self.context.client.update_status(
                RESOURCE_QUOTAS, key.namespace, {**quota, "status": status}
            )
        return self._resync

    async def _count(self, quota: ResourceQuota) -> dict[str, Quantity]:
        namespace, names = quota["metadata"]["namespace"], quota["spec"].get("hard") or {}
        counted: dict[str, Quantity] = {}
        for resource in await self._kinds(names):
            informer = await self._track(resource)
            known: Iterable[Object] = informer.items()
            objects = [o for o in known if o["metadata"]["namespace"] == namespace]
            counted = evaluators.add(
                counted, calculate_usage(quota, resource, objects, now=self.context.clock())
            )
        return evaluators.add(counted, await self._count_claims(quota))

    async def _kinds(self, names: Iterable[str]) -> list[Resource[Any]]:
        """The kinds that a quota's resources belong to."""
        found = [
            r
            for r in (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS)
            if evaluators.matching_resources(r.group, r.plural, names)
        ]
        others = {
            n.removeprefix("count/") for n in names if n.startswith("count/") or n in evaluators.ALIASES
        }
        others -= {r.plural for r in found} | {"resourceclaims.resource.k8s.io"}
        if others:
            # Asked for anew each time: kinds come and go with their definitions.
            offered = (await discover(self.context.client)).resources
            found += [s.resource for s in offered if s.resource.namespaced and str(s.resource) in others]
        return found

    async def _count_claims(self, quota: ResourceQuota) -> dict[str, Quantity]:
        if self._claims is None:
            return {}
        served = self._served_by_class()
        names = devices.matching(quota["spec"].get("hard") or {}, extended_resources=served)
        total = dict.fromkeys(names, evaluators.ZERO)
        if not names or evaluators.scopes(quota):
            return total
        informer = await self._track(self._claims)
        for claim in list(informer.items()):
            if claim["metadata"]["namespace"] != quota["metadata"]["namespace"]:
                continue
            paid = await self._charged_to_pod(claim) if served is not None else {}
            charged = devices.charges(claim, extended_resources=served, pod_usage=paid)
            total = evaluators.add(total, {n: Quantity(charged[n]) for n in names if n in charged})
        return total

    def _served_by_class(self) -> dict[str, str] | None:
        if self._classes is None:
            return None
        named = {c["metadata"]["name"]: c["spec"].get("extendedResourceName") for c in self._classes.items()}
        return {name: resource for name, resource in named.items() if resource}

    async def _charged_to_pod(self, claim: ResourceClaim) -> dict[str, int]:
        """What the pod is charged for whose extended resources a claim was made for."""
        annotations, owner = claim["metadata"].get("annotations") or {}, controller_of(claim)
        if annotations.get("resource.kubernetes.io/extended-resource-claim") != "true" or owner is None:
            return {}
        pods = await self._track(PODS)
        pod = pods.get(claim["metadata"]["namespace"], owner["name"])
        if pod is None or pod["metadata"]["uid"] != owner["uid"]:
            return {}
        status = (pod.get("status") or {}).get("extendedResourceClaimStatus")
        if status is not None and status.get("resourceClaimName") != claim["metadata"]["name"]:
            return {}
        charged = evaluators.pod_usage(pod, now=self.context.clock())
        return {n: amount.value() for n, amount in charged.items() if n.startswith(devices.REQUESTS)}
