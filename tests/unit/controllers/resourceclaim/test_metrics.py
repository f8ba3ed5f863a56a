"""The numbers of claims in the controller's metrics."""

from __future__ import annotations

from dray.api.claims import EXTENDED_RESOURCE_ANNOTATION, POD_CLAIM_ANNOTATION
from dray.api.scheme.kinds import Object
from dray.controllers.resourceclaim.metrics import count_claims


def test_claims_are_counted_by_allocation_access_and_origin():
    def one(request: Object, **annotations: str) -> Object:
        spec = {"devices": {"requests": [{"name": "r", "exactly": request}]}}
        return {"metadata": {"annotations": annotations}, "spec": spec}

    def allocated() -> Object:
        return {"metadata": {}, "status": {"allocation": {"devices": {}}}}

    known = [
        allocated(),
        allocated(),
        one({}),
        one({"adminAccess": True}, **{POD_CLAIM_ANNOTATION: "gpu"}),
        one({}, **{EXTENDED_RESOURCE_ANNOTATION: "true", POD_CLAIM_ANNOTATION: "gpu"}),
    ]
    assert dict(count_claims(known)) == {
        ("true", "false", ""): 2.0,
        ("false", "false", ""): 1.0,
        ("false", "true", "resource_claim_template"): 1.0,
        ("false", "false", "extended_resource"): 1.0,
    }
