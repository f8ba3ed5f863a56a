"""DeviceClasses: selectors, configuration and the extended resource a class stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.groups.resource.validation.resourceclaim import configuration
from dray.api.groups.resource.validation.selectors import selectors
from dray.api.scheme.strategy import Context
from dray.api.validation import field, names
from dray.api.validation.field import Path

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceClassSpec


def class_spec(
    spec: DeviceClassSpec, old: DeviceClassSpec | None, path: Path, ctx: Context, errs: Errors
) -> None:
    """What is stored already is not compiled or measured anew."""
    listed = spec.get("selectors") or ()
    if old is None or not checks.equal(spec.get("selectors"), old.get("selectors")):
        selectors(listed, path, ctx, errs)
    configs = spec.get("config") or ()
    if checks.within(configs, limits.CONFIGS, path, "config", errs):
        stored = old is not None and checks.equal(spec.get("config"), old.get("config"))
        for i, config in enumerate(configs):
            configuration(config, path.child("config").index(i), errs, stored=stored)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource(name):
        problem = "must be a valid extended resource name"
        errs.append(field.invalid(path.child("extendedResourceName"), name, problem))


def is_extended_resource(name: str) -> bool:
    """Whether a resource name belongs to neither Kubernetes nor a quota."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")
