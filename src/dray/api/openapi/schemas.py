"""Types as OpenAPI schemas, in the flavour of v3 (components) or v2 (definitions)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from dray.api.openapi import descriptions
from dray.api.release import Release
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf, type_of
from dray.api.schema.model import NO_DEFAULT
from dray.api.scheme.kinds import Kind, Version

Schema = dict[str, Any]
#: The schema of a custom resource, as its definition gives it.
CustomSchema = Callable[[Kind, Version], "Schema | None"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PACKAGES: Final = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
_PLAIN: Final[dict[str, Schema]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_ZEROS: Final = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}
#: Leaves that are schemas of their own: name, schema in v2, schema in v3.
_NAMED: Final[dict[str, tuple[str, Schema, Schema]]] = {
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"type": "string"},
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "intorstring": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"type": "string", "format": "int-or-string"},
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "time": (f"{_META}.Time",) + ({"type": "string", "format": "date-time"},) * 2,
    "microtime": (f"{_META}.MicroTime",) + ({"type": "string", "format": "date-time"},) * 2,
    "duration": (f"{_META}.Duration",) + ({"type": "string"},) * 2,
    "raw": ("io.k8s.apimachinery.pkg.runtime.RawExtension",) + ({"type": "object"},) * 2,
}
_JSON: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"
#: Fields whose free-form type has a name of its own.
_RAW_FIELDS: Final = {
    ("meta/v1.ManagedFieldsEntry", "fieldsV1"): f"{_META}.FieldsV1",
    ("apiextensions/v1.JSONSchemaProps", "default"): _JSON,
    ("apiextensions/v1.JSONSchemaProps", "enum"): _JSON,
    ("apiextensions/v1.JSONSchemaProps", "example"): _JSON,
}


_ANYTHING: Final = "x-kubernetes-preserve-unknown-fields"
_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata"})


def schema_name(type_name: str) -> str:
    """``core/v1.Pod`` as clients know it: ``io.k8s.api.core.v1.Pod``."""
    package, _, short = type_name.rpartition(".")
    group, _, version = package.partition("/")
    return f"{_PACKAGES.get(group, f'io.k8s.api.{group}')}.{version}.{short}"


def _custom_name(kind: Kind, version: Version) -> str:
    """Groups read backwards in schema names: ``com.example.v1.Widget``."""
    return ".".join([*reversed(kind.group.split(".")), version.name, kind.kind])


class Schemas:
    """Collects the schemas that a document needs; asking for a reference brings in what it refers to."""

    def __init__(
        self, *, release: Release | None, v3: bool, custom: CustomSchema = lambda kind, version: None
    ) -> None:
        self._release = release
        self._custom = custom
        self._v3 = v3
        self._prefix = "#/components/schemas/" if v3 else "#/definitions/"
        self._kinds: dict[str, list[Schema]] = {}
        self.found: dict[str, Schema] = {}

    def mark(self, type_name: str, group: str, version: str, kind: str) -> None:
        """Say that a type is a kind, which clients look up by its group, version and kind."""
        marks = self._kinds.setdefault(schema_name(type_name), [])
        mark = {"group": group, "kind": kind, "version": version}
        if mark not in marks:
            marks.append(mark)

    def finish(self) -> dict[str, Schema]:
        """All schemas by name, in order, with their marks."""
        for name, marks in self._kinds.items():
            if name in self.found:
                self.found[name]["x-kubernetes-group-version-kind"] = marks
        return dict(sorted(self.found.items()))

    def ref(self, type_name: str) -> Schema:
        """A reference to a type, which becomes part of the document."""
        name = schema_name(type_name)
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self._struct(type_of(type_name, self._release))
        return {"$ref": self._prefix + name}

    def kind_ref(self, kind: Kind, version: Version) -> Schema:
        """A reference to the type of a kind, custom or not."""
        if version.type:
            self.mark(version.type, kind.group, version.name, kind.kind)
            return self.ref(version.type)
        name = _custom_name(kind, version)
        if name not in self.found:
            marks = [{"group": kind.group, "kind": kind.kind, "version": version.name}]
            custom = dict(self._custom(kind, version) or {})
            if not custom or (custom.get(_ANYTHING) and not self._v3):
                # Clients of v2 take properties for all there are, and would refuse what such a kind may hold.
                custom = {"type": "object"}
            else:
                named = {k: v for k, v in (custom.get("properties") or {}).items() if k not in _OBJECT}
                custom["properties"] = {**self._of_every_object("meta/v1.ObjectMeta"), **named}
            self.found[name] = {**custom, "x-kubernetes-group-version-kind": marks}
        return {"$ref": self._prefix + name}

    def _of_every_object(self, metadata: str) -> dict[str, Schema]:
        """What an object is and what it is called, in the words that a built-in kind has for it."""
        words = descriptions.of("core/v1.ConfigMap")
        reference = self.ref(metadata)
        found: dict[str, Schema] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        # In v3 nothing may stand beside a reference.
        found["metadata"] = {"allOf": [reference], "default": {}} if self._v3 else dict(reference)
        for name, schema in found.items():
            if text := words.get(name):
                schema["description"] = text
        return found

    def list_ref(self, kind: Kind, version: Version) -> Schema:
        """A reference to the list of a kind."""
        listed = kind.list_kind or f"{kind.kind}List"
        if version.type:
            name = f"{version.type}List"
            self.mark(name, kind.group, version.name, listed)
            return self.ref(name)
        name = f"{_custom_name(kind, version)}List"
        if name not in self.found:
            items = {"type": "array", "items": self.kind_ref(kind, version)}
            items["description"] = f"List of {kind.plural}."
            properties = {**self._of_every_object("meta/v1.ListMeta"), "items": items}
            marks = [{"group": kind.group, "kind": listed, "version": version.name}]
            self.found[name] = {
                "type": "object",
                "properties": properties,
                "required": ["items"],
                "x-kubernetes-group-version-kind": marks,
            }
        return {"$ref": self._prefix + name}

    def add(self, name: str, schema: Schema) -> Schema:
        """A reference to a schema that is not one of the types."""
        self.found.setdefault(name, schema)
        return {"$ref": self._prefix + name}

    def _struct(self, type_: Struct) -> Schema:
        about = descriptions.of(type_.name)
        schema: Schema = {}
        if "" in about:
            schema["description"] = about[""]
        properties = {f.name: self._property(type_, f, about) for f in type_.fields}
        if properties:
            schema["properties"] = dict(sorted(properties.items()))
        if required := [f.name for f in type_.fields if not f.optional]:
            schema["required"] = required
        schema["type"] = "object"
        if type_.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        return schema

    def _property(self, owner: Struct, field: Field, about: Mapping[str, str]) -> Schema:
        schema = self._typed(field.type, raw=_RAW_FIELDS.get((owner.name, field.name)))
        extra: Schema = {}
        if text := about.get(field.name):
            extra["description"] = text
        if (default := self._default(field)) is not NO_DEFAULT and self._v3:
            extra["default"] = default
        extra.update(_extensions(field))
        if self._v3 and "$ref" in schema and extra:
            schema = {"allOf": [schema]}
        return {**schema, **extra}

    def _default(self, field: Field) -> Any:
        if field.default is not NO_DEFAULT:
            return field.default
        if field.pointer:
            return NO_DEFAULT
        if isinstance(field.type, Struct):
            return {}
        if isinstance(field.type, Scalar) and field.emit in ("required", "always"):
            return _ZEROS.get(field.type.base, NO_DEFAULT)
        return NO_DEFAULT

    def _typed(self, type_: Type, *, raw: str | None = None) -> Schema:
        match type_:
            case Scalar():
                return self._scalar(type_, raw)
            case Struct():
                return self.ref(type_.name)
            case ListOf():
                return {"type": "array", "items": self._element(type_.item, raw)}
            case MapOf():
                return {"type": "object", "additionalProperties": self._element(type_.value, raw)}
            case UnionOf():
                # Upstream leaves such types open.
                return self.add(f"{_PACKAGES['apiextensions']}.{type_.go}", {})

    def _element(self, type_: Type, raw: str | None) -> Schema:
        """What lists and maps hold; in v3 with the default of a value that is not given."""
        schema = self._typed(type_, raw=raw)
        if not self._v3:
            return schema
        if isinstance(type_, Struct):
            return {"allOf": [schema], "default": {}}
        if isinstance(type_, Scalar) and type_.base in _ZEROS:
            return {**schema, "default": _ZEROS[type_.base]}
        return schema

    def _scalar(self, type_: Scalar, raw: str | None) -> Schema:
        if raw is not None:
            return self.add(raw, {"type": "object"} if raw.endswith("FieldsV1") else {})
        if (plain := _PLAIN.get(type_.base)) is not None:
            return {**plain, "enum": sorted(type_.enum)} if type_.enum else dict(plain)
        name, v2, v3 = _NAMED[type_.base]
        return self.add(name, dict(v3 if self._v3 else v2))


def _extensions(field: Field) -> Iterator[tuple[str, Any]]:
    if field.list_keys:
        yield "x-kubernetes-list-map-keys", list(field.list_keys)
    if field.list_type:
        yield "x-kubernetes-list-type", field.list_type
    if field.atomic and not (isinstance(field.type, Struct) and field.type.atomic):
        yield "x-kubernetes-map-type", "atomic"
    if field.granular:
        yield "x-kubernetes-map-type", "granular"
    if field.merge_key:
        yield "x-kubernetes-patch-merge-key", field.merge_key
    if field.patch:
        yield "x-kubernetes-patch-strategy", ",".join(field.patch)
