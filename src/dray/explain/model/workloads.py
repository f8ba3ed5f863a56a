"""The pods of workloads in manifests: the pod that a Deployment, Job or the like would create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from dray.explain.model import manifests
from dray.explain.model.snapshot import SnapshotError

if TYPE_CHECKING:
    from typing import TypedDict

    from dray.api.types.batch import JobSchedulingConfiguration, JobTemplateSpec
    from dray.api.types.core import Pod, PodSpec, PodTemplateSpec
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.scheduling_v1beta1 import PodGroup

    class WorkloadSpec(TypedDict, total=False):
        """What explain reads of the specs of Deployments, Jobs, CronJobs and their like."""

        template: PodTemplateSpec
        jobTemplate: JobTemplateSpec
        replicas: int
        parallelism: int
        scheduling: JobSchedulingConfiguration

    class Workload(TypedDict, total=False):
        """An object that may be a workload."""

        kind: str
        metadata: ObjectMeta
        spec: WorkloadSpec


_NAMESPACED = frozenset(
    {"Pod", "PodGroup", "ResourceClaim", "ResourceClaimTemplate", "ResourceClaimParameters"}
)


def expand_workload(workload: Workload, namespace: str) -> list[Any]:
    """The object itself, in its namespace, and one pod of it if it is a workload; of a gang, the group and all pods."""
    metadata = workload.get("metadata") or {}
    where = metadata.get("namespace") or namespace
    if workload.get("kind") in _NAMESPACED:
        name = metadata.get("name") or f"{metadata.get('generateName', '')}x"
        placed: Workload = {**workload, "metadata": {**metadata, "namespace": where, "name": name}}
        return [placed]
    template = pod_template(workload)
    if template is None:
        return [workload]
    inner = template.get("metadata") or {}
    if not isinstance(cast("object", inner), dict):
        raise SnapshotError(f"the template of {workload.get('kind')}: metadata is not an object")
    pod: Pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**inner, "name": f"{metadata.get('name', '')}-0", "namespace": where},
        "spec": template.get("spec") or {},
    }
    if wrong := manifests.manifest(pod).malformed:  # in a custom resource nobody has looked at it yet
        raise SnapshotError(f"the template of {workload.get('kind')} {metadata.get('name', '')}: {wrong}")
    if (group := _gang_of(workload, where)) is not None:
        members = [_member(pod, group, i) for i in range((workload.get("spec") or {}).get("parallelism", 1))]
        return [workload, group, *members]
    return [workload, pod]


def _gang_of(workload: Workload, namespace: str) -> PodGroup | None:
    """The group that a Job with a gang would get."""
    spec = workload.get("spec") or {}
    gang = ((spec.get("scheduling") or {}).get("schedulingPolicy") or {}).get("gang")
    if workload.get("kind") != "Job" or gang is None:
        return None
    name = (workload.get("metadata") or {}).get("name", "")
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": gang.get("minCount") or spec.get("parallelism", 1)}}
        },
    }


def _member(pod: Pod, group: PodGroup, number: int) -> Pod:
    name = group["metadata"]["name"]
    spec: PodSpec = {**pod["spec"], "schedulingGroup": {"podGroupName": name}}
    return {**pod, "metadata": {**pod["metadata"], "name": f"{name}-{number}"}, "spec": spec}


def pod_template(workload: Workload) -> PodTemplateSpec | None:
    """The template of a workload's pods; None if the object is none. Custom resources may be workloads too."""
    spec = workload.get("spec") or {}
    if not isinstance(cast("object", spec), dict):
        return None
    if workload.get("kind") == "CronJob":
        template = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template")
    else:
        template = spec.get("template")
    return template if isinstance(template, dict) and "spec" in template else None
