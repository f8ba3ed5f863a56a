"""Subresources that are more than a view of their object: scale, binding, eviction, and what a node answers for."""

from __future__ import annotations

from dray.server.api import API
from dray.server.auth.reviews import self_subject_review
from dray.server.subresources import binding, eviction, scale
from dray.server.subresources.nodes import NodeProxy, NodeRouter, NoNodes, node_verbs


def install(api: API, *, nodes: NodeProxy | None = None) -> None:
    """Teach an API its subresources. ``nodes`` reaches into nodes; without it such requests are answered politely."""
    verbs = api.verbs
    verbs.action("", "pods", "binding", {"create": binding.bind})
    verbs.action("", "bindings", "", {"create": binding.bind_by_body})
    verbs.action("", "pods", "eviction", {"create": eviction.evict})
    verbs.action("*", "*", "scale", {"get": scale.get, "update": scale.update, "patch": scale.patch})
    verbs.action("authentication.k8s.io", "selfsubjectreviews", "", {"create": self_subject_review})
    for plural, subresource, table in node_verbs(nodes or NoNodes()):
        verbs.action("", plural, subresource, table)


__all__ = ["NoNodes", "NodeProxy", "NodeRouter", "install"]
