"""What a good colleague would say about manifests that the server would take: rules that look at the whole.

Rules that need to know devices are asked only if there is a snapshot and it has any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from dray.allocation.devices import Device
from dray.api import claims as pod_claims
from dray.cel import CompileError
from dray.cel.environment.devices import Device as Visible
from dray.explain.devices.selectors import group_devices, selector_attributes, split_conjunction
from dray.explain.devices.states import compiled, in_class, selected
from dray.explain.lint.validation import Finding, Level, finding
from dray.explain.model.cluster import Cluster, Key
from dray.explain.model.manifests import Manifest
from dray.explain.model.snapshot import Document

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
    "shared-claim": "Several pods of a workload would share one claim.",
}

_EQUALS = re.compile(r"""^(?P<what>device\.[^=!<>]+?)\s*==\s*(?P<value>"[^"]*"|'[^']*'|-?\d+|true|false)$""")


@dataclass(frozen=True)
class LintContext:
    """Manifests, and the cluster they would be applied to."""

    manifests: Sequence[Manifest]
    cluster: Cluster
    #: the cluster is known beyond the manifests, so that what is not there is missing
    complete: bool

    @cached_property
    def devices(self) -> list[Device]:
        """Slices among the manifests alone say nothing about the devices there are."""
        if not self.complete:
            return []
        return [device for pool in self.cluster.pools.values() for device in pool.devices]


def lint(world: LintContext) -> list[Finding]:
    return [
        found
        for manifest in world.manifests
        if not manifest.problems
        for rule in _RULES
        for found in rule(world, manifest)
    ]


Rule = Callable[[LintContext, Manifest], Iterator[Finding]]


# --- selectors ---


def _requests(manifest: Manifest) -> Iterator[tuple[str, Document]]:
    """Each request or alternative of a claim or template, with its path."""
    spec, root = manifest.document.get("spec") or {}, "spec.devices.requests"
    if manifest.kind == "ResourceClaimTemplate":
        spec, root = spec.get("spec") or {}, "spec.spec.devices.requests"
    elif manifest.kind != "ResourceClaim":
        return
    for position, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if request.get("exactly"):
            path = f"{root}[{position}].exactly"
            yield path if path in manifest.lines else f"{root}[{position}]", request["exactly"]
        for number, one in enumerate(request.get("firstAvailable") or ()):
            yield f"{root}[{position}].firstAvailable[{number}]", one


def _sources(owner: Document) -> Iterator[tuple[int, str]]:
    for position, selector in enumerate(owner.get("selectors") or ()):
        source = (selector.get("cel") or {}).get("expression")
        if source:
            yield position, source


def _selectors(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Every selector of a manifest with its path."""
    owners = [("spec", manifest.document.get("spec") or {})] if manifest.kind == "DeviceClass" else []
    for path, owner in (*owners, *_requests(manifest)):
        for position, source in _sources(owner):
            yield f"{path}.selectors[{position}].cel.expression", source


def _never_true(world: LintContext, manifest: Manifest) -> Iterator[Finding]:
    for path, source in _selectors(manifest):
        why = _contradiction(world, source)
        if why:
            yield finding(manifest, "selector-never-true", Level.WARNING, f"{why}: {source}", path=path)


def _contradiction(world: LintContext, source: str) -> str:
    try:
        selector = compiled(source, world.cluster.features)
    except CompileError:
        return ""
    reads = selector.reads
    if reads is not None and not any(
        (reads.driver, reads.allow_multiple_allocations, reads.attributes, reads.capacity)
    ):
        outcome = selector.outcome(Visible.of("", {"name": ""}))
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


def _typos(world: LintContext, manifest: Manifest) -> Iterator[Finding]:
    if not world.devices:
        return
    for path, source in _selectors(manifest):
        features = world.cluster.features
        groups = group_devices(source, world.devices, features)
        for one in selector_attributes(source, groups, features, known=lambda: world.devices):
            if not one.values and one.suggestion:
                text = f"no known device has {one.name}; did you mean {one.suggestion}?"
                yield finding(manifest, "attribute-typo", Level.WARNING, text, path=path)


def _matches(world: LintContext, request: Document) -> list[Device]:
    return list(filter(selected(world.cluster, request), world.devices))


def _class_matches_nothing(world: LintContext, manifest: Manifest) -> Iterator[Finding]:
    if manifest.kind != "DeviceClass" or not world.devices:
        return
    if not any(map(in_class(world.cluster, manifest.name), world.devices)):
        text = f"class {manifest.name} selects none of {len(world.devices)} known devices"
        yield finding(manifest, "class-matches-nothing", Level.WARNING, text, path="spec.selectors")


def _requests_matched(world: LintContext, manifest: Manifest) -> Iterator[Finding]:
    for path, request in _requests(manifest):
        class_name = request.get("deviceClassName") or ""
        if class_name not in world.cluster.classes:
            if world.complete:
                known = ", ".join(sorted(world.cluster.classes)) or "none"
                text = f"there is no device class {class_name} (there are: {known})"
                yield finding(manifest, "unknown-class", Level.WARNING, text, path=f"{path}.deviceClassName")
            continue
        if not world.devices:
            continue
        matching = _matches(world, request)
        if not matching:
            text = f"class {class_name} and these selectors match none of {len(world.devices)} known devices"
            yield finding(manifest, "selector-matches-nothing", Level.WARNING, text, path=path)
            continue
        yield from _count(manifest, path, request, matching)


def _count(manifest: Manifest, path: str, request: Document, matching: Sequence[Device]) -> Iterator[Finding]:
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


def _pod_spec(manifest: Manifest) -> tuple[str, Document] | None:
    spec = manifest.document.get("spec") or {}
    match manifest.kind:
        case "Pod":
            return "spec", spec
        case "CronJob":
            inner = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
            return "spec.jobTemplate.spec.template.spec", inner.get("spec") or {}
    template = spec.get("template")
    if isinstance(template, Mapping) and "spec" in template:
        return "spec.template.spec", template["spec"]
    return None


def _containers(root: str, spec: Document) -> Iterator[tuple[str, Document]]:
    for group in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(group) or ()):
            yield f"{root}.{group}[{position}]", container


def _pods(world: LintContext, manifest: Manifest) -> Iterator[Finding]:
    found = _pod_spec(manifest)
    if found is None:
        return
    root, spec = found
    namespace = (manifest.document.get("metadata") or {}).get("namespace") or "default"
    requests: dict[str, set[str] | None] = {}
    for position, entry in enumerate(spec.get("resourceClaims") or ()):
        path = f"{root}.resourceClaims[{position}]"
        target = _target(world, namespace, entry)
        if target is None and world.complete:
            name = " or ".join(filter(None, pod_claims.claim_and_template_names(entry)))
            text = f"there is no claim or template {name} in namespace {namespace}"
            yield finding(manifest, "unknown-claim", Level.WARNING, text, path=path)
        requests[entry.get("name", "")] = _names(target)
    used: set[str] = set()
    for path, container in _containers(root, spec):
        for position, entry in enumerate((container.get("resources") or {}).get("claims") or ()):
            used.add(entry.get("name", ""))
            known = requests.get(entry.get("name", ""))
            wanted = entry.get("request")
            if wanted and known is not None and wanted not in known:
                text = (
                    f"container {container.get('name')} names request {wanted}, which claim {entry['name']} does not "
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


def _target(world: LintContext, namespace: str, entry: Document) -> Document | None:
    name, template = pod_claims.claim_and_template_names(entry)
    if name:
        return world.cluster.claims.get(Key(namespace, name))
    return world.cluster.templates.get(Key(namespace, template or ""))


def _names(target: Document | None) -> set[str] | None:
    """The requests of a claim or template, None if it is not known."""
    if target is None:
        return None
    spec: Any = target.get("spec") or {}
    devices = (spec.get("spec") or spec).get("devices") or {}
    return {request["name"] for request in devices.get("requests") or ()}


def _shared(world: LintContext, manifest: Manifest) -> Iterator[Finding]:
    """Pods of a workload that all name one claim share its devices, and must all go where they are."""
    found = _pod_spec(manifest)
    if found is None or manifest.kind == "Pod":
        return
    root, spec = found
    outer = manifest.document.get("spec") or {}
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
    _requests_matched,
    _pods,
    _shared,
)
