"""Server-side apply: a manager states all it wants of an object; what it no longer states, and nobody else owns, goes.

Follows structured-merge-diff step by step: check the configuration, lay it over the live object, prune what the
manager dropped, find conflicts with the other managers, and write down who owns what now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from dray.api.errors import BadRequest, Conflict, StatusError
from dray.api.patch import fieldsets, typed
from dray.api.patch.fieldsets import FieldSet, difference, intersection, union, without
from dray.api.patch.managedfields import (
    STRIPPED,
    Convert,
    Entry,
    Manager,
    Managers,
    Object,
    Owned,
    changed_fields,
    changes_in,
    read_entries,
    write_entries,
)
from dray.api.patch.ownership import compare, field_set, node_of, remove, with_named_fields
from dray.api.schema import Struct, normalise, zero
from dray.api.schema.gojson import TOO_DEEP
from dray.api.validation.names import size
from dray.api.validation.objectmeta import ANNOTATIONS_LIMIT

_BEFORE: Final = "before-first-apply"
_KUBECTL: Final = "kubectl"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Applied(NamedTuple):
    """The outcome, still to be decoded and defaulted; no object means that nothing changed."""

    object: Object | None
    managed_fields: list[Entry]


@dataclass(frozen=True, kw_only=True, slots=True)
class Applier:
    """Who applies, and through which subresource. Objects are in the version of the request, ``api_version``.

    ``reset`` are the fields that this resource never changes; ``convert`` gives an object in another version, its
    ``apiVersion`` saying which one it is in, and is needed once managers have used several.
    """

    type: Struct
    api_version: str
    kind: str
    manager: str
    now: str
    subresource: str = ""
    force: bool = False
    reset: FieldSet = field(default_factory=dict)
    convert: Convert | None = None

    def apply(self, live: Object | None, config: Object) -> Applied:
        """Apply to a live object, or to none to create it. Conflict when others own what would change."""
        try:
            return self._apply(live, config)
        except RecursionError:
            raise BadRequest(TOO_DEEP) from None

    def _apply(self, live: Object | None, config: Object) -> Applied:
        self._check(config)
        base = live if live is not None else self._typed(zero(self.type))
        managers = read_entries(base["metadata"].get("managedFields"))
        if managers is None:
            raise StatusError(
                "failed to decode managed fields: operation must be `Apply` or `Update`", code=500, reason=""
            )
        if not managers and live is not None:
            managers = self._first_owner(live)
        try:
            merged, managers = self._merge(base, config, managers, force=self.force)
        except _Conflicts as conflicts:
            # kubectl may take over what it once applied on the client's side.
            rest = conflicts.but_for(self._applied_before(base)) if self.manager == _KUBECTL else conflicts
            if rest.found:
                raise rest.error() from None
            merged, managers = self._merge(base, config, managers, force=True)
        changed = merged != base
        me = self._me
        mine = difference(managers[me].fields, STRIPPED)
        if mine:
            managers[me] = Owned(mine, self.api_version, self.now if changed else managers[me].time)
        else:
            del managers[me]
        if self.manager == _KUBECTL:
            merged = self._annotated(merged, config)
            changed = merged != base
        return Applied(merged if changed or live is None else None, write_entries(managers))

    @property
    def _me(self) -> Manager:
        return Manager(self.manager, "Apply", "", self.subresource)

    def _typed(self, obj: Object) -> Object:
        return {"kind": self.kind, "apiVersion": self.api_version, **obj}

    def _check(self, config: Object) -> None:
        metadata = config.get("metadata")
        if (config.get("apiVersion"), config.get("kind")) != (self.api_version, self.kind):
            raise BadRequest(f"invalid object type: {_kind_of(config)}")
        if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
            raise BadRequest("metadata.managedFields must be nil")
        if words := typed.problems(self.type, config):
            where = metadata if isinstance(metadata, dict) else {}
            who = f"{where.get('namespace', '')}/{where.get('name', '')}; {_kind_of(config)}"
            raise StatusError(f"failed to create typed patch object ({who}): {words}", code=500, reason="")

    def _first_owner(self, live: Object) -> Managers:
        """Nobody's ownership was tracked so far: what is there belongs to those who came before."""
        changes = compare(self.type, zero(self.type), live)
        fields = without(union(changes.added, changes.modified), self.reset)
        fields = difference(fields, STRIPPED)
        before = Manager(_BEFORE, "Update", self.api_version, self.subresource)
        return {before: Owned(fields, self.api_version, self.now)} if fields else {}

    def _merge(
        self, live: Object, config: Object, managers: Managers, *, force: bool
    ) -> tuple[Object, Managers]:
        """The merged and pruned object and the managers afterwards; raises _Conflicts unless forced."""
        managers = dict(managers)
        me = self._me
        last = managers.get(me)
        fields = without(field_set(self.type, config), self.reset)
        managers[me] = Owned(fields, self.api_version, last.time if last else None)
        merged: Object = typed.merge(node_of(self.type), live, config)
        if last is not None and last.fields:
            merged = self._pruned(merged, managers, last)
        self._settle(live, merged, managers, force=force)
        return merged, managers

    def _pruned(self, merged: Object, managers: Managers, last: Owned) -> Object:
        """Without what this manager applied last time, does not apply now, and nobody else owns."""
        version = last.api_version
        if (there := self._in_version(version, merged)) is None:
            return merged
        type_, whole = there
        node = node_of(type_)
        pruned: Object = remove(node, whole, with_named_fields(node, last.fields)) or {}
        pruned = self._with_owned(type_, whole, pruned, version, managers)
        # What was not this manager's in the first place stays in any case.
        gone = difference(
            with_named_fields(node, field_set(type_, whole)),
            with_named_fields(node, field_set(type_, pruned)),
        )
        gone = intersection(gone, with_named_fields(node, last.fields))
        result: Object = remove(node, whole, gone) or {}
        back = self._in_version(self.api_version, result)
        return back[1] if back is not None else merged

    def _with_owned(
        self, type_: Struct, whole: Object, pruned: Object, version: str, managers: Managers
    ) -> Object:
        """Put back what any manager, in whichever version, claims to own."""
        by_version: dict[str, FieldSet] = {}
        for owned in managers.values():
            by_version[owned.api_version] = union(by_version.get(owned.api_version, {}), owned.fields)
        # The pruned version comes first, for others may not be convertible without it.
        for other in sorted(by_version, key=lambda v: v != version):
            there, without_it = self._in_version(other, whole), self._in_version(other, pruned)
            if there is None or without_it is None:
                continue
            type_, whole, pruned = there[0], there[1], without_it[1]
            node = node_of(type_)
            present = with_named_fields(node, field_set(type_, whole))
            kept = union(
                with_named_fields(node, field_set(type_, pruned)),
                with_named_fields(node, by_version[other]),
            )
            pruned = remove(node, whole, difference(present, kept)) or {}
        back = self._in_version(version, pruned)
        return back[1] if back is not None else pruned

    def _in_version(self, version: str, obj: Object) -> tuple[Struct, Object] | None:
        current = obj.get("apiVersion", self.api_version)
        if version == current == self.api_version:
            return self.type, obj
        if self.convert is None:
            return None
        if version == current:
            return self.convert(version, obj)
        if current == self.api_version:
            obj = normalise(self.type, self._typed(obj))
        return self.convert(version, obj)

    def _settle(self, live: Object, merged: Object, managers: Managers, *, force: bool) -> None:
        """Find conflicts with the other managers and take from them what changed or is gone."""
        changes = {self.api_version: changed_fields(self.type, live, merged, self.reset)}
        conflicts: dict[Manager, FieldSet] = {}
        me = self._me
        for manager, owned in list(managers.items()):
            if manager == me:
                continue
            version = owned.api_version
            if version not in changes:
                before, after = normalise(self.type, live), normalise(self.type, merged)
                other = changes_in(version, before, after, reset=self.reset, convert=self.convert)
                if other is None:
                    del managers[manager]
                    continue
                changes[version] = other
            there = changes[version]
            clash = intersection(owned.fields, union(there.modified, there.added))
            if clash:
                conflicts[manager] = clash
            fields = difference(difference(owned.fields, clash), there.removed)
            if not fields:
                del managers[manager]
            elif fields is not owned.fields:
                managers[manager] = Owned(fields, owned.api_version, owned.time)
        if conflicts and not force:
            raise _Conflicts(conflicts)

    def _applied_before(self, live: Object) -> FieldSet:
        """The fields that the annotation of client-side apply holds and that still have its values."""
        text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
        try:
            config = msgspec.json.decode(text or "null")
        except msgspec.DecodeError:
            return {}
        if not isinstance(config, dict) or config.get("apiVersion") != self.api_version:
            return {}
        if typed.problems(self.type, config):
            return {}
        fields = field_set(self.type, config)
        changes = compare(self.type, config, live)
        for changed in (changes.modified, changes.added, changes.removed):
            fields = difference(fields, changed)
        return fields

    def _annotated(self, merged: Object, config: Object) -> Object:
        """Keep the annotation of client-side apply in step, where there is one."""
        annotations = merged["metadata"].get("annotations") or {}
        if not annotations.get(LAST_APPLIED):
            return merged
        metadata = config.get("metadata") or {}
        kept = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_APPLIED}
        last = {**config, "metadata": {**metadata, "annotations": kept}}
        if not kept:
            last["metadata"].pop("annotations")
        annotations = {**annotations, LAST_APPLIED: msgspec.json.encode(last, order="sorted").decode() + "\n"}
        if sum(size(k) + size(v) for k, v in annotations.items()) > ANNOTATIONS_LIMIT:
            del annotations[LAST_APPLIED]
        return {**merged, "metadata": {**merged["metadata"], "annotations": annotations}}


class _Conflicts(Exception):
    """Fields that others own and the configuration would change."""

    def __init__(self, found: dict[Manager, FieldSet]) -> None:
        self.found = found

    def but_for(self, allowed: FieldSet) -> _Conflicts:
        rest = {manager: difference(fields, allowed) for manager, fields in self.found.items()}
        return _Conflicts({manager: fields for manager, fields in rest.items() if fields})

    def error(self) -> Conflict:
        listed = [
            (manager, fieldsets.show_path(path))
            for manager in sorted(self.found)
            for path in fieldsets.paths(self.found[manager])
        ]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
            for manager, path in listed
        ]
        if len(listed) == 1:
            manager, path = listed[0]
            message = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
        else:
            lines: list[str] = []
            for manager in sorted(self.found):
                lines.append(f"conflicts with {manager}:")
                lines += [f"- {path}" for m, path in listed if m == manager]
            message = f"Apply failed with {len(listed)} conflicts: " + "\n".join(lines)
        return Conflict(message, details={"causes": causes})


def _kind_of(config: dict[str, Any]) -> str:
    group, slash, version = str(config.get("apiVersion") or "").rpartition("/")
    return f"{group if slash else ''}/{version}, Kind={config.get('kind') or ''}"
