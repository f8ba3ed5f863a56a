"""Pods with claims of the classic generation: negotiation with drivers' controllers, and 1.30's structured parameters.

Follows the DynamicResources plugin of 1.30 in what it decides, writes and says. Nothing here is imported unless the
API server serves that generation; the scheduler meets it only through ``deciding.Generation`` and ``deciding.Carry``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dray.api import claims, nodeaffinity, objects
from dray.placement.cache.pods import PodInfo
from dray.placement.classic.attempt import ClaimInformation, ClassicAttempt, ClassicPlan
from dray.placement.classic.cache import ClassicCache, ParametersNotFound
from dray.placement.classic.mixed import MixedAttempt, MixedPlan
from dray.placement.decision import Bind, Failure, Today, Unschedulable
from dray.placement.plugins.dynamic_resources import PLUGIN
from dray.placement.status import Gated, Rejection, fit_error_message
from dray.scheduler.classic.writer import ClassicWriter, First

Document = Mapping[str, Any]

MAX_CONSUMERS = 32  # of a claim that can be shared


class ClaimNotReady(Exception):
    """A claim of the pod is missing, being deleted, or not to be had: the pod has to wait."""


class ForeignSchedulingContext(Exception):
    """Somebody else's object has the name of the pod's negotiation."""


class ClassicPlugin:
    """The classic generation as the scheduler sees it."""

    def __init__(
        self, classic_cache: ClassicCache, writer: ClassicWriter, *, alone: bool, early: bool = False
    ) -> None:
        """``alone``: no other generation is served, so every claim is classic even before it is known.

        ``early``: as 1.26 and 1.27 have it. Claims made for pods are known by name, pods that lack one are tried all
        the same, and waiting for a driver counts as an error.
        """
        self.classic_cache = classic_cache
        self._writer = writer
        self._alone = alone
        self._early = early

    def concerns(self, pod: PodInfo) -> bool:
        if not pod.claims or not (self._alone or self.classic_cache.has_claims):
            return False
        return self._alone or any(
            reference.claim and self.classic_cache.claim(pod.namespace, reference.claim) is not None
            for reference in claims.references(pod.document)
        )

    def gate(self, pod: PodInfo, today: Today) -> str:
        if self._early:
            return ""
        try:
            found = self._claims(pod)
        except ClaimNotReady as problem:
            return str(problem)
        return "" if self._alone else str(today(_names(found)))

    def begin(
        self, pod: PodInfo, today: Today
    ) -> ClassicAttempt | MixedAttempt | Rejection | Gated | Failure | None:
        try:
            found = self._claims(pod)
        except ClaimNotReady as problem:
            return _unresolvable(problem) if self._early else Gated(str(problem))
        if not found:
            return None
        try:
            context = self._context(pod)
            entries = [self._entry(pod, name, claim, context) for name, claim in found]
        except (ClaimNotReady, ParametersNotFound) as problem:
            return _unresolvable(problem)
        except ForeignSchedulingContext as problem:
            return Failure(f'running PreFilter plugin "{PLUGIN}": {problem}')
        attempt = ClassicAttempt(pod, entries, context, self.classic_cache, as_in_130=self._alone)
        match None if self._alone else today(_names(found)):
            case None:
                return attempt
            case (Rejection() | Gated()) as refusal:
                return refusal
            case rest:
                return MixedAttempt(attempt, rest)

    def refine(
        self, attempt: ClassicAttempt | MixedAttempt, decision: Bind | Unschedulable
    ) -> Bind | Unschedulable:
        """The decision with what classic claims need done for it."""
        older = attempt.classic if isinstance(attempt, MixedAttempt) else attempt
        if isinstance(decision, Unschedulable):
            claim = decision.deallocate
            wants_more = bool(older.pending) or older is not attempt
            if claim is None and wants_more and PLUGIN in decision.plugins and not self._alone:
                # 1.30 lets a pod keep a claim that fits its only node, though another claim does not.
                claim = older.held
            elif claim is not None and claim["metadata"]["uid"] not in older.unavailable_claims:
                claim = None  # today's
            if claim is None:
                return decision
            first = self._writer.deallocation(older.pod, claim, older.context)
            return replace(decision, deallocate=None, first=first)
        if older.pending:
            return self._negotiate(older, decision.node)
        found: Any = decision.plan
        given = found.classic if isinstance(found, MixedPlan) else found or ClassicPlan()
        carry = self._writer.carry(self.classic_cache, older.pod, older.claims, given)
        if isinstance(found, MixedPlan):
            return replace(decision, plan=found.today, carry=carry)
        return Bind(decision.node, carry=carry)

    def _negotiate(self, attempt: ClassicAttempt, node: str) -> Unschedulable:
        """Ask the drivers, or wait for what they answer."""
        negotiation = attempt.negotiate(node)
        first: First | None = None
        if negotiation:
            first = self._writer.publication(
                attempt.pod, attempt.context, selected=negotiation.selected, potential=negotiation.potential
            )
        if self._alone and (reserved := attempt.reserved):
            first = self._writer.release(attempt.pod, reserved, after=first)
        if self._early:
            asked = negotiation.selected or attempt.is_asked(node)
            return _waiting_for_driver("allocate resource" if asked else "provide information", first)
        message = "waiting for resource driver"
        if not negotiation:
            message = fit_error_message(1, (Rejection(PLUGIN, (f"{message} to provide information",)),))
        return Unschedulable(message, frozenset({PLUGIN}), first=first, waiting=True)

    def _claims(self, pod: PodInfo) -> list[tuple[str, Document]]:
        found = []
        for entry in pod.document["spec"].get("resourceClaims") or ():
            try:
                wanted = claims.reference(pod.document, entry, fixed_names=self._early)
            except claims.ClaimNotCreated as problem:
                raise ClaimNotReady(str(problem)) from None
            if wanted.claim is None:
                continue
            claim = self.classic_cache.claim(pod.namespace, wanted.claim)
            if claim is None and not self._alone:
                continue  # today's, or nobody's
            if claim is None:
                if self._early and wanted.generated:
                    raise ClaimNotReady(
                        f'waiting for dynamic resource controller to create the resourceclaim "{wanted.claim}"'
                    )
                raise ClaimNotReady(f'resourceclaim.resource.k8s.io "{wanted.claim}" not found')
            if "deletionTimestamp" in claim["metadata"]:
                raise ClaimNotReady(f'resourceclaim "{wanted.claim}" is being deleted')
            foreign = claims.not_for_pod(pod.document, claim, kind="pod") if wanted.generated else ""
            if foreign:
                raise ClaimNotReady(foreign)
            found.append((wanted.entry, claim))
        return found

    def _context(self, pod: PodInfo) -> Document | None:
        context = self.classic_cache.contexts.get((pod.namespace, pod.name))
        if context is None:
            return None
        owner = objects.controller_of(context)
        if owner is None or owner["uid"] != pod.uid:
            uid = context["metadata"]["uid"]
            raise ForeignSchedulingContext(
                f"{self._writer.negotiation} object with UID {uid} is not owned by Pod {pod.namespace}/{pod.name}"
            )
        return context

    def _entry(self, pod: PodInfo, name: str, claim: Document, context: Document | None) -> ClaimInformation:
        """Upstream's checks before any node is looked at; ``NotReady`` says why the pod has to wait."""
        status = claim.get("status") or {}
        if status.get("deallocationRequested"):
            raise ClaimNotReady("resourceclaim must be reallocated")
        allocation = status.get("allocation")
        if allocation is not None:
            users = status.get("reservedFor") or ()
            in_use = users and not allocation.get("shareable")
            # 1.30 tries to add one more all the same, and is turned down by the API server.
            full = len(users) >= MAX_CONSUMERS and not self._alone
            if (in_use or full) and not claims.is_reserved_for(claim, pod.uid):
                raise ClaimNotReady("resourceclaim in use")
            selector = allocation.get("availableOnNodes")
            return ClaimInformation(name, claim, nodeaffinity.node_selector(selector) if selector else None)
        class_name = claim["spec"]["resourceClassName"]
        resource_class = self.classic_cache.classes.get(class_name)
        if resource_class is None:
            raise ClaimNotReady(f"resource class {class_name} does not exist")
        selector = resource_class.get("suitableNodes")
        nodes = nodeaffinity.node_selector(selector) if selector else None
        if resource_class.get("structuredParameters"):
            metadata = claim["metadata"]
            if self.classic_cache.has_pending_allocation(metadata["uid"]):
                raise ClaimNotReady(
                    f"resource claim {metadata['namespace']}/{metadata['name']} is in the process of being allocated"
                )
            return ClaimInformation(
                name, claim, nodes, wanted=self.classic_cache.wanted(claim, resource_class)
            )
        if claim["spec"].get("allocationMode") == "Immediate":
            raise ClaimNotReady("unallocated immediate resourceclaim")
        answers = ((context or {}).get("status") or {}).get("resourceClaims") or ()
        return ClaimInformation(
            name, claim, nodes, answer=next((a for a in answers if a["name"] == name), None)
        )


def _unresolvable(problem: Exception) -> Rejection:
    return Rejection(PLUGIN, (str(problem),), resolvable=False)


def _names(found: list[tuple[str, Document]]) -> frozenset[str]:
    return frozenset(claim["metadata"]["name"] for _, claim in found)


def _waiting_for_driver(what: str, first: First | None = None) -> Unschedulable:
    """How 1.26 and 1.27 say that a driver has yet to do something."""
    message = f'running Reserve plugin "{PLUGIN}": waiting for resource driver to {what}'
    return Unschedulable(message, frozenset({PLUGIN}), first=first, waiting=True, reason="SchedulerError")
