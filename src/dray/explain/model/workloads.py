"""What workloads in manifests come to: the pod that a Deployment, Job or the like would make."""

from __future__ import annotations

from typing import Any

from dray.explain.model.snapshot import Document

_NAMESPACED = frozenset({"Pod", "ResourceClaim", "ResourceClaimTemplate"})


def expand_workload(document: Document, namespace: str) -> list[Document]:
    """The object itself, in its namespace, and one pod of it if it is a workload."""
    metadata = document.get("metadata") or {}
    where = metadata.get("namespace") or namespace
    if document.get("kind") in _NAMESPACED:
        name = metadata.get("name") or f"{metadata.get('generateName', '')}x"
        placed: dict[str, Any] = {**document, "metadata": {**metadata, "namespace": where, "name": name}}
        return [placed]
    template = _template(document)
    if template is None:
        return [document]
    inner = template.get("metadata") or {}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**inner, "name": f"{metadata.get('name', '')}-0", "namespace": where},
        "spec": template.get("spec") or {},
    }
    return [document, pod]


def _template(document: Document) -> Document | None:
    spec = document.get("spec") or {}
    if document.get("kind") == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template = spec.get("template")
    return template if isinstance(template, dict) and "spec" in template else None
