"""The schema in a definition: what OpenAPI features it may use, and whether its defaults and rules make sense."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dray.api.golang import structs
from dray.api.groups.apiextensions import costs, formats, validationrules, values
from dray.api.groups.apiextensions.fieldpaths import find_field
from dray.api.groups.apiextensions.listtype import check_embedded
from dray.api.groups.apiextensions.pruning import (
    EMBEDDED,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    META,
    PRESERVE,
    RULES,
    Schema,
    additional,
    items,
    prune_value,
)
from dray.api.groups.apiextensions.structural import check_structural, properties
from dray.api.objects import clone
from dray.api.validation import field
from dray.api.validation.expressions import RuleCompiler
from dray.api.validation.field import FieldError, Path

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_BREAKS: Final = re.compile(r"[\n\r]")
_AT_ROOT: Final[Mapping[str, str]] = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    PRESERVE: "XPreserveUnknownFields", RULES: "XValidations",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a schema a part of it stands, as far as that decides what the part may say."""

    no_defaults: str = ""  # why defaults are forbidden here
    in_meta: bool = False
    no_old: Path | None = None  # the part above whose old and new values cannot be told to be the same
    cardinality: int | None = 1  # how often such a part occurs in one object at most; None: there is no bound

    def below(self, schema: Schema) -> Place:
        """The place of the parts of a schema that stands here."""
        count = costs.elements(schema)
        if self.cardinality is None or count is None:
            return replace(self, cardinality=None)
        return self if count == 1 else replace(self, cardinality=costs.times(self.cardinality, count))


def check_schema(
    schema: Schema, path: Path, compiler: RuleCompiler, *, status: bool, changed: bool = True
) -> list[FieldError]:
    """Everything wrong with the schema of one version; ``status``: it has the status subresource. One that has not
    ``changed`` may keep rules that cost too much by today's estimate."""
    found = list(_check_root(schema, path, status=status))
    structural = check_structural(schema, path) if _supported(schema) else None
    node = None
    if structural:
        found += structural
    elif structural is not None:
        wrong = list(_check_defaults(schema, path, compiler, in_meta=False))
        found += wrong
        if not wrong:
            node = validationrules.tree(schema)
    checker = _Checker(compiler, compiles=node is not None, bill=costs.TotalCost(each=changed))
    checker.check(schema, path, Place(), root=True)
    return [*found, *checker.found, *checker.found_in_rules, *checker.bill.total(path)]


def _supported(schema: Schema) -> bool:
    """Whether the schema is of a form that can be looked at as a structural one."""
    if any(schema.get(part) for part in _UNSUPPORTED) or isinstance(schema.get("items"), list):
        return False
    return schema.get(PRESERVE) is not False and all(_supported(inner) for inner in _parts(schema))


def _parts(schema: Schema) -> Iterator[Schema]:
    for _, inner in properties(schema):
        yield inner
    for one in (items(schema), additional(schema), schema.get("not")):
        if one is not None:
            yield one
    for part in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(part) or ()


def unknown_formats(schema: Schema) -> Iterator[str]:
    """Formats that mean nothing, in the order in which a reader meets them."""
    if schema.get("format") and not formats.recognized(schema):
        yield schema["format"]
    for inner in _parts(schema):
        yield from unknown_formats(inner)


def _check_root(schema: Schema, path: Path, *, status: bool) -> Iterator[FieldError]:
    if status:
        kind = schema.get("type", "")
        if kind not in ("", "object"):
            words = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            yield field.invalid(path.child("type"), kind, words)
        elif any(part not in _AT_ROOT for part in schema):
            allowed = " ".join(_AT_ROOT.values())
            words = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
            yield field.invalid(path, structs.render("apiextensions/v1.JSONSchemaProps", schema), words)
    if schema.get("nullable"):
        yield field.forbidden(path.child("nullable"), "nullable cannot be true at the root")


def _check_defaults(
    schema: Schema, path: Path, compiler: RuleCompiler, *, in_meta: bool, root: bool = True
) -> Iterator[FieldError]:
    default = schema.get("default")
    at = path.child("default")
    if default is not None and not in_meta:
        pruned = clone(default)
        prune_value(pruned, schema)
        if pruned != default:
            yield field.invalid(at, default, "must not have unknown fields")
        wrong = [*check_embedded(default, schema, str(at))] or values.check(default, schema, prefix=str(at))
        yield from wrong
        if not wrong and (node := validationrules.tree(schema, root=bool(schema.get(EMBEDDED)))) is not None:
            broken = list(validationrules.check(node, default, default, compiler, str(at)))
            yield from broken or validationrules.check(node, default, values.MISSING, compiler, str(at))
    if (own := items(schema)) is not None:
        yield from _check_defaults(own, path.child("items"), compiler, in_meta=in_meta, root=False)
    for name, inner in properties(schema):
        below = (root or bool(schema.get(EMBEDDED))) and name in META
        where = path.child("properties").key(name)
        yield from _check_defaults(inner, where, compiler, in_meta=in_meta or below, root=False)


class _Checker:
    """Walks a schema; problems of rules are told after all others, and only where there are none below."""

    def __init__(self, compiler: RuleCompiler, *, compiles: bool, bill: costs.TotalCost) -> None:
        self._compiler = compiler
        self._compiles = compiles
        self.bill = bill
        self.found: list[FieldError] = []
        self.found_in_rules: list[FieldError] = []

    def check(
        self, schema: Schema, path: Path, place: Place, *, root: bool = False, spine: bool = True
    ) -> None:
        before = len(self.found)
        self.found += _check_features(schema, path, place)
        self._descend(schema, path, place, root=root, spine=spine)
        self.found += _check_extensions(schema, path)
        for i, rule in enumerate(schema.get(RULES) or ()):
            self.found += _check_rule(schema, rule, path.child(RULES).index(i))
        if self._compiles and spine and len(self.found) == before:
            whole = root or bool(schema.get(EMBEDDED))
            for i, rule in enumerate(schema.get(RULES) or ()):
                at = path.child(RULES).index(i)
                self.found_in_rules += self._compile(schema, rule, at, place, root=whole)

    def _descend(self, schema: Schema, path: Path, place: Place, *, root: bool, spine: bool) -> None:
        more = additional(schema)
        place = place.below(schema)
        if "additionalProperties" in schema:
            at = path.child("additionalProperties")
            if schema.get("properties") and schema["additionalProperties"] is not True:
                words = "additionalProperties and properties are mutual exclusive"
                self.found.append(field.forbidden(at, words))
            if more is not None:
                why = "inside additionalProperties applying to object metadata" if place.in_meta else ""
                self.check(more, at, replace(place, no_defaults=why or place.no_defaults), spine=spine)
        for name, inner in properties(schema):
            below = place
            if (root or schema.get(EMBEDDED)) and name in META:
                why = f"in top-level {name}" if root else place.no_defaults
                below = replace(place, in_meta=True, no_defaults=why)
            self.check(inner, path.child("properties").key(name), below, spine=spine)
        if (negated := schema.get("not")) is not None:
            self.check(negated, path.child("not"), place, spine=False)
        for part in ("allOf", "oneOf", "anyOf"):
            for i, one in enumerate(schema.get(part) or ()):
                self.check(one, path.child(part).index(i), place, spine=False)
        if (own := items(schema)) is not None:
            below = place
            if schema.get(LIST_TYPE) != "map" and place.no_old is None:
                below = replace(place, no_old=path)
            self.check(own, path.child("items"), below, spine=spine)

    def _compile(
        self, schema: Schema, rule: Mapping[str, Any], path: Path, place: Place, *, root: bool
    ) -> Iterator[FieldError]:
        compiled = self._compiler(rule, schema, root=root)
        shown = {
            "Rule": rule.get("rule", ""),
            "Message": rule.get("message", ""),
            "MessageExpression": rule.get("messageExpression", ""),
            "Reason": rule.get("reason"),
            "FieldPath": rule.get("fieldPath", ""),
            "OptionalOldSelf": rule.get("optionalOldSelf"),
        }
        often = compiled.max_cardinality if place.cardinality is None else place.cardinality
        cost = costs.times(compiled.verdict.max_cost, often)
        yield from self.bill.add(path.child("rule"), cost, "estimated rule cost")
        if compiled.verdict.error:
            yield field.invalid(path.child("rule"), shown, compiled.verdict.error)
        if compiled.message_verdict.error:
            yield field.invalid(path.child("messageExpression"), shown, compiled.message_verdict.error)
        elif cost := compiled.message_verdict.max_cost:
            yield from self.bill.add(
                path.child("messageExpression"), cost, "estimated messageExpression cost"
            )
        if compiled.uses_old and place.no_old is not None:
            words = (
                f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.no_old}"
            )
            yield field.invalid(path.child("rule"), shown["Rule"], words)
        elif not compiled.uses_old and rule.get("optionalOldSelf") is not None:
            words = "may not be set if oldSelf is not used in rule"
            yield field.invalid(path.child("optionalOldSelf"), rule["optionalOldSelf"], words)


def _check_features(schema: Schema, path: Path, place: Place) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind and kind not in TYPES:
        yield field.not_supported(path.child("type"), kind, TYPES)
    if schema.get("default") is not None and place.no_defaults:
        yield field.forbidden(path.child("default"), f"must not be set {place.no_defaults}")
    for part in _UNSUPPORTED:
        if schema.get(part):
            yield field.forbidden(path.child(part), f"{part} is not supported")
    if kind == "null":
        words = "type cannot be set to null, use nullable as an alternative"
        yield field.forbidden(path.child("type"), words)
    if isinstance(schema.get("items"), list):
        yield field.forbidden(path.child("items"), "items must be a schema object and not an array")
    if place.in_meta and schema.get(EMBEDDED):
        yield field.forbidden(path.child(EMBEDDED), "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield field.forbidden(path.child("uniqueItems"), words)


def _check_extensions(schema: Schema, path: Path) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if schema.get(PRESERVE) is False:
        yield field.invalid(path.child(PRESERVE), False, "must be true or undefined")
    for part, needed, allowed in (
        (MAP_TYPE, "object", ("atomic", "granular")),
        (LIST_TYPE, "array", ("atomic", "set", "map")),
    ):
        if part not in schema:
            continue
        if kind != needed:
            words = f"must be {needed} if {part} is specified"
            at = path.child("type")
            yield field.invalid(at, kind, words) if kind else field.required(at, words)
        elif part == LIST_TYPE and schema[part] == "set":
            yield from _check_set(items(schema), path.child("items"))
        if schema[part] not in allowed:
            yield field.not_supported(path.child(part), schema[part], allowed)
    yield from _check_map_list(schema, path)
    if schema.get(LIST_TYPE) in ("set", "map") and (own := items(schema)) is not None:
        yield from _check_keys(schema, own, path.child("items"))


def _check_set(own: Schema | None, path: Path) -> Iterator[FieldError]:
    words = "must be atomic as item of a list with x-kubernetes-list-type=set"
    match (own or {}).get("type"):
        case "array" if (own or {}).get(LIST_TYPE, "atomic") != "atomic":
            yield field.invalid(path.child(LIST_TYPE), (own or {}).get(LIST_TYPE), words)
        case "object" if (own or {}).get(MAP_TYPE) != "atomic":
            yield field.invalid(path.child(MAP_TYPE), (own or {}).get(LIST_TYPE), words)


def _check_map_list(schema: Schema, path: Path) -> Iterator[FieldError]:
    keys: Sequence[str] = schema.get(LIST_KEYS) or ()
    kind = schema.get(LIST_TYPE)
    if keys and kind != "map":
        words = f"must be map if {LIST_KEYS} is non-empty"
        at = path.child(LIST_TYPE)
        yield field.invalid(at, kind, words) if kind else field.required(at, words)
    if kind != "map":
        return
    if not keys:
        yield field.required(path.child(LIST_KEYS), f"must not be empty if {LIST_TYPE} is map")
    own = items(schema)
    if own is None:
        if "items" not in schema:
            yield field.required(path.child("items"), f"must have a schema if {LIST_TYPE} is map")
        return
    if own.get("type") != "object":
        words = f"must be object if parent array's {LIST_TYPE} is map"
        yield field.invalid(path.child("items").child("type"), own.get("type", ""), words)
        return
    known = own.get("properties") or {}
    for i, key in enumerate(keys):
        if key not in known:
            yield field.invalid(path.child(LIST_KEYS), keys, "entries must all be names of item properties")
        elif known[key].get("type") in ("array", "object"):
            words = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            at = path.child("items").child("properties").key(key).child("type")
            yield field.invalid(at, own["type"], words)
        if key in keys[:i]:
            yield field.invalid(path.child(LIST_KEYS), keys, "must not contain duplicate entries")


def _check_keys(schema: Schema, own: Schema, path: Path) -> Iterator[FieldError]:
    if own.get("nullable"):
        words = f"cannot be nullable when {LIST_TYPE} is {schema[LIST_TYPE]}"
        yield field.forbidden(path.child("nullable"), words)
    if schema[LIST_TYPE] != "map":
        return
    known, needed = own.get("properties") or {}, own.get("required") or ()
    for key in schema.get(LIST_KEYS) or ():
        if key not in known:
            continue
        at = path.child("properties").key(key)
        if key not in needed and known[key].get("default") is None:
            words = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
            yield field.required(at.child("default"), words)
        if known[key].get("nullable"):
            words = f"this property is in {LIST_KEYS}, so it cannot be nullable"
            yield field.forbidden(at.child("nullable"), words)


def _check_rule(schema: Schema, rule: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        yield field.required(path.child("rule"), "rule is not specified")
    elif message and not message.strip():
        yield field.invalid(path.child("message"), message, "must be non-empty if specified")
    elif _BREAKS.search(message.strip()):
        yield field.invalid(path.child("message"), message, "must not contain line breaks")
    elif _BREAKS.search(text) and not message.strip():
        words = "message must be specified if rule contains line breaks"
        yield field.required(path.child("message"), words)
    expression = rule.get("messageExpression", "")
    if expression and not expression.strip():
        words = "messageExpression must be non-empty if specified"
        yield field.required(path.child("messageExpression"), words)
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield field.not_supported(path.child("reason"), rule["reason"], _REASONS)
    below = rule.get("fieldPath", "")
    at = path.child("fieldPath")
    if below and not below.strip():
        yield field.invalid(at, below, "must be non-empty if specified")
    if _BREAKS.search(below):
        yield field.invalid(at, below, "must not contain line breaks")
    if below and isinstance(find_field(below, schema), str):
        yield field.invalid(at, below, "must be a valid path")
