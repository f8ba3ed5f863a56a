"""Resource handles of classic claims."""

from __future__ import annotations

from typing import Any

from dray.node.dra.claims import drivers_of
from dray.node.dra.classic.handles import ResourceHandle, resource_handles

STRUCTURED = {
    "vendorClassParameters": {"fur": "long"},
    "nodeName": "las1",
    "results": [{"namedResources": {"name": "tom"}, "vendorRequestParameters": {"mood": ["good"]}}],
}


def test_handles_of_every_version_of_an_allocation() -> None:
    def classic(allocation: dict[str, Any]) -> dict[str, Any]:
        status = {"driverName": "d", "allocation": allocation}
        return {"spec": {"resourceClassName": "c"}, "status": status}

    several = [{"driverName": "x", "data": "1"}, {"data": "2"}, {"structuredData": STRUCTURED}]
    assert resource_handles(classic({"resourceHandles": several})) == (
        ResourceHandle("x", "1"),
        ResourceHandle("d", "2"),
        ResourceHandle("d", "", STRUCTURED),
    )
    assert drivers_of(classic({"resourceHandles": several})) == ["x", "d"]
    assert resource_handles(classic({"resourceHandle": "one"})) == (ResourceHandle("d", "one"),)
    assert resource_handles(classic({})) == (ResourceHandle("d", ""),)
