"""Device selectors: the ``device`` variable, and expressions compiled to match devices.

A selector is evaluated for every device of a cluster, so it has two forms: generated code that is fast as long as
nothing fails, and the exact program, which gives upstream's errors and counts the cost. The look-up of a domain that a
device does not have gives an empty map; names without a domain belong to the device's driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from weakref import ref

from dray.api.quantity import Quantity
from dray.api.release import NEWEST
from dray.api.semver import Version
from dray.api.textcache import cache_by_length
from dray.cel import compiler
from dray.cel.common import types as t
from dray.cel.common.ast import Node
from dray.cel.common.decls import Environment, Library, overload
from dray.cel.common.values import Value, equal, go_type_of, is_list, type_of
from dray.cel.cost.sizes import ZERO, CallEstimate, Path, Range, SizedNode
from dray.cel.environment.base import COMPATIBILITY_RELEASE, PER_CALL_LIMIT, base, parse_version
from dray.cel.environment.reads import reads
from dray.cel.errors import CompileError, EvaluationError
from dray.cel.interpreter import codegen
from dray.cel.library.bindings import BINDINGS

if TYPE_CHECKING:
    from dray.api.types import resource

_Entry = TypeVar("_Entry")
MAX_COST: Final = PER_CALL_LIMIT
#: How many characters of expressions are kept compiled, which takes about a hundred bytes for each.
EXPRESSIONS_KEPT: Final = 1 << 19
MAX_ATTRIBUTE_VALUES: Final = 48
_MAX_DOMAIN: Final = 63
_MAX_ID: Final = 32
_MAX_DRIVER: Final = 63
_MAX_VALUE: Final = 64
_MAX_ATTRIBUTES: Final = 32


class Domains(dict[str, dict[str, Value]]):
    """Attributes or capacities by domain and name. An unknown domain is an empty map, yet not ``in`` it."""

    __slots__ = ()

    def __missing__(self, domain: str) -> dict[str, Value]:
        return _EMPTY


_EMPTY: Final[dict[str, Value]] = {}


class Device:
    """What a selector sees of a device; attributes and capacities are converted at their first use."""

    __slots__ = (
        "_document",
        "allow_multiple_allocations",
        "capacity",
        "capacity_by_name",
        "driver",
        "list_attributes",
        "list_attributes_by_name",
        "scalar_attributes",
        "scalar_attributes_by_name",
    )

    capacity: Domains
    capacity_by_name: dict[str, Value]
    scalar_attributes: Domains
    scalar_attributes_by_name: dict[str, Value]
    list_attributes: Domains
    list_attributes_by_name: dict[str, Value]

    def __init__(self, driver: str, document: resource.Device) -> None:
        self.driver = driver
        self._document = document
        self.allow_multiple_allocations = bool(document.get("allowMultipleAllocations"))

    @staticmethod
    def of(driver: str, device: resource.Device) -> Device:
        """The view of a v1 device of a driver."""
        return Device(driver, device)

    def convert(self, *, lists: bool) -> None:
        """Fill in the values; EvaluationError if the device has an attribute that cannot be used.

        Without list attributes a device that has one cannot be used at all.
        """
        if not hasattr(self, "capacity"):
            self.capacity, self.capacity_by_name = self._by_domain(
                self._document.get("capacity"), _capacity_value
            )
        if lists:
            if not hasattr(self, "list_attributes"):
                self.list_attributes, self.list_attributes_by_name = self._by_domain(
                    self._document.get("attributes"), _list_or_scalar
                )
        elif not hasattr(self, "scalar_attributes"):
            self.scalar_attributes, self.scalar_attributes_by_name = self._by_domain(
                self._document.get("attributes"), _scalar
            )

    def attributes(self, *, lists: bool) -> Domains:
        """The attributes by domain and name."""
        self.convert(lists=lists)
        return self.list_attributes if lists else self.scalar_attributes

    def _by_domain(
        self, entries: Mapping[str, _Entry] | None, convert: Callable[[_Entry], Value]
    ) -> tuple[Domains, dict[str, Value]]:
        domains = Domains()
        by_name: dict[str, Value] = {}
        for name, entry in (entries or {}).items():
            domain, id = split_name(name, self.driver)
            try:
                value = convert(entry)
            except ValueError as wrong:
                raise EvaluationError(f"attribute {name}: {wrong}") from None
            domains.setdefault(domain, {})[id] = value
            by_name[f"{domain}/{id}"] = value
        return domains, by_name


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Domain and identifier of a qualified name; without a domain it belongs to the driver."""
    domain, slash, id = name.partition("/")
    return (domain, id) if slash else (driver, name)


def _capacity_value(capacity: resource.DeviceCapacity) -> Quantity:
    value: Any = capacity["value"]
    return value if isinstance(value, Quantity) else Quantity.from_json(value)


def _list_or_scalar(attribute: resource.DeviceAttribute) -> Value:
    for kind in ("ints", "bools", "strings"):
        if (values := attribute.get(kind)) is not None:
            return values
    if (versions := attribute.get("versions")) is not None:
        return [parse_version(text) for text in versions]
    return _scalar(attribute)


def _scalar(attribute: resource.DeviceAttribute) -> Value:
    for kind in ("int", "bool", "string"):
        if (value := attribute.get(kind)) is not None:
            return value
    if (version := attribute.get("version")) is not None:
        return parse_version(version)
    raise ValueError("unsupported attribute value")


class Selector:
    """A compiled selector. ``reads`` says what it looks at, None if only evaluation can tell.

    Nothing in it refers back to it: selectors are large, and are to go at once when nobody needs them any more.
    """

    __slots__ = ("__weakref__", "_fast", "_lists", "_program", "_source", "expression", "max_cost", "reads")

    def __init__(
        self, expression: str, node: Node, declared: Environment, *, max_cost: int, list_attributes: bool
    ) -> None:
        self.expression = expression
        self.max_cost = max_cost
        self.reads = reads(node)
        self._program = compiler.program(node, declared)
        self._lists = list_attributes
        self._fast: Callable[[Device], bool] | None = None
        # An expression that may exceed the limit has to be counted, which the fast form does not do.
        self._source: tuple[Node, Environment] | None = (node, declared) if max_cost <= MAX_COST else None

    def matches(self, device: Device) -> bool:
        """Whether a device is selected, or EvaluationError in upstream's words if that cannot be told."""
        fast = self._fast
        if fast is None and self._source is not None:
            fast = self._generate()
        return self._match_exactly(device) if fast is None else fast(device)

    def _generate(self) -> Callable[[Device], bool] | None:
        """Generate the fast form, if there is one, when the selector is evaluated for the first time."""
        source, self._source = self._source, None
        if source is None:  # another thread was quicker
            return self._fast
        node, declared = source
        weak = ref(self)

        def again(device: Device) -> bool:
            selector = weak()
            assert selector is not None
            return selector._match_again(device)

        names = {"Quantity": Quantity, "Version": Version, "again": again}
        attributes = "list_attributes_by_name" if self._lists else "scalar_attributes_by_name"
        with suppress(codegen.Unsupported):
            self._fast = codegen.generate(
                node, declared, names, attributes=attributes, capacity="capacity_by_name"
            )
        return self._fast

    def match_with_cost(self, device: Device, *, limit: int = MAX_COST) -> tuple[bool, int]:
        """Whether the device is selected, and what it cost to tell."""
        outcome = self.outcome(device, limit=limit)
        if outcome.error is not None:
            raise outcome.error
        return outcome.match, outcome.cost

    def outcome(self, device: Device, *, limit: int = MAX_COST) -> Outcome:
        """Match or error, and the cost in either case, by the exact program."""
        try:
            attributes = device.attributes(lists=self._lists)
            variables = {
                "device": {
                    "driver": device.driver,
                    "allowMultipleAllocations": device.allow_multiple_allocations,
                    "attributes": attributes,
                    "capacity": device.capacity,
                }
            }
            value, spent = self._program.run(variables, limit)
        except EvaluationError as failed:
            return Outcome(False, 0, failed)
        if value is True or value is False:
            return Outcome(value, spent, None)
        if isinstance(value, EvaluationError):
            return Outcome(False, spent, value)
        return Outcome(False, spent, _not_bool(value))

    def _match_exactly(self, device: Device) -> bool:
        return self.match_with_cost(device)[0]

    def _match_again(self, device: Device) -> bool:
        """The fast form failed: because the device is not converted yet, or for a reason that the exact form finds."""
        if not hasattr(device, "list_attributes" if self._lists else "scalar_attributes"):
            device.convert(lists=self._lists)
            return self.matches(device)
        return self._match_exactly(device)


class Outcome(NamedTuple):
    """How an evaluation ended."""

    match: bool
    cost: int
    error: EvaluationError | None


def _not_bool(value: Value) -> EvaluationError:
    name = type_of(value).name
    return EvaluationError(f"CEL result of type {name} could not be converted to bool: {_why(value)}")


def _why(value: Value) -> str:
    match go_type_of(value):
        case "types.Int":
            return "unsupported type conversion from 'int' to bool"
        case "types.String":
            return "unsupported native conversion from string to 'bool'"
        case "types.Double":
            return "type conversion error from Double to 'bool'"
        case "cel.Semver":
            return "type conversion error from 'Semver' to 'bool'"
        case "cel.Quantity":
            return "type conversion error from 'Quantity' to 'bool'"
        case "*types.baseList":
            return "type conversion error from list to 'bool'"
        case "*types.baseMap":
            return "type conversion error from map to 'bool'"
    return f"unsupported type conversion to '{type_of(value).name}'"


def _includes(target: Value, wanted: Value) -> bool:
    """Whether a list attribute has the value, or a scalar one is it."""
    if not is_list(target):
        return equal(target, wanted)
    for value in target[:MAX_ATTRIBUTE_VALUES]:
        if equal(value, wanted):
            return True
    if len(target) > MAX_ATTRIBUTE_VALUES:
        raise EvaluationError(
            f"'includes' function cannot be applied to lists longer than {MAX_ATTRIBUTE_VALUES} values"
        )
    return False


def _includes_cost(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    return CallEstimate(Range(0, MAX_ATTRIBUTE_VALUES)) if target is not None else None


_INCLUDES: Final = Library(
    name="kubernetes.dra.includes",
    overloads=(overload("includes", "dra_includes_dyn_dyn", "dyn.(dyn) -> bool", _includes),),
    estimators={"dra_includes_dyn_dyn": _includes_cost},
)


@lru_cache
def environment(*, list_attributes: bool, consumable_capacity: bool, stored: bool) -> Environment:
    """What a selector may refer to. Stored expressions keep working whatever the gates are now."""
    attribute = t.DYN if list_attributes else t.ANY
    fields = {
        "driver": t.STRING,
        "attributes": t.map_of(t.STRING, t.map_of(t.STRING, attribute)),
        "capacity": t.map_of(t.STRING, t.map_of(t.STRING, t.object_type("kubernetes.Quantity"))),
    }
    if consumable_capacity or stored:
        fields["allowMultipleAllocations"] = t.BOOL
    libraries = [BINDINGS]
    if list_attributes or stored:
        libraries.append(_INCLUDES)
    return (
        base(NEWEST if stored else COMPATIBILITY_RELEASE)
        .with_libraries(*libraries)
        .with_messages({"kubernetes.DRADevice": fields})
        .with_variables({"device": t.object_type("kubernetes.DRADevice")})
    )


def size_hint(path: Path) -> Range | None:
    """How large what is at a path of the device may be."""
    if path[0] != "device":
        return None
    match path[1:]:
        case ():
            return ZERO
        case ("driver",):
            return Range(0, _MAX_DRIVER)
        case ("allowMultipleAllocations",):
            return Range(0, 1)
        case ("attributes" | "capacity",):
            return Range(0, _MAX_ATTRIBUTES)
        case ("attributes" | "capacity", "@keys"):
            return Range(0, _MAX_DOMAIN)
        case ("attributes" | "capacity", "@items" | "@values"):
            return Range(0, _MAX_ATTRIBUTES)
        case ("attributes" | "capacity", "@items" | "@values", "@keys"):
            return Range(0, _MAX_ID)
        case ("attributes", "@items" | "@values", _):
            return Range(0, _MAX_VALUE)
        case ("capacity", "@items" | "@values", "@items" | "@values"):
            return ZERO
    return None


def may_be_derived(type_: t.Type) -> bool:
    """Whether an expression of this type may give the value of a derived attribute."""
    if type_.kind == "list":
        type_ = type_.params[0]
    return type_.dynamic or type_.kind in ("string", "int", "bool") or type_.name == "kubernetes.Semver"


@cache_by_length(1 << 16)
def compile(
    expression: str,
    *,
    list_attributes: bool = False,
    consumable_capacity: bool = True,
    stored: bool = False,
) -> Selector:
    """A selector from its text, or CompileError in upstream's words."""
    declared = environment(
        list_attributes=list_attributes, consumable_capacity=consumable_capacity, stored=stored
    )
    node = compiler.check_text(expression, declared)
    if node.type.kind not in ("bool", "dyn" if list_attributes else "any", "any"):
        raise CompileError(f"must evaluate to bool or the unknown type, not {node.type}")
    estimate = compiler.max_cost(node, declared, hints=size_hint)
    return Selector(expression, node, declared, max_cost=estimate, list_attributes=list_attributes)
