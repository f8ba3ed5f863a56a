"""Resource claims: made from templates, reserved for pods that bypassed the scheduler, released when nobody is left.

Never allocates: that is the scheduler's. Order of writes and words of events are upstream's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dray.api import claims
from dray.api.errors import NotFound, StatusError
from dray.api.kinds import Object
from dray.client.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.controllers.framework import Controller, Kit

FIELD_MANAGER = "ResourceClaimController"
#: Where claims have the shape that is dealt with here, newest first.
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_MAX_BASE = 57  # leaves room for a hyphen and five random characters in a name of 63

Document = Mapping[str, Any]


class Key(NamedTuple):
    """A pod or a claim to look at."""

    kind: str  # "pod" or "claim"
    namespace: str
    name: str


# -- decisions ------------------------------------------------------------------------------------------------------


class TemplateProblem(Exception):
    """A claim cannot be made from its template."""


def generate_name(pod: str, entry: str) -> str:
    """``<pod>-<entry>-``, both cut in proportion where that is too long."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _MAX_BASE:
        return whole
    return f"{pod[: len(pod) * _MAX_BASE // len(whole)]}-{entry[: len(entry) * _MAX_BASE // len(whole)]}"


def from_template(
    pod: Document, entry: str, template: Document, *, admin_access: bool, alternatives: bool
) -> Object:
    """The claim a template stands for in this pod."""
    spec = template["spec"]
    requests = (spec["spec"].get("devices") or {}).get("requests") or ()
    if not admin_access and any((r.get("exactly") or {}).get("adminAccess") for r in requests):
        raise TemplateProblem("admin access is requested, but the feature is disabled")
    if not alternatives and any(r.get("firstAvailable") for r in requests):
        raise TemplateProblem(
            "template includes a prioritized list of subrequests, but the feature is disabled"
        )
    wanted = spec.get("metadata") or {}
    metadata: Object = {
        "generateName": generate_name(pod["metadata"]["name"], entry),
        "annotations": {**(wanted.get("annotations") or {}), claims.POD_CLAIM_ANNOTATION: entry},
        "ownerReferences": [
            {
                "apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
                "controller": True,
            }
        ],
    }  # fmt: skip
    if wanted.get("labels"):
        metadata["labels"] = wanted["labels"]
    return {"metadata": metadata, "spec": spec["spec"]}


@dataclass(frozen=True, slots=True)
class Release:
    """What a claim's status should become: fewer consumers, perhaps no allocation."""

    reserved_for: tuple[Document, ...]
    deallocate: bool


def release(claim: Document, remaining: Iterable[Document]) -> Release | None:
    """Consumers that are gone leave the claim; the last one takes the allocation with it."""
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    left = tuple(remaining)
    protected = claims.FINALIZER in (claim["metadata"].get("finalizers") or ())
    if len(left) < len(reserved):
        return Release(left, deallocate=not left and protected)
    if (
        protected
        and "deletionTimestamp" in claim["metadata"]
        and not left
        and claims.allocation(claim) is not None
    ):
        return Release((), deallocate=True)
    return None


def unprotect(claim: Document) -> bool:
    """Whether the finalizer has nothing left to protect, and somebody wants it gone."""
    if claims.FINALIZER not in (claim["metadata"].get("finalizers") or ()):
        return False
    status = claim.get("status") or {}
    return not status.get("allocation") and not status.get("reservedFor")


# -- the controller -------------------------------------------------------------------------------------------------


class ClaimController(Controller[Key]):
    name = "resourceclaim-controller"
    workers = 50

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        get = kit.informers.get
        self._resource = kit.resource(RESOURCE_CLAIMS, *VERSIONS)
        self._pods = get(PODS, indexers={"claim": _claims_of, "template": _templates_of})
        self._claims = get(self._resource, indexers={"pod": _owner_of})
        self._templates = get(kit.resource(RESOURCE_CLAIM_TEMPLATES, *VERSIONS))
        self._gone: dict[str, None] = {}  # uids of deleted pods, oldest first
        self._made: dict[
            tuple[str, str], Object
        ] = {}  # (pod uid, entry) → claim made, until an informer shows it
        self._admin_access = "DRAAdminAccess" in kit.gates
        self._alternatives = "DRAPrioritizedList" in kit.gates
        self._pods.add_handler(
            on_add=self._pod_set, on_update=lambda o, n: self._pod_set(n), on_delete=self._pod_gone
        )
        self._claims.add_handler(
            on_add=self._claim_set, on_update=lambda o, n: self._claim_set(n), on_delete=self._claim_gone
        )
        self._templates.add_handler(on_add=self._template_set, on_update=lambda o, n: self._template_set(n))

    # -- what happens -----------------------------------------------------------------------------------------------

    def _pod_set(self, pod: Document) -> None:
        if not pod["spec"].get("resourceClaims") and not _extended(pod):
            return
        metadata = pod["metadata"]
        if claims.is_done(pod):
            for name in _claim_names(pod):
                self.enqueue(Key("claim", metadata["namespace"], name))
        if "deletionTimestamp" not in metadata and self._needs_work(pod):
            self.enqueue(Key("pod", metadata["namespace"], metadata["name"]))

    def _pod_gone(self, pod: Document) -> None:
        metadata = pod["metadata"]
        self._gone[metadata["uid"]] = None
        while len(self._gone) > 5000:
            del self._gone[next(iter(self._gone))]
        for name in _claim_names(pod):
            self.enqueue(Key("claim", metadata["namespace"], name))

    def _claim_set(self, claim: Document) -> None:
        metadata = claim["metadata"]
        owner = claims.controller_of(claim)
        if owner is not None and owner["kind"] == "Pod":
            entry = (metadata.get("annotations") or {}).get(claims.POD_CLAIM_ANNOTATION)
            self._made.pop((owner["uid"], entry or ""), None)
        self.enqueue(Key("claim", metadata["namespace"], metadata["name"]))
        self._claim_users(metadata)

    def _claim_gone(self, claim: Document) -> None:
        self._claim_users(claim["metadata"])

    def _claim_users(self, metadata: Document) -> None:
        for pod in self._pods.by_index("claim", f"{metadata['namespace']}/{metadata['name']}"):
            self._pod_set(pod)

    def _template_set(self, template: Document) -> None:
        metadata = template["metadata"]
        for pod in self._pods.by_index("template", f"{metadata['namespace']}/{metadata['name']}"):
            self._pod_set(pod)

    def _needs_work(self, pod: Document) -> bool:
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                wanted = claims.reference(pod, entry)
            except claims.ClaimNotCreated:
                return True
            if wanted.claim is None:
                continue
            claim = self._claims.get(pod["metadata"]["namespace"], wanted.claim)
            if claim is None:
                if wanted.generated:
                    return True
                continue
            if wanted.generated and claims.not_for_pod(pod, claim):
                continue
            if pod["spec"].get("nodeName") and _should_reserve(claim, pod):
                return True
        return False

    # -- pods -------------------------------------------------------------------------------------------------------

    async def sync(self, key: Key) -> float | None:
        if key.kind == "pod":
            await self._sync_pod(key)
        else:
            await self._sync_claim(key)
        return None

    async def _sync_pod(self, key: Key) -> None:
        pod = self._pods.get(key.namespace, key.name)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        made: list[Object] = []
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                name = await self._claim_for(pod, entry)
            except (TemplateProblem, StatusError) as problem:
                text = f"PodResourceClaim {entry['name']}: {problem}"
                self.kit.recorder.event(PODS, pod, "Warning", "FailedResourceClaimCreation", text)
                raise
            if name is not None:
                made.append({"name": entry["name"], "resourceClaimName": name})
        if made:
            await self.kit.client.apply(
                PODS,
                key.namespace,
                {"metadata": {"name": key.name}, "status": {"resourceClaimStatuses": made}},
                field_manager=FIELD_MANAGER,
                force=True,
                subresource="status",
            )
        if pod["spec"].get("nodeName"):
            await self._reserve_all(pod)

    async def _claim_for(self, pod: Document, entry: Document) -> str | None:
        """The name of a claim that the pod's status does not tell yet, made if need be."""
        namespace = pod["metadata"]["namespace"]
        try:
            wanted = claims.reference(pod, entry)
        except claims.ClaimNotCreated:
            pass
        else:
            if wanted.claim is None or not wanted.generated:
                return None
            known = self._claims.get(namespace, wanted.claim)
            if known is not None and not claims.not_for_pod(pod, known):
                return None
        template = claims.claim_source(entry)[1]
        if template is None:
            return None
        uid = pod["metadata"]["uid"]
        claim: Document | None = self._made.get((uid, entry["name"])) or next(
            (
                c
                for c in self._claims.by_index("pod", uid)
                if (c["metadata"].get("annotations") or {}).get(claims.POD_CLAIM_ANNOTATION) == entry["name"]
            ),
            None,
        )
        if claim is None:
            claim = await self._make(pod, entry["name"], namespace, template)
        name: str = claim["metadata"]["name"]
        return name

    async def _make(self, pod: Document, entry: str, namespace: str, template_name: str) -> Document:
        template = self._templates.get(namespace, template_name)
        if template is None:
            raise TemplateProblem(
                f'resource claim template "{template_name}": '
                f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            )
        wanted = from_template(
            pod, entry, template, admin_access=self._admin_access, alternatives=self._alternatives
        )
        try:
            made = await self.kit.client.create(self._resource, namespace, wanted)
        except StatusError as problem:
            raise TemplateProblem(f"create ResourceClaim : {problem}") from problem
        if self._claims.get(namespace, made["metadata"]["name"]) is None:
            self._made[(pod["metadata"]["uid"], entry)] = made
        return made

    async def _reserve_all(self, pod: Document) -> None:
        """The pod got its node without the scheduler: claims that are allocated are reserved for it."""
        namespace = pod["metadata"]["namespace"]
        for wanted in claims.references(pod):
            claim = self._claims.get(namespace, wanted.claim) if wanted.claim is not None else None
            if claim is None or (wanted.generated and claims.not_for_pod(pod, claim)):
                continue
            if _should_reserve(claim, pod):
                status = claim.get("status") or {}
                reserved = [*(status.get("reservedFor") or ()), claims.consumer(pod)]
                changed = {**claim, "status": {**status, "reservedFor": reserved}}
                await self.kit.client.update_status(self._resource, namespace, changed)

    # -- claims -----------------------------------------------------------------------------------------------------

    async def _sync_claim(self, key: Key) -> None:
        claim: Document | None = self._claims.get(key.namespace, key.name)
        if claim is None:
            return
        remaining = [
            entry
            for entry in (claim.get("status") or {}).get("reservedFor") or ()
            if await self._still_used(key.namespace, entry)
        ]
        change = release(claim, remaining)
        if change is not None:
            status = {**(claim.get("status") or {}), "reservedFor": list(change.reserved_for)}
            if change.deallocate:
                status.pop("allocation", None)
            claim = await self.kit.client.update_status(
                self._resource, key.namespace, {**claim, "status": status}
            )
        if (change is not None or "deletionTimestamp" in claim["metadata"]) and unprotect(claim):
            metadata = claim["metadata"]
            finalizers = [f for f in metadata["finalizers"] if f != claims.FINALIZER]
            claim = await self.kit.client.update(
                self._resource, key.namespace, {**claim, "metadata": {**metadata, "finalizers": finalizers}}
            )
        if not remaining:
            await self._delete_if_unused(claim)

    async def _still_used(self, namespace: str, entry: Document) -> bool:
        if entry.get("apiGroup") or entry.get("resource") != "pods":
            return True  # somebody we do not know
        if entry["uid"] in self._gone:
            return False
        pod = self._pods.get(namespace, entry["name"])
        if pod is None:
            # Perhaps it is so new that no informer has shown it: ask.
            try:
                pod = await self.kit.client.get(PODS, namespace, entry["name"])
            except NotFound:
                return False
            return bool(pod["metadata"]["uid"] == entry["uid"])
        return pod["metadata"]["uid"] == entry["uid"] and not claims.is_done(pod)

    async def _delete_if_unused(self, claim: Document) -> None:
        """A generated claim outlives its pod only until somebody notices."""
        owner = claims.controller_of(claim)
        metadata = claim["metadata"]
        if owner is None or owner["kind"] != "Pod" or "deletionTimestamp" in metadata:
            return
        pod = self._pods.get(metadata["namespace"], owner["name"])
        if pod is not None and (pod["metadata"]["uid"] != owner["uid"] or claims.is_done(pod)):
            with contextlib.suppress(NotFound):
                await self.kit.client.delete(self._resource, metadata["namespace"], metadata["name"])


def _should_reserve(claim: Document, pod: Document) -> bool:
    return claims.allocation(claim) is not None and not claims.is_reserved_for(claim, pod["metadata"]["uid"])


def _extended(pod: Document) -> str | None:
    return ((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")


def _claim_names(pod: Document) -> list[str]:
    names = [r.claim for r in claims.references(pod) if r.claim is not None]
    extended = _extended(pod)
    return [*names, extended] if extended else names


def _claims_of(pod: Object) -> list[str]:
    return [f"{pod['metadata']['namespace']}/{name}" for name in _claim_names(pod)]


def _templates_of(pod: Object) -> list[str]:
    namespace = pod["metadata"]["namespace"]
    entries = pod["spec"].get("resourceClaims") or ()
    return [f"{namespace}/{t}" for t in (claims.claim_source(e)[1] for e in entries) if t is not None]


def _owner_of(claim: Object) -> list[str]:
    owner = claims.controller_of(claim)
    return [owner["uid"]] if owner is not None and owner["kind"] == "Pod" else []
