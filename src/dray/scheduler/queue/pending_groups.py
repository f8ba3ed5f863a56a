"""The pods without a node that belong to a PodGroup. A group, or a tree of groups, is in the queue as one entry.

The entry is gated while the group does not exist or has too few pods. It is requeued when a member is added, when fewer
members are needed, and when an event may help a member that was rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dray.placement.cache.groups import CompositeInfo, GroupCache, PodGroupInfo
from dray.placement.cache.pods import PodInfo, PodInfoFactory
from dray.placement.gangs import Composite, Gang
from dray.scheduler.queue.queueing_hints import IN_LINE, after_event
from dray.scheduler.queue.scheduling_queue import QueuedPodInfo, QueueingHint, SchedulingQueue

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodSpec
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.scheduling_v1alpha3 import CompositePodGroup
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.placement.cache.nodes import ClusterCache
    from dray.placement.quirks import PlacementQuirks

Key = tuple[str, str]  # (namespace, name)


@dataclass(slots=True)
class _Members:
    """The pods of one PodGroup that have no node."""

    waiting: dict[str, QueuedPodInfo] = field(default_factory=dict)
    gates: dict[str, str] = field(default_factory=dict)  # by uid: why a member may not be tried
    finished: set[str] = field(default_factory=set)  # members that have succeeded


@dataclass(slots=True)
class PendingGroup:
    """A root: a PodGroup that is part of nothing, or the composite at the top of a tree."""

    namespace: str
    name: str
    composite: bool
    groups: set[Key] = field(default_factory=set)  # the PodGroups of the tree that have members
    entry: QueuedPodInfo | None = None
    rejected: list[QueuedPodInfo] = field(default_factory=list)  # members that no node fitted
    first_in_line_since: float | None = None

    @property
    def is_in_line(self) -> bool:
        return self.entry is not None and not self.entry.gated_by

    def may_be_helped(self, hint: QueueingHint) -> bool:
        """A group that waits in line, of which no member was rejected, is tried again whatever happens."""
        return not self.rejected or any(map(hint, self.rejected))


class PendingGroups:
    """Members of groups, and the entries of the groups in the queue."""

    def __init__(
        self,
        queue: SchedulingQueue,
        groups: GroupCache,
        cluster: ClusterCache,
        quirks: PlacementQuirks,
        *,
        gate_of: Callable[[PodInfo], str],
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """``gate_of``: why a pod may not be tried, or an empty text."""
        self._queue = queue
        self._groups = groups
        self._cluster = cluster
        self._quirks = quirks
        self._gate_of = gate_of
        self._wake = wake
        self._clock = clock
        self._members: dict[Key, _Members] = {}
        self._group_of: dict[str, Key] = {}  # pod uid → its group, while it waits
        self._roots: dict[tuple[Key, bool], PendingGroup] = {}
        self._pod_infos = PodInfoFactory()

    # -- pods -------------------------------------------------------------------------------------------------------

    def __contains__(self, uid: str) -> bool:
        return uid in self._group_of

    def get(self, uid: str) -> QueuedPodInfo | None:
        key = self._group_of.get(uid)
        return self._members[key].waiting.get(uid) if key is not None else None

    def waiting_members(self, namespace: str, group: str) -> Sequence[str]:
        """The uids of a group's pods that have no node yet."""
        members = self._members.get((namespace, group))
        return () if members is None else tuple(members.waiting)

    def add_or_update(self, uid: str, document: Pod) -> PodInfo:
        """A member without a node is there, or has changed."""
        entry = self.get(uid)
        if entry is None:
            pod = self._pod_infos.of(document)
            key = (pod.namespace, pod.group)
            members = self._members.setdefault(key, _Members())
            members.waiting[uid] = QueuedPodInfo(pod, since=self._clock())
            self._group_of[uid] = key
            changed = True
        else:
            before = entry.pod
            entry.pod = pod = before.updated(document)
            key = (pod.namespace, pod.group)
            members = self._members[key]
            changed = pod.document["spec"] != before.document["spec"]
        gate = self._gate_of(pod)
        if members.gates.get(uid, "") != gate:
            changed = True
        if gate:
            members.gates[uid] = gate
        else:
            members.gates.pop(uid, None)
        if changed:
            self._refresh(key, may_help=True)
        return pod

    def recheck(self, uid: str) -> None:
        """Something that a member waited for may be there."""
        entry = self.get(uid)
        if entry is not None:
            self.add_or_update(uid, entry.pod.document)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """The pod needs no node any more, or is about to get one."""
        entry, key = self._take(uid)
        if key is not None:
            self._refresh(key, may_help=False)
        return entry

    def remove_all(self, uids: Iterable[str]) -> None:
        for key in {key for uid in uids if (key := self._take(uid)[1]) is not None}:
            self._refresh(key, may_help=False)

    def _take(self, uid: str) -> tuple[QueuedPodInfo | None, Key | None]:
        key = self._group_of.pop(uid, None)
        if key is None:
            return None, None
        members = self._members[key]
        entry = members.waiting.pop(uid)
        members.gates.pop(uid, None)
        self._tidy(key)
        return entry, key

    def finished(self, namespace: str, group: str, uid: str, *, deleted: bool) -> None:
        """A member has succeeded, or one that had is deleted."""
        key = (namespace, group)
        if deleted:
            if key in self._members:
                self._members[key].finished.discard(uid)
                self._tidy(key)
        elif self._quirks.counts_finished_members:
            self._members.setdefault(key, _Members()).finished.add(uid)

    def retry(self, entry: QueuedPodInfo) -> None:
        """A member that was assumed could not be bound, and is tried again after a backoff."""
        self._refresh(self._wait_again(entry), may_help=True, after_error=True)

    def retry_gang(self, members: Iterable[QueuedPodInfo], entry: QueuedPodInfo) -> None:
        """No member could be bound. The gang keeps its ``entry`` in the queue, and with it its place in line."""
        for key in {self._wait_again(member) for member in members}:
            self._refresh(key, may_help=True, after_error=True, entry=entry)

    def _wait_again(self, entry: QueuedPodInfo) -> Key:
        key = (entry.pod.namespace, entry.pod.group)
        self._members.setdefault(key, _Members()).waiting[entry.pod.uid] = entry
        self._group_of[entry.pod.uid] = key
        return key

    def _tidy(self, key: Key) -> None:
        members = self._members[key]
        if not members.waiting and not members.finished:
            del self._members[key]

    # -- groups -----------------------------------------------------------------------------------------------------

    def set_group(self, document: PodGroup) -> None:
        namespace, name = document["metadata"]["namespace"], document["metadata"]["name"]
        before = self._groups.group(namespace, name)
        group = self._groups.set_group(document)
        if group.key not in self._members:
            return
        needs_less = before is None or group.min_count < before.min_count
        if before is None or before.document["spec"] != document["spec"]:
            for uid in list(self._members[group.key].waiting):
                self.recheck(uid)
            self._refresh(group.key, may_help=needs_less)

    def remove_group(self, document: PodGroup) -> None:
        self._groups.remove_group(document)
        self._refresh((document["metadata"]["namespace"], document["metadata"]["name"]), may_help=False)

    def set_composite(self, document: CompositePodGroup) -> None:
        composite = self._groups.set_composite(document)
        for key in list(self._members):
            if key[0] == composite.namespace:
                self._refresh(key, may_help=True)

    def remove_composite(self, document: CompositePodGroup) -> None:
        self._groups.remove_composite(document)

    # -- entries of the queue ---------------------------------------------------------------------------------------

    def _refresh(
        self, key: Key, *, may_help: bool, after_error: bool = False, entry: QueuedPodInfo | None = None
    ) -> None:
        """Bring the entry of the group's root up to date. ``entry``: the one that a new root has."""
        group = self._groups.group(*key)
        above = (
            self._groups.root(group)
            if group is not None and self._quirks.schedules_composite_groups
            else None
        )
        composite = isinstance(above, CompositeInfo)
        name = above.name if isinstance(above, CompositeInfo) else key[1]
        root_key = ((key[0], name), composite)
        root = self._roots.get(root_key)
        if root is None:
            root = self._roots[root_key] = PendingGroup(key[0], name, composite, entry=entry)
        root.groups.add(key)
        if composite and ((lone := self._roots.get((key, False))) is not None):
            self._leave_queue(lone, key)
        first = next(self._waiting(root), None)
        if first is None:
            root.groups.clear()
            if root.entry is not None:
                self._queue.discard(root.entry.pod.uid)
            self._roots.pop(root_key, None)
            self._left_line()
            return
        gate = self._gate(root, group, above)
        if gate:
            self._left_line()
        if root.entry is not None and root.entry.pod.priority == self._priority(root, first.pod):
            if not may_help and not gate and not root.entry.gated_by:
                return
            stand_in = root.entry.pod
        else:
            stand_in = self._stand_in(root, first.pod)
        if root.entry is None or self._queue.get(root.entry.pod.uid) is not root.entry:
            if root.entry is not None and not after_error:
                return  # it is being tried right now
            self._enter(root, stand_in, gate, error=after_error)
        else:
            self._queue.update(stand_in, gate=gate, may_help=may_help)
        assert root.entry is not None
        if self.has_begun(root):
            self._queue.move_first(root.entry)
        else:
            root.entry.goes_first = False
        self._wake()

    def _left_line(self) -> None:
        """Those who waited for a group may be tried."""
        event = after_event(IN_LINE)
        if self._queue.requeue(event.may_help, about=event.subjects):
            self._wake()

    def _enter(self, root: PendingGroup, stand_in: PodInfo, gate: str, *, error: bool) -> None:
        if error and not gate:
            entry = root.entry or QueuedPodInfo(stand_in, since=self._clock())
            entry.last_attempt = self._clock()
            self._queue.add_unschedulable(entry, rejected_by=frozenset(), error=True)
        else:
            entry = self._queue.add(stand_in, gate=gate)
        entry.gang = root
        root.entry = entry

    def _leave_queue(self, root: PendingGroup, key: Key) -> None:
        if root.entry is not None:
            self._queue.discard(root.entry.pod.uid)
        del self._roots[key, False]

    def settled(
        self, root: PendingGroup, *, tried: Iterable[str], entry: QueuedPodInfo | None = None
    ) -> None:
        """The group was placed. Members that were tried and left over wait for an event, others are tried at once."""
        left = {e.pod.uid for e in self._waiting(root)}
        root.first_in_line_since = None
        if entry is not None and left and left <= set(tried):
            plugins = frozenset().union(*(e.rejected_by for e in root.rejected))
            self._queue.add_unschedulable(entry, rejected_by=plugins)
            return
        root.entry = None
        root.rejected = []
        for key in list(root.groups):
            self._refresh(key, may_help=True)

    def _waiting(self, root: PendingGroup) -> Iterator[QueuedPodInfo]:
        for key in root.groups:
            if key in self._members:
                yield from self._members[key].waiting.values()

    def _stand_in(self, root: PendingGroup, pod: PodInfo) -> PodInfo:
        """The pod that stands for the group in the queue: it has the group's priority and its members' scheduler."""
        kind = "compositepodgroup" if root.composite else "podgroup"
        spec: PodSpec = {
            "priority": self._priority(root, pod),
            "schedulerName": pod.document["spec"].get("schedulerName", "default-scheduler"),
        }
        metadata: ObjectMeta = {
            "name": root.name,
            "namespace": root.namespace,
            "uid": f"{kind}/{root.namespace}/{root.name}",
        }
        return PodInfo({"metadata": metadata, "spec": spec})

    def _priority(self, root: PendingGroup, pod: PodInfo) -> int:
        known = (
            self._groups.composite(root.namespace, root.name)
            if root.composite
            else self._groups.group(root.namespace, root.name)
        )
        return known.priority if known is not None else pod.priority

    def _gate(self, root: PendingGroup, group: PodGroupInfo | None, above: CompositeInfo | str | None) -> str:
        """Why the group may not be tried, in upstream's words, or an empty text."""
        if group is None:
            return f'waiting for pods\'s pod group "{root.name}" to appear in scheduling queue'
        if isinstance(above, str):
            return f"failed to build hierarchy snapshot: composite pod group {above} not found"
        ready = self._tree_is_ready(above) if above is not None else self._is_ready(group)
        if not ready and above is not None:
            return f'waiting for composite pod group "{above.name}" tree to meet quorum'
        if not ready:
            return "waiting for minCount pods from a gang to appear in scheduling queue"
        held, open_ = "", 0
        for key in root.groups:
            if (members := self._members.get(key)) is not None:
                held = held or next(iter(members.gates.values()), "")
                open_ += len(members.waiting) - len(members.gates)
        return held if self._quirks.gang_waits_for_gated_members or not open_ else ""

    def _is_ready(self, group: PodGroupInfo) -> bool:
        members = self._members.get(group.key)
        if members is None:
            return False
        waiting = len(members.waiting)
        if not self._quirks.gang_waits_for_gated_members:
            waiting -= len(members.gates)
        return waiting + self._scheduled(group) >= group.min_count

    def _tree_is_ready(self, composite: CompositeInfo) -> bool:
        ready = sum(
            self._tree_is_ready(child) if isinstance(child, CompositeInfo) else self._is_ready(child)
            for child in self._groups.children(composite)
        )
        return ready >= composite.min_group_count

    def _scheduled(self, group: PodGroupInfo) -> int:
        members = self._members.get(group.key)
        done = len(members.finished) if members is not None else 0
        return len(self._cluster.pods_of_group(*group.key)) + done

    def has_begun(self, root: PendingGroup) -> bool:
        """Some members have a node, but fewer than the gang needs: a scheduler ended while it bound them, for instance.

        Gangs that have had all they need once, and lost some of it, have not begun.
        """
        return self._quirks.completes_gangs_first and any(
            0 < self._scheduled(group) < group.min_count and not group.initially_scheduled
            for key in root.groups
            if (group := self._groups.group(*key)) is not None
        )

    def begin(self) -> Iterator[PodGroupInfo]:
        """The scheduler starts. Gangs that have begun are tried first. Yields the groups that have what they need
        although their condition does not say so.
        """
        if not self._quirks.completes_gangs_first:
            return
        for root in self._roots.values():
            if root.entry is not None and self.has_begun(root):
                self._queue.move_first(root.entry)
        for group in self._groups:
            if self._scheduled(group) >= group.min_count and not group.initially_scheduled:
                yield group

    # -- for an attempt ---------------------------------------------------------------------------------------------

    def tree(self, root: PendingGroup) -> Gang | Composite | None:
        """The group, or the tree of groups, as it is to be scheduled now; None: it is not there any more."""
        if root.composite:
            composite = self._groups.composite(root.namespace, root.name)
            return self._composite(composite) if composite is not None else None
        group = self._groups.group(root.namespace, root.name)
        return self._gang(group) if group is not None else None

    def _composite(self, composite: CompositeInfo) -> Composite:
        return Composite(
            composite,
            tuple(
                self._composite(child) if isinstance(child, CompositeInfo) else self._gang(child)
                for child in self._groups.children(composite)
            ),
        )

    def _gang(self, group: PodGroupInfo) -> Gang:
        members = self._members.get(group.key) or _Members()
        waiting = [e for uid, e in members.waiting.items() if uid not in members.gates]
        waiting.sort(key=lambda e: (-e.pod.priority, -e.attempts, e.since, e.pod.name))
        return Gang(group, tuple(entry.pod for entry in waiting), self._scheduled(group))

    def others_in_line(self, root: PendingGroup | None) -> Iterator[PendingGroup]:
        """The other groups that were tried and did not fit, or that wait to be tried."""
        return (other for other in self._roots.values() if other is not root and other.is_in_line)

    def in_line(self, root: PendingGroup) -> bool:
        key = ((root.namespace, root.name), root.composite)
        return self._roots.get(key) is root and root.is_in_line
