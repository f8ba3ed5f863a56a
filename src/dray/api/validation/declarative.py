"""Rules of fields as data, as upstream's declarative validation has them, and the errors that it reports.

``check`` compares an object with the rules of its struct. On an update, a part that has not changed is not checked
again. Errors come in the order of the fields; a field that may not change at all is not checked any further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api.release import Gates
from dray.api.validation import field, names
from dray.api.validation.field import FieldError, Path

_SLASHES: Final = names.regex_message(
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character",
    "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    "MyName",
    "my.name",
    "123-abc",
)


def label_key(value: str) -> Sequence[str]:
    if value.count("/") > 1:
        return (f"{_SLASHES} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    return names.qualified_name(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What is asked of one field. ``gate``: the field is only looked at while this gate is on."""

    required: bool = False
    pointer: bool = False  # an empty text is not as good as none
    immutable: bool = False
    #: The field may be changed, but neither set nor cleared.
    kept: bool = False
    gate: str = ""
    check: Callable[[str], Sequence[str]] | None = None
    minimum: int | None = None
    maximum: int | None = None
    values: tuple[str, ...] = ()
    struct: Callable[[], Struct] | None = None  # of the field, or of the items of a list
    most: int | None = None  # items of a list
    key: str = ""  # of the items of a list that is a map
    fixed_items: bool = False  # items are neither added nor removed


@dataclass(frozen=True, kw_only=True, slots=True)
class Struct:
    """The rules of the fields of a struct, in its order, and the fields of which exactly one is set."""

    fields: Mapping[str, Rule]
    union: tuple[str, ...] = ()


def check(
    struct: Struct, new: Mapping[str, Any], old: Mapping[str, Any] | None, path: Path, gates: Gates
) -> list[FieldError]:
    """What is wrong with an object. ``old`` is None where it is new."""
    found = list(one_of(new, struct.union, path, old)) if struct.union else []
    for name, rule in struct.fields.items():
        if not rule.gate or rule.gate in gates:
            found += _check_field(rule, new.get(name), old, name, path.child(name), gates)
    return found


def one_of(
    new: Mapping[str, Any], members: tuple[str, ...], path: Path, old: Mapping[str, Any] | None = None
) -> Iterator[FieldError]:
    """Exactly one of the fields must be set."""
    chosen = [name for name in members if _is_set(new.get(name))]
    if len(chosen) == 1 or (
        old is not None and chosen == [name for name in members if _is_set(old.get(name))]
    ):
        return
    words = ", ".join(f"`{name}`" for name in members)
    if chosen:
        yield field.invalid(path, f"{{{', '.join(chosen)}}}", f"must specify exactly one of: {words}")
    else:
        yield field.invalid(path, "", f"must specify one of: {words}")


def _is_set(value: object) -> bool:
    return value is not None and value != []


def _check_field(
    rule: Rule, value: Any, parent: Mapping[str, Any] | None, name: str, path: Path, gates: Gates
) -> list[FieldError]:
    old = None if parent is None else parent.get(name)
    if parent is not None:
        if value == old or (value in (None, "", []) and old in (None, "", [])):
            return []
        if rule.immutable:
            return [field.invalid(path, None, "field is immutable")]
        if rule.kept and (value is None) != (old is None):
            words = "cleared once set" if value is None else "set once created"
            return [field.invalid(path, None, f"field cannot be {words}")]
    if value in (None, []) or (value == "" and not rule.pointer) or (value == 0 and rule.required):
        if rule.required:
            return [field.required(path)]
        return [*_check_items(rule, (), old, path, gates)] if rule.key and old else []
    if isinstance(value, list):
        return [*_check_items(rule, value, old, path, gates)]
    if isinstance(value, dict):
        return check(rule.struct(), value, old, path, gates) if rule.struct is not None else []
    return [*_check_scalar(rule, value, path)]


def _check_scalar(rule: Rule, value: Any, path: Path) -> Iterator[FieldError]:
    if rule.check is not None:
        yield from field.each_invalid(path, value, rule.check(value))
    if rule.minimum is not None and value < rule.minimum:
        yield field.invalid(path, value, f"must be greater than or equal to {rule.minimum}")
    if rule.maximum is not None and value > rule.maximum:
        yield field.invalid(path, value, f"must be less than or equal to {rule.maximum}")
    if rule.values and value not in rule.values:
        yield field.not_supported(path, value, sorted(rule.values))


def _check_items(
    rule: Rule, items: Sequence[Any], old: Sequence[Any] | None, path: Path, gates: Gates
) -> Iterator[FieldError]:
    if rule.most is not None and len(items) > rule.most:
        yield field.too_many(path, len(items), rule.most)
        return
    before = {item.get(rule.key, ""): item for item in old or ()} if rule.key else {}
    if rule.fixed_items and old is not None:
        for i, item in enumerate(items):
            if item.get(rule.key, "") not in before:
                yield field.forbidden(path.index(i), "item may not be added")
        gone = before.keys() - {item.get(rule.key, "") for item in items}
        yield from [field.forbidden(path, "item may not be removed")] * len(gone)
    seen = set()
    for i, item in enumerate(items):
        if rule.key and item.get(rule.key, "") in seen:
            yield field.duplicate(path.index(i), item)
        elif rule.key:
            seen.add(item.get(rule.key, ""))
    if rule.struct is None:
        return
    for i, item in enumerate(items):
        was = before.get(item.get(rule.key, "")) if rule.key else None
        if was is None or was != item:
            yield from check(rule.struct(), item, was, path.index(i), gates)
