"""Checks that several kinds share: names, qualified names, sets, opaque data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dray.api.golang import structs
from dray.api.groups.resource import limits
from dray.api.release import Release
from dray.api.textcache import cache_texts
from dray.api.validation import field, names
from dray.api.validation.field import FieldError, Path
from dray.api.validation.names import size


class Errors(list[FieldError]):
    """What was found. ``declared``: by a release that declares some of the rules in its types.

    Such a release reports what breaks a declared rule after everything else.
    """

    __slots__ = ("_late", "declared")

    def __init__(self, found: Iterable[FieldError] = (), *, declared: bool = False) -> None:
        super().__init__(found)
        self.declared = declared
        self._late: list[FieldError] = []

    def declare(self, found: Iterable[FieldError]) -> None:
        (self._late if self.declared else self).extend(found)

    def all(self) -> list[FieldError]:
        return [*self, *self._late] if self._late else self


_is_label = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_is_subdomain = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*").fullmatch
_is_identifier = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_is_label_name = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?").fullmatch
_encode = msgspec.json.Encoder().encode


def refuse(errs: Errors, path: Path, value: Any, problems: Iterable[str]) -> None:
    errs.extend(field.invalid(path, value, problem) for problem in problems)


def label(value: str, path: Path, child: str, errs: Errors) -> None:
    """A DNS label: devices, requests, counter sets."""
    if not _is_label(value):
        refuse(errs, path.child(child) if child else path, value, names.dns1123_label(value))


def subdomain(value: str, path: Path, errs: Errors) -> None:
    if not _is_subdomain(value) or len(value) > 253:
        refuse(errs, path, value, names.dns1123_subdomain(value))


def label_key(value: str, path: Path, errs: Errors) -> None:
    if not _is_label_name(value):
        refuse(errs, path, value, names.qualified_name(value))


def label_value(value: str, path: Path, errs: Errors) -> None:
    if value and not _is_label_name(value):
        refuse(errs, path, value, names.label_value(value))


def driver_name(value: str, path: Path, errs: Errors) -> None:
    """A driver's name; upper case is tolerated for historical reasons."""
    if len(value) <= limits.DRIVER_NAME and is_driver_name(value):
        return
    if not value:
        errs.append(field.required(path))
        return
    if size(value) > limits.DRIVER_NAME:
        errs.append(field.too_long(path, limits.DRIVER_NAME))
    if errs.declared:
        refuse(errs, path, value, names.dns1123_subdomain_caseless(value))
    elif not _is_subdomain(lower := value.lower()) or len(lower) > 253:
        refuse(errs, path, value, names.dns1123_subdomain(lower))


@cache_texts(1024)
def is_driver_name(value: str) -> bool:
    """Whether the name of a driver is fine. Few names stand in many slices and allocations, hence the cache."""
    return size(value) <= limits.DRIVER_NAME and _is_subdomain(value.lower()) is not None


def pool_name(value: str, path: Path, errs: Errors) -> None:
    """One or more subdomains separated by slashes."""
    if _is_subdomain(value) and len(value) <= limits.POOL_NAME:
        return
    if not value:
        errs.append(field.required(path))
        return
    if size(value) > limits.POOL_NAME:
        errs.append(field.too_long(path, limits.POOL_NAME))
    for i, part in enumerate(value.split("/")):
        if not errs.declared:
            subdomain(part, path, errs)
        elif not _is_subdomain(part) or len(part) > 253:
            problems = names.dns1123_subdomain(part) if part else ("must not be empty",)
            refuse(errs, path, part, [f"segment {i}: {words}" for words in problems])


def node_name(value: str, path: Path, errs: Errors) -> None:
    subdomain(value, path, errs)


def identifier(value: str, path: Path, errs: Errors) -> None:
    if size(value) > limits.IDENTIFIER:
        errs.append(field.too_long(path, limits.IDENTIFIER))
    if not _is_identifier(value):
        refuse(errs, path, value, names.c_identifier(value))


def qualified_name(value: str, path: Path, errs: Errors) -> None:
    """``name`` or ``domain/name``. More slashes pass unchecked, as upstream lets them."""
    domain, slash, name = value.partition("/")
    if not slash:
        identifier(value, path, errs)
        return
    if "/" in name:
        return
    if domain:
        found = Errors()
        driver_name(domain, path, found)
        errs += found
    else:
        errs.append(field.invalid(path, "", "the domain must not be empty"))
    if name:
        identifier(name, path, errs)
    else:
        errs.append(field.invalid(path, "", "the name must not be empty"))


@cache_texts(4096)
def is_qualified_name(value: str) -> bool:
    """Whether a qualified name is fine. Devices of a driver share theirs, hence the cache."""
    errs = Errors()
    qualified_name(value, Path(""), errs)
    return not errs


def fully_qualified_name(value: str, path: Path, errs: Errors) -> None:
    found = Errors()
    domain, slash, _ = value.partition("/")
    if errs.declared and domain and slash and not _is_subdomain(domain):
        refuse(found, path, domain, [f"prefix: {words}" for words in names.dns1123_subdomain(domain)])
        value = f"valid/{value.partition('/')[2]}"
    qualified_name(value, path, found)
    if "/" not in value:
        problem = "a fully qualified name must be a domain and a name separated by a slash"
        found.append(field.invalid(path, value, problem))
    errs.declare(found)


def short_key(key: str, limit: int) -> str:
    """A map key for a path; very long ones are cut in the middle."""
    limit = max(limit, 16)
    if size(key) <= limit:
        return key
    room = limit - 3
    raw = key.encode()
    start, end = raw[: (room + 1) // 2], raw[len(raw) - room // 2 :]
    return f"{start.decode(errors='replace')}...{end.decode(errors='replace')}"


#: Keys of attributes and capacities are shown up to the length a valid one can have.
QUALIFIED_KEY: Final = limits.DOMAIN + 1 + limits.IDENTIFIER


def within(items: Sequence[Any], limit: int, path: Path, child: str, errs: Errors) -> bool:
    """Report a list that is too long; its items are then not looked at."""
    if len(items) <= limit:
        return True
    errs.append(field.too_many(path.child(child), len(items), limit))
    return False


def unique(
    keys: Iterable[Any], path: Path, child: str, errs: Errors, shown: Callable[[Any], Any] | None = None
) -> None:
    """Report every key that was seen before."""
    seen = set()
    for i, key in enumerate(keys):
        if key in seen:
            errs.append(field.duplicate(path.child(child).index(i), shown(key) if shown else key))
        seen.add(key)


def raw_object(value: Any, path: Path, limit: int, errs: Errors) -> None:
    """Opaque data must be a JSON object of limited size."""
    if value is None:
        errs.append(field.required(path))
    elif len(_encode(value)) > limit:
        errs.append(field.too_long(path, limit))
    elif not isinstance(value, dict):
        errs.append(field.invalid(path, "<value omitted>", "must be a valid JSON object"))


_UUID_DASHES: Final = (8, 13, 18, 23)
_HEX: Final = frozenset("0123456789abcdefABCDEF")


def uid(value: str, path: Path, errs: Errors) -> None:
    problem = _uuid_problem(value)
    if errs.declared:
        if problem or len(value) != 36 or value != value.lower():
            errs.append(field.invalid(path, value, "must be a lowercase UUID in 8-4-4-4-12 format"))
    elif problem:
        errs.append(field.invalid(path, value, f"error validating uid: {problem}"))
    elif len(value) != 36 or value != value.lower():
        words = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
        errs.append(field.invalid(path, value, f"uid must be in RFC 4122 normalized form, {words}"))


def _uuid_problem(value: str) -> str:
    length = size(value)
    if length == 45:
        if value[:9].lower() != "urn:uuid:":
            return f"invalid urn prefix: {field.quote(value[:9])}"
        value = value[9:]
    elif length == 38:
        if value[0] != "{" or value[-1] != "}":
            return "invalid bracketed UUID format"
        value = value[1:-1]
    elif length == 32:
        return "" if set(value) <= _HEX else "invalid UUID format"
    elif length != 36:
        return f"invalid UUID length: {length}"
    if any(value[i] != "-" for i in _UUID_DASHES):
        return "invalid UUID format"
    return "" if set(value.replace("-", "")) <= _HEX and value.count("-") == 4 else "invalid UUID format"


def equal(new: Any, old: Any) -> bool:
    """Whether two values mean the same: nothing, null and an empty list do."""
    if new == old:
        return True
    if isinstance(new, dict) and isinstance(old, dict):
        return all(equal(new.get(key), old.get(key)) for key in new.keys() | old.keys())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(equal, new, old))
    return new in (None, []) and old in (None, [])


def immutable(
    new: Any, old: Any, path: Path, errs: Errors, *, type_: str = "", release: Release | None = None
) -> None:
    """Report a change; of a value with a ``type_`` upstream prints its internal struct."""
    if not equal(new, old):
        shown = structs.render(type_, new, release) if type_ else new
        errs.append(field.invalid(path, shown, "field is immutable"))


def fixed(
    new: Any, old: Any, path: Path, errs: Errors, *, type_: str = "", release: Release | None = None
) -> None:
    """Like ``immutable``, of a part that later releases declare immutable: they do not show it."""
    if not errs.declared:
        immutable(new, old, path, errs, type_=type_, release=release)
    elif not equal(new, old):
        errs.append(field.invalid(path, None, "field is immutable"))


def unique_items(
    items: Sequence[Mapping[str, Any]], key: Callable[[Any], Any], path: Path, child: str, errs: Errors
) -> None:
    """Report every item whose key was seen before: the item where the rule is declared, otherwise its key."""
    seen = set()
    for i, item in enumerate(items):
        own = key(item)
        if own in seen:
            errs.declare([field.duplicate(path.child(child).index(i), item if errs.declared else own)])
        seen.add(own)
