"""Everything a server serves, each kind once in its preferred version.

The garbage collector, namespaces and quotas are about kinds of which they know nothing but this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from dray.api.errors import NotFound, StatusError
from dray.client.client import Client
from dray.client.resources import Resource, T

if TYPE_CHECKING:
    from dray.api.types import meta

    class GroupVersionKind(TypedDict):
        kind: str

    class APIResourceDiscovery(TypedDict, total=False):
        resource: str
        responseKind: GroupVersionKind
        scope: str
        verbs: Sequence[str]

    class APIVersionDiscovery(TypedDict, total=False):
        version: str
        resources: Sequence[APIResourceDiscovery]
        freshness: str

    class APIGroupDiscovery(TypedDict, total=False):
        metadata: meta.ObjectMeta
        versions: Sequence[APIVersionDiscovery]

    class APIGroupDiscoveryList(TypedDict, total=False):
        """The answer of aggregated discovery (apidiscovery.k8s.io/v2), as far as it is read here."""

        kind: str
        items: Sequence[APIGroupDiscovery]


_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class GroupResource(NamedTuple):
    """A kind, whatever the version."""

    group: str
    plural: str


class APIResource(NamedTuple):
    """A kind the server offers, and what can be done with it."""

    resource: Resource[Any]
    verbs: frozenset[str]

    def allows(self, *verbs: str) -> bool:
        return self.verbs.issuperset(verbs)


class APIResourceList(NamedTuple):
    """One group and version as discovery shows it; ``resources`` is None where the server does not know them at present."""

    group: str
    version: str
    resources: Sequence[APIResource] | None


@dataclass(frozen=True, slots=True)
class ServerResources:
    """The preferred resources, everything there is, and the groups of which nothing is known at present."""

    resources: Sequence[APIResource]
    failed: Sequence[str] = field(default=())  # as group/version
    versions: Mapping[GroupResource, Sequence[str]] = field(default_factory=dict)
    kinds: Mapping[tuple[str, str], Resource[Any]] = field(default_factory=dict)  # by apiVersion and kind

    def first_served(self, resource: Resource[T], versions: Sequence[str]) -> Resource[T] | None:
        """The resource in the first of ``versions`` that the server has."""
        offered = self.versions.get(GroupResource(resource.group, resource.plural), ())
        return next((resource.at(v) for v in versions if v in offered), None)

    @property
    def problem(self) -> str:
        """What upstream says when it could not see everything."""
        stale = (f"{name}: stale GroupVersion discovery: {name}" for name in self.failed)
        return (
            f"unable to retrieve the complete list of server APIs: {', '.join(stale)}" if self.failed else ""
        )


def preferred_resources(offers: Iterable[APIResourceList]) -> ServerResources:
    """Of each kind the first version that has it; offers come in the server's order of preference."""
    found: dict[GroupResource, APIResource] = {}
    versions: dict[GroupResource, list[str]] = {}
    kinds: dict[tuple[str, str], Resource[Any]] = {}
    failed = []
    for offer in offers:
        if offer.resources is None:
            failed.append(f"{offer.group}/{offer.version}" if offer.group else offer.version)
            continue
        for served in offer.resources:
            name = GroupResource(offer.group, served.resource.plural)
            found.setdefault(name, served)
            versions.setdefault(name, []).append(offer.version)
            # A kind may be the answer of several resources; the one that can be read and deleted is itself.
            if served.allows("get"):
                kinds.setdefault((served.resource.api_version, served.resource.kind), served.resource)
    return ServerResources(tuple(found.values()), tuple(failed), versions, kinds)


async def discover(client: Client) -> ServerResources:
    """Ask for everything at once, or piece by piece where the server is too old for that."""
    offers: list[APIResourceList] = []
    for path in ("/api", "/apis"):
        aggregated: APIGroupDiscoveryList
        legacy: meta.APIVersions
        groups: meta.APIGroupList
        aggregated = legacy = groups = (await client.request("GET", path, accept=_AGGREGATED)).object
        if aggregated.get("kind") == "APIGroupDiscoveryList":
            offers += _aggregated(aggregated)
        elif path == "/api":
            offers += [await _version(client, "", version) for version in legacy.get("versions") or ()]
        else:
            offers += [await _version(client, *names) for names in _group_versions(groups)]
    return preferred_resources(offers)


def _aggregated(found: APIGroupDiscoveryList) -> Iterator[APIResourceList]:
    for group in found.get("items") or ():
        name = group["metadata"].get("name", "")
        for version in group.get("versions") or ():
            if version.get("freshness") == "Stale":
                yield APIResourceList(name, version["version"], None)
                continue
            yield APIResourceList(
                name,
                version["version"],
                [
                    APIResource(
                        Resource(
                            name, version["version"], entry["resource"], entry["responseKind"]["kind"],
                            entry["scope"] == "Namespaced",
                        ),
                        frozenset(entry.get("verbs") or ()),
                    )
                    for entry in version.get("resources") or ()
                    if entry.get("responseKind")
                ],
            )  # fmt: skip


def _group_versions(found: meta.APIGroupList) -> Iterator[tuple[str, str]]:
    for group in found.get("groups") or ():
        first = (group.get("preferredVersion") or {}).get("version")
        versions = [entry["version"] for entry in group.get("versions") or ()]
        for version in sorted(versions, key=lambda v: v != first):
            yield group["name"], version


async def _version(client: Client, group: str, version: str) -> APIResourceList:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        found: meta.APIResourceList = (await client.request("GET", path)).object
    except NotFound:
        return APIResourceList(group, version, ())  # gone since the groups were listed
    except StatusError:
        return APIResourceList(group, version, None)
    return APIResourceList(
        group,
        version,
        [
            APIResource(
                Resource(group, version, entry["name"], entry["kind"], entry["namespaced"]),
                frozenset(entry.get("verbs") or ()),
            )
            for entry in found.get("resources") or ()
            if "/" not in entry["name"]
        ],
    )
