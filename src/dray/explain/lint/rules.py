"""Rules about manifests that the API server would accept: selectors that match nothing, claims that nobody uses.

Rules that need devices apply only if there is a snapshot and it has any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from dray.allocation.devices import Device
from dray.allocation.selectors import cel_device
from dray.api import claims as pod_claims
from dray.api.identity import ObjectKey
from dray.cel import CompileError
from dray.explain.devices.selectors import group_devices, selector_attributes, split_conjunction
from dray.explain.devices.states import compiled, in_class, selected
from dray.explain.lint.validation import Finding, Level, finding
from dray.explain.model.cluster import Cluster
from dray.explain.model.manifests import Manifest
from dray.explain.model.workloads import pod_template

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod, PodResourceClaim, PodSpec
    from dray.api.types.resource import (
        DeviceClass,
        DeviceClassSpec,
        ExactDeviceRequest,
        ResourceClaim,
        ResourceClaimSpec,
        ResourceClaimTemplate,
    )
    from dray.explain.model.workloads import Workload

RULES: Final[Mapping[str, str]] = {
    "schema": "The document does not have the shape of its kind.",
    "validation": "The API server would refuse the object.",
    "warning": "The API server would warn about the object.",
    "deprecated-version": "The version is deprecated; there is a newer one.",
    "class-matches-nothing": "A device class selects none of the known devices.",
    "selector-matches-nothing": "A request selects none of the known devices.",
    "selector-never-true": "A selector is false whatever the device.",
    "attribute-typo": "A selector asks for an attribute that no device has, close to one that they have.",
    "unknown-class": "A request names a device class that does not exist.",
    "unknown-claim": "A pod names a claim or template that does not exist.",
    "undeclared-request": "A container names a request that its claim does not have.",
    "unused-claim": "A pod declares a claim that no container uses.",
    "count-too-high": "A request wants more devices than any node has.",
    "device-plugin-too": "Devices of a class may be given out by a device plugin as well.",
    "shared-claim": "Several pods of a workload would share one claim.",
}

_EQUALS = re.compile(r"""^(?P<what>device\.[^=!<>]++)==\s*(?P<value>"[^"]*"|'[^']*'|-?\d+|true|false)$""")


@dataclass(frozen=True)
class LintContext:
    """Manifests, and the cluster they would be applied to."""

    manifests: Sequence[Manifest]
    cluster: Cluster
    #: the cluster is known beyond the manifests, so that what is not there is missing
    complete: bool

    @cached_property
    def devices(self) -> list[Device]:
        """The devices of the snapshot. Without one there are none, as manifests hold only some slices."""
        if not self.complete:
            return []
        return [device for pool in self.cluster.pools.values() for device in pool.devices]


def lint(context: LintContext) -> list[Finding]:
    return [
        found
        for manifest in context.manifests
        if not manifest.problems
        for rule in _RULES
        for found in rule(context, manifest)
    ]


Rule = Callable[[LintContext, Manifest], Iterator[Finding]]


# --- selectors ---


def _requests(manifest: Manifest) -> Iterator[tuple[str, ExactDeviceRequest]]:
    """Each request or alternative of a claim or template, with its path."""
    if manifest.kind == "ResourceClaimTemplate":
        template: ResourceClaimTemplate = manifest.document
        spec, root = (template.get("spec") or {}).get("spec") or {}, "spec.spec.devices.requests"
    elif manifest.kind == "ResourceClaim":
        claim: ResourceClaim = manifest.document
        spec, root = claim.get("spec") or {}, "spec.devices.requests"
    else:
        return
    for position, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if request.get("exactly"):
            path = f"{root}[{position}].exactly"
            yield path if path in manifest.lines else f"{root}[{position}]", request["exactly"]
        for number, one in enumerate(request.get("firstAvailable") or ()):
            yield f"{root}[{position}].firstAvailable[{number}]", cast("ExactDeviceRequest", one)


def _sources(owner: DeviceClassSpec | ExactDeviceRequest) -> Iterator[tuple[int, str]]:
    for position, selector in enumerate(owner.get("selectors") or ()):
        source = (selector.get("cel") or {}).get("expression")
        if source:
            yield position, source


def _selectors(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Every selector of a manifest with its path."""
    owners: list[tuple[str, DeviceClassSpec | ExactDeviceRequest]] = [*_requests(manifest)]
    if manifest.kind == "DeviceClass":
        device_class: DeviceClass = manifest.document
        owners.append(("spec", device_class.get("spec") or {}))
    for path, owner in owners:
        for position, source in _sources(owner):
            yield f"{path}.selectors[{position}].cel.expression", source


def _never_true(context: LintContext, manifest: Manifest) -> Iterator[Finding]:
    for path, source in _selectors(manifest):
        why = _contradiction(context, source)
        if why:
            yield finding(manifest, "selector-never-true", Level.WARNING, f"{why}: {source}", path=path)


def _contradiction(context: LintContext, source: str) -> str:
    try:
        selector = compiled(source, context.cluster.features)
    except CompileError:
        return ""
    reads = selector.reads
    if reads is not None and not any(
        (reads.driver, reads.allow_multiple_allocations, reads.attributes, reads.capacity)
    ):
        outcome = selector.outcome(cel_device("", {"name": ""}))
        if (
            outcome.error is None
            and not outcome.match
            and not (reads.attribute_domains or reads.capacity_domains)
        ):
            return "the selector is false whatever the device"
    wanted: dict[str, str] = {}
    for part in split_conjunction(source):
        found = _EQUALS.match(part)
        if found:
            what, value = "".join(found["what"].split()), found["value"].strip("\"'")
            if wanted.setdefault(what, value) != value:
                return f"{what} cannot be both {wanted[what]} and {value}"
    return ""


def _typos(context: LintContext, manifest: Manifest) -> Iterator[Finding]:
    if not context.devices:
        return
    for path, source in _selectors(manifest):
        features = context.cluster.features
        groups = group_devices(source, context.devices, features)
        for one in selector_attributes(source, groups, features, known=lambda: context.devices):
            if not one.values and one.suggestion:
                text = f"no known device has {one.name}; did you mean {one.suggestion}?"
                yield finding(manifest, "attribute-typo", Level.WARNING, text, path=path)


def _matches(context: LintContext, request: ExactDeviceRequest) -> list[Device]:
    return list(filter(selected(context.cluster, request), context.devices))


def _class_matches_nothing(context: LintContext, manifest: Manifest) -> Iterator[Finding]:
    if manifest.kind != "DeviceClass" or not context.devices:
        return
    if not any(map(in_class(context.cluster, manifest.name), context.devices)):
        text = f"class {manifest.name} selects none of {len(context.devices)} known devices"
        yield finding(manifest, "class-matches-nothing", Level.WARNING, text, path="spec.selectors")


def _device_plugin_too(context: LintContext, manifest: Manifest) -> Iterator[Finding]:
    """Nodes that move from a device plugin to DRA must not have both for the same hardware."""
    if manifest.kind != "DeviceClass" or not context.devices:
        return
    device_class: DeviceClass = manifest.document
    name = (device_class.get("spec") or {}).get("extendedResourceName") or ""
    drivers: dict[str, set[str]] = {}
    for device in filter(in_class(context.cluster, manifest.name), context.devices):
        drivers.setdefault(device.available_on.name, set()).add(device.id.driver)
    doubled: dict[str, list[str]] = {}
    for node, capacity in _plugin_resources(context):
        for resource in capacity:
            domain = resource.partition("/")[0]
            if any(
                resource == name or f".{driver}".endswith(f".{domain}") for driver in drivers.get(node, ())
            ):
                doubled.setdefault(resource, []).append(node)
    for resource, nodes in doubled.items():
        text = (
            f"devices of class {manifest.name} may be given out twice: a device plugin offers {resource} on "
            f"{', '.join(sorted(nodes)[:3])}{f' and {len(nodes) - 3} more nodes' if len(nodes) > 3 else ''}. "
            "Run the plugin or the driver on a node, not both"
        )
        yield finding(manifest, "device-plugin-too", Level.WARNING, text, path="spec")


def _plugin_resources(context: LintContext) -> Iterator[tuple[str, list[str]]]:
    """The extended resources of which nodes have any."""
    for name, node in context.cluster.nodes.items():
        capacity = (node.get("status") or {}).get("capacity") or {}
        yield name, [key for key, count in capacity.items() if "/" in key and str(count) != "0"]


def _requests_matched(context: LintContext, manifest: Manifest) -> Iterator[Finding]:
    for path, request in _requests(manifest):
        class_name = request.get("deviceClassName") or ""
        if class_name not in context.cluster.classes:
            if context.complete:
                known = ", ".join(sorted(context.cluster.classes)) or "none"
                text = f"there is no device class {class_name} (there are: {known})"
                yield finding(manifest, "unknown-class", Level.WARNING, text, path=f"{path}.deviceClassName")
            continue
        if not context.devices:
            continue
        matching = _matches(context, request)
        if not matching:
            text = (
                f"class {class_name} and these selectors match none of {len(context.devices)} known devices"
            )
            yield finding(manifest, "selector-matches-nothing", Level.WARNING, text, path=path)
            continue
        yield from _count(manifest, path, request, matching)


def _count(
    manifest: Manifest, path: str, request: ExactDeviceRequest, matching: Sequence[Device]
) -> Iterator[Finding]:
    if request.get("allocationMode") == "All" or any(not d.available_on.name for d in matching):
        return
    per_node: dict[str, int] = {}
    for device in matching:
        name = device.available_on.name
        per_node[name] = per_node.get(name, 0) + 1
    most = max(per_node.values())
    if (request.get("count") or 1) > most:
        text = f"{request['count']} devices are wanted, but no node has more than {most} that match"
        yield finding(manifest, "count-too-high", Level.WARNING, text, path=f"{path}.count")


# --- pods ---


def _pod_spec(manifest: Manifest) -> tuple[str, PodSpec] | None:
    if manifest.kind == "Pod":
        pod: Pod = manifest.document
        return "spec", pod.get("spec") or {}
    template = pod_template(manifest.document)
    if template is None:
        return None
    path = "spec.jobTemplate.spec.template.spec" if manifest.kind == "CronJob" else "spec.template.spec"
    return path, template["spec"]


def _containers(root: str, spec: PodSpec) -> Iterator[tuple[str, Container]]:
    for group in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(group) or ()):
            yield f"{root}.{group}[{position}]", container


def _pods(context: LintContext, manifest: Manifest) -> Iterator[Finding]:
    found = _pod_spec(manifest)
    if found is None:
        return
    root, spec = found
    namespace = manifest.namespace or "default"
    requests: dict[str, set[str] | None] = {}
    for position, entry in enumerate(spec.get("resourceClaims") or ()):
        path = f"{root}.resourceClaims[{position}]"
        known_requests = _request_names(context, namespace, entry)
        if known_requests is None and context.complete:
            name = " or ".join(filter(None, pod_claims.claim_and_template_names(entry)))
            text = f"there is no claim or template {name} in namespace {namespace}"
            yield finding(manifest, "unknown-claim", Level.WARNING, text, path=path)
        requests[entry.get("name", "")] = known_requests
    used: set[str] = set()
    for path, container in _containers(root, spec):
        for position, use in enumerate((container.get("resources") or {}).get("claims") or ()):
            used.add(use.get("name", ""))
            known = requests.get(use.get("name", ""))
            wanted = use.get("request")
            if wanted and known is not None and wanted not in known:
                text = (
                    f"container {container.get('name')} names request {wanted}, which claim {use['name']} does not "
                    f"have (it has: {', '.join(sorted(known))})"
                )
                where = f"{path}.resources.claims[{position}].request"
                yield finding(manifest, "undeclared-request", Level.ERROR, text, path=where)
    for position, entry in enumerate(spec.get("resourceClaims") or ()):
        if entry.get("name") not in used and not (spec.get("resources") or {}).get("claims"):
            text = (
                f"no container uses claim {entry.get('name')}: its devices are allocated but given to nobody"
            )
            path = f"{root}.resourceClaims[{position}]"
            yield finding(manifest, "unused-claim", Level.WARNING, text, path=path)


def _request_names(context: LintContext, namespace: str, entry: PodResourceClaim) -> set[str] | None:
    """The requests of the claim or template that an entry of a pod names; None if it is not known."""
    name, template_name = pod_claims.claim_and_template_names(entry)
    spec: ResourceClaimSpec
    if name:
        claim = context.cluster.claims.get(ObjectKey(namespace, name))
        if claim is None:
            return None
        spec = claim.get("spec") or {}
    else:
        template = context.cluster.templates.get(ObjectKey(namespace, template_name or ""))
        if template is None:
            return None
        spec = (template.get("spec") or {}).get("spec") or {}
    return {request["name"] for request in (spec.get("devices") or {}).get("requests") or ()}


def _shared(context: LintContext, manifest: Manifest) -> Iterator[Finding]:
    """Pods of a workload that all name one claim share its devices, and must all go where they are."""
    found = _pod_spec(manifest)
    if found is None or manifest.kind == "Pod":
        return
    root, spec = found
    workload: Workload = manifest.document
    outer = workload.get("spec") or {}
    several = (
        manifest.kind == "DaemonSet" or max(outer.get("replicas") or 1, outer.get("parallelism") or 1) > 1
    )
    if not several:
        return
    for position, entry in enumerate(spec.get("resourceClaims") or ()):
        name, _ = pod_claims.claim_and_template_names(entry)
        if name:
            text = (
                f"all pods of this {manifest.kind} share claim {name}, and with it the node of its devices; "
                "use a resourceClaimTemplateName to give each pod its own"
            )
            path = f"{root}.resourceClaims[{position}]"
            yield finding(manifest, "shared-claim", Level.WARNING, text, path=path)


_RULES: Final[tuple[Rule, ...]] = (
    _never_true,
    _typos,
    _class_matches_nothing,
    _device_plugin_too,
    _requests_matched,
    _pods,
    _shared,
)
