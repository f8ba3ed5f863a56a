"""All objects of a cluster as documents, and their way into another cluster, dray's or any other, through the API.

A backup moves a cluster with everything that identifies it. This moves what people made: objects get new uids and resource
versions, and whatever refers to a uid (owners, reservations) is made to refer to the new one. What a running cluster
makes for itself, events and leases, stays behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from dray.api.errors import AlreadyExists, Conflict, NotFound, StatusError
from dray.api.groups.resource.classic import bridge as classic
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import Resource

if TYPE_CHECKING:
    from dray.api.types.meta import APIGroupList, APIResourceList, ObjectMeta
    from dray.api.types.resource import ResourceClaim

_LEFT_BEHIND: Final = frozenset({"events", "leases"})
#: Made first, in this order: others live in them, or are of kinds that they define.
_FIRST: Final = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "DeviceClass")
_CUSTOM_KIND_SECONDS: Final = 10.0

Document = dict[str, Any]


@dataclass(slots=True)
class Transferred:
    """What came of an import."""

    created: int = 0
    there: int = 0  # already
    problems: list[str] = field(default_factory=list)


async def documents(client: Client) -> AsyncIterator[Document]:
    """Every object that the server lets us list and that could be created elsewhere."""
    async for resource in resources(client):
        for listed in (await client.list(resource)).items:
            item = await _own_version(client, resource, listed)
            metadata = {
                name: value
                for name, value in item["metadata"].items()
                if name not in ("managedFields", "resourceVersion", "generation", "selfLink")
            }
            version = item.get("apiVersion") or resource.api_version
            yield {**item, "apiVersion": version, "kind": resource.kind, "metadata": metadata}


async def _own_version(client: Client, resource: Resource[Any], item: Document) -> Document:
    """A classic claim that shows through the newer version is read in its own."""
    if resource.plural != "resourceclaims" or not classic.is_classic(cast("ResourceClaim", item)):
        return item
    metadata: ObjectMeta = item["metadata"]
    own: Document = await client.get(resource.at("v1alpha2"), metadata["namespace"], metadata["name"])
    return own


async def resources(client: Client) -> AsyncIterator[Resource[Any]]:
    """Each kind that can be made once, in the version that the server prefers, without what stays behind."""
    known: APIGroupList = (await client.transport.request("GET", "/apis")).object
    versions = ["v1"]
    for one in known["groups"]:
        preferred = one["preferredVersion"]["groupVersion"]
        versions += [
            preferred,
            *(v["groupVersion"] for v in one["versions"] if v["groupVersion"] != preferred),
        ]
    seen: set[tuple[str, str]] = set()
    for api_version in versions:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            listed: APIResourceList = (await client.transport.request("GET", path)).object
        except NotFound:
            continue
        for entry in listed.get("resources") or ():
            plural = entry["name"]
            if {"list", "create"} <= set(entry["verbs"]) and (group, plural) not in seen:
                seen.add((group, plural))
                if plural not in _LEFT_BEHIND:
                    yield Resource(group, version, plural, entry["kind"], bool(entry["namespaced"]))


class Importer:
    """Creates objects, owners before what they own, then writes their statuses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._discovery = Discovery(client)
        self._uids: dict[str, str] = {}  # old to new
        self._defined: set[str] = set()  # groups of custom kinds that come along
        self.outcome = Transferred()

    async def run(self, items: Iterable[Document]) -> Transferred:
        todo = sorted(items, key=_rank)
        self._defined = {_group(item) for item in todo if item["kind"] == "CustomResourceDefinition"}
        coming = {item["metadata"].get("uid") for item in todo}
        made: list[tuple[Resource[Any], Document, Document]] = []
        while todo:
            waiting = []
            for item in todo:
                owners = {owner["uid"] for owner in item["metadata"].get("ownerReferences") or ()}
                if owners & coming - self._uids.keys() - {item["metadata"].get("uid")}:
                    waiting.append(item)
                else:
                    created = await self._create(item)
                    if created is not None:
                        made.append(created)
                    coming.discard(item["metadata"].get("uid"))
            if len(waiting) == len(todo):  # owners that own each other, or that could not be created
                coming.clear()
            todo = waiting
        for resource, item, created_now in made:
            await self._write_status(resource, item, created_now)
        return self.outcome

    async def _create(self, item: Document) -> tuple[Resource[Any], Document, Document] | None:
        metadata: ObjectMeta = item["metadata"]
        resource = await self._resource(item)
        if resource is None:
            self._failed(item, "the cluster has no such kind")
            return None
        if metadata.get("deletionTimestamp"):
            return None
        fresh: dict[str, object] = {
            name: value
            for name, value in metadata.items()
            if name not in ("uid", "creationTimestamp", "ownerReferences", "resourceVersion")
        }
        owners = [
            {**owner, "uid": self._uids[owner["uid"]]}
            for owner in metadata.get("ownerReferences") or ()
            if owner["uid"] in self._uids  # an owner that is not there would be the object's end
        ]
        if owners:
            fresh["ownerReferences"] = owners
        body = {**item, "metadata": fresh}
        namespace = metadata.get("namespace", "")
        try:
            created = await self._client.create(resource, namespace, body)
            self.outcome.created += 1
        except AlreadyExists:
            existing = await self._client.get(resource, namespace, metadata["name"])
            self._uids[metadata.get("uid", "")] = existing["metadata"]["uid"]
            self.outcome.there += 1
            return None
        except StatusError as e:
            self._failed(item, e.message)
            return None
        self._uids[metadata.get("uid", "")] = created["metadata"]["uid"]
        return resource, item, created

    async def _resource(self, item: Document) -> Resource[Any] | None:
        """The resource of an object; one that was defined a moment ago may take a while to be served."""
        defined_here = item["apiVersion"].partition("/")[0] in self._defined
        deadline = asyncio.get_running_loop().time() + (_CUSTOM_KIND_SECONDS if defined_here else 0)
        while True:
            found = await self._discovery.find(item["apiVersion"], item["kind"])
            if found is not None or asyncio.get_running_loop().time() >= deadline:
                return found
            self._discovery.invalidate()
            await asyncio.sleep(0.05)

    async def _write_status(self, resource: Resource[Any], item: Document, created: Document) -> None:
        status = item.get("status")
        if not status or status == created.get("status"):
            return
        if isinstance(status, dict) and isinstance(reserved := status.get("reservedFor"), list):
            known = [
                {**who, "uid": self._uids[str(who["uid"])]}
                for who in reserved
                if isinstance(who, dict) and str(who.get("uid")) in self._uids
            ]
            status = {**status, "reservedFor": known}
        metadata: ObjectMeta = created["metadata"]
        for _ in range(5):
            try:
                body = {**created, "status": status}
                await self._client.update(resource, metadata.get("namespace", ""), body, subresource="status")
                return
            except NotFound:
                return  # a kind without a status of its own, or an object that has gone
            except Conflict as e:
                if "modified" not in e.message:
                    self._failed(item, e.message)
                    return
                created = await self._client.get(resource, metadata.get("namespace", ""), metadata["name"])
            except StatusError as e:
                self._failed(item, e.message)
                return

    def _failed(self, item: Document, problem: str) -> None:
        metadata: ObjectMeta = item["metadata"]
        where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        self.outcome.problems.append(f"{item['kind']} {where}{metadata.get('name', '')}: {problem}")


def _group(definition: Document) -> str:
    spec = definition.get("spec")
    return str(spec.get("group")) if isinstance(spec, dict) else ""


def _rank(item: Document) -> int:
    kind = item.get("kind", "")
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


class _Owner(msgspec.Struct):
    uid: str


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    ownerReferences: list[_Owner] | None = None


class _Item(msgspec.Struct):
    """As much of an object as the importer looks at."""

    apiVersion: str
    kind: str
    metadata: _Metadata


def items_of(content: Any) -> Sequence[Document]:
    """The objects of a List, or of one object. ValueError if they are none."""
    is_list = isinstance(content, dict) and str(content.get("kind")).endswith("List") and "items" in content
    try:
        found: list[Document] = msgspec.convert(content["items"] if is_list else [content], list[Document])
        for item in found:
            msgspec.convert(item, _Item)
    except msgspec.ValidationError:
        raise ValueError("it is not a list of objects") from None
    return found
