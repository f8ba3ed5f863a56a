"""What a server serves: resources of kinds known only by name, and the best version of those we know."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from dray.api.errors import NotFound, StatusError
from dray.api.release import Release
from dray.client.client import Client
from dray.client.resources import Resource, T

if TYPE_CHECKING:
    from dray.api.types.meta import APIResource

    class Info(TypedDict, total=False):
        """The answer of ``/version``, as far as it is read here."""

        gitVersion: str
        compiler: str


async def server_release(client: Client) -> Release | None:
    """The release of a server; None for a dray that emulates none and so has everything at once."""
    found: Info = (await client.request("GET", "/version")).object
    try:
        release = Release.parse(found.get("gitVersion", ""))
    except ValueError:
        return None
    is_go = found.get("compiler", "gc") == "gc"
    return None if release.is_newest and not is_go else release


_GATE = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)"[^}]*\} ([01])$', re.MULTILINE)


async def server_gates(client: Client) -> Mapping[str, bool]:
    """The feature gates of a server as its metrics tell them; nothing where the caller may not read those."""
    try:
        async with client.transport.stream("/metrics", query={}) as pieces:
            text = b"".join([piece async for piece in pieces]).decode("utf-8", "replace")
    except (StatusError, OSError):
        return {}
    return {name: value == "1" for name, value in _GATE.findall(text)}


class Discovery:
    """Answers are kept; ``invalidate`` when something asked for was not there, as it may have been installed since."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._versions: dict[str, Mapping[str, Resource[Any]]] = {}

    def invalidate(self) -> None:
        self._versions.clear()

    async def resources(self, api_version: str) -> Mapping[str, Resource[Any]]:
        """The resources of a group and version by plural name; empty if the server does not have it."""
        if api_version not in self._versions:
            group, _, version = api_version.rpartition("/")
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            listed: Sequence[APIResource]
            try:
                listed = (await self._client.request("GET", path)).object.get("resources") or ()
            except NotFound:
                listed = ()
            self._versions[api_version] = {
                entry["name"]: Resource(
                    group, version, entry["name"], entry["kind"], bool(entry["namespaced"])
                )
                for entry in listed
                if "/" not in entry["name"]
            }
        return self._versions[api_version]

    async def find(self, api_version: str, kind: str) -> Resource[Any] | None:
        """The resource behind a kind, such as one that an object refers to; None if there is none."""
        for resource in (await self.resources(api_version)).values():
            if resource.kind == kind:
                return resource
        return None

    async def serves(self, resource: Resource[Any]) -> bool:
        return resource.plural in await self.resources(resource.api_version)

    async def first_served(self, resource: Resource[T], versions: Sequence[str]) -> Resource[T] | None:
        """The resource in the first of ``versions`` that the server serves."""
        for version in versions:
            if await self.serves(candidate := resource.at(version)):
                return candidate
        return None
