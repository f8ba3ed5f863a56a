"""Claims as 1.26 and 1.27 had them: named after their pods, which say nothing about them.

That controller does less than its successors. It makes claims and strikes out consumers that are gone; it neither asks
for deallocation, nor helps pods that got their node without the scheduler, nor cares that a pod has finished.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api import claims
from dray.api.kinds import Object
from dray.controllers.claims import Document, Key
from dray.controllers.classic import ClassicClaimController
from dray.controllers.framework import Kit
from dray.controllers.templates import TemplateProblem


class EarlyClaimController(ClassicClaimController):
    name = "early-resourceclaim-controller"
    versions = ("v1alpha2", "v1alpha1")
    fixed_names = True

    def _negotiations(self, kit: Kit) -> None:
        return None

    # -- making -----------------------------------------------------------------------------------------------------

    def make(self, pod: Document, entry: str, template: Document) -> Object:
        made = super().make(pod, entry, template)
        metadata = made["metadata"]
        del metadata["generateName"], metadata["annotations"][claims.POD_CLAIM_ANNOTATION]
        metadata["name"] = claims.fixed_name(pod, {"name": entry})
        return made

    def _pod_needs_work(self, pod: Object) -> bool:
        entries = pod["spec"].get("resourceClaims") or ()
        return super()._pod_needs_work(pod) or any(self._foreign(pod, entry) for entry in entries)

    async def _claim_status(self, pod: Object, entry: Document) -> tuple[Object | None, bool]:
        if foreign := self._foreign(pod, entry):
            raise TemplateProblem(foreign)
        return await super()._claim_status(pod, entry)

    def _foreign(self, pod: Document, entry: Document) -> str:
        """Why the claim that has the name of the pod's is not the pod's, or an empty string."""
        wanted = claims.reference(pod, entry, fixed_names=True)
        claim = self._claims.get(pod["metadata"]["namespace"], wanted.claim or "")
        if not wanted.generated or claim is None:
            return ""
        return claims.not_for_pod(pod, claim, kind="pod")

    async def _tell(self, key: Key, uid: str, statuses: list[Object]) -> None:
        """The name says it all."""

    # -- consumers --------------------------------------------------------------------------------------------------

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
