"""From a claim template to the claim of one pod. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dray.api import claims
from dray.api.errors import StatusError
from dray.api.pods import controller_reference

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import (
        DeviceRequest,
        ExactDeviceRequest,
        ResourceClaim,
        ResourceClaimTemplate,
    )


class TemplateError(StatusError):
    """A claim cannot be created from its template, for a reason that users are told."""


def claim_from_template(
    pod: Pod, entry: str, template: ResourceClaimTemplate, *, admin_access: bool, prioritized_list: bool
) -> ResourceClaim:
    """The claim that a template stands for in this pod."""
    spec = template["spec"]["spec"]
    requests = (spec.get("devices") or {}).get("requests") or ()
    if not admin_access and any(_exact(r).get("adminAccess") for r in requests):
        raise TemplateError("admin access is requested, but the feature is disabled")
    if not prioritized_list and any(r.get("firstAvailable") for r in requests):
        raise TemplateError(
            "template includes a prioritized list of subrequests, but the feature is disabled"
        )
    return {"metadata": claim_metadata(pod, entry, template["spec"].get("metadata") or {}), "spec": spec}


def _exact(request: DeviceRequest) -> ExactDeviceRequest:
    # In old versions of the API what is now below "exactly" is in the request itself.
    return request.get("exactly") or cast("ExactDeviceRequest", request)


def claim_metadata(
    pod: Pod, entry: str, wanted: ObjectMeta, *, block_owner_deletion: bool = False
) -> ObjectMeta:
    """The metadata of a new claim for an entry of the pod; ``wanted`` is the template's."""
    metadata = pod["metadata"]
    owner = controller_reference(metadata["name"], metadata["uid"], block_owner_deletion=block_owner_deletion)
    found: ObjectMeta = {
        "generateName": claims.claim_generate_name(metadata["name"], entry),
        "annotations": {**(wanted.get("annotations") or {}), claims.POD_CLAIM_ANNOTATION: entry},
        "ownerReferences": [owner],
    }
    if wanted.get("labels"):
        found["labels"] = wanted["labels"]
    return found
