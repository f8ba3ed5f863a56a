"""The spec of a claim: requests, constraints, configuration. Classes and templates share parts of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.groups.resource.validation.selectors import expression, selectors
from dray.api.groups.resource.validation.taints import toleration
from dray.api.scheme.strategy import Context
from dray.api.validation import field
from dray.api.validation.expressions import Environment
from dray.api.validation.field import Path

if TYPE_CHECKING:
    from dray.api.types.resource import (
        DeviceClaim,
        DeviceConfiguration,
        ResourceClaimSpec,
    )

RequestNames = Mapping[str, frozenset[str]]

_NAMES_A_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_EMPTY: Final[Sequence[Any]] = ()


def claim_spec(spec: ResourceClaimSpec, path: Path, ctx: Context, errs: Errors) -> None:
    devices = spec.get("devices") or {}
    _DeviceClaim(devices, path.child("devices"), ctx, errs).validate()


def request_names(devices: DeviceClaim) -> RequestNames:
    """Names of the requests, each with the names of its alternatives."""
    return {
        request.get("name", ""): frozenset(sub.get("name", "") for sub in request.get("firstAvailable") or ())
        for request in devices.get("requests") or ()
    }


def request_reference(name: str, path: Path, known: RequestNames, errs: Errors) -> None:
    """``request`` or ``request/alternative``, and it must exist."""
    request, slash, alternative = name.partition("/")
    found = request in known and (not slash or alternative in known[request])
    if found and "/" not in alternative:
        return
    if "/" not in alternative:
        checks.label(request, path, "", errs)
        if slash:
            checks.label(alternative, path, "", errs)
    errs.append(field.invalid(path, name, _NAMES_A_REQUEST))


def request_references(listed: Sequence[str], path: Path, known: RequestNames, errs: Errors) -> None:
    """The ``requests`` of a constraint or a configuration."""
    if not checks.within(listed, limits.REQUESTS, path, "requests", errs):
        return
    here = path.child("requests")
    for i, name in enumerate(listed):
        request_reference(name, here.index(i), known, errs)
    checks.unique(listed, path, "requests", errs)


def configuration(
    config: DeviceConfiguration,
    path: Path,
    errs: Errors,
    *,
    stored: bool = False,
) -> None:
    """Opaque parameters of one driver. What is stored already keeps its size."""
    opaque = config.get("opaque")
    here = path.child("opaque")
    if opaque is None:
        errs.append(field.required(here))
        return
    checks.driver_name(opaque.get("driver", ""), here.child("driver"), errs)
    limit = 1 << 62 if stored else limits.OPAQUE_PARAMETERS
    checks.raw_object(opaque.get("parameters"), here.child("parameters"), limit, errs)


class _DeviceClaim:
    """One pass over ``spec.devices``; derived attributes share a budget and refer to the constraints."""

    def __init__(self, devices: DeviceClaim, path: Path, ctx: Context, errs: Errors) -> None:
        self.requests = devices.get("requests") or ()
        self.constraints = devices.get("constraints") or ()
        self.configs = devices.get("config") or ()
        self.names = request_names(devices)
        self.path = path
        self.ctx = ctx
        self.errs = errs
        self.derived_cost = 0

    def validate(self) -> None:
        path, errs = self.path, self.errs
        if checks.within(self.requests, limits.REQUESTS, path, "requests", errs):
            here = path.child("requests")
            for i, request in enumerate(self.requests):
                self._request(request, here.index(i))
            checks.unique_items(self.requests, lambda r: r.get("name", ""), path, "requests", errs)
        if checks.within(self.constraints, limits.CONSTRAINTS, path, "constraints", errs):
            for i, constraint in enumerate(self.constraints):
                self._constraint(constraint, path.child("constraints").index(i))
        if checks.within(self.configs, limits.CONFIGS, path, "config", errs):
            for i, config in enumerate(self.configs):
                here = path.child("config").index(i)
                request_references(config.get("requests") or _EMPTY, here, self.names, errs)
                configuration(config, here, errs)
        if self.derived_cost > limits.DERIVED_COST:
            problem = (
                "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
            )
            errs.append(field.forbidden(path, problem))

    def _request(self, request: Mapping[str, Any], path: Path) -> None:
        name = request.get("name", "")
        checks.label(name, path, "name", self.errs)
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
        if alternatives and exactly is not None:
            problem = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
            self.errs.append(field.invalid(path, None, problem))
        elif alternatives:
            self._alternatives(alternatives, name, path)
        elif exactly is not None:
            self._devices(exactly, path.child("exactly"), name)
        else:
            self.errs.append(field.required(path, "exactly one of `exactly` or `firstAvailable` is required"))

    def _alternatives(self, listed: Sequence[Any], name: str, path: Path) -> None:
        if not checks.within(listed, limits.ALTERNATIVES, path, "firstAvailable", self.errs):
            return
        for i, alternative in enumerate(listed):
            here = path.child("firstAvailable").index(i)
            own = alternative.get("name", "")
            checks.label(own, here, "name", self.errs)
            self._devices(alternative, here, f"{name}/{own}")
        checks.unique((a.get("name", "") for a in listed), path, "firstAvailable", self.errs)

    def _devices(self, request: Mapping[str, Any], path: Path, name: str) -> None:
        """What an exact request and an alternative have in common."""
        errs = self.errs
        class_name = request.get("deviceClassName", "")
        if class_name:
            checks.subdomain(class_name, path.child("deviceClassName"), errs)
        else:
            errs.append(field.required(path.child("deviceClassName")))
        selectors(request.get("selectors") or _EMPTY, path, self.ctx, errs)
        _allocation_mode(request, path, errs)
        for i, tolerated in enumerate(request.get("tolerations") or _EMPTY):
            toleration(tolerated, path.child("tolerations").index(i), errs)
        derived = request.get("derivedAttributes")
        if derived:
            self._derived_attributes(derived, path, name)

    def _derived_attributes(self, listed: Sequence[Any], path: Path, name: str) -> None:
        errs = self.errs
        if len(listed) > limits.DERIVED_ATTRIBUTES:
            errs.declare(
                [field.too_many(path.child("derivedAttributes"), len(listed), limits.DERIVED_ATTRIBUTES)]
            )
        used = self._attributes_constrained(name)
        for i, attribute in enumerate(listed):
            here = path.child("derivedAttributes").index(i)
            own = attribute.get("name", "")
            if own:
                checks.fully_qualified_name(own, here.child("name"), errs)
                if own not in used:
                    problem = (
                        "must be referenced by at least one matchAttribute or distinctAttribute constraint "
                        "targeting this request"
                    )
                    errs.append(field.invalid(here.child("name"), own, problem))
            else:
                errs.append(field.required(here.child("name")))
            text = attribute.get("expression", "")
            if text:
                where = here.child("expression")
                self.derived_cost += expression(text, where, self.ctx, errs, Environment.DERIVED)
            else:
                errs.append(field.required(here.child("expression")))
        checks.unique((a.get("name", "") for a in listed), path, "derivedAttributes", errs)

    def _attributes_constrained(self, name: str) -> set[str]:
        """Attributes that some constraint on the request ``name`` (or on the one it belongs to) mentions."""
        parent = name.partition("/")[0]
        return {
            constraint.get("matchAttribute") or constraint.get("distinctAttribute") or ""
            for constraint in self.constraints
            if not (wanted := constraint.get("requests")) or name in wanted or parent in wanted
        }

    def _constraint(self, constraint: Mapping[str, Any], path: Path) -> None:
        request_references(constraint.get("requests") or _EMPTY, path, self.names, self.errs)
        match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
        if match is not None:
            checks.fully_qualified_name(match, path.child("matchAttribute"), self.errs)
        elif distinct is not None:
            checks.fully_qualified_name(distinct, path.child("distinctAttribute"), self.errs)
        elif "DRAConsumableCapacity" in self.ctx.gates:
            # The words are upstream's, although no field at all is set.
            problem = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
            self.errs.append(field.required(path, problem))
        else:
            self.errs.append(field.required(path.child("matchAttribute")))


def _allocation_mode(request: Mapping[str, Any], path: Path, errs: Errors) -> None:
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            problem = "must not be specified when allocationMode is 'All'"
            errs.append(field.invalid(path.child("count"), count, problem))
    elif mode == "ExactCount":
        if count <= 0:
            errs.append(field.invalid(path.child("count"), count, "must be greater than zero"))
    else:
        errs.append(field.not_supported(path.child("allocationMode"), mode, ("All", "ExactCount")))
