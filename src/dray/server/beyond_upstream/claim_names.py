"""A new pod has the names of its claims from templates in its status.

Upstream's claim controller draws a name for each claim that it makes from a template and writes it into the pod's
status. That is one more write for every pod, and every watcher of pods sees one more change before the pod can be
scheduled. Here the API server draws the names when it creates the pod, as it does for ``generateName``, and the
controller only makes the claims. A controller that does not know these names, such as upstream's, finds the named
claims missing, makes others and writes their names into the status. An entry whose template does not exist gets no
name: the controller reports it, and names the claim once the template exists. An API server that emulates a release
leaves all names to the controller.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from dray.api.claims import claim_and_template_names, claim_generate_name
from dray.server.registry import metadata
from dray.server.storage.watchcache import WatchCache

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaimStatus
    from dray.api.types.scheduling_v1beta1 import PodGroup


class ClaimNames:
    """Draws the names of the claims that pods will have from templates."""

    def __init__(self, templates: WatchCache, groups: WatchCache | None = None) -> None:
        """``groups``: the PodGroups, where they are served."""
        self._templates = templates
        self._groups = groups

    def begin_write(self, new: Pod, old: Pod | None) -> AbstractContextManager[None]:
        entries = new["spec"].get("resourceClaims")
        pod = new["metadata"].get("name")
        if (
            old is None and entries and pod and not self._may_share_claims(new)
        ):  # without a name: about to be refused
            namespace = new["metadata"]["namespace"]
            names: list[PodResourceClaimStatus] = [
                {
                    "name": entry["name"],
                    "resourceClaimName": metadata.generate_name(claim_generate_name(pod, entry["name"])),
                }
                for entry in entries
                if entry.get("name")
                and self._templates.get(f"{namespace}/{claim_and_template_names(entry)[1]}") is not None
            ]
            if names:
                new["status"]["resourceClaimStatuses"] = names
        return nullcontext()

    def _may_share_claims(self, pod: Pod) -> bool:
        """Whether some claim of the pod may be its group's: then the controller names them."""
        if "schedulingGroup" not in pod["spec"] or self._groups is None:
            return False
        name = pod["spec"]["schedulingGroup"].get("podGroupName")
        group = self._groups.get(f"{pod['metadata']['namespace']}/{name}")
        if group is None:
            return True
        found: PodGroup = group.hub
        return bool(found["spec"].get("resourceClaims"))
