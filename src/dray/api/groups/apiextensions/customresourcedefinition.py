"""The rules of CustomResourceDefinitions.

What all versions have in common is checked once: then errors name the field upstream keeps it in, such as
``spec.validation``, although nobody can write that field any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from dray.api.golang.structs import render
from dray.api.groups.apiextensions.parts import check_column, check_conversion, check_scale, check_selectable
from dray.api.groups.apiextensions.schemavalidation import check_schema, unknown_formats
from dray.api.objects import is_condition_true
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import (
    METADATA,
    SPEC,
    STATUS,
    Context,
    Strategy,
    UpdateStrategy,
    immutable,
    keep_fields,
    name_is_dns_subdomain,
    update_generation,
)
from dray.api.validation import checks, field, names
from dray.api.validation.expressions import RuleCompiler
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.apiextensions import (
        CustomResourceDefinition,
        CustomResourceDefinitionCondition,
        CustomResourceDefinitionSpec,
        CustomResourceDefinitionVersion,
    )

Part = Mapping[str, Any]

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_APPROVED: Final = "api-approved.kubernetes.io"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_VERSION_TYPE: Final = "apiextensions/v1.CustomResourceDefinitionVersion"
_LONGEST_WARNING: Final = 256
_SHARED: Final = ("subresources", "schema", "additionalPrinterColumns", "selectableFields")


def default(obj: CustomResourceDefinition) -> None:
    spec = obj.setdefault("spec", {})
    called = spec.setdefault("names", {})
    kind = called.get("kind", "")
    if not called.get("singular") and kind:
        called["singular"] = kind.lower()
    if not called.get("listKind") and kind:
        called["listKind"] = kind + "List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    status = obj.setdefault("status", {})
    if not status.get("storedVersions"):
        stored = next((v["name"] for v in spec.get("versions") or () if v.get("storage")), None)
        if stored is not None:
            status["storedVersions"] = [stored]


def is_true(obj: CustomResourceDefinition, condition: str) -> bool:
    """Whether a condition of the definition holds."""
    return is_condition_true(obj.get("status", {}).get("conditions"), condition)


def set_condition(
    obj: CustomResourceDefinition, condition: CustomResourceDefinitionCondition, now: str
) -> None:
    """Set a condition; the time of the last transition stays if its status does."""
    status = obj["status"] = (obj.get("status") or {}).copy()
    conditions = status["conditions"] = list(status.get("conditions") or ())
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            same = old["status"] == condition["status"]
            since = old.get("lastTransitionTime", now) if same else now
            conditions[i] = {**condition, "lastTransitionTime": since}
            return
    conditions.append({**condition, "lastTransitionTime": now})


def _note_storage(obj: CustomResourceDefinition) -> None:
    """Remember that objects may be stored in the version that is to be stored from now on."""
    status = obj["status"]
    stored = next((v["name"] for v in obj["spec"].get("versions") or () if v.get("storage")), None)
    if stored is not None and stored not in (status.get("storedVersions") or ()):
        status["storedVersions"] = [*(status.get("storedVersions") or ()), stored]


class CustomResourceDefinitionStrategy(Strategy["CustomResourceDefinition"]):
    check_name = staticmethod(name_is_dns_subdomain)
    unconditional_update = False

    def prepare_create(self, obj: CustomResourceDefinition, ctx: Context) -> None:
        empty: Any = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
        obj["status"] = empty
        obj["metadata"]["generation"] = 1
        _note_storage(obj)

    def prepare_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, ctx: Context
    ) -> None:
        keep_fields(new, old, "status")
        new["status"] = (new.get("status") or {}).copy()
        update_generation(new, old, changed=new["spec"] != old["spec"])
        _note_storage(new)

    def validate(self, obj: CustomResourceDefinition, ctx: Context) -> Sequence[FieldError]:
        spec, found = obj["spec"], list[FieldError]()
        name = obj["metadata"].get("name", "")
        if name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
            words = 'must be spec.names.plural+"."+spec.group'
            found.append(field.invalid(METADATA.child("name"), name, words))
        found += _check_spec(spec, ctx.rules)
        found += _check_common(obj)
        return [*found, *_check_approval(obj, None), *_check_unpruned(obj, None)]

    def validate_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, ctx: Context
    ) -> Sequence[FieldError]:
        spec, before = new["spec"], old["spec"]
        known = [version.get("schema") for version in before.get("versions") or ()]
        found = list(_check_spec(spec, ctx.rules, known=known))
        if is_true(old, "Established"):
            found += immutable(spec.get("scope", ""), before.get("scope", ""), SPEC.child("scope"))
            found += _same_name(spec, before, "kind")
        found += immutable(spec.get("group", ""), before.get("group", ""), SPEC.child("group"))
        found += _same_name(spec, before, "plural")
        found += _check_common(new)
        return [*found, *_check_approval(new, old), *_check_unpruned(new, old)]

    def warn(self, obj: CustomResourceDefinition, ctx: Context) -> Sequence[str]:
        return [f"unrecognized format {field.quote(name)}" for name in _formats(obj)]

    def warn_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, ctx: Context
    ) -> Sequence[str]:
        known = set(_formats(old))
        return [f"unrecognized format {field.quote(name)}" for name in _formats(new) if name not in known]

    def held(self, obj: CustomResourceDefinition) -> bool:
        return not obj["metadata"].get("deletionTimestamp")

    def begin_deletion(self, obj: CustomResourceDefinition, ctx: Context) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if CLEANUP_FINALIZER not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
        condition: CustomResourceDefinitionCondition = {
            "type": "Terminating",
            "status": "True",
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }
        set_condition(obj, condition, ctx.now)


class CustomResourceDefinitionStatusStrategy(UpdateStrategy["CustomResourceDefinition"]):
    def prepare_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, ctx: Context
    ) -> None:
        keep_fields(new, old, "spec")
        update_generation(new, old, changed=False)

    def validate_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, ctx: Context
    ) -> Sequence[FieldError]:
        accepted = new.get("status", {}).get("acceptedNames") or {}
        return list(_check_names(accepted, STATUS.child("acceptedNames")))


def _same_name(
    spec: CustomResourceDefinitionSpec, before: CustomResourceDefinitionSpec, part: str
) -> Sequence[FieldError]:
    path = SPEC.child("names", part)
    return immutable(spec["names"].get(part, ""), before["names"].get(part, ""), path)


def _formats(obj: CustomResourceDefinition) -> Iterator[str]:
    spec = obj["spec"]
    holders: Iterable[Mapping[str, Any]] = (spec, *(spec.get("versions") or ()))
    for version in holders:
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            yield from unknown_formats(schema)


def _check_common(obj: CustomResourceDefinition) -> Iterator[FieldError]:
    status = obj.get("status", {})
    yield from _check_names(status.get("acceptedNames") or {}, STATUS.child("acceptedNames"))
    path = STATUS.child("storedVersions")
    stored: Sequence[str] = status.get("storedVersions") or ()
    if not stored:
        yield field.invalid(path, None, "must have at least one stored version")
        return
    versions: Sequence[CustomResourceDefinitionVersion] = obj["spec"].get("versions") or ()
    for version in versions:
        if version.get("storage") and version["name"] not in stored:
            yield field.invalid(path, stored, f"must have the storage version {version['name']}")
    present = {version["name"] for version in versions}
    for i, name in enumerate(stored):
        if name not in present:
            words = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
                f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            yield field.invalid(path.index(i), name, words)


def _lifted(spec: CustomResourceDefinitionSpec) -> Object:
    """The spec with what is the same in all versions taken out of them, as upstream keeps it internally."""
    versions: Sequence[CustomResourceDefinitionVersion] = spec.get("versions") or ()
    lifted: Object = {**spec, "versions": [dict(v) for v in versions]}
    for part in _SHARED:
        if versions and all(v.get(part) == versions[0].get(part) for v in versions):
            lifted[part] = versions[0].get(part)
            for version in lifted["versions"]:
                version.pop(part, None)
    return lifted


def _check_spec(
    given: CustomResourceDefinitionSpec, compiler: RuleCompiler, *, known: Sequence[Part | None] = ()
) -> Iterator[FieldError]:
    """``known`` are the schemas that the definition has had."""
    spec = _lifted(given)
    group = spec.get("group", "")
    at = SPEC.child("group")
    if not group:
        yield field.required(at)
    elif messages := names.dns1123_subdomain(group):
        yield field.invalid(at, group, ",".join(messages))
    elif "." not in group:
        yield field.invalid(at, group, "should be a domain with at least one dot")
    yield from checks.one_of(spec.get("scope", ""), SPEC.child("scope"), ("Cluster", "Namespaced"))
    versions: Sequence[Part] = spec["versions"]
    if not (spec.get("schema") or {}).get("openAPIV3Schema"):
        for i, version in enumerate(versions):
            if (version.get("schema") or {}).get("openAPIV3Schema") is None:
                yield field.required(SPEC.child("versions").index(i).child("schema", "openAPIV3Schema"))
    for i, version in enumerate(versions):
        path = SPEC.child("versions").index(i)
        if messages := names.dns1035_label(version.get("name", "")):
            yield field.invalid(path.child("name"), version.get("name", ""), ",".join(messages))
        yield from _check_warning(version, path.child("deprecationWarning"))
        own = any(v.get("subresources") is not None for v in versions)
        subresources = version.get("subresources") if own else spec.get("subresources")
        status = (subresources or {}).get("status") is not None
        changed = version.get("schema") not in known
        yield from _check_parts(version, path, path.child("schema"), compiler, status=status, changed=changed)
    yield from _check_versions(versions)
    called = spec.get("names") or {}
    for part in ("plural", "singular", "kind", "listKind"):
        if not called.get(part):
            yield field.required(SPEC.child("names", part))
    yield from _check_names(called, SPEC.child("names"))
    any_status = any((v.get("subresources") or {}).get("status") is not None for v in (spec, *versions))
    changed = spec.get("schema") not in known
    yield from _check_parts(
        spec, SPEC, SPEC.child("validation"), compiler, status=any_status, changed=changed
    )
    yield from check_conversion(spec.get("conversion") or {}, SPEC.child("conversion"))


def _check_versions(versions: Sequence[Part]) -> Iterator[FieldError]:
    called = [version.get("name", "") for version in versions]
    problems = []
    if len(set(called)) < len(called):
        problems.append("must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        problems.append("must have exactly one version marked as storage version")
    if problems:
        shown = [render(_VERSION_TYPE, version) for version in versions] or None
        for words in problems:
            yield field.invalid(SPEC.child("versions"), shown, words)


def _check_warning(version: Part, path: Path) -> Iterator[FieldError]:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield field.invalid(path, text, "can only be set for deprecated versions")
        return
    if names.size(text) > _LONGEST_WARNING:
        yield field.invalid(path, text, "must be <= 256 characters long")
    if not text:
        yield field.invalid(path, text, "must not be an empty string")
    position = next((i for i, c in enumerate(text) if not c.isprintable()), None)
    if position is not None:
        words = "must only contain printable UTF-8 characters; non-printable character found at index"
        yield field.invalid(path, text, f"{words} {names.size(text[:position])}")


def _check_parts(
    part: Part, path: Path, schema_path: Path, compiler: RuleCompiler, *, status: bool, changed: bool
) -> Iterator[FieldError]:
    """What a version says, or what all of them say together."""
    schema = (part.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        at = schema_path.child("openAPIV3Schema")
        yield from check_schema(schema, at, compiler, status=status, changed=changed)
    scale = (part.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from check_scale(scale, path.child("subresources"))
    for i, column in enumerate(part.get("additionalPrinterColumns") or ()):
        yield from check_column(column, path.child("additionalPrinterColumns").index(i))
    selectable = part.get("selectableFields") or ()
    if selectable and schema is not None:
        yield from check_selectable(selectable, schema, path.child("selectableFields"))


def _check_names(called: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    mixed = "may have mixed case, but should otherwise match: "
    for part, prefix in (("plural", ""), ("singular", ""), ("kind", mixed), ("listKind", mixed)):
        name = called.get(part, "")
        checked = name.lower() if prefix else name
        if name and (messages := names.dns1035_label(checked)):
            yield field.invalid(path.child(part), name, prefix + ",".join(messages))
    yield from _check_labels(called.get("shortNames") or (), path.child("shortNames"))
    if called.get("kind") and called.get("kind") == called.get("listKind"):
        words = "kind and listKind may not be the same"
        yield field.invalid(path.child("listKind"), called["listKind"], words)
    yield from _check_labels(called.get("categories") or (), path.child("categories"))


def _check_labels(listed: Sequence[str], path: Path) -> Iterator[FieldError]:
    for i, name in enumerate(listed):
        if messages := names.dns1035_label(name):
            yield field.invalid(path.index(i), name, ",".join(messages))


def _approval(obj: CustomResourceDefinition) -> tuple[str, str]:
    """Whether the annotation that protected groups need is there, and the words if it is not as it should be."""
    text = (obj["metadata"].get("annotations") or {}).get(_APPROVED, "")
    if text.startswith("unapproved"):
        return "bypassed", ""
    parts = urlsplit(text)
    if parts.scheme and parts.netloc:
        return "approved", ""
    words = f"protected groups must have approval annotation {field.quote(_APPROVED)}"
    if not text:
        return "missing", f"{words}, {_SEE}"
    return "invalid", f'{words} with either a URL or a reason starting with "unapproved", {_SEE}'


def _check_approval(
    new: CustomResourceDefinition, old: CustomResourceDefinition | None
) -> Iterator[FieldError]:
    group = "." + new["spec"].get("group", "")
    if not group.endswith((".k8s.io", ".kubernetes.io")):
        return
    state, words = _approval(new)
    if not words or (old is not None and _approval(old)[0] == state):
        return
    path = METADATA.child("annotations").key(_APPROVED)
    if state == "missing":
        yield field.required(path, words)
    else:
        yield field.invalid(path, new["metadata"]["annotations"][_APPROVED], words)


def _check_unpruned(
    new: CustomResourceDefinition, old: CustomResourceDefinition | None
) -> Iterator[FieldError]:
    if old is not None and old["spec"].get("preserveUnknownFields"):
        return
    if new["spec"].get("preserveUnknownFields"):
        words = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield field.invalid(SPEC.child("preserveUnknownFields"), True, words)
