"""Upstream's DynamicResources plugin: whether the claims of a pod can be dealt with, and what a node would give them.

The plugin follows upstream rule for rule and message for message; the search for devices is ``dray.allocation``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from dray.allocation import (
    AllocationError,
    AllocationTimeout,
    Features,
    Plan,
    Unallocatable,
    Usage,
    allocate,
)
from dray.allocation.allocator import CANNOT_ALLOCATE
from dray.api import claims, nodeaffinity
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.claims import ClaimPostFilter, Deallocate, DeleteLeftover, is_unused
from dray.placement.nominator import DeviceNomination, Nominator
from dray.placement.outcome import Bind, Gated
from dray.placement.plugins import extended_resources, node_allocatable
from dray.placement.plugins.binding_conditions import Failed, Waiting, binding_state, timed_out
from dray.placement.quirks import PlacementQuirks
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.allocation import Reasons
    from dray.api.types.core import ContainerExtendedResourceRequest, NodeAllocatableResourceClaimStatus, Pod
    from dray.api.types.resource import AllocationResult, ResourceClaim
    from dray.placement.cache.groups import GroupCache, PodGroupInfo
    from dray.placement.claims import ClaimPlan
    from dray.placement.policies.scorer import Scorer

PLUGIN = "DynamicResources"

_encode = msgspec.json.Encoder(order="deterministic").encode

#: what the allocator says where a node has too few devices for the claims
TOO_FEW_DEVICES = Rejection(PLUGIN, (CANNOT_ALLOCATE,), resolvable=False)
_NOT_AVAILABLE = Rejection(PLUGIN, ("resourceclaim not available on the node",), resolvable=False)

MAX_SUBREQUESTS = 8
MAX_CONSUMERS = 256  # of a claim


class FilterTimeout(Exception):
    """The search on a node took longer than it may."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the plugin is allowed to do."""

    features: Features = field(default_factory=Features)
    quirks: PlacementQuirks = field(default_factory=PlacementQuirks)
    filter_timeout: float = 10.0
    binding_timeout: float = 600.0


class NodePlan(msgspec.Struct, frozen=True):
    """What the pod would get on one node: an allocation for each claim that has none yet."""

    claims: tuple[ResourceClaim, ...]
    results: tuple[AllocationResult, ...]
    #: the claim for extended resources: the last of ``claims``, to be created, or one that exists and is allocated
    extended_resource_claim: ResourceClaim | None = None
    mappings: Sequence[ContainerExtendedResourceRequest] = ()
    #: what the claims take of the node's own resources, as the pod's status will say
    node_allocatable: Sequence[NodeAllocatableResourceClaimStatus] = ()

    def allocation_for(self, claim: ResourceClaim) -> AllocationResult | None:
        """The claim's new allocation; None if it is allocated already."""
        for one, allocation in zip(self.claims, self.results, strict=True):
            if one is claim:
                return allocation
        return None


_NOTHING_TO_DO = NodePlan((), ())


class DeviceReservation(msgspec.Struct, frozen=True):
    """The claims of a pod, allocated or not, and what those without an allocation get on the chosen node."""

    claims: Sequence[ResourceClaim]
    plan: NodePlan
    group: PodGroupInfo | None = None
    shared: frozenset[str] = (
        frozenset()
    )  # uids of the claims that are reserved for the group, not for the pod


def pod_claims(
    pod: Pod, claim_cache: ClaimCache, *, others: Container[str] = ()
) -> list[ResourceClaim] | str:
    """The claims of a pod, or in upstream's words why the pod is not tried: it cannot use one of them.

    Claims named in ``others`` are of another generation, and not looked at here.
    """
    found: list[ResourceClaim] = []
    namespace = pod["metadata"]["namespace"]
    for entry in pod["spec"].get("resourceClaims") or ():
        try:
            wanted = claims.reference(pod, entry)
        except claims.ClaimNotCreated as problem:
            return str(problem)
        if wanted.claim is None or wanted.claim in others:
            continue
        claim = claim_cache.claim(namespace, wanted.claim)
        if claim is None:
            return f'resourceclaim.resource.k8s.io "{wanted.claim}" not found'
        if "deletionTimestamp" in claim["metadata"]:
            return f'resourceclaim "{wanted.claim}" is being deleted'
        if wanted.generated and (foreign := claims.not_for_pod(pod, claim)):
            return foreign
        found.append(claim)
    return found


def claims_used_only_by(pods: Collection[PodInfo], claim_cache: ClaimCache) -> list[ResourceClaim]:
    """The allocated claims that nobody but these pods uses, so that deleting the pods frees them."""
    uids = {pod.uid for pod in pods}
    found: dict[str, ResourceClaim] = {}
    for pod in pods:
        names = (r.claim for r in claims.references(pod.document) if r.claim) if pod.claims else ()
        held = [claim_cache.claim(pod.namespace, name) for name in names]
        held.append(claim_cache.extended_resource_claim(pod.uid))
        for claim in held:
            if claim is None or claims.allocation(claim) is None:
                continue
            users = {r.get("uid") for r in claim["status"].get("reservedFor") or ()}
            if users and users <= uids:
                found[claim["metadata"]["uid"]] = claim
    return list(found.values())


def device_count(claim: ResourceClaim) -> int:
    """How many devices a claim has."""
    return len(((claims.allocation(claim) or {}).get("devices") or {}).get("results") or ())


def resolvable_by_freeing_devices(rejection: Rejection) -> bool:
    """Whether the plugin might accept the node when other claims give their devices back."""
    return rejection.plugin == PLUGIN and rejection.reasons == (CANNOT_ALLOCATE,)


class DynamicResources:
    """The plugin for claims of the current generation.

    Both methods take ``others``: the names of the pod's claims that another plugin deals with.
    """

    def __init__(
        self,
        claim_cache: ClaimCache,
        options: Options,
        nominator: Nominator,
        *,
        scorer: Scorer,
        new_share_id: Callable[[], str],
        groups: GroupCache | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.claim_cache = claim_cache
        self.groups = groups
        self.options = options
        self.nominator = nominator
        self.scorer = scorer
        self.new_share_id = new_share_id
        self.clock = clock
        self.monotonic = monotonic

    def pre_enqueue(self, pod: PodInfo, others: Container[str] = ()) -> str:
        if not pod.claims:
            return ""
        found = pod_claims(pod.document, self.claim_cache, others=others)
        return found if isinstance(found, str) else ""

    def pre_filter(
        self, pod: PodInfo, others: Container[str] = ()
    ) -> DeviceAttempt | Rejection | Gated | None:
        """``Gated``: since the pod entered the queue a claim was deleted, or its deletion has begun."""
        if not pod.claims and not pod.requests.scalars:
            return None
        claim_cache, options = self.claim_cache, self.options
        found = pod_claims(pod.document, claim_cache, others=others)
        if isinstance(found, str):
            return Gated(found)
        resources = (
            extended_resources.served_resources(pod, claim_cache.classes)
            if options.quirks.serves_extended_resources
            else {}
        )
        if not found and not resources:
            return None
        shared: frozenset[str] = frozenset()
        group = self.groups.of(pod) if pod.group and pod.claims and self.groups is not None else None
        if group is not None and group.claims:
            shared = group_claims(pod, group, found)
            found = [
                self._as_decided(claim) if claim["metadata"]["uid"] in shared else claim for claim in found
            ]
        for claim in found:
            if claims.allocation(claim) is not None:
                user = group.uid if group is not None and claim["metadata"]["uid"] in shared else pod.uid
                if (
                    not options.quirks.tries_full_claims
                    and _is_full(claim)
                    and not claims.is_reserved_for(claim, user)
                ):
                    return _unresolvable("resourceclaim in use")
            elif unfit := _prefilter_reason(claim, claim_cache, options.features):
                return _unresolvable(unfit)
        return DeviceAttempt(self, pod, found, resources, group=group if shared else None, shared=shared)

    def _as_decided(self, claim: ResourceClaim) -> ResourceClaim:
        """The claim of a group with the allocation that an earlier member was given and that is not written yet."""
        pending = self.claim_cache.pending_allocation(claim["metadata"]["uid"])
        if pending is None:
            return claim
        return {**claim, "status": {**(claim.get("status") or {}), "allocation": pending}}


def group_claims(pod: PodInfo, group: PodGroupInfo, found: Iterable[ResourceClaim]) -> frozenset[str]:
    """The uids of those claims of a pod that are claims of its group."""
    names = {
        wanted.claim
        for entry in pod.claims
        if group.shares(entry) and (wanted := claims.known_reference(pod.document, entry)) is not None
    }
    return frozenset(c["metadata"]["uid"] for c in found if c["metadata"]["name"] in names)


class DeviceAttempt:
    """The claims of one pod in one attempt to schedule it."""

    __slots__ = (
        "_allocated", "_claim_cache", "_claims", "_extended_resource_claim", "_failures", "_group",
        "_has_node_allocatable_devices", "_options", "_plugin", "_pod", "_resources", "_shared", "scores_matter", "shape",
        "unallocated", "unavailable_claims",
    )  # fmt: skip

    def __init__(
        self,
        plugin: DynamicResources,
        pod: PodInfo,
        user_claims: list[ResourceClaim],
        resources: dict[str, int],
        *,
        group: PodGroupInfo | None = None,
        shared: frozenset[str] = frozenset(),
    ) -> None:
        """``shared``: the uids of the claims that are the group's, and are reserved for the group."""
        self._plugin = plugin
        self._group = group
        self._shared = shared
        self._pod = pod
        self._claim_cache = claim_cache = plugin.claim_cache
        self._options = plugin.options
        self._claims = user_claims
        self._resources = resources
        self._has_node_allocatable_devices = (
            plugin.options.quirks.maps_node_allocatable and claim_cache.has_node_allocatable_devices
        )
        self._extended_resource_claim = (
            claim_cache.extended_resource_claim(pod.uid) if resources else None
        )  # of an earlier attempt
        self.unallocated: list[ResourceClaim] = []
        self._allocated: list[tuple[ResourceClaim, nodeaffinity.NodeTest | None]] = []  # and their nodes
        self.scores_matter = False
        for claim in user_claims:
            given = claims.allocation(claim)
            if given is None:
                self.unallocated.append(claim)
            else:
                selector = given.get("nodeSelector")
                self._allocated.append((claim, nodeaffinity.node_selector(selector) if selector else None))
            for request in claim["spec"].get("devices", {}).get("requests") or ():
                if request.get("firstAvailable"):
                    self.scores_matter = True
        self.unavailable_claims: dict[str, ResourceClaim] = {}  # allocated claims that ruled out some node
        self._failures: dict[str, Unallocatable] = {}  # node → what the allocator said
        self.shape: bytes | None = self._shape()

    @property
    def device_preemption(self) -> DeviceAttempt:
        return self

    # -- a node -----------------------------------------------------------------------------------------------------

    def filter(self, node: NodeInfo, *, gone: Collection[PodInfo] = ()) -> NodePlan | Rejection:
        """``gone``: what if these pods were deleted, and their claims free?"""
        wanted = list(self.unallocated)
        extended_resource_claim: ResourceClaim | None = None
        mappings: Sequence[ContainerExtendedResourceRequest] = ()
        if self._resources:
            match self._extended(node):
                case Rejection() as rejection:
                    return rejection
                case extended_resources.ClaimRequests(requests, mapped) if requests:
                    mappings = mapped
                    if self._extended_resource_claim is not None:
                        extended_resource_claim = self._extended_resource_claim
                    else:
                        extended_resource_claim = extended_resources.new_claim(self._pod, requests)
                        wanted.append(extended_resource_claim)
        if node.pods_with_node_allocatable and self._options.quirks.maps_node_allocatable:
            for claim, _ in self._allocated:
                if (clash := node_allocatable.used_by_another_pod(self._pod, node, claim)) is not None:
                    return clash
        unavailable = [
            claim
            for claim, test in self._allocated
            if not (test is None or test(node.name, node.labels)) or not self._binding_possible(claim)
        ]
        results: Sequence[AllocationResult] = ()
        if wanted:
            match self._allocate(node, wanted, self._usage(node, gone)):
                case Unallocatable() as failure:
                    if not gone:
                        self._failures[node.name] = failure
                    return Rejection(PLUGIN, (failure.message,), resolvable=False)
                case Plan(results=results):
                    pass
        statuses: Sequence[NodeAllocatableResourceClaimStatus] = ()
        if wanted and self._has_node_allocatable_devices:
            statuses = node_allocatable.claim_statuses(
                self._pod, zip(wanted, results, strict=True), self._claim_cache.mappings
            )
            if statuses and (lacking := node_allocatable.fits_node(self._pod, node, statuses)) is not None:
                return lacking
        if unavailable:
            # Only here: where the other claims cannot be allocated, freeing these would help nobody.
            self.unavailable_claims |= {claim["metadata"]["uid"]: claim for claim in unavailable}
            return _NOT_AVAILABLE
        if not wanted and extended_resource_claim is None:
            return _NOTHING_TO_DO
        return NodePlan(tuple(wanted), tuple(results), extended_resource_claim, mappings, statuses)

    # -- several pods -----------------------------------------------------------------------------------------------

    @property
    def searchable(self) -> bool:
        """Whether ``filter_together`` can deal with the claims of the pod."""
        return not self._resources and not self._has_node_allocatable_devices and not self.scores_matter

    def filter_together(
        self, node: NodeInfo, attempts: Sequence[DeviceAttempt]
    ) -> Sequence[NodePlan] | Rejection:
        """What the node would give the claims of several pods at once; a claim that pods share is allocated once."""
        wanted: dict[str, ResourceClaim] = {}
        for attempt in attempts:
            for _, test in attempt._allocated:
                if test is not None and not test(node.name, node.labels):
                    return _NOT_AVAILABLE
            wanted |= {claim["metadata"]["uid"]: claim for claim in attempt.unallocated}
        results: dict[str, AllocationResult] = {}
        if wanted:
            match self._allocate(node, list(wanted.values()), self._usage(node, ())):
                case Unallocatable() as failure:
                    return Rejection(PLUGIN, (failure.message,), resolvable=False)
                case Plan(results=found):
                    results = dict(zip(wanted, found, strict=True))
        return [
            NodePlan(
                tuple(attempt.unallocated),
                tuple(results[claim["metadata"]["uid"]] for claim in attempt.unallocated),
            )
            for attempt in attempts
        ]

    def score(self, plan: ClaimPlan) -> int:
        """Earlier alternatives are worth more."""
        assert isinstance(plan, NodePlan)
        total = 0
        for claim in self._claims:
            result: AllocationResult = plan.allocation_for(claim) or claims.allocation(claim) or {}
            chosen = {r["request"] for r in (result.get("devices") or {}).get("results") or ()}
            for request in claim["spec"].get("devices", {}).get("requests") or ():
                for i, alternative in enumerate(request.get("firstAvailable") or ()):
                    if f"{request['name']}/{alternative['name']}" in chosen:
                        total += MAX_SUBREQUESTS - i
        return total

    # -- the outcome ------------------------------------------------------------------------------------------------

    def reserve(self, node: str, plan: ClaimPlan) -> Bind:
        assert isinstance(plan, NodePlan)
        return Bind(node, DeviceReservation(self._claims, plan, self._group, self._shared))

    def post_filter(self, rejected_by: frozenset[str]) -> ClaimPostFilter:
        for claim in self.unavailable_claims.values():
            if is_unused(claim, self._pod):
                return ClaimPostFilter("deallocation of ResourceClaim completed", (Deallocate(claim),))
        if (leftover := self._extended_resource_claim) is not None:
            return ClaimPostFilter("deletion of ResourceClaim completed", (DeleteLeftover(leftover),))
        return ClaimPostFilter(
            "still not schedulable" if self._options.quirks.says_still_not_schedulable else ""
        )

    def reasons(self, nodes: Iterable[NodeInfo]) -> Mapping[str, Reasons]:
        """The allocator is asked again about nodes that another pod of this shape was rejected by."""
        found: dict[str, Reasons] = {}
        for node in nodes:
            if node.name not in self._failures:
                with contextlib.suppress(AllocationError, FilterTimeout):
                    self.filter(node)
            if node.name in self._failures:
                found[node.name] = self._failures[node.name].reasons
        return found

    # -- preemption of devices --------------------------------------------------------------------------------------

    def devices_freed_by(self, pod: PodInfo) -> int:
        """How many devices the deletion of another pod frees."""
        return sum(map(device_count, claims_used_only_by([pod], self._claim_cache)))

    def nomination(self, node: NodeInfo, victims: Sequence[PodInfo]) -> DeviceNomination | None:
        """What this pod will get of the devices of the victims, who are still on ``node``."""
        plan = self.filter(node.without(frozenset(p.uid for p in victims)), gone=victims)
        freed = claims_used_only_by(victims, self._claim_cache)
        if isinstance(plan, Rejection) or not freed:
            return None
        return DeviceNomination(plan, lambda: any(self._is_being_freed(c, victims) for c in freed))

    def _is_being_freed(self, claim: ResourceClaim, victims: Sequence[PodInfo]) -> bool:
        """Whether a claim is still allocated, and comes free as soon as the victims are deleted."""
        metadata = claim["metadata"]
        now = self._claim_cache.claim(metadata["namespace"], metadata["name"])
        if now is None or now["metadata"]["uid"] != metadata["uid"] or claims.allocation(now) is None:
            return False
        users = {r.get("uid") for r in now["status"].get("reservedFor") or ()}
        return users <= {p.uid for p in victims}

    # -- details ----------------------------------------------------------------------------------------------------

    def _usage(self, node: NodeInfo, gone: Collection[PodInfo]) -> Usage:
        """The devices in use, as far as this pod is concerned."""
        nominated_plans = self._plugin.nominator.nominated_plans(self._pod, node.name)
        freed = claims_used_only_by(gone, self._claim_cache) if gone else ()
        if not nominated_plans and not freed:
            return self._claim_cache.usage
        usage = self._claim_cache.usage.snapshot()
        for claim in freed:
            usage.remove(claim)
        for plan in nominated_plans:
            for claim, allocation in zip(plan.claims, plan.results, strict=True):
                usage.add(claim, allocation)
        return usage

    def _allocate(self, node: NodeInfo, wanted: list[ResourceClaim], usage: Usage) -> Plan | Unallocatable:
        options, monotonic, scorer = self._options, self._plugin.monotonic, self._plugin.scorer
        deadline = monotonic() + options.filter_timeout if options.filter_timeout else None
        assert node.document is not None
        try:
            return allocate(
                self._claim_cache.inventory,
                usage,
                node.document,
                wanted,
                features=options.features,
                new_share_id=self._plugin.new_share_id,
                deadline=deadline,
                monotonic=monotonic,
                policy=scorer.arrangement(self._pod, node, lambda: scorer.request(self._pod, self)),
            )
        except AllocationTimeout:
            raise FilterTimeout(f"node {node.name}: timed out trying to allocate devices") from None

    def _extended(self, node: NodeInfo) -> extended_resources.ClaimRequests | Rejection:
        served = [name for name in self._resources if not node.allocatable.scalars.get(name)]
        for name, amount in self._pod.requests.scalars.items():
            if (
                amount
                and extended_resources.is_extended(name)
                and name not in self._resources
                and name not in node.allocatable.scalars
            ):
                return Rejection(PLUGIN, ("cannot fit resource",), resolvable=False)
        wanted = extended_resources.requests(self._pod, served, self._claim_cache.classes.device_class_of)
        leftover = self._extended_resource_claim
        if leftover is not None and not self._resumes(leftover, wanted, node):
            return Rejection(PLUGIN, ("cannot schedule extended resource claim",), resolvable=False)
        return wanted

    def _resumes(
        self, leftover: ResourceClaim, wanted: extended_resources.ClaimRequests, node: NodeInfo
    ) -> bool:
        """Whether the pod can be bound to the node with the claim of an earlier attempt, which was not finished.

        A scheduler was killed before it could bind the pod, or another scheduler is about to bind it. Upstream always
        begins anew, and so deletes the claim of a pod that is about to be bound.
        """
        given = claims.allocation(leftover)
        if given is None or not claims.is_reserved_for(leftover, self._pod.uid):
            return False
        if extended_resources.request_summary(
            leftover["spec"]["devices"].get("requests") or ()
        ) != extended_resources.request_summary(wanted.requests):
            return False
        selector = given.get("nodeSelector")
        return selector is None or nodeaffinity.node_selector(selector)(node.name, node.labels)

    def _binding_possible(self, claim: ResourceClaim) -> bool:
        """An allocated claim whose devices failed to bind, or took too long to, is no use on any node."""
        if not self._options.features.binding_conditions:
            return True
        match binding_state(claim):
            case Failed():
                return False
            case Waiting():
                return not timed_out(claim, self._options.binding_timeout, self._plugin.clock())
        return True

    def _shape(self) -> bytes | None:
        if self.scores_matter or self._has_node_allocatable_devices:
            return None
        parts: list[object] = [c["spec"] for c in self.unallocated]
        parts += [(claims.allocation(c) or {}).get("nodeSelector") for c, _ in self._allocated]
        if self._resources:
            spec = self._pod.document["spec"]
            for containers in (spec.get("initContainers"), spec.get("containers")):
                parts.append(
                    [(c["name"], c.get("restartPolicy"), c.get("resources")) for c in containers or ()]
                )
            if self._extended_resource_claim is not None:
                parts.append(self._extended_resource_claim["metadata"]["uid"])
        if self._allocated:
            parts.append([c["metadata"]["uid"] for c, _ in self._allocated])
        return _encode(parts)


def _is_full(claim: ResourceClaim) -> bool:
    return len(claim["status"].get("reservedFor") or ()) >= MAX_CONSUMERS


def _unresolvable(message: str) -> Rejection:
    return Rejection(PLUGIN, (message,), resolvable=False)


def _prefilter_reason(claim: ResourceClaim, claim_cache: ClaimCache, features: Features) -> str:
    """What is wrong with an unallocated claim before any node is looked at."""
    if claim_cache.has_pending_allocation(claim["metadata"]["uid"]):
        return f"resource claim {_key(claim)} is in the process of being allocated"
    for request in (claim["spec"].get("devices") or {}).get("requests") or ():
        if exactly := request.get("exactly"):
            wanted = [(request["name"], exactly["deviceClassName"])]
        elif alternatives := request.get("firstAvailable"):
            if not features.prioritized_list:
                return (
                    f"resource claim {_key(claim)}, request {request['name']}: has subrequests, "
                    "but the DRAPrioritizedList feature is disabled"
                )
            wanted = [(f"{request['name']}/{a['name']}", a["deviceClassName"]) for a in alternatives]
        else:
            return f"resource claim {_key(claim)}, request {request['name']}: unknown request type"
        for name, device_class in wanted:
            if claim_cache.inventory.device_class(device_class) is None:
                return f"request {name}: device class {device_class} does not exist"
    return ""


def _key(claim: ResourceClaim) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
