"""The pods of workloads in manifests: the pod that a Deployment, Job or the like would create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypedDict

    from dray.api.types.batch import JobTemplateSpec
    from dray.api.types.core import Pod, PodTemplateSpec
    from dray.api.types.meta import ObjectMeta

    class WorkloadSpec(TypedDict, total=False):
        """What explain reads of the specs of Deployments, Jobs, CronJobs and their like."""

        template: PodTemplateSpec
        jobTemplate: JobTemplateSpec
        replicas: int
        parallelism: int

    class Workload(TypedDict, total=False):
        """An object that may be a workload."""

        kind: str
        metadata: ObjectMeta
        spec: WorkloadSpec


_NAMESPACED = frozenset({"Pod", "ResourceClaim", "ResourceClaimTemplate", "ResourceClaimParameters"})


def expand_workload(workload: Workload, namespace: str) -> list[Any]:
    """The object itself, in its namespace, and one pod of it if it is a workload."""
    metadata = workload.get("metadata") or {}
    where = metadata.get("namespace") or namespace
    if workload.get("kind") in _NAMESPACED:
        name = metadata.get("name") or f"{metadata.get('generateName', '')}x"
        return [{**workload, "metadata": {**metadata, "namespace": where, "name": name}}]
    template = pod_template(workload)
    if template is None:
        return [workload]
    inner = template.get("metadata") or {}
    pod: Pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**inner, "name": f"{metadata.get('name', '')}-0", "namespace": where},
        "spec": template.get("spec") or {},
    }
    return [workload, pod]


def pod_template(workload: Workload) -> PodTemplateSpec | None:
    """The template of a workload's pods; None if the object is none. Custom resources may be workloads too."""
    spec = workload.get("spec") or {}
    if workload.get("kind") == "CronJob":
        template: Any = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template")
    else:
        template = spec.get("template")
    return template if isinstance(template, dict) and "spec" in template else None  # type: ignore[return-value]
