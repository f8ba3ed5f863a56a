"""Pods with claims of the classic generation: negotiation with drivers' controllers, and 1.30's structured parameters.

Follows the DynamicResources plugin of 1.30 in what it decides, writes and says. Nothing here is imported unless the
API server serves that generation; the scheduler meets it only through ``deciding.Generation`` and ``deciding.Carry``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dray.api import claims, matching
from dray.scheduler.classic_book import Book, MissingParameters
from dray.scheduler.classic_structured import Place, Suitability, Wanted, allocate, holdings
from dray.scheduler.classic_writing import ClassicWriter, First
from dray.scheduler.deciding import Bind, Today, Unschedulable
from dray.scheduler.devices import PLUGIN, NotReady
from dray.scheduler.generations import Mixed, MixedPlan
from dray.scheduler.nodes import Node
from dray.scheduler.pods import Pod
from dray.scheduler.verdicts import Rejection, unavailable

Document = Mapping[str, Any]

MAX_NODES = 128  # in a PodSchedulingContext
MAX_CONSUMERS = 32  # of a claim that can be shared

_UNSUITABLE = Rejection(
    PLUGIN, ("resourceclaim cannot be allocated for the node (unsuitable)",), resolvable=False
)
_EXCLUDED = Rejection(PLUGIN, ("excluded by resource class node filter",), resolvable=False)
_NOT_HERE = Rejection(PLUGIN, ("resourceclaim not available on the node",), resolvable=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """One claim of the pod and what is known about it."""

    name: str  # inside the pod
    claim: Document
    nodes: Any = None  # a test for nodes: where it is available, or where its class may be allocated
    answer: Document | None = None  # the driver's, in the negotiation
    wanted: Wanted | None = None  # to be allocated by the scheduler

    @property
    def allocated(self) -> bool:
        return claims.allocation(self.claim) is not None

    @property
    def delayed(self) -> bool:
        """Allocated for the sake of a pod, so it may be given back for one."""
        return bool(self.claim["spec"].get("allocationMode") != "Immediate")


@dataclass(frozen=True, slots=True)
class Given:
    """What the scheduler itself would allocate on a node."""

    claims: tuple[Document, ...] = ()
    results: tuple[Document, ...] = ()
    drivers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Negotiation:
    """Changes to a pod's PodSchedulingContext; None leaves a field as it is."""

    selected: str | None = None
    potential: list[str] | None = None

    def __bool__(self) -> bool:
        return self.selected is not None or self.potential is not None


class Attempt:
    """One attempt of one pod, in the shape in which the placement asks about devices."""

    shape = None  # every node is to be asked
    scores_matter = False
    left_over = None

    def __init__(
        self, pod: Pod, entries: list[Entry], context: Document | None, book: Book, *, as_in_130: bool
    ) -> None:
        self.pod = pod
        self.entries = entries
        self.context = context
        self.claims = [entry.claim for entry in entries]
        self.unavailable: dict[str, Document] = {}
        self.failures: dict[str, Any] = {}
        self.feasible: list[str] = []
        self._book = book
        self._as_in_130 = as_in_130

    def on(self, node: Node) -> Given | Rejection:
        given = self.judge(node)
        if not isinstance(given, Rejection):
            self.feasible.append(node.name)
        return given

    def judge(self, node: Node) -> Given | Rejection:
        """What the node would give, as far as this generation is concerned."""
        here = True
        said: Rejection | None = None
        for entry in self.entries:
            matches = entry.nodes is None or entry.nodes(node.name, node.labels)
            if entry.allocated:
                if not matches:
                    # Noted down even where another claim rules the node out, or it would be kept for nothing.
                    here = False
                    if entry.delayed:
                        self.unavailable[entry.claim["metadata"]["uid"]] = entry.claim
            elif not matches:
                said = said or _EXCLUDED
            elif entry.wanted is None and node.name in ((entry.answer or {}).get("unsuitableNodes") or ()):
                said = said or _UNSUITABLE
        if said is not None:
            return said
        try:
            given = self._allocate(node.name)
        except Suitability as problem:
            return Rejection(PLUGIN, (f"checking structured parameters failed: {problem}",), resolvable=False)
        if given is None:
            return _UNSUITABLE
        return given if here else _NOT_HERE

    def score(self, plan: Any) -> int:
        return 0

    def _allocate(self, node: str) -> Given | None:
        open_entries = [entry for entry in self.entries if not entry.allocated and entry.wanted is not None]
        if not open_entries:
            return Given()
        taken: dict[Place, set[str]] = {
            place: set(names) for place, names in self._book.taken.items() if place.node == node
        }
        results = []
        for entry in open_entries:
            assert entry.wanted is not None
            result = allocate(entry.wanted, node, self._book.offers, taken)
            if result is None:
                return None
            for place, name in holdings(result):
                taken.setdefault(place, set()).add(name)
            results.append(result)
        return Given(
            tuple(entry.claim for entry in open_entries),
            tuple(results),
            tuple(entry.wanted.driver for entry in open_entries if entry.wanted is not None),
        )

    @property
    def held(self) -> Document | None:
        """A claim that a driver has allocated for this pod alone, which keeps others from it as long as it waits."""
        for entry in self.entries:
            users = [u.get("uid") for u in (entry.claim.get("status") or {}).get("reservedFor") or ()]
            if entry.allocated and entry.delayed and users == [self.pod.uid]:
                return entry.claim
        return None

    # -- the negotiation --------------------------------------------------------------------------------------------

    @property
    def pending(self) -> list[Entry]:
        """Claims that wait for a driver's controller."""
        return [entry for entry in self.entries if not entry.allocated and entry.wanted is None]

    def negotiate(self, node: str) -> Negotiation:
        """What to tell the drivers when ``node`` is the best of the feasible ones."""
        spec = (self.context or {}).get("spec") or {}
        known = spec.get("potentialNodes") or ()
        names = self.feasible if len(self.feasible) > 1 else [node]
        potential = None
        if any(name not in known for name in names):
            # A list that is too long keeps the node that is about to be chosen.
            chosen = (
                names if len(names) <= MAX_NODES else [node, *(n for n in names if n != node)][:MAX_NODES]
            )
            potential = sorted(chosen)
        pending = self.pending
        answered = sum(entry.answer is not None for entry in pending)
        own = sum(entry.wanted is not None and not entry.allocated for entry in self.entries)
        if self._as_in_130:
            # Claims that the scheduler allocates are counted as answers, so a pod with both kinds waits for ever.
            ready = (len(pending) == 1 and not own) or (answered + own == len(pending) and own < len(pending))
        else:
            ready = len(pending) == 1 or answered == len(pending)
        selected = node if ready and spec.get("selectedNode") != node else None
        return Negotiation(selected, potential)

    def is_asked(self, node: str) -> bool:
        """Whether the drivers have been told to allocate for the node."""
        return ((self.context or {}).get("spec") or {}).get("selectedNode") == node


class Classic:
    """The classic generation as the scheduler sees it."""

    def __init__(self, book: Book, writer: ClassicWriter, *, alone: bool, early: bool = False) -> None:
        """``alone``: no other generation is served, so every claim is classic even before it is known.

        ``early``: as 1.26 and 1.27 have it. Claims made for pods are known by name, pods that lack one are tried all
        the same, and waiting for a driver counts as an error.
        """
        self.book = book
        self._writer = writer
        self._alone = alone
        self._early = early

    def concerns(self, pod: Pod) -> bool:
        if not pod.claims or not (self._alone or self.book.has_claims):
            return False
        return self._alone or any(
            reference.claim and self.book.claim(pod.namespace, reference.claim) is not None
            for reference in claims.references(pod.document)
        )

    def gate(self, pod: Pod, today: Today) -> str:
        if self._early:
            return ""
        try:
            found = self._claims(pod)
        except NotReady as problem:
            return str(problem)
        return "" if self._alone else str(today(_names(found)))

    def begin(self, pod: Pod, today: Today) -> Attempt | Mixed | Rejection | None:
        try:
            found = self._claims(pod)
            if not found:
                return None
            context = self._context(pod)
            entries = [self._entry(pod, name, claim, context) for name, claim in found]
        except (NotReady, MissingParameters) as problem:
            return Rejection(PLUGIN, (str(problem),), resolvable=False)
        attempt = Attempt(pod, entries, context, self.book, as_in_130=self._alone)
        match None if self._alone else today(_names(found)):
            case None:
                return attempt
            case Rejection() as rejection:
                return rejection
            case rest:
                return Mixed(attempt, rest)

    def refine(self, attempt: Attempt | Mixed, decision: Bind | Unschedulable) -> Bind | Unschedulable:
        """The decision with what classic claims need done for it."""
        older = attempt.classic if isinstance(attempt, Mixed) else attempt
        if isinstance(decision, Unschedulable):
            claim = decision.deallocate
            wants_more = bool(older.pending) or older is not attempt
            if claim is None and wants_more and PLUGIN in decision.plugins and not self._alone:
                # 1.30 lets a pod keep a claim that fits its only node, though another claim does not.
                claim = older.held
            elif claim is not None and claim["metadata"]["uid"] not in older.unavailable:
                claim = None  # today's
            if claim is None:
                return decision
            first = self._writer.deallocation(older.pod, claim, older.context)
            return replace(decision, deallocate=None, first=first)
        if older.pending:
            return self._negotiate(older, decision.node)
        found: Any = decision.plan
        given = found.classic if isinstance(found, MixedPlan) else found or Given()
        carry = self._writer.carry(self.book, older.pod, older.claims, given)
        if isinstance(found, MixedPlan):
            return replace(decision, plan=found.today, carry=carry)
        return Bind(decision.node, carry=carry)

    def _negotiate(self, attempt: Attempt, node: str) -> Unschedulable:
        """Ask the drivers, or wait for what they answer."""
        negotiation = attempt.negotiate(node)
        waiting = frozenset({PLUGIN})
        if negotiation:
            first = self._writer.publication(
                attempt.pod, attempt.context, selected=negotiation.selected, potential=negotiation.potential
            )
            if self._early:
                return _unanswered(
                    "allocate resource" if negotiation.selected else "provide information", first
                )
            return Unschedulable("waiting for resource driver", waiting, first=first, waiting=True)
        if self._early:
            return _unanswered("allocate resource" if attempt.is_asked(node) else "provide information")
        reason = Rejection(PLUGIN, ("waiting for resource driver to provide information",))
        return Unschedulable(unavailable(1, (reason,)), waiting, waiting=True)

    def _claims(self, pod: Pod) -> list[tuple[str, Document]]:
        found = []
        for entry in pod.document["spec"].get("resourceClaims") or ():
            try:
                wanted = claims.reference(pod.document, entry, fixed_names=self._early)
            except claims.ClaimNotCreated as problem:
                raise NotReady(str(problem)) from None
            if wanted.claim is None:
                continue
            claim = self.book.claim(pod.namespace, wanted.claim)
            if claim is None and not self._alone:
                continue  # today's, or nobody's
            if claim is None:
                if self._early and wanted.generated:
                    raise NotReady(
                        f'waiting for dynamic resource controller to create the resourceclaim "{wanted.claim}"'
                    )
                raise NotReady(f'resourceclaim.resource.k8s.io "{wanted.claim}" not found')
            if "deletionTimestamp" in claim["metadata"]:
                raise NotReady(f'resourceclaim "{wanted.claim}" is being deleted')
            foreign = claims.not_for_pod(pod.document, claim, kind="pod") if wanted.generated else ""
            if foreign:
                raise NotReady(foreign)
            found.append((wanted.entry, claim))
        return found

    def _context(self, pod: Pod) -> Document | None:
        context = self.book.contexts.get((pod.namespace, pod.name))
        if context is None:
            return None
        owner = claims.controller_of(context)
        if owner is None or owner["uid"] != pod.uid:
            uid = context["metadata"]["uid"]
            raise NotReady(
                f"{self._writer.negotiation} object with UID {uid} is not owned by Pod {pod.namespace}/{pod.name}"
            )
        return context

    def _entry(self, pod: Pod, name: str, claim: Document, context: Document | None) -> Entry:
        """Upstream's checks before any node is looked at; ``NotReady`` says why the pod has to wait."""
        status = claim.get("status") or {}
        if status.get("deallocationRequested"):
            raise NotReady("resourceclaim must be reallocated")
        allocation = status.get("allocation")
        if allocation is not None:
            users = status.get("reservedFor") or ()
            in_use = users and not allocation.get("shareable")
            # 1.30 tries to add one more all the same, and is turned down by the API server.
            full = len(users) >= MAX_CONSUMERS and not self._alone
            if (in_use or full) and not claims.is_reserved_for(claim, pod.uid):
                raise NotReady("resourceclaim in use")
            selector = allocation.get("availableOnNodes")
            return Entry(name, claim, matching.node_selector(selector) if selector else None)
        class_name = claim["spec"]["resourceClassName"]
        resource_class = self.book.classes.get(class_name)
        if resource_class is None:
            raise NotReady(f"resource class {class_name} does not exist")
        selector = resource_class.get("suitableNodes")
        nodes = matching.node_selector(selector) if selector else None
        if resource_class.get("structuredParameters"):
            metadata = claim["metadata"]
            if self.book.is_in_flight(metadata["uid"]):
                raise NotReady(
                    f"resource claim {metadata['namespace']}/{metadata['name']} is in the process of being allocated"
                )
            return Entry(name, claim, nodes, wanted=self.book.wanted(claim, resource_class))
        if claim["spec"].get("allocationMode") == "Immediate":
            raise NotReady("unallocated immediate resourceclaim")
        answers = ((context or {}).get("status") or {}).get("resourceClaims") or ()
        return Entry(name, claim, nodes, answer=next((a for a in answers if a["name"] == name), None))


def _names(found: list[tuple[str, Document]]) -> frozenset[str]:
    return frozenset(claim["metadata"]["name"] for _, claim in found)


def _unanswered(what: str, first: First | None = None) -> Unschedulable:
    """How 1.26 and 1.27 say that a driver has yet to do something."""
    message = f'running Reserve plugin "{PLUGIN}": waiting for resource driver to {what}'
    return Unschedulable(message, frozenset({PLUGIN}), first=first, waiting=True, reason="SchedulerError")
