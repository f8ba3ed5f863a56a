"""The patches of mutating policies: an apply configuration that is merged, or a JSON patch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dray.api import schema
from dray.api.errors import BadRequest, StatusError
from dray.api.patch import jsonpatch, typed
from dray.api.patch.ownership import node_of
from dray.api.schema import Field, ListOf, MapOf, Struct, Type
from dray.api.scheme.kinds import Object
from dray.server.admission import internal_error
from dray.server.managedfields import typeconverter
from dray.server.storage.codec import Codec

if TYPE_CHECKING:
    from dray.cel.environment.mutation import JSONPatchValue, ObjectValue


class PatchError(Exception):
    """A mutation that cannot be applied."""


# -- apply configurations


def apply_configuration(codec: Codec, obj: Object, value: ObjectValue) -> Object:
    """The object, of the codec's version, with a configuration laid over it."""
    from dray.cel import EvaluationError
    from dray.cel.environment.mutation import check_type_names, to_json

    try:
        check_type_names(value)
        config = to_json(value)
    except (EvaluationError, ValueError) as e:
        raise PatchError(str(e)) from None
    config = {**config, "apiVersion": codec.api_version, "kind": codec.kind.kind}
    type_ = _type_of(codec)
    if type_ is None:
        return _merged_untyped(obj, config)
    if words := typed.problems(type_, config):
        raise PatchError(f"error applying patch: failed to convert patch object to typed object: {words}")
    if atomics := list(_atomics(type_, None, config, "")):
        raise PatchError(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            + ", ".join(atomics)
        )
    merged: Object = typed.merge(node_of(type_), obj, config)
    return merged


def _type_of(codec: Codec) -> Struct | None:
    """A custom resource's type comes from its own schema."""
    if codec.kind.custom and codec.version.schema:
        return typeconverter.type_of(codec.kind, codec.version)
    return codec.type


def _atomics(type_: Type, field: Field | None, value: Any, path: str) -> Iterator[str]:
    """The paths of what can only be replaced as a whole; an author who names a part of it would lose the rest."""
    whole = field is not None and field.atomic
    match type_:
        case Struct():
            if not isinstance(value, dict):
                return
            if whole or (type_.atomic and not (field is not None and field.granular)):
                yield path
            for name, part in value.items():
                if (inner := type_.by_name.get(name)) is not None:
                    yield from _atomics(inner.type, inner, part, f"{path}.{name}")
        case MapOf():
            if whole and isinstance(value, dict):
                yield path
        case ListOf():
            if not isinstance(value, list):
                return
            if field is None or field.list_type not in ("set", "map"):
                yield path
            for i, item in enumerate(value):
                yield from _atomics(type_.item, None, item, f"{path}[{i}]")


def _merged_untyped(obj: Object, config: Object) -> Object:
    """Objects without a schema: maps are merged, anything else is replaced."""
    merged = dict(obj)
    for key, value in config.items():
        was = merged.get(key)
        both = isinstance(was, dict) and isinstance(value, dict)
        merged[key] = _merged_untyped(was, value) if both else value  # type: ignore[arg-type]
    return merged


# -- JSON patches


def json_patch(codec: Codec, obj: Object, operations: list[JSONPatchValue]) -> Object:
    """The object with a patch applied; a test in the patch that fails leaves the object alone."""
    from dray.cel import EvaluationError

    try:
        documents = [operation.document() for operation in operations]
    except EvaluationError as e:
        raise PatchError(e.message) from None
    try:
        patched = jsonpatch.apply(obj, documents)
    except StatusError as e:
        if e.message.endswith(": test failed"):
            return obj
        raise PatchError(f"JSON Patch: {e.message}") from None
    _check_strictly(codec, patched)
    checked: Object = patched
    return checked


def _check_strictly(codec: Codec, patched: Any) -> None:
    """Upstream reads the outcome as strictly as can be, and takes a misfit for its own failure."""
    if codec.type is None:
        return
    try:
        problems = schema.decode(codec.type, patched, strict=True).problems
    except BadRequest as e:
        raise internal_error(e.message) from None
    if problems:
        raise internal_error(f"strict decoding error: {', '.join(problems)}")
