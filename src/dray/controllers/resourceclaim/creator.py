"""Claims for pods, made from templates: under names given or drawn, each once, and the pods are told of them.

What was made or told is remembered until an informer shows it, and so is who waits for which template. Order of writes
and words of events are upstream's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, ClassVar, Final, NamedTuple

from dray.api import claims
from dray.api.claims import Document
from dray.api.errors import AlreadyExists, Forbidden, NotFound, StatusError
from dray.client.informers import Informer
from dray.client.resources import PODS, ObjectKey, key_of
from dray.controllers.controller import ControllerContext
from dray.controllers.resourceclaim.reservation import owning_pod, requests_admin_access
from dray.controllers.resourceclaim.template import TemplateError, claim_from_template

Object = Any  # documents have no types here yet

FIELD_MANAGER: Final = "ResourceClaimController"
_MUTATION_CACHE_SIZE: Final = 100
_MUTATION_CACHE_TTL_SECONDS: Final = 3600.0


class PodClaimKey(NamedTuple):
    """Which claim was made: the pod's uid and the entry it is for."""

    pod: str
    entry: str


class CachedClaim(NamedTuple):
    """A claim that was made, and when."""

    name: str
    since: float


def _owner_uid(claim: Object) -> list[str]:
    owner = owning_pod(claim)
    return [owner["uid"]] if owner is not None else []


class ClaimCreator:
    """Makes the claims of one generation. The informer of claims has ``INDEXERS``."""

    INDEXERS: Final = {"owning pod": _owner_uid}
    #: Whether claims are called after their pods: the scheduler and kubelets must know them the same way.
    fixed_names: ClassVar[bool] = False

    def __init__(
        self,
        context: ControllerContext,
        *,
        claims: Informer[Any],
        templates: Informer[Any],
        others: Informer[Any] | None,
        creates_with_finalizer: bool = False,
    ) -> None:
        """``others``: templates of another generation, where one is served beside this. The rest is the controller's."""
        self._context = context
        self._resource = claims.resource
        self._claims = claims
        self._templates = templates
        self._others = others
        self._creates_with_finalizer = creates_with_finalizer
        self._names_are_given = context.quirks.recreates_claims_under_recorded_name
        self._uses_mutation_cache = context.quirks.trusts_created_claims
        self._admin_access = context.quirks.allows_admin_access
        self._prioritized_list = context.quirks.allows_prioritized_list
        # Handlers look whether these two have anything in them before they call: most of the time there is nothing.
        self.unobserved: dict[PodClaimKey, str] = {}  # names of claims that no informer has shown yet
        self.told: dict[str, list[Object]] = {}  # pod uid → what we wrote and no informer has shown yet
        self._mutation_cache: dict[PodClaimKey, CachedClaim] = {}  # claims that count as there, oldest first
        self._waiting: dict[ObjectKey, dict[ObjectKey, None]] = {}  # missing template → pods

    # -- what handlers ask and tell ---------------------------------------------------------------------------------

    def made(self, pod: str, entry: str) -> str | None:
        """The claim made for an entry of the pod with that uid, as long as it counts as there without being seen."""
        key = PodClaimKey(pod, entry)
        return self.unobserved.get(key) or (self._cached(key) if self._mutation_cache else None)

    def pod_observed(self, pod: Document) -> None:
        if "resourceClaimStatuses" in (pod.get("status") or {}):
            self.told.pop(pod["metadata"]["uid"], None)

    def claim_observed(self, claim: Document, owner: Document) -> None:
        entry = (claim["metadata"].get("annotations") or {}).get(claims.POD_CLAIM_ANNOTATION)
        self.unobserved.pop(PodClaimKey(owner["uid"], entry or ""), None)

    def pod_gone(self, pod: Document) -> None:
        uid = pod["metadata"]["uid"]
        self.told.pop(uid, None)
        for entry in pod["spec"].get("resourceClaims") or ():
            self.unobserved.pop(PodClaimKey(uid, entry["name"]), None)
            self._mutation_cache.pop(PodClaimKey(uid, entry["name"]), None)

    def template_observed(self, template: Object) -> Iterable[ObjectKey]:
        """The pods that have waited for it."""
        return self._waiting.pop(key_of(template), ())

    # -- what generations differ in ---------------------------------------------------------------------------------

    def _field_manager(self) -> str:
        """Who owns what pods are told."""
        return FIELD_MANAGER

    def _new_claim(self, pod: Document, entry: str, template: Document) -> Object:
        """The claim to make for an entry."""
        claim = claim_from_template(
            pod, entry, template, admin_access=self._admin_access, prioritized_list=self._prioritized_list
        )
        if self._creates_with_finalizer:
            claim["metadata"]["finalizers"] = [claims.FINALIZER]
        return claim

    def _is_of_another_generation(self, pod: Document, entry: Document) -> bool:
        """Whether another controller makes the claim of an entry that has a template."""
        others = self._others
        if others is None or not others.items():
            return False
        namespace, template = pod["metadata"]["namespace"], claims.claim_and_template_names(entry)[1] or ""
        return (
            self._templates.get(namespace, template) is None and others.get(namespace, template) is not None
        )

    async def _is_in_another_generation(self, namespace: str, template: str) -> bool:
        """Whether a template that is missing here turns out to be there, by the server's word."""
        return self._others is not None and bool(await self._get_live(self._others, namespace, template))

    def _find(self, key: PodClaimKey) -> str | None:
        """The claim that was made for an entry before, though the pod's status does not tell."""
        found = None
        if (made := self.unobserved.get(key)) is not None:
            return made
        for claim in self._claims.by_index("owning pod", key.pod):
            metadata = claim["metadata"]
            its_entry = (metadata.get("annotations") or {}).get(claims.POD_CLAIM_ANNOTATION)
            self._mutation_cache.pop(PodClaimKey(key.pod, its_entry or ""), None)  # now it is known
            if its_entry == key.entry and found is None:
                found = str(metadata["name"])
        return found or (self._cached(key) if self._mutation_cache else None)

    async def _write_statuses(self, pod: Document, statuses: list[Object]) -> None:
        """Write a pod's claims into its status: all of them, as what is left out of an apply is removed by it."""
        metadata = pod["metadata"]
        uid = metadata["uid"]
        wanted = {"metadata": {"name": metadata["name"]}, "status": {"resourceClaimStatuses": statuses}}
        self.told[uid] = statuses
        try:
            await self._context.client.apply(
                PODS,
                metadata["namespace"],
                wanted,  # type: ignore[arg-type]
                field_manager=self._field_manager(),
                force=True,
                subresource="status",
            )
        except NotFound:
            self.told.pop(uid, None)
        except BaseException:
            self.told.pop(uid, None)
            raise

    # -- making -----------------------------------------------------------------------------------------------------

    async def create_for(self, pod: Object) -> None:
        """Make the claims that a pod lacks, and tell it of them."""
        statuses: list[Object] = []
        changed = False
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                status, is_new = await self._status(pod, entry)
            except StatusError as problem:
                text = f"PodResourceClaim {entry['name']}: {problem}"
                self._context.recorder.event(PODS, pod, "Warning", "FailedResourceClaimCreation", text)
                raise
            if status is not None:
                statuses.append(status)
                changed = changed or is_new
        if changed and self.told.get(pod["metadata"]["uid"]) != statuses:
            await self._write_statuses(pod, statuses)

    async def _status(self, pod: Object, entry: Document) -> tuple[Object | None, bool]:
        """What the pod's status is to say about an entry, and whether that is new. Makes the claim if need be."""
        name = entry["name"]
        template = claims.claim_and_template_names(entry)[1]
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
        key, given = PodClaimKey(pod["metadata"]["uid"], name), known if self._names_are_given else ""
        made = self._find(key) or await self._make(pod, key, template, given)
        if made is None:
            return None, False
        return {"name": name, "resourceClaimName": made}, made != known

    async def _make(self, pod: Object, key: PodClaimKey, template_name: str, given: str) -> str | None:
        """The name of a new claim, if possible the given one; None if the template is of another generation."""
        namespace = pod["metadata"]["namespace"]
        template = self._templates.get(namespace, template_name) or await self._get_live(
            self._templates, namespace, template_name
        )
        if template is None and await self._is_in_another_generation(namespace, template_name):
            return None
        if template is None:
            self._waiting.setdefault(ObjectKey(namespace, template_name), {})[key_of(pod)] = None
            raise TemplateError(
                f'resource claim template "{template_name}": '
                f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            )
        wanted = self._new_claim(pod, key.entry, template)
        created, admin = (
            self._context.metrics.claims_created,
            "true" if requests_admin_access(wanted) else "false",
        )
        try:
            made = await self._create(pod, wanted, given)
        except StatusError as problem:
            created.inc("failure", admin)
            raise TemplateError(
                f"create ResourceClaim {wanted['metadata'].get('name', '')}: {problem}"
            ) from problem
        created.inc("success", admin)
        name: str = made["metadata"]["name"]
        if self._claims.get(namespace, name) is None:
            self.unobserved[key] = name
        if self._uses_mutation_cache:
            self._cache(key, name)
        return name

    async def _create(self, pod: Object, wanted: Object, given: str) -> Object:
        client, namespace = self._context.client, pod["metadata"]["namespace"]
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

    async def _get_live(self, templates: Informer[Any], namespace: str, name: str) -> Object | None:
        """A template made a moment before its pod may be news that has not come in yet."""
        try:
            return await self._context.client.get(templates.resource, namespace, name)
        except (NotFound, Forbidden):  # the role of old releases lets templates be listed only
            return None

    def _cached(self, key: PodClaimKey) -> str | None:
        """The claim that was made for an entry not long ago, whatever has become of it."""
        belief = self._mutation_cache.get(key)
        fresh = belief is not None and self._context.clock() - belief.since < _MUTATION_CACHE_TTL_SECONDS
        return belief.name if belief is not None and fresh else None

    def _cache(self, key: PodClaimKey, name: str) -> None:
        self._mutation_cache[key] = CachedClaim(name, self._context.clock())
        if len(self._mutation_cache) > _MUTATION_CACHE_SIZE:
            del self._mutation_cache[next(iter(self._mutation_cache))]
