"""Where a daemon's pod may go, and how it is tied to one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api.kinds import Object

Document = Mapping[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pinned_to(affinity: Document, node: str) -> Object:
    """The affinity with every other node ruled out; what else it asks of the node stays."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    nodes = affinity.get("nodeAffinity") or {}
    terms: list[Document] = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [field]} for term in terms]
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": pinned}}}


def pinned_node(spec: Document) -> str | None:
    nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one.get("key") == "metadata.name" and len(one.get("values") or ()) == 1:
                name: str = one["values"][0]
                return name
    return None
