"""The claims that will be made for a pod have their names from the pod's birth.

Upstream's claim controller draws a name for each claim that it makes from a template and writes it into the pod's
status: a write for every pod, and a pod that everybody who watches it sees change before it can be scheduled. Here the
API server draws the names when the pod is created, as it does for ``generateName``, and the controller has but to make
the claims. A controller that knows nothing of this, such as upstream's, finds that the claims named are missing, makes
others and says so in the pod's status. An entry whose template is not there gets no name: the controller tells of it,
and names the claim once the template has come. Releases that are emulated leave it all to the controller.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from dray.api.claims import claim_and_template_names, claim_generate_name
from dray.server.registry import metadata
from dray.server.storage.watchcache import WatchCache

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaimStatus


class ClaimNames:
    """Draws the names of the claims that pods will have from templates."""

    def __init__(self, templates: WatchCache) -> None:
        self._templates = templates

    def begin_write(self, new: Pod, old: Pod | None) -> AbstractContextManager[None]:
        entries = new["spec"].get("resourceClaims")
        if old is None and entries:
            namespace, pod = new["metadata"]["namespace"], new["metadata"]["name"]
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
