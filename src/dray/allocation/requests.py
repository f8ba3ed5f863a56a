"""Claims, read once: what each request asks for, which alternatives it has, which constraints bind it.

What is wrong with a request is kept with it and reported when the search gets there, as upstream does, so that of
several mistakes the same one is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from dray.allocation.constraints import Constraint, DistinctAttribute, DistinctFromLastDevice, MatchAttribute
from dray.allocation.features import Features
from dray.allocation.selectors import Expression, expression
from dray.api.quantity import Quantity

if TYPE_CHECKING:
    from dray.api.types.resource import (
        DeviceClaimConfiguration,
        DeviceClass,
        DeviceConstraint,
        DeviceRequest,
        DeviceSelector,
        DeviceToleration,
        ExactDeviceRequest,
        ResourceClaim,
    )

    ClassLookup = Callable[[str], DeviceClass | None]

RESULTS_LIMIT = 32  # devices in one claim

_key = msgspec.json.Encoder().encode
_ARITHMETIC_LIMIT = (1 << 63) - 1


class Selector(NamedTuple):
    """A selector of a class or of a claim's request."""

    expression: Expression
    of_class: bool
    position: int  # in its list


class Request:
    """A request, or one of its alternatives: some number of devices with certain properties."""

    __slots__ = (
        "admin", "all", "capacity", "capacity_key", "class_document", "constraints",
        "count", "derived", "document", "name", "parent", "problem", "selectors", "tolerations",
    )  # fmt: skip

    def __init__(self, name: str, document: ExactDeviceRequest, parent: str | None) -> None:
        self.name = name
        self.parent = parent  # the request this is an alternative of
        self.document = document
        self.problem = ""  # what is wrong with it, from behind the claim's name on
        #: administrators may look at devices that are in use; alternatives cannot ask for that
        self.admin = parent is None and document.get("adminAccess") is True
        self.all = document.get("allocationMode") == "All"
        self.count = max(document.get("count") or 0, 0)
        self.tolerations: Sequence[DeviceToleration] = document.get("tolerations") or []
        wanted = (document.get("capacity") or {}).get("requests") or {}
        self.capacity = {name: Quantity.from_json(amount) for name, amount in wanted.items()}
        self.capacity_key = tuple(sorted(wanted.items())) if wanted else ()
        #: those of the class first
        self.selectors: tuple[Selector, ...] = ()
        self.class_document: DeviceClass = {}
        #: attribute → expression that stands in for it on this request
        self.derived: dict[str, str] = {}
        #: positions, in the claim's list, of the constraints that bind this request
        self.constraints: tuple[int, ...] = ()

    @property
    def base(self) -> str:
        """The request's own name, whichever alternative it is."""
        return self.name if self.parent is None else self.parent

    @property
    def full_name(self) -> str:
        """The name as results give it."""
        return self.name if self.parent is None else f"{self.parent}/{self.name}"


class Demand:
    """What one claim asks for. Equal specs share one, whatever their claims are called."""

    __slots__ = ("config", "constraints", "key", "problem", "requests")

    def __init__(
        self, key: bytes, requests: list[tuple[Request, ...]], constraints: list[Constraint[Any]]
    ) -> None:
        self.key = key
        #: for each request its alternatives, in order of preference; just one for a plain request
        self.requests = requests
        self.constraints = constraints
        self.problem = ""  # what is wrong with its constraints
        self.config: Sequence[DeviceClaimConfiguration] = []


def demand_key(claim: ResourceClaim) -> bytes:
    """Equal for claims that ask for the same."""
    return _key((claim.get("spec") or {}).get("devices"))


def read_claim(claim: ResourceClaim, key: bytes, classes: ClassLookup, features: Features) -> Demand:
    devices = (claim.get("spec") or {}).get("devices") or {}
    constraints: list[Constraint[Any]] = []
    problem = ""
    for position, document in enumerate(devices.get("constraints") or ()):
        constraint = _constraint(document, features)
        if constraint is None:
            problem = f", constraint #{position}: empty constraint (unsupported constraint type?)"
            break
        constraints.append(constraint)
    requests = []
    for entry in devices.get("requests") or ():
        alternatives = tuple(_alternatives(entry, classes, features))
        for request in alternatives:
            request.constraints = tuple(
                position
                for position, constraint in enumerate(constraints)
                if constraint.applies(request.base, request.name if request.parent is not None else None)
            )
        requests.append(alternatives)
    demand = Demand(key, requests, constraints)
    demand.problem = problem
    demand.config = devices.get("config") or []
    return demand


def _constraint(document: DeviceConstraint, features: Features) -> Constraint[Any] | None:
    requests = document.get("requests") or ()
    if (attribute := document.get("matchAttribute")) is not None:
        return MatchAttribute(attribute, requests, lists=features.list_attributes)
    if (attribute := document.get("distinctAttribute")) is not None:
        kind = DistinctAttribute if features.compares_every_distinct_device else DistinctFromLastDevice
        return kind(attribute, requests, lists=features.list_attributes)
    return None


def _alternatives(document: DeviceRequest, classes: ClassLookup, features: Features) -> Iterator[Request]:
    name = document["name"]
    several = document.get("firstAvailable") or ()
    problem = _unsupported(document, features)
    if not several:
        request = Request(name, document.get("exactly") or {}, None)
        request.problem = problem or _complete(request, classes, features)
        yield request
    for alternative in several:
        # A subrequest has the fields of an exact request but for adminAccess, and a name.
        request = Request(alternative["name"], cast("ExactDeviceRequest", alternative), name)
        request.problem = problem or _complete(request, classes, features)
        yield request


def _unsupported(document: DeviceRequest, features: Features) -> str:
    name, several = document["name"], document.get("firstAvailable") or ()
    if several and not features.prioritized_list:
        return f", request {name}: has subrequests, but the DRAPrioritizedList feature is disabled"
    if not features.consumable_capacity:
        disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if (document.get("exactly") or {}).get("capacity") is not None:
            return f", request {name}: {disabled}"
        for alternative in several:
            if alternative.get("capacity") is not None:
                return f", subrequest {alternative['name']}: {disabled}"
    return ""


def _complete(request: Request, classes: ClassLookup, features: Features) -> str:
    """Fill in class and selectors; returns what is wrong, if anything."""
    document, here = request.document, f", request {request.name}"
    if derived := document.get("derivedAttributes"):
        if not features.derived_attributes:
            return f"{here}: cannot handle request with derived attributes, the feature is disabled"
        request.derived = {entry["name"]: entry["expression"] for entry in derived}
    own = document.get("selectors") or ()
    for position, selector in enumerate(own):
        if selector.get("cel") is None:
            return f"{here}, selector #{position}: CEL expression empty (unsupported selector type?)"
    if request.parent is None and document.get("adminAccess") is not None and not features.admin_access:
        return f"{here}: admin access is requested, but the feature is disabled"
    class_name = document.get("deviceClassName")
    if not class_name:
        return f"{here}: missing device class name (unsupported request type?)"
    found = classes(class_name)
    if found is None:
        return (
            f"{here}: could not retrieve device class {class_name}: "
            f'deviceclass.resource.k8s.io "{class_name}" not found'
        )
    request.class_document = found
    of_class = (found.get("spec") or {}).get("selectors") or ()
    request.selectors = (
        *_selectors(of_class, features, of_class=True),
        *_selectors(own, features, of_class=False),
    )
    mode = document.get("allocationMode") or ""
    if mode not in ("ExactCount", "All"):
        return f"{here}: unsupported count mode {mode}"
    if mode == "ExactCount" and request.count > _ARITHMETIC_LIMIT:
        return f"{here}: exact count {request.count} is too large"
    return ""


def _selectors(
    documents: Sequence[DeviceSelector], features: Features, *, of_class: bool
) -> Iterator[Selector]:
    for position, document in enumerate(documents):
        source = (document.get("cel") or {}).get("expression") or ""
        yield Selector(expression(source, features), of_class, position)
