"""The cache of PodGroups and CompositePodGroups: what scheduling reads of them, and which group is part of which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.api.claims import claim_and_template_names

if TYPE_CHECKING:
    from dray.api.types.core import PodResourceClaim
    from dray.api.types.scheduling_v1alpha3 import CompositePodGroup
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.placement.cache.pods import PodInfo

Key = tuple[str, str]  # (namespace, name)

#: The condition that tells whether a group has ever had the members that it needs on nodes.
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"


@dataclass(frozen=True, slots=True)
class PodGroupInfo:
    """A PodGroup, read once."""

    document: PodGroup
    namespace: str
    name: str
    uid: str
    priority: int
    min_count: int  # 1 for a group that is no gang
    topology_key: str
    preemption_policy: str
    disrupted_as_a_whole: bool
    parent: str
    #: claim and template of each entry of resourceClaims, by its name
    claims: Mapping[str, tuple[str | None, str | None]]

    @classmethod
    def of(cls, document: PodGroup) -> PodGroupInfo:
        metadata, spec = document["metadata"], document["spec"]
        gang = (spec.get("schedulingPolicy") or {}).get("gang")
        topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
        return cls(
            document=document,
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            priority=spec.get("priority") or 0,
            min_count=gang["minCount"] if gang is not None else 1,
            topology_key=topology[0]["key"] if topology else "",
            preemption_policy=spec.get("preemptionPolicy") or "PreemptLowerPriority",
            disrupted_as_a_whole=(spec.get("disruptionMode") or {}).get("all") is not None,
            parent=spec.get("parentCompositePodGroupName") or "",
            claims={
                entry["name"]: (entry.get("resourceClaimName"), entry.get("resourceClaimTemplateName"))
                for entry in spec.get("resourceClaims") or ()
            },
        )

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def initially_scheduled(self) -> bool:
        return any(
            condition["type"] == INITIALLY_SCHEDULED and condition["status"] == "True"
            for condition in (self.document.get("status") or {}).get("conditions") or ()
        )

    def shares(self, entry: PodResourceClaim) -> bool:
        """Whether a pod's claim is the claim of the group: both have the entry, with the same reference."""
        return self.claims.get(entry["name"]) == claim_and_template_names(entry)


@dataclass(frozen=True, slots=True)
class CompositeInfo:
    """A CompositePodGroup, read once."""

    document: CompositePodGroup
    namespace: str
    name: str
    priority: int
    min_group_count: int  # 1 where it is no gang of groups
    topology_key: str
    preemption_policy: str
    parent: str

    @classmethod
    def of(cls, document: CompositePodGroup) -> CompositeInfo:
        metadata, spec = document["metadata"], document["spec"]
        gang = (spec.get("schedulingPolicy") or {}).get("gang")
        topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
        return cls(
            document=document,
            namespace=metadata["namespace"],
            name=metadata["name"],
            priority=spec.get("priority") or 0,
            min_group_count=gang["minGroupCount"] if gang is not None else 1,
            topology_key=topology[0]["key"] if topology else "",
            preemption_policy=spec.get("preemptionPolicy") or "PreemptLowerPriority",
            parent=spec.get("parentCompositePodGroupName") or "",
        )

    @property
    def key(self) -> Key:
        return self.namespace, self.name


class GroupCache:
    """PodGroups and CompositePodGroups as informers know them."""

    def __init__(self) -> None:
        self._groups: dict[Key, PodGroupInfo] = {}
        self._composites: dict[Key, CompositeInfo] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[PodGroupInfo]:
        return iter(self._groups.values())

    def set_group(self, document: PodGroup) -> PodGroupInfo:
        group = PodGroupInfo.of(document)
        self._groups[group.key] = group
        return group

    def remove_group(self, document: PodGroup) -> None:
        self._groups.pop((document["metadata"]["namespace"], document["metadata"]["name"]), None)

    def set_composite(self, document: CompositePodGroup) -> CompositeInfo:
        composite = CompositeInfo.of(document)
        self._composites[composite.key] = composite
        return composite

    def remove_composite(self, document: CompositePodGroup) -> None:
        self._composites.pop((document["metadata"]["namespace"], document["metadata"]["name"]), None)

    def group(self, namespace: str, name: str) -> PodGroupInfo | None:
        return self._groups.get((namespace, name))

    def composite(self, namespace: str, name: str) -> CompositeInfo | None:
        return self._composites.get((namespace, name))

    def of(self, pod: PodInfo) -> PodGroupInfo | None:
        """The group of a pod."""
        return self._groups.get((pod.namespace, pod.group)) if pod.group else None

    def root(self, group: PodGroupInfo) -> CompositeInfo | str | None:
        """The composite at the top of the tree that a group is part of; None: it is part of none.

        A text is the name of a composite that does not exist yet.
        """
        found: CompositeInfo | None = None
        parent, seen = group.parent, set[str]()
        while parent and parent not in seen:
            seen.add(parent)
            found = self.composite(group.namespace, parent)
            if found is None:
                return parent
            parent = found.parent
        return found

    def children(self, composite: CompositeInfo) -> Iterator[PodGroupInfo | CompositeInfo]:
        """The groups and composites right below a composite, in the order of their names."""
        below: list[PodGroupInfo | CompositeInfo] = [
            child
            for known in (self._groups, self._composites)
            for child in known.values()
            if child.parent == composite.name and child.namespace == composite.namespace
        ]
        return iter(sorted(below, key=lambda child: child.name))
