"""Checks of what every object carries: metadata, labels and selectors, conditions, and the options of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.validation import field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.meta import Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta

ANNOTATIONS_LIMIT: Final = 256 * 1024
FIELD_MANAGER_LIMIT: Final = 128
SUBRESOURCE_LIMIT: Final = 256
ORPHAN_FINALIZER: Final = "orphan"
FOREGROUND_FINALIZER: Final = "foregroundDeletion"
IMMUTABLE: Final = "field is immutable"

_METADATA: Final = Path("metadata")
_FIELD_MANAGER: Final = Path("fieldManager")
_FIELD_VALIDATION: Final = ("", "Ignore", "Strict", "Warn")
_PROPAGATION: Final = ("Foreground", "Background", "Orphan")
_STATUSES: Final = ("False", "True", "Unknown")
_IMMUTABLE_FIELDS: Final = (
    ("name", ""), ("namespace", ""), ("uid", ""), ("creationTimestamp", None),
    ("deletionTimestamp", None), ("deletionGracePeriodSeconds", None),
)  # fmt: skip

CheckName = Callable[[str, bool], Sequence[str]]


def validate_object_meta(
    meta: Mapping[str, Any],
    *,
    namespaced: bool,
    check_name: CheckName,
    path: Path = _METADATA,
    declared: bool = True,
) -> list[FieldError]:
    """Metadata of a new object, after a name was generated for it. ``declared``: as releases say it that declare rules."""
    found: list[FieldError] = []
    if (prefix := meta.get("generateName")) and (problems := check_name(prefix, True)):
        found += field.each_invalid(path.child("generateName"), prefix, problems)
    if name := meta.get("name"):
        if problems := check_name(name, False):
            found += field.each_invalid(path.child("name"), name, problems)
    else:
        found.append(field.required(path.child("name"), "name or generateName is required"))
    _validate_namespace(meta.get("namespace", ""), namespaced, path, found)
    if (generation := meta.get("generation", 0)) < 0:
        at = path.child("generation")
        found.append(field.invalid(at, generation, "must be greater than or equal to 0"))
    _validate_common(meta, path, found, finalizers=meta.get("finalizers"), declared=declared)
    return found


def validate_object_meta_update(
    new: ObjectMeta, old: ObjectMeta, *, path: Path = _METADATA, declared: bool = True
) -> list[FieldError]:
    """Metadata of a changed object beside what was stored."""
    if _only_upkeep(new, old):
        return []  # what was good enough to be stored still is
    found: list[FieldError] = []
    if old.get("deletionTimestamp") is not None:
        found += _no_new_finalizers(new.get("finalizers") or (), old.get("finalizers") or (), path)
    if not new.get("resourceVersion"):
        at = path.child("resourceVersion")
        found.append(field.invalid(at, new.get("resourceVersion", ""), "must be specified for an update"))
    if (generation := new.get("generation", 0)) < old.get("generation", 0):
        found.append(field.invalid(path.child("generation"), generation, "must not be decremented"))
    for name, zero in _IMMUTABLE_FIELDS:
        if (value := new.get(name, zero)) != old.get(name, zero):
            found.append(field.invalid(path.child(name), value, IMMUTABLE))
    _validate_common(new, path, found, declared=declared)
    return found


_UPKEEP: Final = frozenset({"resourceVersion", "managedFields", "generation"})


def _only_upkeep(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether an update leaves everything alone that a client has a say in, which most do."""
    if not new.get("resourceVersion") or new.get("generation", 0) < old.get("generation", 0):
        return False
    for name, value in new.items():
        if value is not (was := old.get(name)) and name not in _UPKEEP and value != was:
            return False
    if old.keys() <= new.keys():
        return True
    return all(name in new or name in _UPKEEP or value is None for name, value in old.items())


def _validate_namespace(namespace: str, namespaced: bool, path: Path, found: list[FieldError]) -> None:
    if not namespaced:
        if namespace:
            found.append(field.forbidden(path.child("namespace"), "not allowed on this type"))
    elif not namespace:
        found.append(field.required(path.child("namespace")))
    elif problems := names.dns1123_label(namespace):
        found += field.each_invalid(path.child("namespace"), namespace, problems)


def _validate_common(
    meta: Mapping[str, Any],
    path: Path,
    found: list[FieldError],
    *,
    finalizers: Sequence[str] | None = None,
    declared: bool,
) -> None:
    if labels := meta.get("labels"):
        found += validate_labels(labels, path.child("labels"))
    if annotations := meta.get("annotations"):
        found += validate_annotations(annotations, path.child("annotations"))
    if owners := meta.get("ownerReferences"):
        found += validate_owner_references(owners, path.child("ownerReferences"), declared=declared)
    if finalizers:
        found += validate_finalizers(finalizers, path.child("finalizers"))
    if (managed := meta.get("managedFields")) and not all(map(_is_plain_entry, managed)):
        found += validate_managed_fields(managed, path.child("managedFields"))


def validate_labels(labels: Mapping[str, str], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for key, value in labels.items():
        if problems := names.qualified_name(key):
            found += field.each_invalid(path, key, problems)
        if problems := names.label_value(value):
            found += field.each_invalid(path, value, problems)
    return found


def validate_label_name(key: str, path: Path) -> list[FieldError]:
    return field.each_invalid(path, key, names.qualified_name(key))


def validate_annotations(annotations: Mapping[str, str], path: Path) -> list[FieldError]:
    """Keys as for labels, though in any case; all keys and values together have a limit."""
    found: list[FieldError] = []
    length = 0
    for key, value in annotations.items():
        if problems := names.qualified_name(key.lower()):
            found += field.each_invalid(path, key, problems)
        length += len(key) + len(value)
    # The limit is in bytes, of which a character has at most four.
    if length > ANNOTATIONS_LIMIT // 4 and _size(annotations) > ANNOTATIONS_LIMIT:
        found.append(field.too_long(path, ANNOTATIONS_LIMIT))
    return found


def _size(annotations: Mapping[str, str]) -> int:
    return sum(names.size(key) + names.size(value) for key, value in annotations.items())


def validate_owner_references(
    owners: Sequence[Mapping[str, Any]], path: Path, *, declared: bool
) -> list[FieldError]:
    found: list[FieldError] = []
    first = ""
    for i, owner in enumerate(owners):
        if declared:
            if not _is_plain_owner(owner):
                _validate_declared_owner(owner, path.index(i), found)
        else:
            _validate_owner(owner, path, found)
        if owner.get("controller"):
            current = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if first:
                words = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {first} and {current}'
                )
                found.append(field.invalid(path, list(owners), words))
            else:
                first = current
    return found


def _validate_owner(owner: Mapping[str, Any], path: Path, found: list[FieldError]) -> None:
    api_version = owner.get("apiVersion", "")
    if not api_version.rpartition("/")[2] or api_version.count("/") > 1:
        found.append(field.invalid(path.child("apiVersion"), api_version, "version must not be empty"))
    if not (owner.get("kind") and owner.get("name") and owner.get("uid")):
        missing = [name for name in ("kind", "name", "uid") if not owner.get(name)]
        found += [field.invalid(path.child(name), "", "must not be empty") for name in missing]
    if api_version == "v1" and owner.get("kind") == "Event":
        found.append(field.invalid(path, dict(owner), "/v1, Kind=Event is disallowed from being an owner"))


def _is_plain_owner(owner: Mapping[str, Any]) -> bool:
    """Whether nothing can be wrong with an owner, which is true of nearly all of them."""
    api_version: str = owner.get("apiVersion", "")
    return bool(
        api_version
        and api_version[-1] != "/"
        and api_version.count("/") <= 1
        and owner.get("kind", "Event") != "Event"
        and owner.get("name")
        and owner.get("uid")
        and owner["kind"]
    )


def _validate_declared_owner(owner: Mapping[str, Any], path: Path, found: list[FieldError]) -> None:
    api_version = owner.get("apiVersion", "")
    if api_version and (not api_version.rpartition("/")[2] or api_version.count("/") > 1):
        words = "must be <group>/<version> or <version>"
        found.append(field.invalid(path.child("apiVersion"), api_version, words))
    missing = [name for name in ("apiVersion", "kind", "name", "uid") if not owner.get(name)]
    found += [field.required(path.child(name), "must not be empty") for name in missing]
    if api_version == "v1" and owner.get("kind") == "Event":
        found.append(field.invalid(path, dict(owner), "/v1, Kind=Event is disallowed from being an owner"))


def validate_finalizers(finalizers: Sequence[str], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for finalizer in finalizers:
        if problems := names.qualified_name(finalizer):
            found += field.each_invalid(path, finalizer, problems)
    if ORPHAN_FINALIZER in finalizers and FOREGROUND_FINALIZER in finalizers:
        words = f"finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set"
        found.append(field.invalid(path, list(finalizers), words))
    return found


def _no_new_finalizers(new: Sequence[str], old: Sequence[str], path: Path) -> list[FieldError]:
    if not (extra := sorted(set(new) - set(old))):
        return []
    shown = ", ".join(field.quote(f) for f in extra)
    words = (
        "no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{shown}}}"
    )
    return [field.forbidden(path.child("finalizers"), words)]


def validate_managed_fields(entries: Sequence[Mapping[str, Any]], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for i, entry in enumerate(entries):
        if _is_plain_entry(entry):
            continue
        at = path.index(i)
        if (operation := entry.get("operation", "")) not in ("Apply", "Update"):
            found.append(field.invalid(at.child("operation"), operation, "must be `Apply` or `Update`"))
        if (fields_type := entry.get("fieldsType", "FieldsV1")) != "FieldsV1":
            found.append(field.invalid(at.child("fieldsType"), fields_type, "must be `FieldsV1`"))
        found += validate_field_manager(entry.get("manager", ""), at.child("manager"))
        if names.size(entry.get("subresource", "")) > SUBRESOURCE_LIMIT:
            found.append(field.too_long(at.child("subresource"), SUBRESOURCE_LIMIT))
    return found


def _is_plain_entry(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of managed fields is as the server itself writes them, which nearly all are."""
    manager, subresource = entry.get("manager", ""), entry.get("subresource", "")
    return (
        entry.get("operation") in ("Apply", "Update")
        and entry.get("fieldsType", "FieldsV1") == "FieldsV1"
        and _is_plain(manager)
        and len(manager) <= FIELD_MANAGER_LIMIT
        and subresource in ("", "status")
    )


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def validate_label_selector(
    selector: LabelSelector | None, path: Path, *, allow_invalid_values: bool = False
) -> list[FieldError]:
    """A LabelSelector; stored ones may keep values that are no valid label values."""
    if selector is None:
        return []
    found = validate_labels(selector.get("matchLabels") or {}, path.child("matchLabels"))
    for i, requirement in enumerate(selector.get("matchExpressions") or ()):
        at = path.child("matchExpressions").index(i)
        found += validate_selector_operator(requirement, at)
        found += validate_label_name(requirement.get("key", ""), at.child("key"))
        if not allow_invalid_values:
            found += [
                field.invalid(at.child("values").index(j), value, words)
                for j, value in enumerate(requirement.get("values") or ())
                for words in names.label_value(value)
            ]
    return found


def validate_selector_operator(requirement: LabelSelectorRequirement, path: Path) -> list[FieldError]:
    """The operator of a label or field selector requirement, and whether it has the values it needs."""
    operator, values = requirement.get("operator", ""), requirement.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            words = "must be specified when `operator` is 'In' or 'NotIn'"
            return [field.required(path.child("values"), words)]
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            return [field.forbidden(path.child("values"), words)]
    else:
        return [field.invalid(path.child("operator"), operator, "not a valid selector operator")]
    return []


def validate_conditions(
    conditions: Sequence[Condition], path: Path, *, declared: bool = False
) -> list[FieldError]:
    """``declared``: in the words of a release that declares its rules."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        type_ = condition.get("type", "")
        if type_ in seen:
            found.append(field.duplicate(path.index(i) if declared else path.index(i).child("type"), type_))
        seen.add(type_)
        found += validate_condition(condition, path.index(i), declared=declared)
    return found


def validate_condition(condition: Condition, path: Path, *, declared: bool = False) -> list[FieldError]:
    type_, status = condition.get("type", ""), condition.get("status", "")
    if declared and not type_:
        found = [field.required(path.child("type"), "is required")]
    else:
        found = validate_label_name(type_, path.child("type"))
    if declared and not status:
        found.append(field.required(path.child("status")))
    elif status not in _STATUSES:
        found.append(field.not_supported(path.child("status"), status, _STATUSES))
    if (generation := condition.get("observedGeneration", 0)) < 0:
        at = path.child("observedGeneration")
        found.append(field.invalid(at, generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        found.append(field.required(path.child("lastTransitionTime")))
    if reason := condition.get("reason"):
        at = path.child("reason")
        found += [field.invalid(at, reason, words) for words in names.condition_reason(reason)]
        if names.size(reason) > 1024:
            found.append(field.too_long(at, 1024))
    else:
        found.append(field.required(path.child("reason")))
    if names.size(condition.get("message", "")) > 32 * 1024:
        found.append(field.too_long(path.child("message"), 32 * 1024))
    return found


def validate_field_manager(manager: str, path: Path) -> list[FieldError]:
    if _is_plain(manager) and len(manager) <= FIELD_MANAGER_LIMIT:
        return []
    found = [field.too_long(path, FIELD_MANAGER_LIMIT)] if names.size(manager) > FIELD_MANAGER_LIMIT else []
    at = 0
    for c in manager:
        if not c.isprintable() or (c.isspace() and c != " "):
            shown = f" '{c}'" if c.isprintable() else ""
            words = f"invalid character U+{ord(c):04X}{shown} (at position {at})"
            found.append(field.invalid(path, manager, words))
        at += names.size(c)
    return found


def validate_write_options(options: Mapping[str, Any]) -> list[FieldError]:
    """CreateOptions and UpdateOptions: ``fieldManager``, ``dryRun``, ``fieldValidation``."""
    found = validate_field_manager(options.get("fieldManager") or "", _FIELD_MANAGER)
    found += _validate_dry_run(options.get("dryRun") or ())
    if (validation := options.get("fieldValidation") or "") not in _FIELD_VALIDATION:
        found.append(field.not_supported(Path("fieldValidation"), validation, _FIELD_VALIDATION))
    return found


def validate_patch_options(options: Mapping[str, Any], *, apply: bool) -> list[FieldError]:
    found: list[FieldError] = []
    if apply and not options.get("fieldManager"):
        found.append(field.required(_FIELD_MANAGER, "is required for apply patch"))
    if not apply and options.get("force") is not None:
        found.append(field.forbidden(Path("force"), "may not be specified for non-apply patch"))
    return found + validate_write_options(options)


def validate_delete_options(options: Mapping[str, Any]) -> list[FieldError]:
    path = Path("propagationPolicy")
    policy = options.get("propagationPolicy")
    found: list[FieldError] = []
    if options.get("orphanDependents") is not None and policy is not None:
        words = "orphanDependents and deletionPropagation cannot be both set"
        found.append(field.invalid(path, policy, words))
    if policy is not None and policy not in _PROPAGATION:
        found.append(field.not_supported(path, policy, (*_PROPAGATION, "nil")))
    return found + _validate_dry_run(options.get("dryRun") or ())


def validate_table_options(include_object: str) -> list[FieldError]:
    if include_object in ("Metadata", "None", "Object", ""):
        return []
    words = "must be 'Metadata', 'Object', 'None', or empty"
    return [field.invalid(Path("includeObject"), include_object, words)]


def _validate_dry_run(dry_run: Sequence[str]) -> list[FieldError]:
    if not dry_run or all(value == "All" for value in dry_run):
        return []
    return [field.not_supported(Path("dryRun"), list(dry_run), ("All",))]
