"""From a claim template to the claim of one pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api import claims
from dray.api.claims import claim_generate_name
from dray.api.errors import StatusError
from dray.api.scheme.kinds import Object

Document = Mapping[str, Any]


class TemplateError(StatusError):
    """A claim cannot be made from its template, for a reason that users are told."""


def claim_from_template(
    pod: Document, entry: str, template: Document, *, admin_access: bool, prioritized_list: bool
) -> Object:
    """The claim a template stands for in this pod."""
    spec = template["spec"]
    requests = (spec["spec"].get("devices") or {}).get("requests") or ()
    # In old versions of the API what is now below "exactly" is in the request itself.
    if not admin_access and any((r.get("exactly") or r).get("adminAccess") for r in requests):
        raise TemplateError("admin access is requested, but the feature is disabled")
    if not prioritized_list and any(r.get("firstAvailable") for r in requests):
        raise TemplateError(
            "template includes a prioritized list of subrequests, but the feature is disabled"
        )
    wanted = spec.get("metadata") or {}
    owner = pod["metadata"]
    metadata: Object = {
        "generateName": claim_generate_name(owner["name"], entry),
        "annotations": {**(wanted.get("annotations") or {}), claims.POD_CLAIM_ANNOTATION: entry},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": owner["name"],
                "uid": owner["uid"],
                "controller": True,
            }
        ],
    }
    if wanted.get("labels"):
        metadata["labels"] = wanted["labels"]
    return {"metadata": metadata, "spec": spec["spec"]}
