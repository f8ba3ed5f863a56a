"""Claims of PodGroups: made from templates as soon as the group exists, and named in the group's status.

A pod's claim is the group's if both have an entry of the same name with the same reference; the pod's status then names
the claim of the group.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from dray.api import claims, objects
from dray.api.errors import NotFound, StatusError
from dray.client.resources import POD_GROUPS, RESOURCE_CLAIMS, ObjectKey, key_of
from dray.controllers.resourceclaim.template import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dray.api.types import Object
    from dray.api.types.core import Pod, PodResourceClaim
    from dray.api.types.meta import OwnerReference
    from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
    from dray.api.types.scheduling_v1beta1 import PodGroup, PodGroupResourceClaimStatus
    from dray.client.informers import Informer
    from dray.controllers.controller import ControllerContext
    from dray.controllers.resourceclaim.modern import ModernGeneration

_GROUP: Final = "scheduling.k8s.io"


def is_group(consumer: ResourceClaimConsumerReference) -> bool:
    return consumer.get("apiGroup") == _GROUP and consumer["resource"] == "podgroups"


class GroupClaims:
    """What the resource claim controller does for groups."""

    def __init__(self, context: ControllerContext, generation: ModernGeneration) -> None:
        self._context = context
        self._generation = generation
        self._claims = generation.informers.claims
        self._templates = generation.informers.templates
        self.informer: Informer[PodGroup] = context.informers.get(POD_GROUPS)
        self._unobserved: dict[
            tuple[str, str], str
        ] = {}  # group uid and entry → a claim no informer has shown yet
        self._by_missing_template: dict[ObjectKey, set[ObjectKey]] = {}

    # -- look-ups ---------------------------------------------------------------------------------------------------

    def of_pod(self, pod: Pod) -> PodGroup | None:
        name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        return self.informer.get(pod["metadata"]["namespace"], name) if name else None

    def shared_claim(self, pod: Pod, entry: PodResourceClaim) -> str | None:
        """The claim of the group that an entry of the pod stands for; empty while it is not made, None: the pod's own."""
        if "schedulingGroup" not in pod["spec"]:
            return None
        group = self.of_pod(pod)
        if group is None:
            return ""  # whether the entry is the group's is known once the group is there
        wanted = claims.claim_and_template_names(entry)
        for own in group["spec"].get("resourceClaims") or ():
            reference = own.get("resourceClaimName"), own.get("resourceClaimTemplateName")
            if own["name"] == entry["name"] and reference == wanted:
                return self._name(group, own["name"]) or ""
        return None

    def _name(self, group: PodGroup, entry: str) -> str | None:
        for status in (group.get("status") or {}).get("resourceClaimStatuses") or ():
            if status["name"] == entry:
                return status.get("resourceClaimName")
        return None

    def needs_claims(self, group: PodGroup) -> bool:
        if objects.is_terminating(group):
            return False
        return any(
            entry.get("resourceClaimTemplateName") is not None and not self._name(group, entry["name"])
            for entry in group["spec"].get("resourceClaims") or ()
        )

    def names(self, group: PodGroup) -> set[str]:
        """The claims that the group has or has had."""
        found = {
            e["resourceClaimName"]
            for e in group["spec"].get("resourceClaims") or ()
            if "resourceClaimName" in e
        }
        statuses = (group.get("status") or {}).get("resourceClaimStatuses") or ()
        return {*found, *(name for s in statuses if (name := s.get("resourceClaimName")))}

    def is_used_by(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool | None:
        """Whether a group still exists; None if only the server can tell."""
        group = self.informer.get(namespace, consumer["name"])
        return None if group is None else group["metadata"]["uid"] == consumer["uid"]

    async def is_still_used_by(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
        try:
            group = await self._context.client.get(POD_GROUPS, namespace, consumer["name"])
        except NotFound:
            return False
        return group["metadata"]["uid"] == consumer["uid"]

    def template_observed(self, template: Object) -> Iterable[ObjectKey]:
        """The groups that have waited for the template."""
        return self._by_missing_template.pop(key_of(template), ())

    # -- creation ---------------------------------------------------------------------------------------------------

    async def sync(self, group: PodGroup) -> None:
        """Create the claims that a group lacks, and write their names into its status."""
        statuses: list[PodGroupResourceClaimStatus] = []
        changed = False
        for entry in group["spec"].get("resourceClaims") or ():
            template = entry.get("resourceClaimTemplateName")
            if template is None:
                continue
            name = self._name(group, entry["name"])
            if not name:
                changed = True
                try:
                    name = await self._claim(group, entry["name"], template)
                except StatusError as problem:
                    text = f"PodGroupResourceClaim {entry['name']}: {problem}"
                    self._context.recorder.event(
                        POD_GROUPS, group, "Warning", "FailedResourceClaimCreation", text
                    )
                    raise
            statuses.append({"name": entry["name"], "resourceClaimName": name})
        if changed:
            await self._write(group, statuses)

    async def _claim(self, group: PodGroup, entry: str, template_name: str) -> str:
        namespace, uid = group["metadata"]["namespace"], group["metadata"]["uid"]
        for claim in self._claims.by_index("owning pod", uid):
            if (claim["metadata"].get("annotations") or {}).get(claims.POD_CLAIM_ANNOTATION) == entry:
                self._unobserved.pop((uid, entry), None)
                return claim["metadata"]["name"]
        if (made := self._unobserved.get((uid, entry))) is not None:
            return made
        template = self._templates.get(namespace, template_name)
        if template is None:
            with contextlib.suppress(NotFound):
                template = await self._context.client.get(self._templates.resource, namespace, template_name)
        if template is None:
            self._by_missing_template.setdefault(ObjectKey(namespace, template_name), set()).add(
                key_of(group)
            )
            raise TemplateError(
                f'resource claim template "{template_name}": '
                f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            )
        wanted = self._generation.new_group_claim(group, entry, template)
        created = await self._context.client.create(RESOURCE_CLAIMS, namespace, wanted)
        name = created["metadata"]["name"]
        self._unobserved[uid, entry] = name
        return name

    async def _write(self, group: PodGroup, statuses: list[PodGroupResourceClaimStatus]) -> None:
        metadata = group["metadata"]
        with contextlib.suppress(NotFound):
            await self._context.client.apply(
                POD_GROUPS,
                metadata["namespace"],
                {"metadata": {"name": metadata["name"]}, "status": {"resourceClaimStatuses": statuses}},
                field_manager=self._generation.field_manager,
                force=True,
                subresource="status",
            )


def group_claim(
    group: PodGroup, entry: str, template: ResourceClaimTemplate, claim: ResourceClaim
) -> ResourceClaim:
    """The claim of a group, from what it would be for a pod."""
    owner: OwnerReference = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "name": group["metadata"]["name"],
        "uid": group["metadata"]["uid"],
        "controller": True,
    }
    return {**claim, "metadata": {**claim["metadata"], "ownerReferences": [owner]}}
