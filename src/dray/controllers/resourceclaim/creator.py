"""Creates claims from templates for pods, each once, and writes their names into the pods' statuses.

The creator remembers what it created and wrote until an informer shows it, and which pods wait for a missing template.
Order of writes and texts of events are upstream's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Generic, NamedTuple

from dray.api import claims
from dray.api.errors import AlreadyExists, Forbidden, NotFound, StatusError
from dray.client.informers import Informer
from dray.client.resources import PODS, ObjectKey, Resource, T, key_of
from dray.controllers.controller import ControllerContext
from dray.controllers.resourceclaim.generation import Claim, Generation, Template
from dray.controllers.resourceclaim.template import TemplateError

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaim, PodResourceClaimStatus
    from dray.api.types.meta import ObjectMeta, OwnerReference

_MUTATION_CACHE_SIZE: Final = 100
_MUTATION_CACHE_TTL_SECONDS: Final = 3600.0


class PodClaimKey(NamedTuple):
    """An entry of a pod's resourceClaims."""

    pod: str  # the pod's uid
    entry: str


class CachedClaim(NamedTuple):
    """A claim that was created, and when."""

    name: str
    since: float


class ClaimCreator(Generic[Claim, Template]):
    """Creates the claims of one generation."""

    def __init__(self, context: ControllerContext, generation: Generation[Claim, Template]) -> None:
        self._context = context
        self._generation: Generation[Claim, Template] = generation
        self._claims: Informer[Claim] = generation.informers.claims
        self._templates: Informer[Template] = generation.informers.templates
        self._resource: Resource[Claim] = self._claims.resource
        self._reuses_recorded_names = context.quirks.recreates_claims_under_recorded_name
        self._uses_mutation_cache = context.quirks.trusts_created_claims
        # Handlers look whether these two have anything in them before they call: most of the time there is nothing.
        self.unobserved_claims: dict[PodClaimKey, str] = {}  # names of claims that no informer has shown yet
        #: By the uid of a pod: the statuses that were written and that no informer has shown yet.
        self.unobserved_statuses: dict[str, list[PodResourceClaimStatus]] = {}
        self._mutation_cache: dict[
            PodClaimKey, CachedClaim
        ] = {}  # claims that count as existing, oldest first
        self._pods_by_missing_template: dict[ObjectKey, dict[ObjectKey, None]] = {}

    # -- for handlers ----------------------------------------------------------------------------------------------

    def created_name(self, pod: str, entry: str) -> str | None:
        """The claim created for an entry of the pod with that uid, as long as it counts as existing without being seen."""
        key = PodClaimKey(pod, entry)
        return self.unobserved_claims.get(key) or (self._cached(key) if self._mutation_cache else None)

    def pod_observed(self, pod: Pod) -> None:
        if "resourceClaimStatuses" in (pod.get("status") or {}):
            self.unobserved_statuses.pop(pod["metadata"]["uid"], None)

    def claim_observed(self, claim: Claim, owner: OwnerReference) -> None:
        entry = (claim["metadata"].get("annotations") or {}).get(claims.POD_CLAIM_ANNOTATION)
        self.unobserved_claims.pop(PodClaimKey(owner["uid"], entry or ""), None)

    def pod_deleted(self, pod: Pod) -> None:
        uid = pod["metadata"]["uid"]
        self.unobserved_statuses.pop(uid, None)
        for entry in pod["spec"].get("resourceClaims") or ():
            self.unobserved_claims.pop(PodClaimKey(uid, entry["name"]), None)
            self._mutation_cache.pop(PodClaimKey(uid, entry["name"]), None)

    def template_observed(self, template: Template) -> Iterable[ObjectKey]:
        """The pods that have waited for the template."""
        return self._pods_by_missing_template.pop(key_of(template), ())

    # -- creation ---------------------------------------------------------------------------------------------------

    def _find_existing(self, key: PodClaimKey) -> str | None:
        """The claim that was created for an entry before, though the pod's status does not name it."""
        found = None
        if (made := self.unobserved_claims.get(key)) is not None:
            return made
        owned = self._claims.by_index("owning pod", key.pod)
        for claim in owned:
            metadata = claim["metadata"]
            its_entry = (metadata.get("annotations") or {}).get(claims.POD_CLAIM_ANNOTATION)
            self._mutation_cache.pop(PodClaimKey(key.pod, its_entry or ""), None)  # an informer shows it now
            if its_entry == key.entry and found is None:
                found = metadata["name"]
        if found := found or (self._cached(key) if self._mutation_cache else None):
            return found
        for claim in owned:
            if self._generation.is_unannotated_claim_for(claim, key.entry):
                return claim["metadata"]["name"]
        return None

    async def _write_statuses(self, pod: Pod, statuses: list[PodResourceClaimStatus]) -> None:
        """Write a pod's claims into its status: all of them, as what is left out of an apply is removed by it."""
        metadata = pod["metadata"]
        uid = metadata["uid"]
        self.unobserved_statuses[uid] = statuses
        try:
            await self._context.client.apply(
                PODS,
                metadata["namespace"],
                {"metadata": {"name": metadata["name"]}, "status": {"resourceClaimStatuses": statuses}},
                field_manager=self._generation.field_manager,
                force=True,
                subresource="status",
            )
        except NotFound:
            self.unobserved_statuses.pop(uid, None)
        except BaseException:
            self.unobserved_statuses.pop(uid, None)
            raise

    async def create_for(self, pod: Pod) -> None:
        """Create the claims that a pod lacks, and write their names into its status."""
        statuses: list[PodResourceClaimStatus] = []
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
        if (
            changed
            and not self._generation.names_follow_pods
            and self.unobserved_statuses.get(pod["metadata"]["uid"]) != statuses
        ):
            await self._write_statuses(pod, statuses)

    async def _status(self, pod: Pod, entry: PodResourceClaim) -> tuple[PodResourceClaimStatus | None, bool]:
        """The pod's status for an entry, and whether it is new. Creates the claim where it is missing."""
        if problem := self._generation.name_conflict(pod, entry):
            raise TemplateError(problem)
        name = entry["name"]
        template = claims.claim_and_template_names(entry)[1]
        if template is None or self._generation.is_of_another_generation(pod, entry):
            return None, False
        if (shared := self._generation.shared_claim(pod, entry)) is not None:
            if not shared:
                return None, False
            seen = claims.known_reference(pod, entry)
            return {"name": name, "resourceClaimName": shared}, seen is None or seen.claim != shared
        wanted = claims.known_reference(pod, entry, fixed_names=self._generation.names_follow_pods)
        known = wanted.claim if wanted is not None else ""
        if known is None:
            return {"name": name}, False  # the pod turned out to need no claim for this entry
        claim = self._claims.get(pod["metadata"]["namespace"], known)
        if claim is not None and not claims.not_for_pod(pod, claim):
            return {"name": name, "resourceClaimName": known}, False
        key, given = PodClaimKey(pod["metadata"]["uid"], name), known if self._reuses_recorded_names else ""
        made = self._find_existing(key) or await self._create_from_template(pod, key, template, given)
        if made is None:
            return None, False
        return {"name": name, "resourceClaimName": made}, made != known

    async def _create_from_template(
        self, pod: Pod, key: PodClaimKey, template_name: str, given: str
    ) -> str | None:
        """The name of a new claim, if possible the given one; None if the template is of another generation."""
        namespace = pod["metadata"]["namespace"]
        template = self._templates.get(namespace, template_name) or await self._get_live(
            self._templates, namespace, template_name
        )
        if template is None:
            for others in self._generation.templates_to_ask_for:
                if await self._get_live(others, namespace, template_name):
                    return None
            self._pods_by_missing_template.setdefault(ObjectKey(namespace, template_name), {})[
                key_of(pod)
            ] = None
            raise TemplateError(
                f'resource claim template "{template_name}": '
                f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            )
        wanted = self._generation.new_claim(pod, key.entry, template)
        created, admin = (
            self._context.metrics.claims_created,
            "true" if self._generation.requests_admin_access(wanted) else "false",
        )
        try:
            made = await self._create(pod, wanted, given)
        except StatusError as problem:
            created.inc("failure", admin)
            raise TemplateError(
                f"create ResourceClaim {wanted['metadata'].get('name', '')}: {problem}"
            ) from problem
        created.inc("success", admin)
        name = made["metadata"]["name"]
        if self._claims.get(namespace, name) is None:
            self.unobserved_claims[key] = name
        if self._uses_mutation_cache:
            self._cache(key, name)
        return name

    async def _create(self, pod: Pod, wanted: Claim, given: str) -> Claim:
        client, namespace = self._context.client, pod["metadata"]["namespace"]
        if given:
            metadata: ObjectMeta = {**wanted["metadata"], "name": given}
            named: Claim = {**wanted, "metadata": metadata}
            try:
                return await client.create(self._resource, namespace, named)
            except AlreadyExists:
                with contextlib.suppress(NotFound):
                    there: Claim = await client.get(self._resource, namespace, given)
                    if not claims.not_for_pod(pod, there):
                        return there  # created before, and no informer has shown it yet
        return await client.create(self._resource, namespace, wanted)

    async def _get_live(self, templates: Informer[T], namespace: str, name: str) -> T | None:
        """A template that was created a moment before its pod: the informer may not have shown it yet."""
        try:
            return await self._context.client.get(templates.resource, namespace, name)
        except (NotFound, Forbidden):  # the role of old releases lets templates be listed only
            return None

    def _cached(self, key: PodClaimKey) -> str | None:
        """The claim that was created for an entry not long ago, whatever has become of it."""
        cached = self._mutation_cache.get(key)
        if cached is None or self._context.clock() - cached.since >= _MUTATION_CACHE_TTL_SECONDS:
            return None
        return cached.name

    def _cache(self, key: PodClaimKey, name: str) -> None:
        self._mutation_cache[key] = CachedClaim(name, self._context.clock())
        if len(self._mutation_cache) > _MUTATION_CACHE_SIZE:
            del self._mutation_cache[next(iter(self._mutation_cache))]
