"""Selectors and derived attributes: CEL expressions compiled for allocation, and evaluated on devices."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from dray.allocation.attributes import Values
from dray.allocation.features import Features
from dray.api.semver import Version
from dray.cel import CompileError, EvaluationError, compiler
from dray.cel.environment import devices as cel_devices
from dray.cel.environment.devices import MAX_COST, Selector, compile, environment
from dray.cel.environment.reads import Reads

if TYPE_CHECKING:
    from dray.api.types import resource

Verdict = bool | EvaluationError
CELDevice = cel_devices.Device

_encode = msgspec.json.Encoder().encode


class Expression:
    """A selector of a class or a claim. One that does not compile is an error only when it is evaluated on a device.

    Upstream does the same: a broken selector is no error as long as no device reaches it.
    """

    __slots__ = ("_lists", "_selector", "fingerprint", "source")

    def __init__(self, source: str, selector: Selector | CompileError, *, lists: bool) -> None:
        self.source = source
        self._selector = selector
        self._lists = lists
        #: all that the verdict depends on, read straight from a device; None if only evaluation can tell
        self.fingerprint = Fingerprint([self], lists=lists)

    @property
    def reads(self) -> Reads | None:
        """What the expression reads by name; None if only evaluation can tell."""
        return self._selector.reads if isinstance(self._selector, Selector) else None

    @property
    def max_cost(self) -> int:
        """What one evaluation costs at most, as the estimator says."""
        return self._selector.max_cost if isinstance(self._selector, Selector) else 0

    def evaluate(self, device: CELDevice) -> Verdict:
        """Whether the device is selected; raises CompileError if the expression does not compile."""
        selector = self._selector
        if isinstance(selector, CompileError):
            raise selector
        try:
            # A device with an attribute that cannot be used fails even selectors that do not look at it.
            device.convert(lists=self._lists)
            return selector.matches(device)
        except EvaluationError as error:
            return error


class Fingerprint:
    """What expressions see of a device: called with its driver and document, equal where all of them must agree.

    None means that the expressions have to be evaluated on this device.
    """

    __slots__ = ("_attribute_domains", "_attributes", "_blind", "_capacity", "_capacity_domains", "_lists")

    def __init__(self, expressions: Iterable[Expression], *, lists: bool) -> None:
        reads = [expression.reads for expression in expressions]
        known = [one for one in reads if one is not None]
        self._lists = lists
        self._blind = len(known) < len(reads)
        self._attributes = _spellings(name for one in known for name in one.attributes)
        self._capacity = _spellings(name for one in known for name in one.capacity)
        self._attribute_domains = tuple({domain for one in known for domain in one.attribute_domains})
        self._capacity_domains = tuple({domain for one in known for domain in one.capacity_domains})

    def __call__(self, driver: str, document: resource.Device) -> Hashable | None:
        if self._blind or not _plain(document, lists=self._lists):
            return None
        seen: list[Any] = [driver, document.get("allowMultipleAllocations")]
        if self._attributes:
            entries = document.get("attributes") or {}
            for full, domain, name in self._attributes:
                value = entries.get(full)
                if domain == driver and name in entries:
                    if value is not None:
                        return None
                    value = entries[name]
                seen.append(value)
        if self._capacity:
            capacities = document.get("capacity") or {}
            for full, domain, name in self._capacity:
                capacity = capacities.get(full)
                if domain == driver and name in capacities:
                    if capacity is not None:
                        return None
                    capacity = capacities[name]
                seen.append(capacity and capacity.get("value"))
        if self._attribute_domains:
            there = {name.rpartition("/")[0] or driver for name in document.get("attributes") or ()}
            seen += (domain in there for domain in self._attribute_domains)
        if self._capacity_domains:
            there = {name.rpartition("/")[0] or driver for name in document.get("capacity") or ()}
            seen += (domain in there for domain in self._capacity_domains)
        return _encode(seen)


def _spellings(names: Iterable[tuple[str, str]]) -> tuple[tuple[str, str, str], ...]:
    return tuple((f"{domain}/{name}", domain, name) for domain, name in sorted(set(names)))


def _plain(document: resource.Device, *, lists: bool) -> bool:
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


class DerivedAttribute:
    """An attribute that a request derives from others."""

    __slots__ = ("_lists", "_program")

    def __init__(self, source: str, *, lists: bool) -> None:
        declared = environment(list_attributes=lists, consumable_capacity=True, stored=True)
        self._program = compiler.program(compiler.check_text(source, declared), declared)
        self._lists = lists

    def of(self, device: CELDevice) -> Values:
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


def derived_attribute(source: str, features: Features) -> DerivedAttribute:
    """Raises CompileError if the expression has no meaning."""
    return _derived(source, features.list_attributes)


def cel_device(driver: str, document: resource.Device) -> CELDevice:
    """What CEL sees of a device."""
    return CELDevice.of(driver, document)


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
def _derived(source: str, list_attributes: bool) -> DerivedAttribute:
    return DerivedAttribute(source, lists=list_attributes)
