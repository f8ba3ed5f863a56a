"""The resource API of a cluster in its newest shape, whatever version the server has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.informers import Informer
from dray.client.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.driver.model import ClaimRef

Object = Any  # documents have no types here yet

#: Versions with structured parameters, the preferred one first.
VERSIONS = ("v1", "v1beta2", "v1beta1")


class NoResourceApi(Exception):
    """The server does not serve what a driver needs."""


class ResourceApi:
    """Claims and slices for a driver. Slices go in and out in v1's form; claims have the same status everywhere."""

    def __init__(self, client: Client, version: str) -> None:
        self.client = client
        self.version = version
        self._claims = RESOURCE_CLAIMS.at(version)
        self._slices = RESOURCE_SLICES.at(version)

    @classmethod
    async def connect(cls, client: Client) -> ResourceApi:
        served = await Discovery(client).newest(RESOURCE_SLICES, VERSIONS)
        if served is None:
            raise NoResourceApi(
                f"the server has {RESOURCE_SLICES} in none of the versions {', '.join(VERSIONS)}"
            )
        return cls(client, served.version)

    async def claim(self, namespace: str, name: str) -> Object:
        return await self.client.get(self._claims, namespace, name)

    async def node_uid(self, name: str) -> str:
        node = await self.client.get(NODES, "", name)
        uid: str = node["metadata"]["uid"]
        return uid

    async def set_device_status(
        self, ref: ClaimRef, devices: Sequence[Mapping[str, Any]], *, manager: str
    ) -> None:
        """Says what is known about devices of a claim, by server-side apply: other drivers' entries stay."""
        body = {
            "metadata": {"name": ref.name, "uid": ref.uid},
            "status": {"devices": [dict(d) for d in devices]},
        }
        await self.client.apply(
            self._claims,
            ref.namespace,
            body,  # type: ignore[arg-type]
            field_manager=manager,
            force=True,
            subresource="status",
        )

    def slice_informer(self, driver: str, node: str) -> Informer[Any]:
        """The driver's slices; those of one node if one is given."""
        selector = f"spec.driver={driver},spec.nodeName={node}" if node else f"spec.driver={driver}"
        return Informer(self.client, self._slices, field_selector=selector)

    async def create_slice(self, document: Object) -> Object:
        return self.read(await self.client.create(self._slices, "", self._write(document)))

    async def update_slice(self, document: Object) -> Object:
        return self.read(await self.client.update(self._slices, "", self._write(document)))

    async def delete_slice(self, document: Object) -> None:
        metadata = document["metadata"]
        await self.client.delete(
            self._slices,
            "",
            metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )

    def read(self, document: Object) -> Object:
        """A slice as the server has it, in v1's form: v1beta1 keeps a device's properties below ``basic``."""
        spec = document["spec"]
        if self.version != "v1beta1" or not spec.get("devices"):
            return document
        devices = [{"name": d["name"], **(d.get("basic") or {})} for d in spec["devices"]]
        return {**document, "spec": {**spec, "devices": devices}}

    def _write(self, document: Object) -> Object:
        document = {k: v for k, v in document.items() if k not in ("apiVersion", "kind")}
        spec = document["spec"]
        if self.version != "v1beta1" or not spec.get("devices"):
            return document
        devices = [
            {"name": d["name"], "basic": {k: v for k, v in d.items() if k != "name"}} for d in spec["devices"]
        ]
        return {**document, "spec": {**spec, "devices": devices}}
