"""From a CustomResourceDefinition to kinds that the server can serve.

Each served version becomes a kind of its own, because versions may differ in everything but their names: schema,
subresources, columns. All of them are stored as the kind of the storage version, whose objects are the hub; without a
webhook, converting changes nothing but the apiVersion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.apiextensions import jsonpath, listtype, validationrules, values
from dray.api.groups.apiextensions.conversion import Conversion
from dray.api.groups.apiextensions.pruning import (
    META,
    Schema,
    apply_defaults,
    coerce_embedded,
    coerce_metadata,
    drop_nulls,
    prune,
)
from dray.api.objects import clone
from dray.api.scheme.kinds import Column, Kind, Object, Printer, Scale, Version
from dray.api.scheme.printers import NAME, since
from dray.api.scheme.strategy import (
    Context,
    Strategy,
    UpdateStrategy,
    generation,
    keep_fields,
    name_is_dns_subdomain,
    update_generation,
)
from dray.api.validation import names
from dray.api.validation.field import ErrorType, FieldError

if TYPE_CHECKING:
    from dray.api.types.apiextensions import CustomResourceDefinition

Part = Mapping[str, Any]

_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_AGE: Final = {
    "name": "Age",
    "type": "date",
    "description": "How long ago it was created.",
    "jsonPath": ".metadata.creationTimestamp",
}
_HIGHEST: Final = 2**31 - 1


def custom_kinds(definition: CustomResourceDefinition) -> list[Kind]:
    """The kinds of an established definition, one for each served version, which is the first of ``Kind.versions``."""
    spec = definition["spec"]
    listed: Sequence[Part] = spec.get("versions") or ()
    called: Part = (definition.get("status") or {}).get("acceptedNames") or {}
    if not called.get("plural"):
        called = spec["names"]
    stored = next(v for v in listed if v.get("storage"))
    chosen: Part = spec.get("conversion") or {}
    webhook = Conversion(chosen.get("webhook") or {}) if chosen.get("strategy") == "Webhook" else None
    storage = _kind(spec, called, stored, stored, None, webhook)
    return [
        storage if version is stored else _kind(spec, called, version, stored, storage, webhook)
        for version in listed
        if version.get("served")
    ]


def _kind(
    spec: Part, called: Part, version: Part, stored: Part, storage: Kind | None, webhook: Conversion | None
) -> Kind:
    subresources: Part = version.get("subresources") or {}
    status = subresources.get("status") is not None
    scale: Part | None = subresources.get("scale")
    own = CustomResourceStrategy(schema_of(version), status=status, scale=scale)
    own_status = {"status": CustomResourceStatusStrategy(own)} if status else {}
    versions = [_version(spec["group"], called["kind"], version, stored, webhook)]
    if storage is not None:
        versions.append(storage.versions[0])
        if webhook is not None:
            # What is checked and stored has the shape of the storage version.
            assert isinstance(storage.strategy, CustomResourceStrategy)
            own = storage.strategy
            own_status = {"status": CustomResourceStatusStrategy(own)} if status else {}
    return Kind(
        group=spec["group"],
        kind=called["kind"],
        plural=called["plural"],
        singular=called.get("singular") or called["kind"].lower(),
        list_kind=called.get("listKind") or called["kind"] + "List",
        short_names=tuple(called.get("shortNames") or ()),
        categories=tuple(called.get("categories") or ()),
        namespaced=spec.get("scope") == "Namespaced",
        versions=tuple(versions),
        storage=stored["name"],
        prefix=f"{spec['group']}/{called['plural']}",
        strategy=own,
        subresources=own_status,
        conversion=webhook,
        scale=None if scale is None else _scale(scale),
        printer=_printer(version.get("additionalPrinterColumns") or (_AGE,)),
        fields={
            entry["jsonPath"].removeprefix("."): _selectable(entry["jsonPath"])
            for entry in version.get("selectableFields") or ()
        },
        verbs=_VERBS,
        stored_as=storage,
        custom=True,
    )


def schema_of(version: Part) -> Schema:
    found: Schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found


def _version(group: str, kind: str, version: Part, stored: Part, webhook: Conversion | None) -> Version:
    schema, hub = schema_of(version), schema_of(stored)

    def shape(obj: Object) -> list[str]:
        problems = coerce_metadata(obj)
        gone = prune(obj, schema)
        problems += [f'unknown field "{path}"' for path in gone]
        return problems + coerce_embedded({k: v for k, v in obj.items() if k not in META}, schema)

    def default(obj: Object) -> None:
        # Stored objects may have been written under another schema.
        prune(obj, schema)
        drop_nulls({k: v for k, v in obj.items() if k not in META}, schema, into=obj)
        apply_defaults(obj, schema)

    def from_hub(obj: Object) -> Object:
        copy: Object = clone(obj)
        default(copy)
        return copy

    def to_storage(obj: Object) -> Object:
        assert webhook is not None
        converted = webhook.convert(obj, f"{group}/{stored['name']}")
        prune(converted, hub)
        apply_defaults(converted, hub)
        return converted

    def from_storage(obj: Object) -> Object:
        assert webhook is not None
        converted = webhook.convert(obj, f"{group}/{version['name']}")
        default(converted)
        return converted

    asked = webhook is not None and version is not stored
    warning = ""
    if version.get("deprecated"):
        warning = version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"
    return Version(
        name=version["name"],
        type="",
        default=default,
        to_hub=to_storage if asked else None,
        from_hub=from_storage if asked else None if schema == hub else from_hub,
        deprecated=warning,
        prune=shape,
        schema=schema,
    )


def _scale(scale: Part) -> Scale:
    path = scale.get("labelSelectorPath")
    return Scale(
        spec_replicas=_split(scale["specReplicasPath"]),
        status_replicas=_split(scale["statusReplicasPath"]),
        selector=(lambda obj: str(_at(obj, path) or "")) if path else None,
    )


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for name in _split(path):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _selectable(path: str) -> Callable[[Object], str]:
    parsed = jsonpath.parse(path)

    def select(obj: Object) -> str:
        found = parsed.find(obj)
        return jsonpath.to_text(found[0]) if found and found[0] is not None else ""

    return select


def _printer(listed: Sequence[Part]) -> Printer:
    paths: list[tuple[str, jsonpath.JsonPath]] = []
    columns = [NAME]
    for column in listed:
        try:
            parsed = jsonpath.parse(column["jsonPath"])
        except jsonpath.PathError:
            break
        words = f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
        description = column.get("description") or words
        priority, form = column.get("priority", 0), column.get("format", "")
        columns.append(Column(column["name"], column["type"], form, description, priority))
        paths.append((column["type"], parsed))

    def cells(obj: Object, now: float) -> Sequence[Any]:
        return [obj["metadata"].get("name", ""), *(_cell(kind, path, obj, now) for kind, path in paths)]

    return Printer(columns=tuple(columns), cells=cells)


def _cell(kind: str, path: jsonpath.JsonPath, obj: Object, now: float) -> Any:
    try:
        found = path.find(obj)
    except jsonpath.PathError:
        return None
    if not found or found[0] is None:
        return None
    value = found[0]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "string":
            return jsonpath.to_text(value)
        case "integer":
            return int(value) if number else None
        case "number":
            return float(value) if number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date" if isinstance(value, str):
            try:
                return since(value, now)
            except ValueError:
                return "<invalid>"
    return None


class CustomResourceStrategy(Strategy[Any]):
    """The rules that a definition gives its objects, for one version."""

    check_name = staticmethod(name_is_dns_subdomain)
    unconditional_update = False

    def __init__(self, schema: Schema, *, status: bool, scale: Part | None) -> None:
        self.schema = schema
        self.scale = scale
        self.rules = validationrules.tree(schema)
        self._status = status
        self.reset = None if status else ()

    def prepare_create(self, obj: Any, ctx: Context) -> None:
        if self._status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Any, old: Any, ctx: Context) -> None:
        if self._status:
            keep_fields(new, old, "status")
        same = all(values.same(new.get(k), old.get(k)) for k in new.keys() | old.keys() if k not in META)
        update_generation(new, old, changed=not same)

    def validate(self, obj: Any, ctx: Context) -> Sequence[FieldError]:
        found = values.check(obj, self.schema)
        found += self.check_scale(obj, "specReplicasPath", "statusReplicasPath")
        found += listtype.check_embedded(obj, self.schema)
        found += listtype.check_lists(obj, self.schema)
        return [*found, *validationrules.apply(self.rules, obj, values.MISSING, ctx.rules, found)]

    def validate_update(self, new: Any, old: Any, ctx: Context) -> Sequence[FieldError]:
        found = values.check(new, self.schema, old=old)
        found += self.check_scale(new, "specReplicasPath", "statusReplicasPath")
        found += listtype.check_embedded(new, self.schema)
        found += self.check_lists(new, old)
        return [*found, *validationrules.apply(self.rules, new, old, ctx.rules, found)]

    def warn(self, obj: Any, ctx: Context) -> Sequence[str]:
        return _finalizer_warnings(obj["metadata"].get("finalizers") or (), ())

    def warn_update(self, new: Any, old: Any, ctx: Context) -> Sequence[str]:
        before = old["metadata"].get("finalizers") or ()
        return _finalizer_warnings(new["metadata"].get("finalizers") or (), before)

    def check_lists(self, new: Object, old: Object) -> Sequence[FieldError]:
        """Doubles that are new: objects that have some already may keep them."""
        if next(listtype.check_lists(old, self.schema), None) is not None:
            return ()
        return list(listtype.check_lists(new, self.schema))

    def check_scale(self, obj: Object, *parts: str) -> list[FieldError]:
        found: list[FieldError] = []
        for part in parts if self.scale is not None else ():
            assert self.scale is not None
            path = self.scale[part]
            value = _at(obj, path)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                words = (
                    f"{path} accessor error: {value} is of the type {type(value).__name__}, expected int64"
                )
                found.append(FieldError(ErrorType.INVALID, path, 0, words))
            elif value < 0:
                words = "should be a non-negative integer"
                found.append(FieldError(ErrorType.INVALID, path, value, words))
            elif value > _HIGHEST:
                words = f"should be less than or equal to {_HIGHEST}"
                found.append(FieldError(ErrorType.INVALID, path, value, words))
        return found


class CustomResourceStatusStrategy(UpdateStrategy[Any]):
    """Writes to the status subresource of a custom resource."""

    def __init__(self, main: CustomResourceStrategy) -> None:
        self._main = main
        self._schema: Schema | None = (main.schema.get("properties") or {}).get("status")

    def prepare_update(self, new: Any, old: Any, ctx: Context) -> None:
        for part in new.keys() | old.keys():
            if part not in ("status", "metadata", "apiVersion", "kind"):
                keep_fields(new, old, part)
        managed = new["metadata"].get("managedFields")
        new["metadata"] = {k: v for k, v in old["metadata"].items() if k != "managedFields"}
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        if generation(old):
            new["metadata"]["generation"] = generation(old)

    def validate_update(self, new: Any, old: Any, ctx: Context) -> Sequence[FieldError]:
        main = self._main
        found: list[FieldError] = []
        if "status" in new and self._schema is not None:
            before = old.get("status", values.MISSING)
            found += values.check(new["status"], self._schema, prefix="status", old=before)
        found += main.check_scale(new, "statusReplicasPath")
        found += main.check_lists(new, old)
        return [*found, *validationrules.apply(main.rules, new, old, ctx.rules, found)]


def _finalizer_warnings(new: Sequence[str], old: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in sorted(set(new) - set(old)):
        head = f'metadata.finalizers: "{name}": '
        found += [head + words for words in names.qualified_name(name)]
        if "/" in name or name in _STANDARD_FINALIZERS:
            continue
        form = "name including a path (/)" if "." in name else "name"
        advice = f"prefer a domain-qualified finalizer {form} to avoid accidental conflicts with other finalizer writers"
        found.append(head + advice)
    return found
