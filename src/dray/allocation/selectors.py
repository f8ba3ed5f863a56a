"""Selectors and derived attributes: CEL expressions compiled for allocation, and evaluated on devices."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dray.allocation.attributes import Values
from dray.allocation.features import Features
from dray.api.semver import Version
from dray.api.textcache import cache_by_length
from dray.cel import CompileError, EvaluationError, compiler
from dray.cel.environment import devices as cel_devices
from dray.cel.environment.devices import EXPRESSIONS_KEPT, MAX_COST, Selector, compile, environment, size_hint
from dray.cel.environment.reads import Reads

if TYPE_CHECKING:
    from dray.api.types import resource
    from dray.cel.interpreter.planner import Program

Verdict = bool | EvaluationError
CELDevice = cel_devices.Device

_encode = msgspec.json.Encoder().encode


class Expression:
    """A selector of a class or a claim. One that does not compile is an error only when it is evaluated on a device.

    Upstream does the same: a broken selector is no error as long as no device reaches it. What was compiled takes a
    hundred times the memory of the text. It is kept in a cache of bounded size, not with the claims and verdicts that
    refer to the expression. An expression is compiled when something is first asked of it.
    """

    __slots__ = ("_consumable_capacity", "_fingerprint", "_lists", "_max_cost", "_reads", "source")

    def __init__(self, source: str, *, lists: bool, consumable_capacity: bool) -> None:
        self.source = source
        self._lists = lists
        self._consumable_capacity = consumable_capacity
        self._reads: Reads | None = None
        self._max_cost = 0
        self._fingerprint: Fingerprint | None = None  # until the expression is compiled

    @property
    def is_compiled(self) -> bool:
        return self._fingerprint is not None

    @property
    def fingerprint(self) -> Fingerprint:
        """All that the verdict depends on, read straight from a device; None if only evaluation can tell."""
        return self._fingerprint or self._compile()

    @property
    def reads(self) -> Reads | None:
        """What the expression reads by name; None if only evaluation can tell."""
        if self._fingerprint is None:
            self._compile()
        return self._reads

    @property
    def max_cost(self) -> int:
        """What one evaluation costs at most, as the estimator says."""
        if self._fingerprint is None:
            self._compile()
        return self._max_cost

    def _compile(self) -> Fingerprint:
        selector = _selector(self.source, self._lists, self._consumable_capacity)
        if isinstance(selector, Selector):
            self._reads, self._max_cost = selector.reads, selector.max_cost
        made = self._fingerprint = Fingerprint([self._reads], lists=self._lists)
        return made

    def evaluate(self, device: CELDevice) -> Verdict:
        """Whether the device is selected; raises CompileError if the expression does not compile."""
        selector = _selector(self.source, self._lists, self._consumable_capacity)
        if isinstance(selector, CompileError):
            raise selector
        try:
            # A device with an attribute that cannot be used fails even selectors that do not look at it.
            device.convert(lists=self._lists)
            return selector.matches(device)
        except EvaluationError as error:
            return error


class Fingerprint:
    """What expressions that read these things see of a device: called with its driver and document, equal where all of them must agree.

    None means that the expressions have to be evaluated on this device.
    """

    __slots__ = ("_attribute_domains", "_attributes", "_blind", "_capacity", "_capacity_domains", "_lists")

    def __init__(self, reads: Sequence[Reads | None], *, lists: bool) -> None:
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
    """An attribute that a request derives from others. It is compiled when it is first evaluated."""

    __slots__ = ("_lists", "_max_cost", "source")

    def __init__(self, source: str, *, lists: bool) -> None:
        self.source = source
        self._lists = lists
        self._max_cost: int | None = None

    @property
    def is_compiled(self) -> bool:
        return self._max_cost is not None

    @property
    def max_cost(self) -> int:
        if self._max_cost is None:
            _, self._max_cost = _derived_program(self.source, self._lists)
        return self._max_cost

    def of(self, device: CELDevice) -> Values:
        """Its values on a device, or EvaluationError, or CompileError if it has no meaning."""
        program, self._max_cost = _derived_program(self.source, self._lists)
        seen = {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": device.attributes(lists=self._lists),
            "capacity": device.capacity,
        }
        value, _ = program.run({"device": seen}, MAX_COST)
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
    return _expression(source, features.list_attributes, features.consumable_capacity)


def derived_attribute(source: str, features: Features) -> DerivedAttribute:
    return _derived(source, features.list_attributes)


def cel_device(driver: str, document: resource.Device) -> CELDevice:
    """What CEL sees of a device."""
    return CELDevice.of(driver, document)


@cache_by_length(EXPRESSIONS_KEPT)
def _expression(source: str, list_attributes: bool, consumable_capacity: bool) -> Expression:
    return Expression(source, lists=list_attributes, consumable_capacity=consumable_capacity)


@cache_by_length(EXPRESSIONS_KEPT)
def _selector(source: str, list_attributes: bool, consumable_capacity: bool) -> Selector | CompileError:
    try:
        return compile(
            source, list_attributes=list_attributes, consumable_capacity=consumable_capacity, stored=True
        )
    except CompileError as error:
        return error


@cache_by_length(1 << 17)
def _derived(source: str, list_attributes: bool) -> DerivedAttribute:
    return DerivedAttribute(source, lists=list_attributes)


@cache_by_length(1 << 17)
def _derived_program(source: str, list_attributes: bool) -> tuple[Program, int]:
    declared = environment(list_attributes=list_attributes, consumable_capacity=True, stored=True)
    checked = compiler.check_text(source, declared)
    return compiler.program(checked, declared), compiler.max_cost(checked, declared, hints=size_hint)
