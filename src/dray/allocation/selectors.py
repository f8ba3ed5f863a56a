"""The one place where allocation meets CEL: compiling expressions, and asking them about a device."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

from dray.allocation.attributes import Values
from dray.allocation.features import Features
from dray.allocation.identity import Document
from dray.api.semver import Version
from dray.cel import CompileError, EvaluationError, compiler
from dray.cel import devices as cel_devices
from dray.cel.devices import MAX_COST, Selector, compile, environment

Verdict = bool | EvaluationError
Visible = cel_devices.Device


class Expression:
    """A selector of a class or a claim. That it does not compile shows only when a device is held against it.

    Upstream finds out late as well: a broken selector is no error as long as no device reaches it.
    """

    __slots__ = ("_lists", "_reads", "_selector", "source")

    def __init__(self, source: str, selector: Selector | CompileError, *, lists: bool) -> None:
        self.source = source
        self._selector = selector
        self._lists = lists
        self._reads = selector.reads if isinstance(selector, Selector) else None

    def glance(self, driver: str, document: Document) -> Hashable | None:
        """All that the answer depends on, read straight from the device; None if that takes a closer look."""
        reads = self._reads
        if reads is None or not _plain(document, lists=self._lists):
            return None
        seen: list[Hashable] = [driver, document.get("allowMultipleAllocations")]
        for field, names, domains in (
            ("attributes", reads.attributes, reads.attribute_domains),
            ("capacity", reads.capacity, reads.capacity_domains),
        ):
            if not names and not domains:
                continue
            entries = document.get(field) or {}
            for domain, name in names:
                value = entries.get(f"{domain}/{name}")
                if domain == driver and name in entries:
                    if value is not None:
                        return None
                    value = entries[name]
                seen.append(_hashable(value))
            seen += (
                any((name.rpartition("/")[0] or driver) == domain for name in entries) for domain in domains
            )
        return tuple(seen)

    def ask(self, device: Visible) -> Verdict:
        """Whether the device is selected; raises CompileError if nobody can tell."""
        selector = self._selector
        if isinstance(selector, CompileError):
            raise selector
        try:
            # A device with an attribute that cannot be used fails even selectors that do not look at it.
            device.convert(lists=self._lists)
            return selector.matches(device)
        except EvaluationError as error:
            return error


def _hashable(entry: Document | None) -> Hashable:
    if entry is None:
        return None
    return tuple(
        (kind, tuple(value) if isinstance(value, list) else value)
        for kind, value in entry.items()
        if kind != "requestPolicy"
    )


def _plain(document: Document, *, lists: bool) -> bool:
    """Whether all attributes are obviously usable."""
    known = _WITH_LISTS if lists else _SCALARS
    for attribute in (document.get("attributes") or {}).values():
        if known.isdisjoint(attribute):
            try:
                Version.parse(attribute["version"])
            except (KeyError, ValueError):
                return False
    return True


_SCALARS = frozenset({"string", "int", "bool"})
_WITH_LISTS = _SCALARS | {"strings", "ints", "bools"}


class Derived:
    """An attribute that a request derives from others."""

    __slots__ = ("_lists", "_program")

    def __init__(self, source: str, *, lists: bool) -> None:
        declared = environment(list_attributes=lists, consumable_capacity=True, stored=True)
        self._program = compiler.program(compiler.check_text(source, declared), declared)
        self._lists = lists

    def of(self, device: Visible) -> Values:
        """Its values on a device, or EvaluationError."""
        seen = {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": device.attributes(lists=self._lists),
            "capacity": device.capacity,
        }
        value, _ = self._program.run({"device": seen}, MAX_COST)
        if isinstance(value, EvaluationError):
            raise value
        if isinstance(value, list):
            return frozenset(map(_typed, value)) if self._lists else frozenset()
        return frozenset((_typed(value),))


def _typed(value: Any) -> tuple[str, Any]:
    match value:
        case bool():
            return "bool", value
        case int():
            return "int", value
        case str():
            return "string", value
        case Version():
            return "version", str(value)
    raise EvaluationError(f"unsupported derived attribute type: {type(value).__name__}")


def expression(source: str, features: Features) -> Expression:
    return _compiled(source, features.list_attributes, features.consumable_capacity)


def derived(source: str, features: Features) -> Derived:
    """Raises CompileError if the expression has no meaning."""
    return _derived(source, features.list_attributes)


def visible(driver: str, document: Document) -> Visible:
    """What CEL sees of a device."""
    return Visible.of(driver, document)


@lru_cache(maxsize=8192)
def _compiled(source: str, list_attributes: bool, consumable_capacity: bool) -> Expression:
    selector: Selector | CompileError
    try:
        selector = compile(
            source, list_attributes=list_attributes, consumable_capacity=consumable_capacity, stored=True
        )
    except CompileError as error:
        selector = error
    return Expression(source, selector, lists=list_attributes)


@lru_cache(maxsize=1024)
def _derived(source: str, list_attributes: bool) -> Derived:
    return Derived(source, lists=list_attributes)
