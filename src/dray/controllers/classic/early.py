"""Claims as 1.26 and 1.27 had them: named after their pods, which say nothing about them.

That controller does less than its successors. It makes claims and strikes out consumers that are gone; it neither asks
for deallocation, nor helps pods that got their node without the scheduler, nor cares that a pod has finished.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dray.api import claims
from dray.api.claims import Document
from dray.api.scheme.kinds import Object
from dray.client.informers import Informer
from dray.controllers.classic.resourceclaim import ClassicClaimCreator, ClassicResourceClaimController
from dray.controllers.controller import ControllerContext
from dray.controllers.resourceclaim.template import TemplateError


def name_conflict(pod: Document, entry: Document, known: Informer[Any]) -> str:
    """Why the claim that has the name of the pod's is not the pod's, or an empty string."""
    wanted = claims.reference(pod, entry, fixed_names=True)
    claim = known.get(pod["metadata"]["namespace"], wanted.claim or "")
    if not wanted.generated or claim is None:
        return ""
    return claims.not_for_pod(pod, claim, kind="pod")


class EarlyClaimCreator(ClassicClaimCreator):
    fixed_names = True

    def _new_claim(self, pod: Document, entry: str, template: Document) -> Object:
        made = super()._new_claim(pod, entry, template)
        metadata = made["metadata"]
        del metadata["generateName"], metadata["annotations"][claims.POD_CLAIM_ANNOTATION]
        metadata["name"] = claims.legacy_claim_name(pod, {"name": entry})
        return made  # type: ignore[no-any-return]

    async def _status(self, pod: Object, entry: Document) -> tuple[Object | None, bool]:
        if problem := name_conflict(pod, entry, self._claims):
            raise TemplateError(problem)
        return await super()._status(pod, entry)

    async def _write_statuses(self, pod: Document, statuses: list[Object]) -> None:
        """The name says it all."""


class EarlyResourceClaimController(ClassicResourceClaimController):
    name = "early-resourceclaim-controller"
    versions = ("v1alpha2", "v1alpha1")
    creator = EarlyClaimCreator

    def _scheduling_context_informer(self, context: ControllerContext) -> None:
        return None

    def _pod_needs_work(self, pod: Object) -> bool:
        entries = pod["spec"].get("resourceClaims") or ()
        return super()._pod_needs_work(pod) or any(
            name_conflict(pod, entry, self._claims) for entry in entries
        )

    def released(self, claim: Document, remaining: Iterable[Document]) -> Object | None:
        status = claim.get("status") or {}
        left = list(remaining)
        return {**status, "reservedFor": left} if len(left) < len(status.get("reservedFor") or ()) else None

    def needs_pod_work(self, pod: Document, claim: Document) -> bool:
        return False

    async def reserve_all(self, pod: Object) -> None:
        """A pod that got its node without the scheduler is left to itself."""

    def _is_used_by(self, namespace: str, consumer: Document) -> bool | None:
        pod = self._pods.get(namespace, consumer["name"])
        if pod is not None and pod["metadata"]["uid"] == consumer["uid"]:
            return True  # finished or not
        return super()._is_used_by(namespace, consumer)

    def _is_abandoned(self, namespace: str, owner: Document) -> bool:
        return False  # the garbage collector will see to it
