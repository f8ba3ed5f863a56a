"""TaintNodesByCondition: a new node gets the not-ready taint, which the node lifecycle controller removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.server.admission import CREATE, Attributes, RequestScope
from dray.server.admission.plugin.defaulttolerationseconds import NOT_READY

if TYPE_CHECKING:
    from dray.api.types.core import NodeSpec


class TaintNodesByCondition:
    name = "TaintNodesByCondition"

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == CREATE and scope.is_for("", "nodes")

    async def admit(self, attributes: Attributes) -> None:
        spec: NodeSpec = attributes.object.setdefault("spec", {})
        taints = spec.get("taints") or ()
        if not any(t.get("key") == NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
