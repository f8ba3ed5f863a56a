"""The conversion of a set of documents, which are converted together because they refer to one another."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from dray.convert import classic, modern, pods
from dray.convert.notes import Note, Notebook, Remarks
from dray.convert.parameters import ParameterRule, Parameters
from dray.convert.trees import Tree

if TYPE_CHECKING:
    from dray.api.types import Object, ObjectList
    from dray.api.types.admissionregistration import ValidatingAdmissionPolicy

GROUP = "resource.k8s.io"
#: What can be converted to, oldest first.
TARGETS = ("v1beta1", "v1beta2", "v1")
_ORDER = ("v1alpha1", "v1alpha2", "v1alpha3", *TARGETS)
_KINDS = frozenset({"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"})


@dataclass(frozen=True, slots=True)
class Result:
    """What became of each document, in their order; None: nothing takes its place."""

    documents: tuple[Tree | None, ...]
    changed: tuple[bool, ...]
    notes: tuple[Note, ...]

    @property
    def complete(self) -> bool:
        """Whether the result says all that its source said."""
        return not any(note.lost for note in self.notes)


def convert(
    documents: Sequence[Tree],
    *,
    target: str = "v1",
    rules: Sequence[ParameterRule] = (),
    context: Sequence[Tree] = (),
) -> Result:
    """Convert documents in place. ``context`` are others that they may refer to."""
    if target not in TARGETS:
        raise ValueError(f"cannot convert to {target!r}")
    flat = [item for document in (*documents, *context) for item in _items(document)]
    parameters = Parameters([dict(item) for item in flat], rules)
    work = _Conversion(target, classic.Classic([dict(item) for item in flat], parameters), Notebook())
    outcomes = [work.document(document) for document in documents]
    return Result(
        tuple(document if kept else None for document, (kept, _) in zip(documents, outcomes, strict=True)),
        tuple(changed for _, changed in outcomes),
        tuple(dict.fromkeys(work.book.notes)),
    )


@dataclass(frozen=True, slots=True)
class _Conversion:
    target: str
    classic: classic.Classic
    book: Notebook

    def document(self, document: Tree) -> tuple[bool, bool]:
        """(whether it stays, whether it changed)"""
        listed = cast("ObjectList", document)
        items = listed.get("items")
        if str(listed.get("kind") or "").endswith("List") and isinstance(items, list):
            return self._list(document, items)
        remarks = self.book.about(cast("Object", document))
        group, _, version = str(listed.get("apiVersion") or "").rpartition("/")
        if group == GROUP:
            return self._resource(document, version, remarks)
        if group == "admissionregistration.k8s.io":
            self._policy(document, remarks)
        return True, pods.flatten_sources(document)

    def _list(self, document: Tree, items: list[Any]) -> tuple[bool, bool]:
        outcomes = [self.document(item) for item in items]
        for number in reversed(range(len(items))):
            if not outcomes[number][0]:
                del items[number]
        changed = any(c or not kept for kept, c in outcomes)
        listed = cast("ObjectList", document)
        if changed and listed.get("kind") != "List":
            # A list of a kind that may have another name now.
            listed["apiVersion"], listed["kind"] = "v1", "List"
        return True, changed

    def _resource(self, document: Tree, version: str, remarks: Remarks) -> tuple[bool, bool]:
        obj = cast("Object", document)
        if version not in _ORDER or version == self.target:
            return True, False
        if _ORDER.index(version) > _ORDER.index(self.target):
            remarks.changed(f"left alone: {version} is newer than {self.target}")
            return True, False
        if version in classic.VERSIONS:
            if not self.classic.convert(document, remarks):
                return False, True
        elif obj.get("kind") == "PodSchedulingContext":
            remarks.changed(f"left out: {classic.GONE['PodSchedulingContext']}")
            return False, True
        else:
            modern.to_v1(document, version, remarks)
        if obj.get("kind") not in _KINDS:
            remarks.changed(f"left alone: {obj.get('kind')} has no other version to go to")
            return True, False
        if self.target == "v1beta1":
            modern.to_v1beta1(document)
        obj["apiVersion"] = f"{GROUP}/{self.target}"
        return True, True

    def _policy(self, document: Tree, remarks: Remarks) -> None:
        """The expressions of policies over old shapes are not rewritten; a note says so."""
        policy = cast("ValidatingAdmissionPolicy", document)
        constraints = (policy.get("spec") or {}).get("matchConstraints") or {}
        for rule in constraints.get("resourceRules") or ():
            versions = [v for v in rule.get("apiVersions") or () if v in _ORDER and v != self.target]
            if GROUP in (rule.get("apiGroups") or ()) and versions and self.target not in rule["apiVersions"]:
                remarks.lost(
                    f"matches {', '.join(versions)}: it sees objects of {self.target} only as long as "
                    "one of these is served; rewrite its expressions for the new shape"
                )


def _items(document: Tree) -> Iterator[Tree]:
    listed = cast("ObjectList", document)
    items = listed.get("items")
    if str(listed.get("kind") or "").endswith("List") and isinstance(items, list):
        for item in items:
            if isinstance(item, MutableMapping):
                yield from _items(item)
    else:
        yield document
