"""A plugin for mypy: a key that a ``TypedDict`` does not have is an error wherever it is written down.

**Keys.** mypy itself reports a misspelt key in ``document["nmae"]``, ``pop`` and ``setdefault``, but takes
``document.get("nmae")`` and ``"nmae" in document`` for questions about keys that some subtype may have. The documents
of the API have the keys of their type and no others, so these questions are mistakes as well. With keys of a loop over
names, as in ``for name in ("spec", "status")``, ``get`` has the type of the values, as a subscript has it.

**Writing.** In ``client.create(PODS, namespace, {...})`` the resource says that the document is a Pod. mypy would look at
both before it decides, and take the display for a plain dict.

**Patches.** A patch has the fields of the document, but may have any of them alone, null where a field is to go, and keys
with a dollar for the server. So only the keys of a patch are checked, as far as it is written down in the call that sends
it or in ``Patch({...})``, whose context says of what it is a patch: ``def finished(pod: Pod) -> Patch[Pod]``.

**Tables.** The keys of a ``FieldTable[Pod]({...})`` are names of fields anywhere within a Pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mypy.nodes import ComparisonExpr, DictExpr, Expression, ListComprehension, ListExpr, StrExpr
from mypy.plugin import FunctionContext, MethodContext, MethodSigContext, Plugin
from mypy.plugins.common import try_getting_str_literals
from mypy.plugins.default import typed_dict_get_callback
from mypy.types import (
    AnyType,
    FunctionLike,
    Instance,
    LiteralType,
    TupleType,
    Type,
    TypedDictType,
    TypeOfAny,
    TypeVarType,
    UninhabitedType,
    UnionType,
    get_proper_type,
)

#: The methods that send a whole document of a resource.
WRITES: Final = frozenset(
    f"dray.client.client.Client.{verb}" for verb in ("create", "update", "update_status", "apply")
)
#: The methods that send some fields of it, and which of their arguments that is.
PATCHES: Final = frozenset(f"dray.client.client.Client.{verb}" for verb in ("patch", "patch_status"))
_PATCH: Final = 3
_FIELDS: Final = "dray.api.fields"
_ELEMENT_ORDER: Final = "$setElementOrder/"


class DocumentPlugin(Plugin):
    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        return _write if fullname in WRITES else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return {f"{_FIELDS}.Patch": _new_patch, f"{_FIELDS}.FieldTable": _new_table}.get(fullname)

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        if fullname in PATCHES:
            return _patch
        match fullname:
            case "typing.Mapping.get":
                return _get
            case "typing.Mapping.__contains__":
                return _contains
        return None


def _get(ctx: MethodContext) -> Type:
    document = ctx.type
    if not isinstance(document, TypedDictType) or not ctx.args[0]:
        return ctx.default_return_type
    key, key_type = ctx.args[0][0], _literal(ctx.arg_types[0][0])
    for name in try_getting_str_literals(key, key_type) or ():
        if name not in document.items:
            ctx.api.msg.typeddict_key_not_found(document, name, key)
    return typed_dict_get_callback(ctx._replace(arg_types=[[key_type], *ctx.arg_types[1:]]))


def _contains(ctx: MethodContext) -> Type:
    document = ctx.type
    if isinstance(document, TypedDictType):
        key = ctx.args[0][0]
        known = {name for option in _options(ctx, document) for name in option.items}
        unknown = set(try_getting_str_literals(key, _literal(ctx.arg_types[0][0])) or ()) - known
        # mypy discards errors about ``__contains__``: the right side may be something that is iterated over instead.
        watchers = ctx.api.msg.errors._watchers
        watcher = watchers.pop() if isinstance(ctx.context, ComparisonExpr) and watchers else None
        for name in sorted(unknown):
            ctx.api.msg.typeddict_key_not_found(document, name, key)
        if watcher is not None:
            watchers.append(watcher)
    return ctx.default_return_type


def _write(ctx: MethodSigContext) -> FunctionLike:
    signature = ctx.default_signature
    document = _document_of(ctx.api.get_expression_type(ctx.args[0][0])) if ctx.args[0] else None
    if not signature.variables or document is None:
        return signature
    return signature.copy_modified(
        arg_types=[
            document if isinstance(get_proper_type(type_), TypeVarType) else type_
            for type_ in signature.arg_types
        ]
    )


def _document_of(resource: Type) -> Type | None:
    """What the objects of a resource are."""
    known = get_proper_type(resource)
    known = known.partial_fallback if isinstance(known, TupleType) else known
    return known.args[0] if isinstance(known, Instance) and len(known.args) == 1 else None


def _patch(ctx: MethodContext) -> Type:
    document = _document_of(ctx.arg_types[0][0]) if ctx.arg_types[0] else None
    if document is not None and ctx.args[_PATCH]:
        _check_patch(ctx, document, ctx.args[_PATCH][0])
    return ctx.default_return_type


def _new_patch(ctx: FunctionContext) -> Type:
    if ctx.args[0]:
        _check_patch(ctx, _stated(ctx), ctx.args[0][0])
    return ctx.default_return_type


def _new_table(ctx: FunctionContext) -> Type:
    if ctx.args[0] and isinstance(table := ctx.args[0][0], DictExpr):
        names: set[str] = set()
        structs: list[TypedDictType] = []
        _walk(_stated(ctx), names, structs)
        for key, _ in table.items:
            if isinstance(key, StrExpr) and key.value not in names and structs:
                ctx.api.msg.typeddict_key_not_found(structs[0], key.value, key)
    return ctx.default_return_type


def _stated(ctx: FunctionContext) -> Type:
    """Of what something is a patch or a table. Without it nothing could be checked, which is an error as well: where a
    ``return`` has errors, mypy tries again as if the function's type were not known."""
    document = get_proper_type(_document_of(ctx.default_return_type) or AnyType(TypeOfAny.unannotated))
    if isinstance(document, UninhabitedType | AnyType):
        ctx.api.fail("The context does not say of what document", ctx.context)
    return document


def _walk(type_: Type, names: set[str], structs: list[TypedDictType]) -> None:
    """Collect the structs within a type, and the names of their fields."""
    known = get_proper_type(type_)
    match known:
        case TypedDictType() if known not in structs:
            structs.append(known)
            names.update(known.items)
            for item in known.items.values():
                _walk(item, names, structs)
        case Instance():
            for argument in known.args:
                _walk(argument, names, structs)
        case UnionType():
            for item in known.items:
                _walk(item, names, structs)


def _check_patch(ctx: FunctionContext | MethodContext, type_: Type, patch: Expression) -> None:
    known = get_proper_type(type_)
    known = get_proper_type(known.upper_bound) if isinstance(known, TypeVarType) else known
    match patch:
        case DictExpr(items=items) if isinstance(known, TypedDictType):
            for key, value in items:
                name = key.value.removeprefix(_ELEMENT_ORDER) if isinstance(key, StrExpr) else "$"
                if name.startswith("$"):
                    continue
                if name in known.items:
                    _check_patch(ctx, known.items[name], value)
                else:
                    ctx.api.msg.typeddict_key_not_found(known, name, key)
        case DictExpr(items=items) if isinstance(known, Instance) and len(known.args) == 2:
            for _, value in items:
                _check_patch(ctx, known.args[1], value)
        case ListExpr(items=elements) if isinstance(known, Instance) and len(known.args) == 1:
            for element in elements:
                _check_patch(ctx, known.args[0], element)
        case ListComprehension() if isinstance(known, Instance) and len(known.args) == 1:
            _check_patch(ctx, known.args[0], patch.generator.left_expr)


def _options(ctx: MethodContext, document: TypedDictType) -> Iterable[TypedDictType]:
    """All that the right side of ``in`` may be: a key tells the members of a union apart."""
    if isinstance(ctx.context, ComparisonExpr):
        for right in ctx.context.operands[1:]:
            type_ = get_proper_type(ctx.api.get_expression_type(right))
            if isinstance(type_, UnionType):
                options = [get_proper_type(item) for item in type_.relevant_items()]
                if document in options:
                    return [option for option in options if isinstance(option, TypedDictType)]
    return [document]


def _literal(type_: Type) -> Type:
    """The type of a loop's variable as the literals that it stands for, where mypy still knows them."""
    known = get_proper_type(type_)
    if isinstance(known, UnionType):
        return UnionType([_literal(item) for item in known.items])
    if isinstance(known, Instance) and isinstance(known.last_known_value, LiteralType):
        return known.last_known_value
    return type_


def plugin(version: str) -> type[Plugin]:
    return DocumentPlugin
