"""The pods of workloads in manifests: the pod that a Deployment, Job or the like would create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodTemplateSpec
    from dray.api.types.meta import ObjectMeta

_NAMESPACED = frozenset({"Pod", "ResourceClaim", "ResourceClaimTemplate"})


def expand_workload(document: Any, namespace: str) -> list[Any]:
    """The object itself, in its namespace, and one pod of it if it is a workload."""
    metadata = cast("ObjectMeta", document.get("metadata") or {})
    where = metadata.get("namespace") or namespace
    if document.get("kind") in _NAMESPACED:
        name = metadata.get("name") or f"{metadata.get('generateName', '')}x"
        return [{**document, "metadata": {**metadata, "namespace": where, "name": name}}]
    template = _template(document)
    if template is None:
        return [document]
    inner = template.get("metadata") or {}
    pod: Pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**inner, "name": f"{metadata.get('name', '')}-0", "namespace": where},
        "spec": template.get("spec") or {},
    }
    return [document, pod]


def _template(document: Any) -> PodTemplateSpec | None:
    spec = document.get("spec") or {}
    if document.get("kind") == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template = spec.get("template")
    found = isinstance(template, dict) and "spec" in template
    return cast("PodTemplateSpec", template) if found else None
