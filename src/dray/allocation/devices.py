"""Devices as the allocator sees them.

Many devices of a slice look the same. What selectors, constraints and capacity can see of a device is its *shape*;
devices with the same shape share it, and a selector is evaluated once for each shape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from dray.allocation.attributes import Values, lookup_attribute
from dray.allocation.node_selection import NodeSelection
from dray.allocation.selectors import CELDevice, DerivedAttribute, Expression, Verdict, cel_device
from dray.api.identity import DeviceID, PoolID
from dray.api.quantity import Quantity
from dray.cel import CompileError, EvaluationError

if TYPE_CHECKING:
    from dray.api.types import resource

_encode = msgspec.json.Encoder().encode
_NOTHING: Mapping[str, Any] = {}
_VERDICTS_KEPT = 256
_FINGERPRINTS_KEPT = 65536
#: An evaluation that may cost more, in CEL's units, may take longer than a few milliseconds.
_CHEAP = 5_000
#: A longer expression takes more than a few milliseconds to compile.
_SHORT = 1024


class EvaluationPending(Exception):
    """A verdict is needed that nobody has worked out, and that may take longer than there is time for.

    ``settle`` works it out, in any thread; after that whoever needed it starts anew and gets further.
    """

    def __init__(self, evaluate: Callable[[], object]) -> None:
        super().__init__("a verdict is pending")
        self._evaluate = evaluate

    def settle(self) -> float:
        """Returns the seconds that it took."""
        began = time.perf_counter()
        with suppress(CompileError, EvaluationError):  # reported when the verdict is asked for
            self._evaluate()
        return time.perf_counter() - began


class Evaluations:
    """Verdicts by what selectors see of a shape, and the time that new evaluations may take."""

    __slots__ = ("known", "seconds_left")

    def __init__(self) -> None:
        self.known: dict[Any, Verdict] = {}
        #: while set, evaluations that do not fit into it raise EvaluationPending
        self.seconds_left: float | None = None

    def evaluate(self, shape: Shape, expression: Expression, *, pressed: bool) -> Verdict:
        if self.seconds_left is None or not pressed:
            return expression.evaluate(_cel_device(shape))
        self._check(expression, partial(shape.verdict, expression, pressed=False))
        began = time.perf_counter()
        try:
            return expression.evaluate(_cel_device(shape))
        finally:
            self.seconds_left -= time.perf_counter() - began

    def derive(self, shape: Shape, attribute: DerivedAttribute, *, pressed: bool) -> Values:
        if self.seconds_left is None or not pressed:
            return attribute.of(_cel_device(shape))
        self._check(attribute, partial(shape.derive, attribute, pressed=False))
        began = time.perf_counter()
        try:
            return attribute.of(_cel_device(shape))
        finally:
            self.seconds_left -= time.perf_counter() - began

    def check_compiled(self, shape: Shape, expression: Expression, *, pressed: bool) -> None:
        """Compile an expression for which there is time, or raise."""
        if self.seconds_left is not None and pressed and not expression.is_compiled:
            self._check(expression, partial(shape.verdict, expression, pressed=False))

    def _check(self, expression: Expression | DerivedAttribute, evaluate: Callable[[], object]) -> None:
        """Raise if there is no time to compile or to evaluate an expression."""
        assert self.seconds_left is not None
        # What is compiled may be gone from its cache, so that a long expression always takes long.
        if self.seconds_left <= 0 or len(expression.source) > _SHORT:
            raise EvaluationPending(evaluate)
        if not expression.is_compiled:
            began = time.perf_counter()
            cost = expression.max_cost
            self.seconds_left -= time.perf_counter() - began
        else:
            cost = expression.max_cost
        if cost > _CHEAP:
            raise EvaluationPending(evaluate)


class Shape:
    """All of a device but its name and pool."""

    __slots__ = (
        "__weakref__",
        "_derived",
        "_evaluations",
        "_values",
        "_verdicts",
        "consumed_capacities",
        "document",
        "driver",
        "limits",
        "restricted",
    )

    def __init__(self, driver: str, document: resource.Device, evaluations: Evaluations) -> None:
        self.driver = driver
        self.document = document
        self._evaluations = evaluations  # of all shapes
        #: some capacity has a request policy
        self.restricted = any("requestPolicy" in capacity for capacity in self.capacity.values())
        #: what requests for capacity come to on this shape, by request
        self.consumed_capacities: dict[Any, Any] = {}
        #: its capacities, in billionths, once somebody has asked for them
        self.limits: tuple[tuple[str, int], ...] | None = None
        self._verdicts: dict[Expression, Verdict] = {}
        self._derived: dict[DerivedAttribute, Values | EvaluationError] = {}
        self._values: dict[tuple[str, bool], Values | None] = {}

    @property
    def capacity(self) -> Mapping[str, resource.DeviceCapacity]:
        return self.document.get("capacity") or _NOTHING

    def verdict(self, expression: Expression, *, pressed: bool = True) -> Verdict:
        """Whether a selector matches, or the error it ends with. Raises CompileError if it has no meaning.

        ``pressed``: an evaluation for which there is no time raises EvaluationPending.
        """
        verdict = self._verdicts.get(expression)
        if verdict is None:
            if len(self._verdicts) >= _VERDICTS_KEPT:
                self._verdicts.clear()
            verdict = self._verdicts[expression] = self._evaluate(expression, pressed=pressed)
        return verdict

    def _evaluate(self, expression: Expression, *, pressed: bool) -> Verdict:
        """The verdict on a device that looks the same to this selector, or a new evaluation."""
        evaluations = self._evaluations
        evaluations.check_compiled(self, expression, pressed=pressed)
        fingerprint = expression.fingerprint(self.driver, self.document)
        if fingerprint is None:
            return evaluations.evaluate(self, expression, pressed=pressed)
        key = (expression, fingerprint)
        verdict = evaluations.known.get(key)
        if verdict is None:
            verdict = evaluations.evaluate(self, expression, pressed=pressed)
            if len(evaluations.known) >= _FINGERPRINTS_KEPT:
                evaluations.known.clear()
            evaluations.known[key] = verdict
        return verdict

    def derive(self, attribute: DerivedAttribute, *, pressed: bool = True) -> Values:
        """The values of a derived attribute. Raises EvaluationError, and EvaluationPending as ``verdict`` does."""
        values = self._derived.get(attribute)
        if values is None:
            if len(self._derived) >= _VERDICTS_KEPT:
                self._derived.clear()
            try:
                values = self._evaluations.derive(self, attribute, pressed=pressed)
            except EvaluationError as error:
                values = error
            self._derived[attribute] = values
        if isinstance(values, EvaluationError):
            raise values.with_traceback(None)
        return values

    def values(self, attribute: str, *, lists: bool) -> Values | None:
        """The values of a fully qualified attribute; None if the device does not have it."""
        key = (attribute, lists)
        try:
            return self._values[key]
        except KeyError:
            found = lookup_attribute(
                self.document.get("attributes") or _NOTHING, attribute, self.driver, lists=lists
            )
            self._values[key] = found
            return found


@lru_cache(maxsize=512)
def _cel_device(shape: Shape) -> CELDevice:
    # Verdicts are kept with the shape; what CEL needs to find them is large and seldom needed again.
    return cel_device(shape.driver, shape.document)


class Shapes:
    """Hands out one Shape for all devices that look the same, for as long as there is such a device."""

    __slots__ = ("_known", "evaluations")

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self.evaluations = Evaluations()

    def of(self, driver: str, document: resource.Device) -> Shape:
        visible_fields = (
            driver,
            document.get("allowMultipleAllocations"),
            document.get("attributes"),
            document.get("capacity"),
        )
        key = blake2b(_encode(visible_fields), digest_size=16).digest()
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = Shape(driver, document, self.evaluations)
        return shape


class CounterConsumption:
    """What one device takes from one counter set."""

    __slots__ = ("amounts", "counter_set", "groups")

    def __init__(self, document: resource.DeviceCounterConsumption) -> None:
        self.counter_set = document["counterSet"]
        self.amounts: dict[str, int] = {
            name: Quantity.from_json(counter["value"]).nano
            for name, counter in (document.get("counters") or {}).items()
        }
        self.groups: frozenset[str] = frozenset(document.get("compatibilityGroups") or ())


class Origin(NamedTuple):
    """What all devices of a slice have in common."""

    pool: PoolID
    selection: NodeSelection
    per_device: bool  # each device says for itself which nodes it is for
    skips_node_operations: Sequence[str] | None


class Device:
    """One device of a slice."""

    __slots__ = (
        "_shape",
        "_shapes",
        "binding_conditions",
        "binds_to_node",
        "consumes_counters",
        "document",
        "id",
        "name",
        "origin",
        "selection",
        "shared",
        "taints",
    )

    def __init__(self, document: resource.Device, origin: Origin, shapes: Shapes) -> None:
        self.name = document["name"]
        self.id = DeviceID(*origin.pool, self.name)
        self.document = document
        self.origin = origin
        self._shapes = shapes
        self._shape: Shape | None = None
        #: may be allocated several times, each time a share of its capacity
        self.shared = document.get("allowMultipleAllocations") is True
        consumes_counters = document.get("consumesCounters")
        self.consumes_counters: tuple[CounterConsumption, ...] = (
            tuple(map(CounterConsumption, consumes_counters)) if consumes_counters else ()
        )
        taints = document.get("taints")
        self.taints: tuple[resource.DeviceTaint, ...] = (
            tuple(t for t in taints if t.get("effect") in ("NoSchedule", "NoExecute")) if taints else ()
        )
        self.binding_conditions: Sequence[str] | None = document.get("bindingConditions")
        self.binds_to_node = document.get("bindsToNode") is True
        #: its own nodes, where each device of the slice has its own
        self.selection = NodeSelection(document) if origin.per_device else None

    @property
    def shape(self) -> Shape:
        shape = self._shape
        if shape is None:
            shape = self._shape = self._shapes.of(self.id.driver, self.document)
        return shape

    @property
    def skips_node_operations(self) -> Sequence[str] | None:
        return self.origin.skips_node_operations

    @property
    def available_on(self) -> NodeSelection:
        """The nodes the device is for."""
        return self.selection if self.selection is not None else self.origin.selection

    def __repr__(self) -> str:
        return f"Device({self.id})"
