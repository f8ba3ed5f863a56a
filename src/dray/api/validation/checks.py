"""Checks of single fields that kinds of many groups share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.validation import field, names, objectmeta
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.meta import LabelSelector

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def each(value: Any, path: Path, messages: Iterable[str]) -> list[FieldError]:
    """One error for each thing that a name check has to say."""
    return field.each_invalid(path, value, messages)


def dns_label(value: str, path: Path) -> list[FieldError]:
    return each(value, path, names.dns1123_label(value))


def dns_subdomain(value: str, path: Path) -> list[FieldError]:
    return each(value, path, names.dns1123_subdomain(value))


def qualified_name(value: str, path: Path) -> list[FieldError]:
    return each(value, path, names.qualified_name(value))


def config_map_key(value: str, path: Path) -> list[FieldError]:
    return each(value, path, names.config_map_key(value))


def domain_prefixed_path(value: str, path: Path) -> list[FieldError]:
    """``example.com/some/path``."""
    domain, slash, rest = value.partition("/")
    if not value:
        return [field.required(path)]
    if not slash or not domain or not rest:
        return [field.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    found = each(domain, path, names.dns1123_subdomain(domain))
    return found + each(rest, path, names.http_path(rest))


def one_of(value: str, path: Path, allowed: Sequence[str], *, needed: bool = True) -> list[FieldError]:
    if value in allowed:
        return []
    if not value:
        return [field.required(path)] if needed else []
    return [field.not_supported(path, value, allowed)]


def not_negative(value: int | None, path: Path) -> list[FieldError]:
    return [field.invalid(path, value, NOT_NEGATIVE)] if value is not None and value < 0 else []


def port(value: int, path: Path) -> list[FieldError]:
    return [] if 1 <= value <= 65535 else [field.invalid(path, value, PORT_RANGE)]


def port_or_name(value: int | str, path: Path) -> list[FieldError]:
    if isinstance(value, int):
        return port(value, path)
    return each(value, path, names.port_name(value))


def unique(
    items: Iterable[Mapping[str, Any]], path: Path, key: str, check: Callable[[str, Path], list[FieldError]]
) -> list[FieldError]:
    """Each item's key is given, well-formed and used only once."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, item in enumerate(items):
        value, at = item.get(key, ""), path.index(i).child(key)
        found += check(value, at) if value else [field.required(at)]
        if value in seen:
            found.append(field.duplicate(at, value))
        seen.add(value)
    return found


def labels(pairs: Mapping[str, str] | None, path: Path) -> list[FieldError]:
    return objectmeta.validate_labels(pairs, path) if pairs else []


def label_selector(selector: LabelSelector | None, path: Path) -> list[FieldError]:
    return objectmeta.validate_label_selector(selector, path) if selector else []
