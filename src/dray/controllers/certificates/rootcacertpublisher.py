"""Publishes the root CA certificate, by which pods recognise the API server, to every namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api.errors import AlreadyExists, Forbidden, NotFound
from dray.client.resources import CONFIGMAPS, NAMESPACES
from dray.controllers.controller import Controller, ControllerContext, NotConfigured, is_namespace_terminating

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta

NAME: Final = "kube-root-ca.crt"
DESCRIPTION: Final = "kubernetes.io/description"
_DESCRIPTION_TEXT: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class RootCACertPublisher(Controller[str]):
    """Keys are namespaces. ``ca`` is the authority's certificate in PEM."""

    name = "root-ca-certificate-publisher-controller"
    workers = 1

    def __init__(self, context: ControllerContext, *, ca: str = "") -> None:
        super().__init__(context)
        if not ca:
            raise NotConfigured("root certificate")
        self._data = {"ca.crt": ca}
        self._namespaces = context.informers.get(NAMESPACES)
        # Of all the config maps in a cluster only these are kept in memory.
        self._maps = context.informers.get(CONFIGMAPS, field_selector=f"metadata.name={NAME}")
        self._namespaces.add_handler(
            on_add=lambda new: self.enqueue(new["metadata"]["name"]),
            on_update=lambda old, new: self.enqueue(new["metadata"]["name"]),
        )
        self._maps.add_handler(
            on_update=lambda old, new: self.enqueue(new["metadata"]["namespace"]),
            on_delete=lambda old: self.enqueue(old["metadata"]["namespace"]),
        )

    async def sync(self, key: str) -> float | None:
        namespace = self._namespaces.get("", key)
        if namespace is None or (namespace.get("status") or {}).get("phase") != "Active":
            return None
        present = self._maps.get(key, NAME)
        if present is None:
            await self._create(key)
            return None
        metadata = present["metadata"]
        annotations = metadata.get("annotations") or {}
        if present.get("data") != self._data or not annotations.get(DESCRIPTION):
            described: ObjectMeta = {
                **metadata,
                "annotations": {**annotations, DESCRIPTION: _DESCRIPTION_TEXT},
            }
            await self.context.client.update(
                CONFIGMAPS, key, {**present, "metadata": described, "data": self._data}
            )
        return None

    async def _create(self, namespace: str) -> None:
        metadata: ObjectMeta = {"name": NAME, "annotations": {DESCRIPTION: _DESCRIPTION_TEXT}}
        try:
            await self.context.client.create(
                CONFIGMAPS,
                namespace,
                {"metadata": metadata, "data": self._data},
            )
        except (AlreadyExists, NotFound):
            return
        except Forbidden as problem:
            if not is_namespace_terminating(problem):
                raise
