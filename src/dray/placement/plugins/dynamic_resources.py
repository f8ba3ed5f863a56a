"""Devices in one attempt to place one pod: are its claims ready to be dealt with, and what would a node give them?

Follows upstream's DynamicResources plugin, rule for rule and word for word; the search itself is ``dray.allocation``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.allocation import (
    DEFAULT,
    SPREAD,
    AllocationError,
    AllocationTimeout,
    Features,
    Plan,
    Policy,
    Unallocatable,
    Usage,
    allocate,
)
from dray.allocation.allocator import CANNOT_ALLOCATE
from dray.allocation.policies import occupancy
from dray.api import claims, nodeaffinity
from dray.api.validation.field import quote
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.plugins import extended_resources as plugins_extended_resources
from dray.placement.plugins import node_allocatable
from dray.placement.status import Gated, Rejection

PLUGIN = "DynamicResources"

Document = Any
_encode = msgspec.json.Encoder(order="deterministic").encode

_NOT_AVAILABLE = Rejection(PLUGIN, ("resourceclaim not available on the node",), resolvable=False)

BINDING_GATES = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
MAX_SUBREQUESTS = 8
MAX_CONSUMERS = 256  # of a claim


class FilterTimeout(Exception):
    """The search on a node took longer than it may."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the plugin is allowed to do."""

    features: Features = field(default_factory=Features)
    extended_resources: bool = True
    node_resources: bool = True  # devices may stand for cpu or memory of their node
    filter_timeout: float = 10.0
    binding_timeout: float = 600.0
    policy: Policy = DEFAULT
    advice: bool = (
        True  # whether the message of a pending pod ends with what would help, which upstream's does not
    )
    faithful: bool = False  # upstream's slips are wanted too: a release is emulated


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What the pod would get on one node: an allocation for each claim that has none yet."""

    claims: tuple[Document, ...]
    results: tuple[Document, ...]
    #: the claim for extended resources: the last of ``claims``, to be made, or one that is there and allocated
    generated: Document | None = None
    mappings: Sequence[Document] = ()
    #: what the claims take of the node's own resources, as the pod's status will tell it
    held: Sequence[Document] = ()

    def allocation_for(self, claim: Document) -> Document | None:
        """What the claim is to get; None if it has something already."""
        for one, allocation in zip(self.claims, self.results, strict=True):
            if one is claim:
                return allocation
        return None


_NOTHING_TO_DO = NodePlan((), ())

NominatedPlans = Callable[[str], Sequence[NodePlan]]


def policy_score(claim_cache: ClaimCache, options: Options) -> Callable[[NodeInfo], float] | None:
    """How well a node suits the policy, from 0 to 100: the fuller the better, or the emptier. None: all the same."""
    if options.policy is DEFAULT:
        return None
    emptier = options.policy is SPREAD

    def score(node: NodeInfo) -> float:
        assert node.document is not None
        try:
            used = occupancy(claim_cache.inventory.pools(node.document, options.features), claim_cache.usage)
        except AllocationError:  # whoever asks this node for devices will be told
            return 0.0
        return 100 * (1 - used if emptier else used)

    return score


def pod_claims(
    pod: Document, claim_cache: ClaimCache, *, others: Container[str] = ()
) -> list[Document] | str:
    """The claims of a pod, or in upstream's words why it waits without being tried: one is not there for it to use.

    Claims named in ``others`` are of another generation, and not looked at here.
    """
    found: list[Document] = []
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


def gate(pod: PodInfo, claim_cache: ClaimCache, *, others: Container[str] = ()) -> str:
    """Why the pod is not to be tried yet, or an empty string."""
    if not pod.claims:
        return ""
    found = pod_claims(pod.document, claim_cache, others=others)
    return found if isinstance(found, str) else ""


def claims_used_only_by(pods: Collection[PodInfo], claim_cache: ClaimCache) -> list[Document]:
    """The allocated claims that nobody but these pods uses: they come free when all of them have gone."""
    uids = {pod.uid for pod in pods}
    found: dict[str, Document] = {}
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


def device_count(claim: Document) -> int:
    """How many devices a claim has."""
    return len(_results(claim))


def resolvable_by_freeing_devices(rejection: Rejection) -> bool:
    """Whether a "no" may become a "yes" when others give their devices back."""
    return rejection.plugin == PLUGIN and rejection.reasons == (CANNOT_ALLOCATE,)


class Attempt:
    """One attempt of one pod. ``begin`` decides what can be decided before any node is looked at."""

    def __init__(
        self,
        pod: PodInfo,
        claim_cache: ClaimCache,
        options: Options,
        user_claims: list[Document],
        resources: dict[str, int],
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        new_share_id: Callable[[], str],
        nominated_plans: NominatedPlans,
    ) -> None:
        self._pod = pod
        self._claim_cache = claim_cache
        self._options = options
        self._monotonic = monotonic
        self._now = clock
        self._new_share_id = new_share_id
        self._nominated_plans = nominated_plans
        self.claims = user_claims
        self._resources = resources
        self._has_node_allocatable_devices = (
            options.node_resources and claim_cache.has_node_allocatable_devices
        )
        self._made = claim_cache.extended_resource_claim(pod.uid) if resources else None
        self._open: list[Document] = []
        self._nodes_of: list[
            tuple[Document, nodeaffinity.NodeTest | None]
        ] = []  # of those that are allocated
        self.scores_matter = False
        for claim in user_claims:
            given = claims.allocation(claim)
            if given is None:
                self._open.append(claim)
            else:
                selector = given.get("nodeSelector")
                self._nodes_of.append((claim, nodeaffinity.node_selector(selector) if selector else None))
            for request in claim["spec"].get("devices", {}).get("requests") or ():
                if request.get("firstAvailable"):
                    self.scores_matter = True
        self.unavailable_claims: dict[str, Document] = {}  # allocated claims that kept the pod from some node
        self.failures: dict[str, Unallocatable] = {}  # node → what the allocator had to say
        self.shape: bytes | None = self._shape()

    @classmethod
    def begin(
        cls,
        pod: PodInfo,
        claim_cache: ClaimCache,
        options: Options,
        *,
        new_share_id: Callable[[], str],
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        nominated_plans: NominatedPlans = lambda node: (),
        others: Container[str] = (),
    ) -> Attempt | Rejection | Gated | None:
        """An attempt, a "no" for every node, or None when the pod has nothing to do with devices.

        ``Gated``: a claim has gone, or is about to, since the pod was let into the queue.

        ``promised``: what others are to get on a node, which this pod must leave alone. ``others``: the pod's claims
        of another generation.
        """
        if not pod.claims and not pod.requests.scalars:
            return None
        found = pod_claims(pod.document, claim_cache, others=others)
        if isinstance(found, str):
            return Gated(found)
        resources = (
            plugins_extended_resources.served_resources(pod, claim_cache.classes)
            if options.extended_resources
            else {}
        )
        if not found and not resources:
            return None
        for claim in found:
            if claims.allocation(claim) is not None:
                if _is_full(claim) and not claims.is_reserved_for(claim, pod.uid):
                    return _unresolvable("resourceclaim in use")
            elif unfit := _prefilter_reason(claim, claim_cache, options.features):
                return _unresolvable(unfit)
        return cls(
            pod,
            claim_cache,
            options,
            found,
            resources,
            clock=clock,
            monotonic=monotonic,
            new_share_id=new_share_id,
            nominated_plans=nominated_plans,
        )

    @property
    def leftover_claim(self) -> Document | None:
        """A claim for extended resources from an earlier attempt, which fits no longer."""
        return self._made

    # -- a node -----------------------------------------------------------------------------------------------------

    def on(self, node: NodeInfo, *, gone: Collection[PodInfo] = ()) -> NodePlan | Rejection:
        """``gone``: what if these pods were not there any more, and their claims free?"""
        wanted: list[Document] = list(self._open)
        generated: Document | None = None
        mappings: Sequence[Document] = ()
        if self._resources:
            match self._extended(node):
                case Rejection() as rejection:
                    return rejection
                case plugins_extended_resources.ClaimRequests(requests, mapped) if requests:
                    mappings = mapped
                    if self._made is not None:
                        generated = self._made
                    else:
                        generated = {
                            **plugins_extended_resources.new_claim(self._pod), "spec": {"devices": {"requests": requests}},
                        }  # fmt: skip
                        wanted.append(generated)
        if node.holders and self._options.node_resources:
            for claim, _ in self._nodes_of:
                if (clash := node_allocatable.used_by_another_pod(self._pod, node, claim)) is not None:
                    return clash
        in_the_way = [
            claim
            for claim, test in self._nodes_of
            if not (test is None or test(node.name, node.labels)) or not self._binding_possible(claim)
        ]
        results: Sequence[Document] = ()
        if wanted:
            match self._allocate(node, wanted, self._usage(node, gone)):
                case Unallocatable() as failure:
                    if not gone:
                        self.failures[node.name] = failure
                    return Rejection(PLUGIN, (failure.message,), resolvable=False)
                case Plan(results=results):
                    pass
        held: Sequence[Document] = ()
        if wanted and self._has_node_allocatable_devices:
            held = node_allocatable.claim_statuses(
                self._pod, zip(wanted, results, strict=True), self._claim_cache.mappings
            )
            if held and (lacking := node_allocatable.fits_node(self._pod, node, held)) is not None:
                return lacking
        if in_the_way:
            # Only here: where other claims cannot be allocated, to free these would help nobody.
            self.unavailable_claims |= {claim["metadata"]["uid"]: claim for claim in in_the_way}
            return _NOT_AVAILABLE
        if not wanted and generated is None:
            return _NOTHING_TO_DO
        return NodePlan(tuple(wanted), tuple(results), generated, mappings, held)

    def explain(self, nodes: Iterable[NodeInfo]) -> dict[str, Unallocatable]:
        """What the allocator has to say about these nodes, asked anew where another pod of this shape was told."""
        for node in nodes:
            if node.name not in self.failures:
                with contextlib.suppress(AllocationError, FilterTimeout):
                    self.on(node)
        return self.failures

    def score(self, plan: NodePlan) -> int:
        """Earlier alternatives are worth more."""
        total = 0
        for claim in self.claims:
            result = plan.allocation_for(claim) or claims.allocation(claim) or {}
            chosen = {r["request"] for r in (result.get("devices") or {}).get("results") or ()}
            for request in claim["spec"].get("devices", {}).get("requests") or ():
                for i, alternative in enumerate(request.get("firstAvailable") or ()):
                    if f"{request['name']}/{alternative['name']}" in chosen:
                        total += MAX_SUBREQUESTS - i
        return total

    def _usage(self, node: NodeInfo, gone: Collection[PodInfo]) -> Usage:
        """What is taken, as far as this pod is concerned."""
        nominated_plans = self._nominated_plans(node.name)
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

    def _allocate(self, node: NodeInfo, wanted: list[Document], usage: Usage) -> Plan | Unallocatable:
        options = self._options
        deadline = self._monotonic() + options.filter_timeout if options.filter_timeout else None
        assert node.document is not None
        try:
            return allocate(
                self._claim_cache.inventory,
                usage,
                node.document,
                wanted,
                features=options.features,
                new_share_id=self._new_share_id,
                deadline=deadline,
                monotonic=self._monotonic,
                policy=options.policy,
            )
        except AllocationTimeout:
            raise FilterTimeout(f"node {node.name}: timed out trying to allocate devices") from None

    def _extended(self, node: NodeInfo) -> plugins_extended_resources.ClaimRequests | Rejection:
        served = [name for name in self._resources if not node.allocatable.scalars.get(name)]
        for name, amount in self._pod.requests.scalars.items():
            if (
                amount
                and plugins_extended_resources.is_extended(name)
                and name not in self._resources
                and name not in node.allocatable.scalars
            ):
                return Rejection(PLUGIN, ("cannot fit resource",), resolvable=False)
        wanted = plugins_extended_resources.requests(
            self._pod, served, self._claim_cache.classes.device_class_of
        )
        if self._made is not None and not self._resumes(self._made, wanted, node):
            return Rejection(PLUGIN, ("cannot schedule extended resource claim",), resolvable=False)
        return wanted

    def _resumes(
        self, made: Document, wanted: plugins_extended_resources.ClaimRequests, node: NodeInfo
    ) -> bool:
        """Whether a claim is what an attempt that did not come to its end would have gone on with on this node.

        A scheduler was killed before it could bind the pod, or another one is about to. Upstream begins anew in every
        case, and takes away the claim under a pod that is about to be bound.
        """
        given = claims.allocation(made)
        if given is None or not claims.is_reserved_for(made, self._pod.uid):
            return False
        if plugins_extended_resources.request_summary(
            made["spec"]["devices"].get("requests") or ()
        ) != plugins_extended_resources.request_summary(wanted.requests):
            return False
        selector = given.get("nodeSelector")
        return selector is None or nodeaffinity.node_selector(selector)(node.name, node.labels)

    def _binding_possible(self, claim: Document) -> bool:
        """An allocated claim whose devices failed to bind, or took too long to, is no use on any node."""
        if not self._options.features.binding_conditions:
            return True
        match binding_state(claim):
            case Failed():
                return False
            case Waiting():
                return not timed_out(claim, self._options.binding_timeout, self._now())
        return True

    def _shape(self) -> bytes | None:
        if self.scores_matter or self._has_node_allocatable_devices:
            return None
        parts: list[Any] = [c["spec"] for c in self._open]
        parts += [(claims.allocation(c) or {}).get("nodeSelector") for c, _ in self._nodes_of]
        if self._resources:
            spec = self._pod.document["spec"]
            for group in ("initContainers", "containers"):
                parts.append(
                    [(c["name"], c.get("restartPolicy"), c.get("resources")) for c in spec.get(group) or ()]
                )
            if self._made is not None:
                parts.append(self._made["metadata"]["uid"])
        if self._nodes_of:
            parts.append([c["metadata"]["uid"] for c, _ in self._nodes_of])
        return _encode(parts)


def _is_full(claim: Document) -> bool:
    return len(claim["status"].get("reservedFor") or ()) >= MAX_CONSUMERS


def _unresolvable(message: str) -> Rejection:
    return Rejection(PLUGIN, (message,), resolvable=False)


def _prefilter_reason(claim: Document, claim_cache: ClaimCache, features: Features) -> str:
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


def _key(claim: Document) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


# -- binding conditions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failed:
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    pass


@dataclass(frozen=True, slots=True)
class Ready:
    pass


def wants_binding_conditions(claim: Document) -> bool:
    allocation = claims.allocation(claim)
    return allocation is not None and has_binding_conditions(allocation)


def has_binding_conditions(allocation: Document) -> bool:
    """Whether a device of an allocation must be made ready for its node."""
    for result in (allocation.get("devices") or {}).get("results") or ():
        if result.get("bindingConditions"):
            return True
    return False


def binding_state(claim: Document) -> Ready | Waiting | Failed:
    """Whether every allocated device that must be made ready for its node has been."""
    if claims.allocation(claim) is None:
        return Waiting()
    reported = {
        (d.get("driver"), d.get("pool"), d.get("device")): d
        for d in (claim.get("status") or {}).get("devices") or ()
    }
    for result in _results(claim):
        conditions = result.get("bindingConditions")
        if not conditions:
            continue
        device = reported.get((result["driver"], result["pool"], result["device"]))
        if device is None:
            return Waiting()
        said = {c["type"]: c for c in device.get("conditions") or ()}
        for name in result.get("bindingFailureConditions") or ():
            condition = said.get(name)
            if condition is not None and condition.get("status") == "True":
                return Failed(
                    f"device binding failed: claim={claim['metadata']['name']}, reason={condition.get('reason', '')}, "
                    f"message={quote(condition.get('message', ''))}"
                )
        if any((said.get(name) or {}).get("status") != "True" for name in conditions):
            return Waiting()
    return Ready()


def timed_out(claim: Document, limit: float, now: float) -> bool:
    allocated = (claims.allocation(claim) or {}).get("allocationTimestamp")
    if not allocated or not wants_binding_conditions(claim):
        return False
    return _seconds(allocated) + limit < now


def _results(claim: Document) -> Sequence[Document]:
    return ((claims.allocation(claim) or {}).get("devices") or {}).get("results") or ()


def _seconds(timestamp: str) -> float:
    import calendar

    return float(calendar.timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S")))
