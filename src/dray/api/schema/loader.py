"""Reads the ``.types`` files and answers what a type is, for all releases or for one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

from dray.api.release import OLDEST, Release, Span
from dray.api.schema.model import NO_DEFAULT, Emission, Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf

_SCALARS: Final = {
    "string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "float64": "float64",
    "quantity": "resource.Quantity", "intorstring": "intstr.IntOrString", "time": "v1.Time",
    "microtime": "v1.MicroTime", "duration": "v1.Duration", "bytes": "[]uint8", "raw": "runtime.RawExtension",
}  # fmt: skip
_EMISSIONS: Final[dict[str, Emission]] = {
    "required": "required",
    "always": "always",
    "value": "always",
    "omitempty": "omitempty",
    "omitzero": "omitzero",
}


class _Declaration(NamedTuple):
    flags: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]  # of a struct, each line split into words
    alias: tuple[str, ...] = ()  # what stands right of "="


def type_of(name: str, release: Release | None = None) -> Struct:
    """The struct with this name (``core/v1.Pod``), with the fields that ``release`` knew (None: all there ever were)."""
    found = _resolve_name(name, release)
    if not isinstance(found, Struct):
        raise KeyError(f"{name} is not a struct")
    return found


def known(name: str) -> bool:
    """Whether there is a type of this name."""
    package, _, short = name.rpartition(".")
    try:
        declared = _declarations(package)
    except FileNotFoundError:
        return False
    return short in declared or (short.endswith("List") and short[:-4] in declared)


def structs(package: str) -> list[str]:
    """The names of all structs of a package such as ``core/v1``, without synthesised lists."""
    return [f"{package}.{name}" for name, d in _declarations(package).items() if not d.alias]


def read_all() -> None:
    """Read every ``.types`` file, so that none has to be opened later, when there may be no file descriptor left."""
    for file in (resources.files("dray.api.schema") / "types").iterdir():
        if file.name.endswith(".types"):
            _text(file.name)


@cache
def _text(name: str) -> str:
    return (resources.files("dray.api.schema") / "types" / name).read_text(encoding="utf-8")


@cache
def _declarations(package: str) -> dict[str, _Declaration]:
    """What a ``.types`` file declares, by name."""
    found: dict[str, _Declaration] = {}
    head: list[str] = []
    members: list[tuple[str, ...]] = []

    def close() -> None:
        if head:
            found[head[0]] = _Declaration(tuple(head[1:]), tuple(members))

    for line in _text(f"{package.replace('/', '_')}.types").splitlines():
        words = line.partition(" #")[0].split()
        if not words:
            continue
        if line[0] == " ":
            members.append(tuple(words))
        elif words[1:2] == ["="]:
            found[words[0]] = _Declaration((), (), tuple(words[2:]))
        else:
            close()
            head, members = words, []
    close()
    return found


@cache
def _resolve_name(name: str, release: Release | None) -> Type:
    package, _, short = name.rpartition(".")
    declared = _declarations(package)
    version = package.partition("/")[2]
    go = f"{version}.{short}"
    if short not in declared and short.endswith("List") and short[:-4] in declared:
        return Struct(name, go, atomic=False, fields=lambda: _list_fields(name, release))
    declaration = declared[short]
    if declaration.alias:
        return _alias(declaration.alias, package, go, release)
    return Struct(
        name,
        go,
        atomic="struct=atomic" in declaration.flags,
        fields=lambda: tuple(_fields(declaration, package, release, (), ())),
    )


def _list_fields(name: str, release: Release | None) -> tuple[Field, ...]:
    item = _resolve_name(name.removesuffix("List"), release)
    meta = _resolve_name("meta/v1.TypeMeta", release)
    assert isinstance(meta, Struct)
    return (
        *meta.fields,
        Field("metadata", _resolve_name("meta/v1.ListMeta", release), "always", number=1),
        Field("items", ListOf(item, f"[]{_go(item)}"), "required", number=2),
    )


def _alias(words: tuple[str, ...], package: str, go: str, release: Release | None) -> Type:
    if "|" in words:
        return UnionOf(tuple(_resolve(w, package, release) for w in words if w != "|"), go)
    base = _resolve(words[0], package, release)
    flags = words[1:]
    if flags and flags[0].startswith("package="):
        go = f"{flags[0].removeprefix('package=')}.{go.rpartition('.')[2]}"
    enum = flags[1:] if flags and flags[0] == "enum" else ()
    match base:
        case Scalar():
            values = re.findall(r'"[^"]*"|\S+', " ".join(enum))  # a value with spaces stands in quotes
            return Scalar(base.base, go, tuple(v.strip('"') for v in values))
        case ListOf():
            return ListOf(base.item, go, wrapped="wrapped" in flags)
        case MapOf():
            return MapOf(base.value, go)
    return base


def _resolve(text: str, package: str, release: Release | None) -> Type:
    """The type a word of the notation stands for; a leading ``*`` has been dealt with unless it is inside."""
    if text.startswith("*"):
        return _resolve(text[1:], package, release)
    if text.startswith("[]"):
        item = _resolve(text[2:], package, release)
        return ListOf(item, "[]" + ("*" if text[2] == "*" else "") + _go(item))
    if text.startswith("map["):
        key, _, value_text = text[4:].partition("]")
        value = _resolve(value_text, package, release)
        return MapOf(value, f"map[{_go(_resolve(key, package, release))}]{_go(value)}")
    if text in _SCALARS:
        return Scalar(text, _SCALARS[text])
    return _resolve_name(_full(text, package), release)


def _full(text: str, package: str) -> str:
    return text if "/" in text else f"{package}.{text}"


def _go(type_: Type) -> str:
    return type_.go


def _fields(
    declaration: _Declaration,
    package: str,
    release: Release | None,
    via: tuple[str, ...],
    within: tuple[int, ...],
) -> Iterator[Field]:
    for words in declaration.members:
        options = dict(w.split("=", 1) for w in words[2:] if "=" in w)
        if release is not None and not _span(options).covers(release):
            continue
        name, text = words[0], words[1]
        if name == "inline":
            inner_package, _, inner = _full(text, package).rpartition(".")
            embedded = _declarations(inner_package)[inner]
            if embedded.alias:  # of a struct elsewhere
                inner_package, _, inner = _full(embedded.alias[0], inner_package).rpartition(".")
                embedded = _declarations(inner_package)[inner]
            yield from _fields(embedded, inner_package, release, (*via, inner), (*within, _number(words)))
            continue
        yield _field(name, text, words[2:], options, package, release, via, within)


def _span(options: dict[str, str]) -> Span:
    """The releases that have a field."""
    since, until = options.get("since"), options.get("until")
    return Span(Release.parse(since) if since else OLDEST, Release.parse(until) if until else None)


def _field(
    name: str,
    text: str,
    words: tuple[str, ...],
    options: dict[str, str],
    package: str,
    release: Release | None,
    via: tuple[str, ...],
    within: tuple[int, ...],
) -> Field:
    emit = _EMISSIONS[words[0]]
    if "before" in options:
        changed, _, former = options["before"].partition(":")
        if release is not None and not Span(Release.parse(changed)).covers(release):
            emit = _EMISSIONS[former]
    type_ = _resolve(text, package, release)
    pointer = text.startswith("*")
    if "until" in options and release is None:
        # Among all releases at once, a field of the past is accepted, but never written unless given.
        emit, pointer = "omitempty", pointer or isinstance(type_, Struct)
    strategies, _, rest = options.get("patch", "").partition(":")
    merge_key, _, more = rest.partition(",")
    patch = tuple(s for s in (*strategies.split(","), *more.split(",")) if s)
    list_type, _, keys = options.get("list", "").partition(":")
    sharing = options.get("map") or options.get("struct")
    atomic = sharing == "atomic" or (sharing is None and isinstance(type_, Struct) and type_.atomic)
    return Field(
        name,
        type_,
        emit,
        pointer=pointer,
        patch=patch,
        merge_key=merge_key,
        list_type=list_type,
        list_keys=tuple(k for k in keys.split(",") if k),
        atomic=atomic,
        granular=sharing == "granular",
        mandatory="mandatory" in words,
        default=_default(options),
        via=via,
        # What is embedded without a number (an object's type) is left out altogether.
        number=_number(words) if all(within) else 0,
        within=within,
    )


def _number(words: tuple[str, ...]) -> int:
    return next((int(word[1:]) for word in words if word[0] == "@"), 0)


def _default(options: dict[str, str]) -> Any:
    return json.loads(options["default"]) if "default" in options else NO_DEFAULT
