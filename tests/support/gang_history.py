"""What no revision may show of a gang: a member with a node while others that the gang needs have no devices.

All or nothing, revision by revision:

1. When the first member of a gang is bound, so many members as the gang needs are bound or have all their claims allocated
   and reserved: devices are there for all before anybody starts.
2. When the group's condition says Scheduled, so many members have, or have had, a node.
3. In the end no gang has some members on nodes and others not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dray.api.claims import references
from dray.api.errors import Expired, ServiceUnavailable
from dray.client.client import Client
from dray.client.resources import POD_GROUPS, PODS, RESOURCE_CLAIMS, Resource
from dray.placement.cache.groups import INITIALLY_SCHEDULED

Document = Mapping[str, Any]
Key = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class _Claim:
    revision: int
    key: Key
    users: frozenset[tuple[str, str]]  # for whom it is reserved, if it is allocated


@dataclass(frozen=True, slots=True)
class _Group:
    revision: int
    key: Key
    least: int
    scheduled: bool


@dataclass(frozen=True, slots=True)
class _Pod:
    revision: int
    key: Key
    uid: str
    group: Key
    node: str
    claims: tuple[str | None, ...] | None  # their names; None: not all are known yet
    deleted: bool

    def has_devices(self, claims: Mapping[Key, _Claim]) -> bool:
        """Whether all its claims are allocated, and reserved for it or its group."""
        mine = {("pods", self.key[1]), ("podgroups", self.group[1])}
        return self.claims is not None and all(
            (claim := claims.get((self.key[0], name or ""))) is not None and claim.users & mine
            for name in self.claims
        )


@dataclass
class _Gang:
    least: int = 0
    pods: dict[str, _Pod] = field(default_factory=dict)  # those that exist, by uid
    bound: set[str] = field(default_factory=set)  # uids of all that ever had a node


@dataclass
class GangHistory:
    """Records every revision of pods, claims and groups; ``check`` plays them in order."""

    revisions: list[_Claim | _Group | _Pod] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    async def follow(self, client: Client, version: str) -> None:
        """Watch from ``version`` until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(client, RESOURCE_CLAIMS, version, _claim))
            tasks.create_task(self._follow(client, POD_GROUPS, version, _group))
            tasks.create_task(self._follow(client, PODS, version, _pod))

    async def _follow(
        self, client: Client, resource: Resource[Any], version: str, read: Callable[[str, Document], Any]
    ) -> None:
        while True:
            try:
                async with client.watch(resource, resource_version=version) as stream:
                    async for batch in stream:
                        for event in batch:
                            version = event.object["metadata"]["resourceVersion"]
                            if (
                                event.type != "BOOKMARK"
                                and (one := read(event.type, event.object)) is not None
                            ):
                                self.revisions.append(one)
            except ServiceUnavailable:
                await asyncio.sleep(0.5)  # and on from the same revision
            except Expired as gap:
                self.gaps.append(f"the history has a gap after revision {version}: {gap}")
                return

    def check(self) -> list[str]:
        """The violations. A gap would prove nothing, so it is one too."""
        found = list(self.gaps)
        gangs: dict[Key, _Gang] = {}
        claims: dict[Key, _Claim] = {}
        for at in sorted(self.revisions, key=lambda one: one.revision):
            match at:
                case _Claim():
                    claims[at.key] = at
                case _Group():
                    gang = gangs.setdefault(at.key, _Gang())
                    gang.least = at.least
                    if at.scheduled and len(gang.bound) < at.least:
                        found.append(
                            f"revision {at.revision}: {at.key[1]} is said to be scheduled with {len(gang.bound)} bound"
                        )
                case _Pod(deleted=True):
                    gangs.setdefault(at.group, _Gang()).pods.pop(at.uid, None)
                case _Pod():
                    gang = gangs.setdefault(at.group, _Gang())
                    gang.pods[at.uid] = at
                    if at.node and not gang.bound:
                        ready = sum(pod.has_devices(claims) for pod in gang.pods.values())
                        if ready < gang.least:
                            found.append(
                                f"revision {at.revision}: {at.key[1]} got a node, "
                                f"and only {ready} of {gang.least} have devices"
                            )
                    if at.node:
                        gang.bound.add(at.uid)
        return found + [
            f"in the end {len(gang.bound)} of {gang.least} members of {key[1]} have a node"
            for key, gang in gangs.items()
            if 0 < len(gang.bound) < gang.least <= len(gang.pods)
        ]


def _key(document: Document) -> Key:
    return document["metadata"]["namespace"], document["metadata"]["name"]


def _revision(document: Document) -> int:
    return int(document["metadata"]["resourceVersion"])


def _claim(kind: str, claim: Document) -> _Claim:
    status = claim.get("status") or {}
    reserved = status.get("reservedFor") if status.get("allocation") and kind != "DELETED" else ()
    users = frozenset((r["resource"], r["name"]) for r in reserved or ())
    return _Claim(_revision(claim), _key(claim), users)


def _group(kind: str, group: Document) -> _Group:
    conditions = (group.get("status") or {}).get("conditions") or ()
    scheduled = any(c["type"] == INITIALLY_SCHEDULED and c["status"] == "True" for c in conditions)
    least = (group["spec"]["schedulingPolicy"].get("gang") or {}).get("minCount", 1)
    return _Group(_revision(group), _key(group), least, scheduled)


def _pod(kind: str, pod: Any) -> _Pod | None:
    group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if not group:
        return None
    known = references(pod)
    complete = len(known) == len(pod["spec"].get("resourceClaims") or ())
    return _Pod(
        revision=_revision(pod),
        key=_key(pod),
        uid=pod["metadata"]["uid"],
        group=(pod["metadata"]["namespace"], group),
        node=pod["spec"].get("nodeName") or "",
        claims=tuple(reference.claim for reference in known) if complete else None,
        deleted=kind == "DELETED",
    )
