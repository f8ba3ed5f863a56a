"""Resource claims: made from templates, reserved for pods that bypassed the scheduler, released when nobody is left.

Never allocates: that is the scheduler's. Order of writes and words of events are upstream's.

Handlers see every change of every pod and claim, thousands a second: they look things up, queue a key only where there
is something to write, and leave the rest to the workers.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from dray.api import claims
from dray.api.errors import AlreadyExists, Forbidden, NotFound, StatusError
from dray.api.kinds import Object
from dray.api.resource.classic import bridge
from dray.client.informers import Informer
from dray.client.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, ObjectKey, key_of
from dray.controllers.framework import Controller, Kit
from dray.controllers.templates import TemplateProblem, from_template

FIELD_MANAGER: Final = "ResourceClaimController"
#: Where claims have the shape that is dealt with here, newest first.
VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
#: Since then a claim or a consumer that nothing can be done about does not hold up the others.
_EACH_FOR_ITSELF_SINCE: Final = (1, 36)
_REMEMBERED: Final = 5000
#: Before that we do as upstream's releases did, to whom a claim that they have made counts as there for a while, even
#: if somebody deletes it, and who give those that are missing new names.
_OUR_OWN_WAY_SINCE: Final = (1, 37)
_BELIEVED: Final = 100
_BELIEVED_SECONDS: Final = 3600.0

Document = Mapping[str, Any]


class Key(NamedTuple):
    """A pod or a claim to look at."""

    kind: str  # "pod" or "claim"
    namespace: str
    name: str


class Made(NamedTuple):
    """Which claim was made: the pod's uid and the entry it is for."""

    pod: str
    entry: str


class Belief(NamedTuple):
    """A claim that was made, and when."""

    name: str
    since: float


# -- decisions ------------------------------------------------------------------------------------------------------


def released(claim: Document, remaining: Iterable[Document]) -> Object | None:
    """The status a claim should have when only ``remaining`` consumers are left; None: the one it has.

    The last consumer takes the allocation with it. One that was allocated and never used stays so, until it is deleted.
    """
    status = claim.get("status") or {}
    left = list(remaining)
    protected = claims.FINALIZER in (claim["metadata"].get("finalizers") or ())
    if len(left) < len(status.get("reservedFor") or ()):
        deallocate = not left and protected
    elif protected and "deletionTimestamp" in claim["metadata"] and not left and status.get("allocation"):
        deallocate = True
    else:
        return None
    return {k: v for k, v in status.items() if k != "allocation" or not deallocate} | {"reservedFor": left}


def is_needlessly_protected(claim: Document, finalizer: str = claims.FINALIZER) -> bool:
    """Whether the finalizer has nothing left to protect."""
    status = claim.get("status") or {}
    unused = not status.get("allocation") and not status.get("reservedFor")
    return unused and finalizer in (claim["metadata"].get("finalizers") or ())


def owning_pod(claim: Document) -> Document | None:
    """The reference to the pod for which a claim was made."""
    owner = claims.controller_of(claim)
    return owner if owner is not None and owner["kind"] == "Pod" and owner["apiVersion"] == "v1" else None


def should_reserve(pod: Document, claim: Document) -> bool:
    """Whether a pod that did not get its node from the scheduler has yet to be told of as a consumer."""
    return (
        bool(pod["spec"].get("nodeName"))
        and claims.allocation(claim) is not None
        and not claims.is_reserved_for(claim, pod["metadata"]["uid"])
        and not claims.is_done(pod)
    )


def looks_only(claim: Document) -> bool:
    """Whether a claim asks for administrative access."""
    requests = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    return any((request.get("exactly") or {}).get("adminAccess") for request in requests)


def count(known: Iterable[Document]) -> Iterator[tuple[tuple[str, str, str], float]]:
    """How many claims there are: allocated or not, for administrators or not, and by whom they were made."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for claim in known:
        notes = claim["metadata"].get("annotations") or {}
        source = ""
        if notes.get(claims.EXTENDED_RESOURCE_ANNOTATION) == "true":
            source = "extended_resource"
        elif notes.get(claims.POD_CLAIM_ANNOTATION):
            source = "resource_claim_template"
        allocated = claims.allocation(claim) is not None
        counts[str(allocated).lower(), str(looks_only(claim)).lower(), source] += 1
    return ((labels, float(n)) for labels, n in counts.items())


# -- the controller -------------------------------------------------------------------------------------------------


class ClaimController(Controller[Key]):
    name = "resourceclaim-controller"
    workers = 50
    versions: tuple[str, ...] = VERSIONS
    finalizer = claims.FINALIZER
    manager = FIELD_MANAGER
    fixed_names = False  # of the claims made here: the scheduler and kubelets must know them the same way

    def __init__(self, kit: Kit, *, protected_from_birth: bool = False, names_are_given: bool = True) -> None:
        """Two writes can be spared that upstream makes.

        With ``protected_from_birth``, claims made here have the finalizer that the scheduler would give them. With
        ``names_are_given``, a claim that a pod's status names and that is not there is made under that name. Upstream
        makes one under another name, and writes that into the status; so do we in the shape of its releases.
        """
        super().__init__(kit)
        get = kit.informers.get
        self._protected_from_birth = protected_from_birth
        self._names_are_given = names_are_given and kit.gates.release >= _OUR_OWN_WAY_SINCE
        self._resource = kit.resource(RESOURCE_CLAIMS, *self.versions)
        self._pods = get(PODS, indexers={"named claim": _named_claims})
        self._claims = get(self._resource, indexers={"owning pod": _owner_uid})
        self._templates = get(kit.resource(RESOURCE_CLAIM_TEMPLATES, *self.versions))
        self._classic_templates = self._other_templates()
        self._gone: dict[str, None] = {}  # uids of deleted pods, oldest first
        self._made: dict[Made, str] = {}  # names of claims that no informer has shown yet
        self._beliefs: dict[Made, Belief] = {}  # claims that count as there, oldest first
        self._told: dict[str, list[Object]] = {}  # pod uid → what we wrote and no informer has shown yet
        self._waiting: dict[ObjectKey, dict[ObjectKey, None]] = {}  # missing template → pods
        self._usurped: dict[ObjectKey, dict[ObjectKey, None]] = {}  # claim with a name taken from pods → pods
        self._pods_only = kit.gates.release < _EACH_FOR_ITSELF_SINCE
        self._in_order = self._pods_only and not self.fixed_names
        self._believes = kit.gates.release < _OUR_OWN_WAY_SINCE and not self.fixed_names
        self._admin_access = "DRAAdminAccess" in kit.gates
        self._alternatives = "DRAPrioritizedList" in kit.gates
        if self.name == ClaimController.name:
            self._show()
        self._pods.add_handler(on_set=self._pod_set, on_delete=self._pod_gone)
        self._claims.add_handler(on_set=self._claim_set, on_delete=self._claim_gone)
        self._templates.add_handler(on_set=self._template_set)

    def _show(self) -> None:
        self.kit.metrics.registry.gauge(
            "resourceclaim_controller_resource_claims",
            "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be "
            "'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty "
            "(manually created by a user).",
            "allocated", "admin_access", "source",
            read=lambda: count(self._claims.items()),
        )  # fmt: skip

    # -- what generations differ in ---------------------------------------------------------------------------------

    def _other_templates(self) -> Informer | None:
        """Templates of the classic generation, where it is served beside this one: another controller's business."""
        if self.kit.discovered is None:
            return None
        found = self.kit.discovered.newest(RESOURCE_CLAIM_TEMPLATES, ("v1alpha2",))
        return self.kit.informers.get(found) if found is not None else None

    def _is_alone(self) -> bool:
        """Whether all claims are of this generation."""
        return self._classic_templates is None

    def is_mine(self, claim: Document) -> bool:
        return self._classic_templates is None or not bridge.is_classic(claim)

    def released(self, claim: Document, remaining: Iterable[Document]) -> Object | None:
        return released(claim, remaining)

    def needs_pod_work(self, pod: Document, claim: Document) -> bool:
        return should_reserve(pod, claim)

    def make(self, pod: Document, entry: str, template: Document) -> Object:
        claim = from_template(
            pod, entry, template, admin_access=self._admin_access, alternatives=self._alternatives
        )
        if self._protected_from_birth:
            claim["metadata"]["finalizers"] = [self.finalizer]
        return claim

    # -- what happens -----------------------------------------------------------------------------------------------

    def _pod_set(self, pod: Object) -> None:
        if "resourceClaims" not in pod["spec"] and _extended(pod) is None:
            return
        metadata = pod["metadata"]
        if self._told and "resourceClaimStatuses" in (pod.get("status") or {}):
            self._told.pop(metadata["uid"], None)
        if claims.is_done(pod):
            self._look_at_claims_of(pod)
        elif "deletionTimestamp" not in metadata and self._pod_needs_work(pod):
            self.enqueue(Key("pod", metadata["namespace"], metadata["name"]))

    def _pod_gone(self, pod: Document) -> None:
        if "resourceClaims" not in pod["spec"] and _extended(pod) is None:
            return
        uid = pod["metadata"]["uid"]
        self._told.pop(uid, None)
        for entry in pod["spec"].get("resourceClaims") or ():
            self._made.pop(Made(uid, entry["name"]), None)
            self._beliefs.pop(Made(uid, entry["name"]), None)
        self._gone[uid] = None
        while len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        self._look_at_claims_of(pod)

    def _look_at_claims_of(self, pod: Document) -> None:
        namespace = pod["metadata"]["namespace"]
        for wanted in claims.references(pod, fixed_names=self.fixed_names):
            if wanted.claim is not None:
                self.enqueue(Key("claim", namespace, wanted.claim))
        if (extended := _extended(pod)) is not None:
            self.enqueue(Key("claim", namespace, extended))

    def _claim_set(self, claim: Object) -> None:
        if not self.is_mine(claim):
            return
        metadata = claim["metadata"]
        owner = owning_pod(claim)
        if owner is not None and self._made:
            entry = (metadata.get("annotations") or {}).get(claims.POD_CLAIM_ANNOTATION)
            self._made.pop(Made(owner["uid"], entry or ""), None)
        if self._claim_needs_work(claim, owner):
            self.enqueue(Key("claim", metadata["namespace"], metadata["name"]))
        self._look_at_pods_of(claim, owner)

    def _claim_gone(self, claim: Object) -> None:
        self._look_at_pods_of(claim, owning_pod(claim), gone=True)

    def _look_at_pods_of(self, claim: Object, owner: Document | None, *, gone: bool = False) -> None:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        if owner is not None:
            pod = self._pods.get(namespace, owner["name"])
            # The scheduler reserves claims for pods that it places; only others may need something from us.
            if (
                pod is not None
                and pod["metadata"]["uid"] == owner["uid"]
                and (gone or pod["spec"].get("nodeName"))
            ):
                self._pod_set(pod)
        for pod in self._pods.by_index("named claim", f"{namespace}/{name}"):
            self._pod_set(pod)
        if self._usurped:
            self._look_again(self._usurped.pop(ObjectKey(namespace, name), ()))

    def _template_set(self, template: Object) -> None:
        self._look_again(self._waiting.pop(key_of(template), ()))

    def _look_again(self, pods: Iterable[ObjectKey]) -> None:
        for key in pods:
            pod = self._pods.get(*key)
            if pod is not None:
                self._pod_set(pod)

    def _pod_needs_work(self, pod: Object) -> bool:
        """Whether a claim is to be made or reserved."""
        namespace = pod["metadata"]["namespace"]
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                wanted = claims.reference(pod, entry, fixed_names=self.fixed_names)
            except claims.ClaimNotCreated:
                return True
            stuck = wanted.claim is None  # long ago somebody found that none is needed
            if wanted.claim is None:
                pass
            elif (claim := self._claims.get(namespace, wanted.claim)) is None:
                key = Made(pod["metadata"]["uid"], wanted.entry)
                made = self._made.get(key) or (self._believed(key) if self._beliefs else None)
                if wanted.generated and made != wanted.claim:
                    return True
                stuck = not wanted.generated
            elif wanted.generated and claims.not_for_pod(pod, claim):
                # Nothing can be done until that other claim is gone.
                self._usurped.setdefault(key_of(claim), {})[key_of(pod)] = None
                stuck = True
            elif self.needs_pod_work(pod, claim):
                return True
            if stuck and self._in_order:
                return False
        return False

    def _claim_needs_work(self, claim: Document, owner: Document | None) -> bool:
        metadata = claim["metadata"]
        if "deletionTimestamp" in metadata:
            return True
        reserved = (claim.get("status") or {}).get("reservedFor")
        if reserved:
            return not all(self._is_used_by(metadata["namespace"], entry) for entry in reserved)
        return owner is not None and self._is_abandoned(metadata["namespace"], owner)

    def _is_used_by(self, namespace: str, consumer: Document) -> bool | None:
        """Whether a consumer is still there; None if only the server can tell."""
        if consumer.get("apiGroup") or consumer["resource"] != "pods":
            return True  # somebody we do not know
        if consumer["uid"] in self._gone:
            return False
        pod = self._pods.get(namespace, consumer["name"])
        if pod is None:
            return None
        return bool(pod["metadata"]["uid"] == consumer["uid"]) and not claims.is_done(pod)

    def _is_abandoned(self, namespace: str, owner: Document) -> bool:
        """Whether the pod that a claim was made for is certain not to need it. A pod not known may just be new."""
        pod = self._pods.get(namespace, owner["name"])
        return pod is not None and (pod["metadata"]["uid"] != owner["uid"] or claims.is_done(pod))

    async def sync(self, key: Key) -> float | None:
        if key.kind == "pod":
            await self._sync_pod(key)
        else:
            await self._sync_claim(key)
        return None

    # -- pods -------------------------------------------------------------------------------------------------------

    async def _sync_pod(self, key: Key) -> None:
        pod = self._pods.get(key.namespace, key.name)
        if pod is None or "deletionTimestamp" in pod["metadata"] or not self._pod_needs_work(pod):
            return
        statuses: list[Object] = []
        changed = False
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                status, is_new = await self._claim_status(pod, entry)
            except StatusError as problem:
                text = f"PodResourceClaim {entry['name']}: {problem}"
                self.kit.recorder.event(PODS, pod, "Warning", "FailedResourceClaimCreation", text)
                raise
            if status is not None:
                statuses.append(status)
                changed = changed or is_new
        if changed and self._told.get(pod["metadata"]["uid"]) != statuses:
            await self._tell(key, pod["metadata"]["uid"], statuses)
        if pod["spec"].get("nodeName"):
            await self.reserve_all(pod)

    async def _tell(self, key: Key, uid: str, statuses: list[Object]) -> None:
        """Write a pod's claims into its status: all of them, as what is left out of an apply is removed by it."""
        wanted = {"metadata": {"name": key.name}, "status": {"resourceClaimStatuses": statuses}}
        self._told[uid] = statuses
        try:
            await self.kit.client.apply(
                PODS, key.namespace, wanted, field_manager=self.manager, force=True, subresource="status"
            )
        except NotFound:
            self._told.pop(uid, None)
        except BaseException:
            self._told.pop(uid, None)
            raise

    async def _claim_status(self, pod: Object, entry: Document) -> tuple[Object | None, bool]:
        """What the pod's status is to say about an entry, and whether that is new. Makes the claim if need be."""
        name = entry["name"]
        template = claims.claim_source(entry)[1]
        if template is None or self._is_of_another_generation(pod, entry):
            return None, False
        try:
            known = claims.reference(pod, entry, fixed_names=self.fixed_names).claim
        except claims.ClaimNotCreated:
            known = ""
        if known is None:
            return {"name": name}, False  # long ago somebody found that none is needed
        claim = self._claims.get(pod["metadata"]["namespace"], known)
        if claim is not None and not claims.not_for_pod(pod, claim):
            return {"name": name, "resourceClaimName": known}, False
        given = known if self._names_are_given else ""
        made = self._find(pod["metadata"]["uid"], name) or await self._make(pod, name, template, given)
        if made is None:
            return None, False
        return {"name": name, "resourceClaimName": made}, made != known

    def _is_of_another_generation(self, pod: Document, entry: Document) -> bool:
        """Whether another controller makes the claim of an entry that has a template."""
        others = self._classic_templates
        if others is None or not others.items():
            return False
        namespace, template = pod["metadata"]["namespace"], claims.claim_source(entry)[1] or ""
        return (
            self._templates.get(namespace, template) is None and others.get(namespace, template) is not None
        )

    def _find(self, pod: str, entry: str) -> str | None:
        """The claim that was made for an entry before, though the pod's status does not tell."""
        key, found = Made(pod, entry), None
        if (made := self._made.get(key)) is not None:
            return made
        for claim in self._claims.by_index("owning pod", pod):
            metadata = claim["metadata"]
            its_entry = (metadata.get("annotations") or {}).get(claims.POD_CLAIM_ANNOTATION)
            self._beliefs.pop(Made(pod, its_entry or ""), None)  # now it is known
            if its_entry == entry and found is None:
                found = str(metadata["name"])
        return found or (self._believed(key) if self._beliefs else None)

    def _believed(self, key: Made) -> str | None:
        """The claim that was made for an entry not long ago, whatever has become of it."""
        belief = self._beliefs.get(key)
        fresh = belief is not None and self.kit.clock() - belief.since < _BELIEVED_SECONDS
        return belief.name if belief is not None and fresh else None

    def _believe(self, key: Made, name: str) -> None:
        self._beliefs[key] = Belief(name, self.kit.clock())
        if len(self._beliefs) > _BELIEVED:
            del self._beliefs[next(iter(self._beliefs))]

    async def _make(self, pod: Object, entry: str, template_name: str, given: str) -> str | None:
        """The name of a new claim, if possible the given one; None if the template is of another generation."""
        namespace = pod["metadata"]["namespace"]
        template = self._templates.get(namespace, template_name) or await self._fresh(
            self._templates, namespace, template_name
        )
        others = self._classic_templates
        if template is None and others is not None and await self._fresh(others, namespace, template_name):
            return None
        if template is None:
            self._waiting.setdefault(ObjectKey(namespace, template_name), {})[key_of(pod)] = None
            raise TemplateProblem(
                f'resource claim template "{template_name}": '
                f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            )
        wanted = self.make(pod, entry, template)
        created, admin = self.kit.metrics.claims_created, "true" if looks_only(wanted) else "false"
        try:
            made = await self._create(pod, wanted, given)
        except StatusError as problem:
            created.inc("failure", admin)
            raise TemplateProblem(
                f"create ResourceClaim {wanted['metadata'].get('name', '')}: {problem}"
            ) from problem
        created.inc("success", admin)
        name: str = made["metadata"]["name"]
        key = Made(pod["metadata"]["uid"], entry)
        if self._claims.get(namespace, name) is None:
            self._made[key] = name
        if self._believes:
            self._believe(key, name)
        return name

    async def _create(self, pod: Object, wanted: Object, given: str) -> Object:
        client, namespace = self.kit.client, pod["metadata"]["namespace"]
        if given:
            named = {**wanted, "metadata": {**wanted["metadata"], "name": given}}
            try:
                return await client.create(self._resource, namespace, named)
            except AlreadyExists:
                with contextlib.suppress(NotFound):
                    there = await client.get(self._resource, namespace, given)
                    if not claims.not_for_pod(pod, there):
                        return there  # made before, and no informer has shown it yet
        return await client.create(self._resource, namespace, wanted)

    async def _fresh(self, templates: Informer, namespace: str, name: str) -> Object | None:
        """A template made a moment before its pod may be news that has not come in yet."""
        try:
            return await self.kit.client.get(templates.resource, namespace, name)
        except (NotFound, Forbidden):  # the role of old releases lets templates be listed only
            return None

    async def reserve_all(self, pod: Object) -> None:
        for claim in self._usable(pod):
            if should_reserve(pod, claim) and self.is_mine(claim):
                await self.reserve(pod, claim)

    def _usable(self, pod: Object) -> Iterator[Object]:
        """The pod's claims up to the first that is not there or not the pod's, unless another generation has it."""
        for entry in pod["spec"].get("resourceClaims") or ():
            wanted = claims.known_reference(pod, entry, fixed_names=self.fixed_names)
            if wanted is not None and wanted.claim is None:
                continue
            claim = self._claims.get(pod["metadata"]["namespace"], wanted.claim or "") if wanted else None
            if wanted and claim and not (wanted.generated and claims.not_for_pod(pod, claim)):
                yield claim
            elif self._is_alone():
                return

    async def reserve(self, pod: Object, claim: Object) -> None:
        status = claim["status"]
        reserved = [*(status.get("reservedFor") or ()), claims.consumer(pod)]
        changed = {**claim, "status": {**status, "reservedFor": reserved}}
        await self.kit.client.update_status(self._resource, pod["metadata"]["namespace"], changed)

    # -- claims -----------------------------------------------------------------------------------------------------

    async def _sync_claim(self, key: Key) -> None:
        claim = self._claims.get(key.namespace, key.name)
        if claim is None or not self.is_mine(claim):
            return
        consumers = (claim.get("status") or {}).get("reservedFor") or ()
        if self._pods_only and any(c.get("apiGroup") or c["resource"] != "pods" for c in consumers):
            return
        remaining = [c for c in consumers if await self._is_still_used_by(key.namespace, c)]
        status = self.released(claim, remaining)
        if status is not None:
            claim = await self.kit.client.update_status(
                self._resource, key.namespace, {**claim, "status": status}
            )
        looked_at = status is not None or "deletionTimestamp" in claim["metadata"]
        if looked_at and is_needlessly_protected(claim, self.finalizer):
            metadata = claim["metadata"]
            finalizers = [f for f in metadata["finalizers"] if f != self.finalizer]
            changed = {**claim, "metadata": {**metadata, "finalizers": finalizers}}
            claim = await self.kit.client.update(self._resource, key.namespace, changed)
        owner = owning_pod(claim)
        if remaining or owner is None or "deletionTimestamp" in claim["metadata"]:
            return
        # The garbage collector would do this, too, but perhaps not for a long time: finished pods stay.
        if self._is_abandoned(key.namespace, owner):
            with contextlib.suppress(NotFound):
                await self.kit.client.delete(
                    self._resource, key.namespace, key.name, uid=claim["metadata"]["uid"]
                )

    async def _is_still_used_by(self, namespace: str, consumer: Document) -> bool:
        known = self._is_used_by(namespace, consumer)
        if known is not None:
            return known
        # Perhaps it is so new that no informer has shown it: to take its claim away would be bad.
        try:
            pod = await self.kit.client.get(PODS, namespace, consumer["name"])
        except NotFound:
            return False
        return bool(pod["metadata"]["uid"] == consumer["uid"])


def _extended(pod: Document) -> str | None:
    """The claim that the scheduler made for the pod's extended resources."""
    found = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    return found["resourceClaimName"] if found else None


def _named_claims(pod: Object) -> list[str]:
    """The claims that a pod names itself; those made for it are found through their owner."""
    entries = pod["spec"].get("resourceClaims")
    if not entries:
        return []
    namespace = pod["metadata"]["namespace"]
    return [f"{namespace}/{name}" for entry in entries if (name := claims.claim_source(entry)[0]) is not None]


def _owner_uid(claim: Object) -> list[str]:
    owner = owning_pod(claim)
    return [owner["uid"]] if owner is not None else []
