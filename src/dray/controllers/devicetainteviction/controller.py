"""The device taint eviction controller: it deletes pods whose devices have a NoExecute taint that they do not tolerate.

Each event updates the evictions of the claims concerned and of no others; ``eviction`` has the decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api import claims
from dray.api.errors import NotFound
from dray.api.times import from_epoch, to_epoch
from dray.client.client import PatchType
from dray.client.resources import (
    DEVICE_TAINT_RULES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    ObjectKey,
    key_of,
)
from dray.controllers.controller import Controller, ControllerContext
from dray.controllers.devicetainteviction import eviction
from dray.controllers.devicetainteviction.eviction import NO_EXECUTE, Eviction, Pool, PoolID, TaintRuleStats
from dray.controllers.pod_status import disruption_target_patch

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaimStatus
    from dray.api.types.resource import (
        DeviceRequestAllocationResult,
        DeviceTaintRule,
        ResourceClaim,
        ResourceSlice,
    )


#: The shortest time between two writes of a rule's status while pods are being evicted.
STATUS_SECONDS: Final = 10.0
_MAX_EVICTED_PODS: Final = 500


class PodRef(NamedTuple):
    """A pod that has to go."""

    namespace: str
    name: str
    uid: str


class RuleRef(NamedTuple):
    """A rule whose status has to be looked at."""

    name: str
    uid: str


class DeviceTaintEvictionController(Controller[PodRef | RuleRef]):
    name = "device-taint-eviction-controller"
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pools: dict[PoolID, Pool] = {}
        self._tainted_pools: set[PoolID] = set()  # those with devices whose taints evict
        self._claims_by_pool: dict[PoolID, dict[ObjectKey, None]] = {}  # claims with devices of a pool
        self._rules: dict[str, DeviceTaintRule] = {}  # those that evict, by name
        self._evictions: dict[ObjectKey, Eviction] = {}  # claims whose pods have to go
        self._pending_evictions: dict[PodRef, Eviction] = {}
        self._evicted: dict[str, None] = {}  # uids of pods that we made go, oldest first
        self._evicted_by_rule: dict[str, int] = {}  # rule uid → pods evicted
        get = context.informers.get
        self._claims = get(context.resource(RESOURCE_CLAIMS, "v1", "v1beta2", "v1beta1"))
        self._slices = get(context.resource(RESOURCE_SLICES, "v1", "v1beta2"))
        self._pods = get(PODS)
        self._slices.add_handler(on_set=self._slice_set, on_delete=self._slice_deleted)
        if context.quirks.evicts_by_taint_rules:
            self._resource = context.resource(DEVICE_TAINT_RULES, "v1", "v1beta2", "v1alpha3")
            self._all_rules = get(self._resource)
            self._all_rules.add_handler(
                on_add=lambda rule: self._rule_changed(None, rule),
                on_update=self._rule_changed,
                on_delete=self._rule_deleted,
            )
        self._claims.add_handler(
            on_add=self._claim_added, on_update=self._claim_changed, on_delete=self._claim_deleted
        )
        self._pods.add_handler(
            on_add=self._check_pod,
            on_update=self._pod_changed,
            on_delete=self._pod_deleted,
        )

    # -- slices and rules -------------------------------------------------------------------------------------------

    def _slice_set(self, document: ResourceSlice) -> None:
        pool_id = _pool_id(document)
        pool = self._pools.get(pool_id)
        if pool is None:
            pool = self._pools[pool_id] = Pool()
        self._devices_changed(pool_id, pool, pool.set(document))

    def _slice_deleted(self, document: ResourceSlice) -> None:
        pool_id = _pool_id(document)
        pool = self._pools.get(pool_id)
        if pool is None:
            return
        changed = pool.remove(document["metadata"]["name"])
        if not pool:
            del self._pools[pool_id]
        self._devices_changed(pool_id, pool, changed)

    def _devices_changed(self, pool_id: PoolID, pool: Pool, devices: Collection[str]) -> None:
        if not devices:
            return
        (self._tainted_pools.add if pool.tainted else self._tainted_pools.discard)(pool_id)
        for key in list(self._claims_by_pool.get(pool_id, ())):
            claim = self._claims.get(*key)
            if claim is not None and any(
                (r["driver"], r["pool"]) == pool_id and r["device"] in devices
                for r in eviction.allocation_results(claim)
            ):
                self._update_eviction(key, claim, eviction.allocation_results(claim))

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule) -> None:
        metadata = new["metadata"]
        if old is not None and old["metadata"]["uid"] == metadata["uid"] and old["spec"] == new["spec"]:
            return
        # The rule's status is written at once, before any pod is evicted.
        self.enqueue(RuleRef(metadata["name"], metadata["uid"]))
        if new["spec"]["taint"]["effect"] == NO_EXECUTE:
            self._rules[metadata["name"]] = new
        elif self._rules.pop(metadata["name"], None) is None:
            return
        self._update_all_evictions()

    def _rule_deleted(self, rule: DeviceTaintRule) -> None:
        self._evicted_by_rule.pop(rule["metadata"]["uid"], None)
        if self._rules.pop(rule["metadata"]["name"], None) is not None:
            self._update_all_evictions()

    def _update_all_evictions(self) -> None:
        for claim in list(self._claims.items()):
            if allocated := eviction.allocation_results(claim):
                self._update_eviction(key_of(claim), claim, allocated)

    # -- claims -----------------------------------------------------------------------------------------------------

    def _claim_added(self, claim: ResourceClaim) -> None:
        if allocated := eviction.allocation_results(claim):
            self._claim_allocated(claim, allocated)

    def _claim_allocated(
        self, claim: ResourceClaim, allocated: Sequence[DeviceRequestAllocationResult]
    ) -> None:
        key = key_of(claim)
        for result in allocated:
            self._claims_by_pool.setdefault(PoolID(result["driver"], result["pool"]), {})[key] = None
        if not (self._tainted_pools or self._rules or self._evictions or self._pending_evictions):
            return  # as in most clusters, where nothing is tainted and claims are many
        if not self._update_eviction(key, claim, allocated):
            self._check_consumers(claim)

    def _claim_changed(self, old: ResourceClaim, new: ResourceClaim) -> None:
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._claim_deleted(old)
            self._claim_added(new)
            return
        # An allocation never changes; it comes and goes.
        before, after = eviction.allocation_results(old), eviction.allocation_results(new)
        if before and not after:
            self._claim_deleted(old)
        elif after and not before:
            self._claim_allocated(new, after)
        elif after and (self._pending_evictions or key_of(new) in self._evictions):
            if claims.reserved_for(old) != claims.reserved_for(new):
                self._check_consumers(old)
            self._check_consumers(new)

    def _claim_deleted(self, claim: ResourceClaim) -> None:
        key = key_of(claim)
        for result in eviction.allocation_results(claim):
            pool_id = PoolID(result["driver"], result["pool"])
            users = self._claims_by_pool.get(pool_id)
            if users is not None:
                users.pop(key, None)
                if not users:
                    del self._claims_by_pool[pool_id]
        if self._evictions.pop(key, None) is not None or self._pending_evictions:
            self._check_consumers(claim)

    def _update_eviction(
        self, key: ObjectKey, claim: ResourceClaim, allocated: Sequence[DeviceRequestAllocationResult]
    ) -> bool:
        """Work out anew when the pods of a claim have to go; says whether that is different now."""
        found = eviction.claim_eviction(allocated, self._pools, self._rules.values())
        if found == self._evictions.get(key):
            return False
        if found is None:
            del self._evictions[key]
        else:
            self._evictions[key] = found
        self._check_consumers(claim)
        return True

    # -- pods -------------------------------------------------------------------------------------------------------

    def _check_consumers(self, claim: ResourceClaim) -> None:
        if not self._evictions and not self._pending_evictions:
            return
        namespace = claim["metadata"]["namespace"]
        for consumer in claims.reserved_for(claim):
            if consumer["resource"] == "podgroups":
                for member in list(self._pods.items()):
                    if member["metadata"]["namespace"] == namespace and claims.may_use(member, claim):
                        self._check_pod(member)
            if consumer.get("apiGroup") or consumer["resource"] != "pods":
                continue
            pod = self._pods.get(namespace, consumer["name"])
            if pod is not None and pod["metadata"]["uid"] == consumer["uid"]:
                self._check_pod(pod)

    def _pod_deleted(self, pod: Pod) -> None:
        self._pending_evictions.pop(_pod_ref(pod), None)

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        if not self._evictions and not self._pending_evictions:
            return
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._pending_evictions.pop(_pod_ref(old), None)
        elif old["spec"].get("nodeName") == new["spec"].get("nodeName") and _statuses(old) == _statuses(new):
            return  # most changes of a pod, our own among them, have nothing to do with its claims
        self._check_pod(new)

    def _check_pod(self, pod: Pod) -> None:
        if not self._evictions and not self._pending_evictions:
            return
        victim, found = _pod_ref(pod), self._eviction_of(pod)
        if found is None:
            if self._pending_evictions.pop(victim, None) is not None:
                self._record_event(victim, "Cancelling deletion")
            return
        self._pending_evictions[victim] = found
        self.queue.add_after(victim, found.when - self.context.clock())
        for reason in found.reasons:
            if not reason.from_slice:
                self.queue.add_after(RuleRef(reason.rule, reason.rule_uid), STATUS_SECONDS)

    def _eviction_of(self, pod: Pod) -> Eviction | None:
        if not pod["spec"].get("nodeName"):
            return None
        namespace, found = pod["metadata"]["namespace"], None
        for wanted in claims.references(pod):
            key = ObjectKey(namespace, wanted.claim or "")
            its = self._evictions.get(key)
            claim = self._claims.get(*key) if its is not None else None
            if its is None or claim is None:
                continue
            if wanted.generated and claims.not_for_pod(pod, claim):
                continue
            if claims.may_use(pod, claim):
                found = its if found is None else found.joined(its)
        return found

    # -- doing it ---------------------------------------------------------------------------------------------------

    async def sync(self, key: PodRef | RuleRef) -> float | None:
        if isinstance(key, RuleRef):
            return await self._sync_rule_status(key)
        found = self._pending_evictions.get(key)
        if found is None or key.uid in self._evicted:
            return None
        wait = found.when - self.context.clock()
        if wait > 0:
            return wait
        deleted = await self._evict(key)
        if deleted:
            self.context.metrics.evicted.inc()
            self.context.metrics.eviction_seconds.observe(max(self.context.clock() - found.when, 0.0))
        self._pending_evictions.pop(key, None)
        self._evicted[key.uid] = None
        while len(self._evicted) > _MAX_EVICTED_PODS:
            del self._evicted[next(iter(self._evicted))]
        for reason in found.reasons if deleted else ():
            if not reason.from_slice:
                self._evicted_by_rule[reason.rule_uid] = self._evicted_by_rule.get(reason.rule_uid, 0) + 1
                # Later: at this moment the informers do not show the deletion yet.
                self.queue.add_after(RuleRef(reason.rule, reason.rule_uid), STATUS_SECONDS)
        return None

    async def _evict(self, victim: PodRef) -> bool:
        """Mark the pod and delete it; False if it was gone already."""
        client = self.context.client
        try:
            pod = await client.get(PODS, victim.namespace, victim.name)
            if pod["metadata"]["uid"] != victim.uid:
                return False
            if "deletionTimestamp" in pod["metadata"]:
                return True
            self._record_event(victim, "Marking for deletion")
            patch = disruption_target_patch(
                pod,
                reason="DeletionByDeviceTaintManager",
                message="Device Taint manager: deleting due to NoExecute taint",
                now=from_epoch(self.context.clock()),
            )
            if patch is not None:
                await client.patch_status(
                    PODS, victim.namespace, victim.name, patch, type=PatchType.STRATEGIC
                )
            await client.delete(PODS, victim.namespace, victim.name, uid=victim.uid)
        except NotFound:
            return False
        return True

    def _record_event(self, victim: PodRef, text: str) -> None:
        about: Pod = {"metadata": {"namespace": victim.namespace, "name": victim.name, "uid": victim.uid}}
        self.context.recorder.event(PODS, about, "Normal", "DeviceTaintManagerEviction", text)

    # -- the status of rules ----------------------------------------------------------------------------------------

    async def _sync_rule_status(self, key: RuleRef) -> float | None:
        rule = self._all_rules.get("", key.name)
        if rule is None or rule["metadata"]["uid"] != key.uid:
            return None
        now = self.context.clock()
        present = eviction.present_condition(rule)
        if present is not None and present.get("observedGeneration") == rule["metadata"].get("generation"):
            since = now - to_epoch(present["lastTransitionTime"])
            if since < STATUS_SECONDS:
                return STATUS_SECONDS - since
        wanted = eviction.rule_condition(rule, self._rule_stats(rule), now=from_epoch(now))
        if wanted is not None:
            await self.context.client.apply(
                self._resource,
                "",
                {"metadata": {"name": key.name, "uid": key.uid}, "status": {"conditions": [wanted]}},
                field_manager=self.name,
                force=True,
                subresource="status",
            )
        return None

    def _rule_stats(self, rule: DeviceTaintRule) -> TaintRuleStats:
        evicted = self._evicted_by_rule.get(rule["metadata"]["uid"], 0)
        match rule["spec"]["taint"]["effect"]:
            case "NoExecute":
                pods, namespaces = self._pending(rule, self._evictions)
                return TaintRuleStats(pods, namespaces, evicted=evicted)
            case "None":
                pods, namespaces = self._pending(rule, self._would_evict(rule))
                return TaintRuleStats(pods, namespaces, self._published(rule), self._allocated(rule), evicted)
        return TaintRuleStats(evicted=evicted)

    def _would_evict(self, rule: DeviceTaintRule) -> dict[ObjectKey, Eviction]:
        """What would have to go if the rule had the effect NoExecute."""
        spec = rule["spec"]
        pretended: DeviceTaintRule = {
            **rule,
            "spec": {**spec, "taint": {**spec["taint"], "effect": NO_EXECUTE}},
        }
        found = {}
        for claim in self._claims.items():
            its = eviction.claim_eviction(eviction.allocation_results(claim), self._pools, (pretended,))
            if its is not None:
                found[key_of(claim)] = its
        return found

    def _pending(self, rule: DeviceTaintRule, found: Mapping[ObjectKey, Eviction]) -> tuple[int, int]:
        """Pods that have to go because of a rule, and the namespaces they are in."""
        uid, pods = rule["metadata"]["uid"], set()
        for key, its in found.items():
            claim = self._claims.get(*key)
            if claim is None or not any(r.rule_uid == uid for r in its.reasons):
                continue
            for consumer in claims.reserved_for(claim):
                pod = self._pods.get(key.namespace, consumer["name"])
                if pod is not None and pod["metadata"]["uid"] == consumer["uid"] and _pending(pod, claim):
                    pods.add((key.namespace, consumer["uid"]))
        return len(pods), len({namespace for namespace, _ in pods})

    def _published(self, rule: DeviceTaintRule) -> int:
        newest: dict[PoolID, int] = {}
        for document in self._slices.items():
            pool_id, generation = _pool_id(document), document["spec"]["pool"]["generation"]
            newest[pool_id] = max(generation, newest.get(pool_id, generation))
        return sum(
            eviction.rule_selects(rule, *pool_id, device["name"])
            for document in self._slices.items()
            if document["spec"]["pool"]["generation"] == newest[pool_id := _pool_id(document)]
            for device in document["spec"].get("devices") or ()
        )

    def _allocated(self, rule: DeviceTaintRule) -> int:
        return sum(
            eviction.rule_selects(rule, r["driver"], r["pool"], r["device"])
            for claim in self._claims.items()
            for r in eviction.allocation_results(claim)
        )


def _pending(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a consumer of a claim really uses it, and is still to go."""
    if "deletionTimestamp" in pod["metadata"] or not pod["spec"].get("nodeName"):
        return False
    name = claim["metadata"]["name"]
    return any(
        wanted.claim == name and not (wanted.generated and claims.not_for_pod(pod, claim))
        for wanted in claims.references(pod)
    )


def _pool_id(document: ResourceSlice) -> PoolID:
    return PoolID(document["spec"]["driver"], document["spec"]["pool"]["name"])


def _pod_ref(pod: Pod) -> PodRef:
    metadata = pod["metadata"]
    return PodRef(metadata["namespace"], metadata["name"], metadata["uid"])


def _statuses(pod: Pod) -> Sequence[PodResourceClaimStatus] | None:
    return (pod.get("status") or {}).get("resourceClaimStatuses")
