"""DeviceClasses: selectors, configuration and the extended resource a class stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.groups.resource.validation.resourceclaim import configuration
from dray.api.groups.resource.validation.selectors import selectors
from dray.api.scheme.strategy import Context
from dray.api.validation import names
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
    if name is None:
        return
    problems = _extended_resource_problems(name) if errs.declared else ()
    if not problems and not is_extended_resource(name):
        problems = ("must be a valid extended resource name",)
    checks.refuse(errs, path.child("extendedResourceName"), name, problems)


def _extended_resource_problems(name: str) -> Sequence[str]:
    found = []
    if "/" not in name:
        found.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    if "kubernetes.io/" in name:
        found.append('must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        found.append('must not have "requests." prefix')
    if not name:
        found += names.qualified_name(name)[1:]
    elif not found:
        found += names.qualified_name(f"requests.{name}")
    return found


def is_extended_resource(name: str) -> bool:
    """Whether a resource name belongs to neither Kubernetes nor a quota."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")
