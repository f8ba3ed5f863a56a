"""The graph of owners and dependents: one small node for each object. Each change returns what the collector has to check.

An owner that is referred to before the server has shown it is a *virtual* node: it may exist or not, or have another name
than the reference says. Only the API server knows, so the collector always checks virtual nodes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta


ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_ABSENT_OWNERS: Final = 500
#: So many references are looked through; more of them get an index.
_SCANNED_REFERENCES: Final = 8


class ObjectReference(NamedTuple):
    """An object as a reference names it, which may be wrong."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"[{self.api_version}/{self.kind}, namespace: {self.namespace}, name: {self.name}, uid: {self.uid}]"


class OwnerReference(NamedTuple):
    """An owner reference."""

    kind: str
    api_version: str
    name: str
    uid: str
    blocking: bool

    def within(self, namespace: str) -> ObjectReference:
        return ObjectReference(self.kind, self.api_version, namespace, self.name, self.uid)

    def names(self, identity: ObjectReference) -> bool:
        """Whether this is what ``identity`` is called, apart from its namespace."""
        return (self.uid, self.name, self.kind, self.api_version) == (
            identity.uid, identity.name, identity.kind, identity.api_version,
        )  # fmt: skip


def owners_of(metadata: ObjectMeta) -> tuple[OwnerReference, ...]:
    found = metadata.get("ownerReferences")
    if not found:
        return ()
    return tuple(
        [
            OwnerReference(r["kind"], r["apiVersion"], r["name"], r["uid"], bool(r.get("blockOwnerDeletion")))
            for r in found
        ]
    )


class Node:
    """What the graph keeps of an object."""

    __slots__ = (
        "_dependents",
        "_owners",
        "_owners_by_uid",
        "deleting",
        "deleting_dependents",
        "identity",
        "orphaning",
        "virtual",
    )

    def __init__(
        self, identity: ObjectReference, owners: tuple[OwnerReference, ...] = (), *, virtual: bool = False
    ) -> None:
        self.identity = identity
        self._owners = owners
        self._owners_by_uid: dict[str, list[OwnerReference]] | None = None
        self.virtual = virtual
        self.deleting = False
        self.deleting_dependents = False
        self.orphaning = False
        self._dependents: dict[str, None] | None = None  # uids; most objects never own anything

    @property
    def owners(self) -> tuple[OwnerReference, ...]:
        return self._owners

    @owners.setter
    def owners(self, owners: tuple[OwnerReference, ...]) -> None:
        self._owners = owners
        self._owners_by_uid = None

    def references_to(self, uid: str) -> Sequence[OwnerReference]:
        """Usually one: but an object may have thousands of owners, and each of them asks."""
        if len(self._owners) <= _SCANNED_REFERENCES:
            return [o for o in self._owners if o.uid == uid]
        if self._owners_by_uid is None:
            self._owners_by_uid = {}
            for owner in self._owners:
                self._owners_by_uid.setdefault(owner.uid, []).append(owner)
        return self._owners_by_uid.get(uid, ())

    @property
    def dependents(self) -> Iterable[str]:
        return self._dependents or ()

    def gain(self, uid: str) -> None:
        if self._dependents is None:
            self._dependents = {}
        self._dependents[uid] = None

    def lose(self, uid: str) -> None:
        if self._dependents is not None:
            self._dependents.pop(uid, None)


class AttemptToDelete(NamedTuple):
    """An object may have become garbage, or may be free to go."""

    uid: str
    rate_limited: bool = False  # no hurry: we have looked just now


class AttemptToOrphan(NamedTuple):
    """An object is going, and its dependents are to forget it first."""

    uid: str


class InvalidOwnerNamespace(NamedTuple):
    """An object names an owner in another namespace, which cannot be."""

    dependent: ObjectReference
    owner: OwnerReference


Effect = AttemptToDelete | AttemptToOrphan | InvalidOwnerNamespace
_NOTHING: Final[Sequence[Effect]] = ()


class Graph:
    """Every object and its owners. Methods return what has to be done; nothing here waits or writes."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._absent: OrderedDict[ObjectReference, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def nodes(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def dependents(self, node: Node) -> list[Node]:
        return [self._nodes[uid] for uid in node.dependents]

    def blocking(self, node: Node) -> list[Node]:
        """The dependents for which a node that is deleted in the foreground has to wait."""
        uid = node.identity.uid
        return [d for d in self.dependents(node) if any(o.blocking for o in d.references_to(uid))]

    # -- owners that are known not to exist

    def is_absent(self, owner: ObjectReference) -> bool:
        for identity in (owner._replace(namespace=""), owner):
            if identity in self._absent:
                self._absent.move_to_end(identity)
                return True
        return False

    def remember_absent(self, identity: ObjectReference) -> None:
        self._absent[identity] = None
        self._absent.move_to_end(identity)
        while len(self._absent) > _ABSENT_OWNERS:
            self._absent.popitem(last=False)

    # -- events from the server

    def observed(self, kind: str, api_version: str, metadata: ObjectMeta) -> Sequence[Effect]:
        """An object is there, new or changed."""
        uid = metadata["uid"]
        node = self._nodes.get(uid)
        effects: list[Effect] = []
        if node is None:
            identity = ObjectReference(
                kind, api_version, metadata.get("namespace", ""), metadata["name"], uid
            )
            owners = owners_of(metadata)
            node = self._nodes[uid] = Node(identity, owners)
            if owners:
                effects += self._own(node, owners)
        else:
            if node.virtual:
                identity = ObjectReference(
                    kind, api_version, metadata.get("namespace", ""), metadata["name"], uid
                )
                effects += self._realize(node, identity)
            if node.owners or "ownerReferences" in metadata:
                effects += self._reown(node, owners_of(metadata))
        if "deletionTimestamp" in metadata or node.deleting:
            effects += self._transition(node, metadata)
        return effects or _NOTHING

    def deleted(self, uid: str) -> Sequence[Effect]:
        """An object is there no more."""
        node = self._nodes.get(uid)
        return _NOTHING if node is None else self._remove(node, node.identity)

    def absent(self, identity: ObjectReference) -> Sequence[Effect]:
        """The server knows nothing by this name, which a node or a reference to it had."""
        node = self._nodes.get(identity.uid)
        if node is None:
            return _NOTHING
        if not node.virtual and node.identity == identity:
            return self._remove(node, identity)
        agreeing, other = self._partition(node, identity)
        if node.virtual and not other:
            return self._remove(node, identity)
        # The object may still exist under the other name. Those that named it wrongly have lost their owner.
        effects: list[Effect] = []
        if agreeing:
            self.remember_absent(identity)
            effects += (AttemptToDelete(d.identity.uid) for d in agreeing)
        if node.virtual and node.identity == identity:
            alternative = _alternative_identity(other, identity)
            if alternative is not None:
                node.identity = alternative
                effects.append(AttemptToDelete(identity.uid, rate_limited=True))
        return effects

    # -- inside

    def _own(self, node: Node, owners: Iterable[OwnerReference]) -> Iterator[Effect]:
        """Hang a node below its owners."""
        suspicious = False
        for owner in owners:
            found = self._nodes.get(owner.uid)
            if found is None:
                found = self._nodes[owner.uid] = Node(owner.within(node.identity.namespace), virtual=True)
                found.gain(node.identity.uid)
                yield AttemptToDelete(owner.uid)
                continue
            found.gain(node.identity.uid)
            if suspicious:
                continue
            namespace = found.identity.namespace
            if namespace and namespace != node.identity.namespace:
                if not found.virtual:
                    yield InvalidOwnerNamespace(node.identity, owner)
                suspicious = True
            elif not owner.names(found.identity):
                suspicious = True
            elif namespace != node.identity.namespace and found.virtual:
                # Referred to by a cluster-scoped object before: perhaps a namespaced kind, named where it cannot be.
                suspicious = True
        if suspicious:
            yield AttemptToDelete(node.identity.uid)

    def _reown(self, node: Node, owners: tuple[OwnerReference, ...]) -> Iterator[Effect]:
        """The references have perhaps changed."""
        before = node.owners
        if owners == before:
            return
        old = {o.uid: o for o in before}
        new = {o.uid: o for o in owners}
        for uid, owner in old.items():
            unblocked = owner.blocking and (uid not in new or not new[uid].blocking)
            if unblocked and uid in self._nodes:
                yield AttemptToDelete(uid)
        node.owners = owners
        yield from self._own(node, [o for uid, o in new.items() if uid not in old])
        self._disown(node, [uid for uid in old if uid not in new])

    def _disown(self, node: Node, owners: Iterable[str]) -> None:
        for uid in owners:
            owner = self._nodes.get(uid)
            if owner is None:
                continue
            owner.lose(node.identity.uid)
            if owner.virtual and not owner.dependents:
                del self._nodes[uid]  # no dependent refers to it any more

    def _realize(self, node: Node, identity: ObjectReference) -> Iterator[Effect]:
        """A node that was virtual has been seen, and perhaps is called otherwise than its dependents say."""
        node.virtual = False
        if node.identity == identity:
            return
        _, other = self._partition(node, identity)
        node.identity = identity
        for dependent in other:
            if identity.namespace and dependent.identity.namespace != identity.namespace:
                yield from (
                    InvalidOwnerNamespace(dependent.identity, o)
                    for o in dependent.references_to(identity.uid)
                )
            yield AttemptToDelete(dependent.identity.uid)

    def _transition(self, node: Node, metadata: ObjectMeta) -> Iterator[Effect]:
        """The deletion of a node begins, or begins to wait for its dependents."""
        node.deleting = "deletionTimestamp" in metadata
        finalizers = (metadata.get("finalizers") or ()) if node.deleting else ()
        orphaning, waiting = ORPHAN in finalizers, FOREGROUND in finalizers
        began_orphaning = orphaning and not node.orphaning
        began_waiting = waiting and not node.deleting_dependents
        node.orphaning, node.deleting_dependents = orphaning, waiting
        if began_orphaning:
            yield AttemptToOrphan(node.identity.uid)
        elif began_waiting:
            yield from map(AttemptToDelete, node.dependents)
            yield AttemptToDelete(node.identity.uid)

    def _remove(self, node: Node, identity: ObjectReference) -> Sequence[Effect]:
        del self._nodes[node.identity.uid]
        self._disown(node, (o.uid for o in node.owners))
        effects: list[Effect] = []
        if node.dependents:
            self.remember_absent(identity)
            effects += map(AttemptToDelete, node.dependents)
        for owner in node.owners:
            found = self._nodes.get(owner.uid)
            if found is not None and found.deleting_dependents:
                effects.append(AttemptToDelete(owner.uid))
        return effects

    def _partition(self, node: Node, identity: ObjectReference) -> tuple[list[Node], list[Node]]:
        """The dependents that call a node by this name, and those that call it otherwise."""
        agreeing, other = [], []
        for dependent in self.dependents(node):
            if identity.namespace and identity.namespace != dependent.identity.namespace:
                other.append(dependent)
                continue
            names = [o.names(identity) for o in dependent.references_to(identity.uid)]
            if any(names):
                agreeing.append(dependent)
            if not all(names):
                other.append(dependent)
        return agreeing, other


def _alternative_identity(dependents: Iterable[Node], absent: ObjectReference) -> ObjectReference | None:
    """Another name that dependents have for what does not exist under this one: the next in order, going round."""
    found = set()
    for dependent in dependents:
        namespace = dependent.identity.namespace
        for owner in dependent.references_to(absent.uid):
            same_kind = (owner.kind, owner.api_version) == (absent.kind, absent.api_version)
            # The absent owner has no namespace, so its kind is cluster-scoped.
            found.add(owner.within("" if same_kind and not absent.namespace else namespace))
    found.discard(absent)
    following = [identity for identity in found if identity > absent]
    return min(following or found, default=None)
