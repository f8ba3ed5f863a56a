"""Subresources with handlers of their own: scale, binding, eviction, token, log, exec, attach, portforward and proxy."""

from __future__ import annotations

from dray.server.apiserver import APIServer
from dray.server.auth.selfsubjectreview import self_subject_review
from dray.server.subresources import binding, eviction, scale
from dray.server.subresources.connect import KubeletClient, KubeletClientSwitch, NoKubelets, connect_handlers


def install(api: APIServer, *, nodes: KubeletClient | None = None) -> None:
    """Teach an API its subresources. ``nodes`` reaches into nodes; without it such requests get a 404 or 503."""
    handlers = api.handlers
    handlers.register("", "pods", "binding", {"create": binding.bind})
    handlers.register("", "bindings", "", {"create": binding.bind_by_body})
    handlers.register("", "pods", "eviction", {"create": eviction.evict})
    handlers.register("*", "*", "scale", {"get": scale.get, "update": scale.update, "patch": scale.patch})
    handlers.register("authentication.k8s.io", "selfsubjectreviews", "", {"create": self_subject_review})
    for plural, subresource, table in connect_handlers(nodes or NoKubelets()):
        handlers.register("", plural, subresource, table)


__all__ = ["KubeletClient", "KubeletClientSwitch", "NoKubelets", "install"]
