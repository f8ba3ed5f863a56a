"""Bootstrap tokens: one controller signs the ConfigMap cluster-info with each token, another deletes expired tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dray.api import bootstraptoken
from dray.api.bootstraptoken import CLUSTER_INFO, CLUSTER_INFO_NAMESPACE, NAMESPACE, SIGNATURE_PREFIX
from dray.api.errors import NotFound
from dray.client.resources import CONFIGMAPS, SECRETS
from dray.controllers.controller import Controller, ControllerContext

if TYPE_CHECKING:
    from dray.api.types.core import Secret


def signed_cluster_info(data: Mapping[str, str], secrets: Iterable[Secret], *, now: float) -> dict[str, str]:
    """The data of ``cluster-info`` with a signature for each token that may sign, and with no others."""
    kept = {key: value for key, value in data.items() if not key.startswith(SIGNATURE_PREFIX)}
    if "kubeconfig" not in kept:
        return dict(data)
    for found in secrets:
        token = bootstraptoken.token_of(found, usage="signing", now=now)
        if token is not None:
            kept[SIGNATURE_PREFIX + token.id] = bootstraptoken.signature(kept["kubeconfig"], token)
    return kept


class BootstrapSigner(Controller[str]):
    """There is one key: the ConfigMap that is signed."""

    name = "bootstrap-signer-controller"
    workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._maps = context.informers.get(
            CONFIGMAPS, namespace=CLUSTER_INFO_NAMESPACE, field_selector=f"metadata.name={CLUSTER_INFO}"
        )
        self._secrets = context.informers.get(SECRETS, namespace=NAMESPACE)
        self._maps.add_handler(on_set=lambda changed: self.enqueue(CLUSTER_INFO))
        self._secrets.add_handler(
            on_add=self._secret_changed,
            on_update=lambda old, new: self._secret_changed(new),
            on_delete=self._secret_changed,
        )

    def _secret_changed(self, changed: Secret) -> None:
        if changed.get("type") == bootstraptoken.TYPE:
            self.enqueue(CLUSTER_INFO)

    async def sync(self, key: str) -> float | None:
        info = self._maps.get(CLUSTER_INFO_NAMESPACE, key)
        if info is None:
            return None
        data = info.get("data") or {}
        wanted = signed_cluster_info(data, self._secrets.items(), now=self.context.clock())
        if wanted != data:
            with contextlib.suppress(NotFound):
                await self.context.client.update(CONFIGMAPS, CLUSTER_INFO_NAMESPACE, {**info, "data": wanted})
        return None


class TokenCleaner(Controller[str]):
    """Keys are names of Secrets."""

    name = "token-cleaner-controller"
    workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._secrets = context.informers.get(SECRETS, namespace=NAMESPACE)
        self._secrets.add_handler(on_add=self._changed, on_update=lambda old, new: self._changed(new))

    def _changed(self, changed: Secret) -> None:
        if changed.get("type") == bootstraptoken.TYPE:
            self.enqueue(changed["metadata"]["name"])

    async def sync(self, key: str) -> float | None:
        found = self._secrets.get(NAMESPACE, key)
        ends = None if found is None else bootstraptoken.expires(found)
        if found is None or ends is None:
            return None
        left = ends - self.context.clock()
        if left > 0:
            return left
        with contextlib.suppress(NotFound):
            await self.context.client.delete(SECRETS, NAMESPACE, key, uid=found["metadata"]["uid"])
        return None
