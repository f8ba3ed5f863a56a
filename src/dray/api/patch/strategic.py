"""Strategic merge patch: a merge patch that knows, from the schema, which lists are merged and by which key.

Directives inside the patch say the rest: ``$patch`` (replace or delete), ``$retainKeys``,
``$deleteFromPrimitiveList/<field>`` and ``$setElementOrder/<field>``. Neither document is changed.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from dray.api.errors import BadRequest, StatusError
from dray.api.golang.fmt import show, type_name
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_ORDER: Final = "$setElementOrder"

_BAD_PRIMITIVES: Final = "invalid patch format of primitive list"
_BAD_RETAIN: Final = "invalid patch format of retainKeys"
_BAD_ORDER: Final = "invalid patch format of setElementOrder list"

Map = dict[str, Any]


def apply(type_: Struct, document: Map, patch: Map) -> Map:
    """The merged document. Errors are upstream's, in kind too: some malformed patches are a plain 500 there."""
    return _merge_map(document, patch, type_)


def _internal(words: str) -> StatusError:
    return StatusError(words, code=500, reason="")


def _merge_map(original: Map, patch: Map, type_: Type) -> Map:
    if _PATCH in patch:
        match patch[_PATCH]:
            case "replace":
                return {k: v for k, v in patch.items() if k != _PATCH}
            case "delete":
                return {}
        raise _bad_directive(patch)
    merged = dict(original)
    patch = dict(patch)
    if _RETAIN in patch:
        _retain_keys(merged, patch)
    _merge_ordered_lists(merged, patch, type_)
    for key, value in patch.items():
        deleting = key.startswith(_DELETE_FROM)
        name = _plain_key(key, _BAD_PRIMITIVES) if deleting else key
        if value is None:
            merged.pop(name, None)
        elif deleting:
            if isinstance(merged.get(name), list) and isinstance(value, list):
                merged[name] = _merge_list(merged[name], value, type_, name, deleting=True)
        elif name in merged and _same_shape(merged[name], value):
            _merge_member(merged, name, value, type_)
        else:
            _set(merged, name, _without_nulls(value))
    return merged


def _merge_member(merged: Map, name: str, value: Any, type_: Type) -> None:
    """Merge a value into a member of the same shape."""
    if isinstance(value, dict):
        field = _field(type_, name)
        if "replace" in field.patch:
            merged[name] = value
        else:
            merged[name] = _merge_map(merged[name], value, field.type)
    elif isinstance(value, list):
        merged[name] = _merge_list(merged[name], value, type_, name, deleting=False)
    else:
        _set(merged, name, value)


def _set(merged: Map, name: str, value: Any) -> None:
    """Take a value over from the patch, unless it is only a directive."""
    kept, value = _without_directives(value)
    if kept:
        merged[name] = value
    else:
        merged.pop(name, None)


def _same_shape(one: Any, other: Any) -> bool:
    return type(one) is type(other) or _shape(one) == _shape(other)


def _shape(value: Any) -> str:
    return type_name(value)


def _field(type_: Type, name: str) -> Field:
    match type_:
        case Struct():
            if (field := type_.by_name.get(name)) is not None:
                return field
            struct = type_.short
        case Scalar(base="raw"):
            struct = "RawExtension"
        case _:
            kind = "map" if isinstance(type_, MapOf) else "slice" if isinstance(type_, ListOf) else "string"
            words = f"merging an object in json but data type is not struct, instead is: {kind}"
            raise _internal(words)
    raise _internal(f'unable to find api field in struct {struct} for the json field "{name}"')


def _list_field(type_: Type, name: str) -> tuple[Field, Type]:
    field = _field(type_, name)
    if not isinstance(field.type, ListOf):
        raise _internal("expected slice or array type, but got: struct")
    return field, field.type.item


def _merge_list(
    original: list[Any], patch: list[Any], type_: Type, name: str, *, deleting: bool
) -> list[Any]:
    field, item = _list_field(type_, name)
    if "merge" not in field.patch and not deleting:
        return patch
    if not original and not patch:
        return original
    if not _holds_maps(original, patch):
        if deleting:
            removed = {_identity(v, "") for v in patch}
            return [v for v in original if _identity(v, "") not in removed]
        return _ordered(list(dict.fromkeys([*original, *patch])), patch, original, "")
    key = field.merge_key
    if not key:
        raise _internal("cannot merge lists without merge key for struct")
    original, patch = _apply_item_directives(original, patch, key)
    merged = list(original)
    positions: dict[Any, int] = {}
    for i, value in enumerate(merged):
        if key in value:
            positions.setdefault(_identity(value, key), i)
    for value in patch:
        if key not in value:
            raise _no_merge_key(value, key)
        at = positions.setdefault(_identity(value, key), len(merged))
        if at == len(merged):
            merged.append(value)
        else:
            merged[at] = _merge_map(merged[at], value, item)
    return _ordered(merged, patch, original, key)


def _apply_item_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carry out the ``$patch`` of single items; returns what is left of both lists."""
    rest: list[Any] = []
    removed: set[Any] = set()
    replace = False
    for value in patch:
        if _PATCH not in value:
            rest.append(value)
            continue
        match value[_PATCH]:
            case "delete":
                if key not in value:
                    raise _no_merge_key(value, key)
                removed.add(_identity(value, key))
            case "replace":
                replace = True
            case "merge":
                raise _internal("merging lists cannot yet be specified in the patch")
            case _:
                raise _bad_directive(value)
    if replace:
        return rest, []
    return [v for v in original if key not in v or _identity(v, key) not in removed], rest


def _ordered(merged: list[Any], patch_order: list[Any], live_order: list[Any], key: str) -> list[Any]:
    """Items of the patch in the patch's order, the others woven in where the live list had them."""
    ranks = {name: _ranks(order, key) for name, order in (("patch", patch_order), ("live", live_order))}
    in_patch: list[Any] = []
    not_in_patch: list[Any] = []
    for value in merged:
        if key and key not in value:
            raise _no_merge_key(value, key)
        (in_patch if _identity(value, key) in ranks["patch"] else not_in_patch).append(value)
    patched = deque(sorted(in_patch, key=lambda v: ranks["patch"][_identity(v, key)]))
    others = deque(sorted(not_in_patch, key=lambda v: ranks["live"].get(_identity(v, key), -1)))
    woven: list[Any] = []
    live = ranks["live"]
    while patched and others:
        left, right = live.get(_identity(others[0], key)), live.get(_identity(patched[0], key))
        first = others if left is not None and right is not None and left < right else patched
        woven.append(first.popleft())
    return [*woven, *patched, *others]


def _ranks(order: list[Any], key: str) -> dict[Any, int]:
    ranks: dict[Any, int] = {}
    for i, value in enumerate(order):
        if key and not isinstance(value, dict):
            raise _internal(f"value for key {i} is not a map")
        if key and key not in value:
            raise _no_merge_key(value, key)
        ranks.setdefault(_identity(value, key), i)
    return ranks


def _identity(value: Any, key: str) -> Any:
    found = value[key] if key else value
    return (type(found), found) if not isinstance(found, dict | list) else (dict, show(found))


def _holds_maps(*lists: list[Any]) -> bool:
    """Whether the items are objects; all must be of one type, and lists of lists cannot be merged."""
    shapes = {_shape(value) for items in lists for value in items}
    if "[]interface {}" in shapes:
        raise StatusError("lists of lists are not supported", code=422, reason="")
    if len(shapes) > 1:
        raise _internal(f"list element types are not identical: {show(list(lists))}")
    return "map[string]interface {}" in shapes


def _retain_keys(original: Map, patch: Map) -> None:
    """Keep of the original only what ``$retainKeys`` lists, which must hold all that the patch sets."""
    retained = patch.pop(_RETAIN)
    if not isinstance(retained, list):
        raise BadRequest(_BAD_RETAIN)
    names = {key for key in retained if isinstance(key, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _ORDER)) and key not in names:
            raise BadRequest(_BAD_RETAIN)
    for key in [k for k in original if k not in names]:
        del original[key]


def _merge_ordered_lists(original: Map, patch: Map, type_: Type) -> None:
    """Merge the lists for which the patch gives an order; what is done is taken out of the patch."""
    for directive in [k for k in patch if k.startswith(_ORDER)]:
        order = patch.pop(directive)
        if not isinstance(order, list):
            raise _bad_type([], order)
        name = _plain_key(directive, _BAD_ORDER)
        for value in (original.get(name), patch.get(name)):
            if value is not None and not isinstance(value, list):
                raise _bad_type([], value)
        field, _ = _list_field(type_, name)
        key = field.merge_key
        live, given = original.get(name), patch.get(name)
        _check_order(given or [], order, key)
        if live is None and given is None:
            continue
        if given is None:
            merged = live or []
        elif live is None:
            merged = _without_directives(given)[1]
        else:
            merged = _merge_list(live, given, type_, name, deleting=False)
        patch.pop(name, None)
        if not live and not given:
            raise _internal("no elements in any of the given slices")
        _holds_maps(live or [], given or [])
        original[name] = _ordered(merged, order, live or [], key)


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """What the patch sets must appear in the given order, in the same sequence."""
    if not patch or not order:
        return
    for value in (*patch, *order) if key else ():
        if not isinstance(value, dict):
            raise _bad_type({}, value)
    left = deque(v for v in patch if not (isinstance(v, dict) and _PATCH in v))
    for entry in order:
        if not left:
            return
        if key and (lacking := next((v for v in (left[0], entry) if key not in v), None)) is not None:
            raise _no_merge_key(lacking, key)
        if _identity(left[0], key) == _identity(entry, key):
            left.popleft()
    if left:
        raise _internal(
            f"The order in patch list:\n{show(patch)}\n doesn't match {_ORDER} list:\n{show(order)}\n"
        )


def _plain_key(directive: str, words: str) -> str:
    prefix, slash, name = directive.partition("/")
    if not slash or prefix not in (_DELETE_FROM, _ORDER):
        raise BadRequest(words)
    return name


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value


def _without_directives(value: Any) -> tuple[bool, Any]:
    """A new part of the document without the objects that hold a ``$patch``, and whether anything is left."""
    if isinstance(value, dict):
        if _PATCH in value:
            return False, None
        members = {k: _without_directives(v) for k, v in value.items()}
        return True, {k: v for k, (kept, v) in members.items() if kept}
    if isinstance(value, list):
        return True, [v for kept, v in map(_without_directives, value) if kept]
    return True, value


def _no_merge_key(value: Map, key: str) -> StatusError:
    return _internal(f"map: {show(value)} does not contain declared merge key: {key}")


def _bad_directive(patch: Map) -> StatusError:
    return _internal(f"unknown patch type: {show(patch[_PATCH])} in map: {show(patch)}")


def _bad_type(expected: Any, actual: Any) -> StatusError:
    return _internal(f"expected a {type_name(expected)}, but received a {type_name(actual)}")
