"""What a driver writes for 1.30's scheduler: slices of named resources, and parameters made from its own kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api.kinds import Object
from dray.drivers.cats.animals import DRIVER, PARAMETERS_GROUP, PARAMETERS_KIND, Wish, cats_of


def slice_of(node: str, *, count: int = 3) -> Object:
    """The ResourceSlice (v1alpha2) of a node."""
    instances = [
        {
            "name": cat.name,
            "attributes": [{"name": "color", "string": cat.color}, {"name": "size", "string": cat.size}],
        }
        for cat in cats_of(node, count=count)
    ]
    return {
        "metadata": {"name": f"{node}-cats"},
        "nodeName": node,
        "driverName": DRIVER,
        "namedResources": {"instances": instances},
    }


def parameters_for(claim_parameters: Mapping[str, Any]) -> Object:
    """The ResourceClaimParameters that the scheduler finds through ``generatedFrom``."""
    metadata, wish = claim_parameters["metadata"], Wish.of(claim_parameters)
    asked = {"color": wish.color, "size": wish.size}
    terms = [f'attributes.string["{name}"] == "{value}"' for name, value in asked.items() if value]
    request = {"namedResources": {"selector": " && ".join(terms) or "true"}}
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "ownerReferences": [
                {
                    "apiVersion": f"{PARAMETERS_GROUP}/v1",
                    "kind": PARAMETERS_KIND,
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                }
            ],
        },
        "generatedFrom": {"apiGroup": PARAMETERS_GROUP, "kind": PARAMETERS_KIND, "name": metadata["name"]},
        "driverRequests": [{"driverName": DRIVER, "requests": [request]}],
    }
