"""The group of a Job's pods: a Workload with one template, and the PodGroup made from it.

Every root Job gets both in a release that groups every Job; otherwise a Job that says how its pods are to be scheduled.
A Job that has begun without them never gets them.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, cast

from dray.api.errors import AlreadyExists
from dray.api.objects import controller_of
from dray.client.client import PatchType
from dray.client.resources import JOBS, POD_GROUPS, WORKLOADS
from dray.controllers.workloads.controller_ref import owner_reference

if TYPE_CHECKING:
    from dray.api.types.batch import Job
    from dray.api.types.core import Pod
    from dray.api.types.meta import OwnerReference
    from dray.api.types.scheduling_v1beta1 import (
        PodGroup,
        PodGroupSchedulingPolicy,
        PodGroupSpec,
        PodGroupTemplate,
        Workload,
    )
    from dray.client.resources import Resource, T
    from dray.controllers.controller import ControllerContext

_LONGEST_NAME: Final = 253


def is_new(job: Job, pods: list[Pod]) -> bool:
    """Whether nothing has come of the Job yet."""
    status = job.get("status") or {}
    if pods or status.get("startTime") or status.get("succeeded") or status.get("failed"):
        return False
    return all(condition["type"] != "Suspended" for condition in status.get("conditions") or ())


def policy_of(job: Job) -> PodGroupSchedulingPolicy:
    """The policy of the Job's group; a gang that names no number needs all pods that run at once."""
    policy = (job["spec"].get("scheduling") or {}).get("schedulingPolicy") or {}
    gang = policy.get("gang")
    if gang is None:
        return {"basic": {}}
    return {"gang": {"minCount": gang.get("minCount") or job["spec"].get("parallelism", 1)}}


def template_of(job: Job) -> PodGroupTemplate:
    name = f"{job['metadata']['name']}-pgt-0"
    template: PodGroupTemplate = {"name": name, "schedulingPolicy": policy_of(job)}
    scheduling = job["spec"].get("scheduling") or {}
    if (constraints := scheduling.get("schedulingConstraints")) is not None:
        template["schedulingConstraints"] = constraints
    if (mode := scheduling.get("disruptionMode")) is not None:
        template["disruptionMode"] = mode
    if (claims := scheduling.get("resourceClaims")) is not None:
        template["resourceClaims"] = claims
    if priority := job["spec"]["template"]["spec"].get("priorityClassName"):
        template["priorityClassName"] = priority
    return template


def _name(base: str, *parts: str) -> str:
    """A name that follows from the Job's, and is nobody else's."""
    ending = f"-{zlib.crc32('/'.join((base, *parts)).encode()):08x}"
    return base[: _LONGEST_NAME - len(ending)] + ending


class JobGroups:
    """Makes the Workload and the PodGroup of Jobs, and keeps the size of their gang up to date."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._every_job = context.quirks.groups_every_job
        self._workloads = context.informers.get(WORKLOADS)
        self._groups = context.informers.get(POD_GROUPS)
        self._made: dict[
            str, tuple[Workload, PodGroup]
        ] = {}  # by the Job's uid; no informer may have shown them yet

    def forget(self, job: Job) -> None:
        self._made.pop(job["metadata"]["uid"], None)

    async def of(self, job: Job, pods: list[Pod]) -> PodGroup | None:
        """The group that new pods of the Job belong to."""
        spec = job["spec"]
        if spec["template"]["spec"].get("schedulingGroup") or controller_of(job) is not None:
            return None
        if not self._every_job and spec.get("scheduling") is None:
            return None
        found = self._known(job)
        if found is None and is_new(job, pods):
            found = await self._make(job)
        if found is None:
            return None
        await self._resize(job, *found)
        return found[1]

    def _known(self, job: Job) -> tuple[Workload, PodGroup] | None:
        namespace, name, uid = (job["metadata"][part] for part in ("namespace", "name", "uid"))
        workload_name = _name(name, uid)
        workload = self._workloads.get(namespace, workload_name)
        group = self._groups.get(namespace, _name(workload_name, "group"))
        owner = controller_of(group) if group is not None else None
        if workload is not None and group is not None and owner is not None and owner["uid"] == uid:
            return workload, group
        return self._made.get(uid)

    async def _make(self, job: Job) -> tuple[Workload, PodGroup]:
        metadata, template = job["metadata"], template_of(job)
        name, owner = _name(metadata["name"], metadata["uid"]), owner_reference(JOBS, job)
        workload: Workload = {
            "metadata": {"name": name, "namespace": metadata["namespace"], "ownerReferences": [owner]},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": metadata["name"]},
                "podGroupTemplates": [template],
            },
        }
        workload = await self._create(WORKLOADS, workload)
        whose: OwnerReference = {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "name": name,
            "uid": workload["metadata"]["uid"],
        }
        shared = {part: value for part, value in template.items() if part != "name" and value is not None}
        group: PodGroup = {
            "metadata": {
                "name": _name(name, "group"),
                "namespace": metadata["namespace"],
                "ownerReferences": [owner, whose],
            },
            "spec": {
                **cast("PodGroupSpec", shared),
                "workloadRef": {"workloadName": name, "templateName": template["name"]},
            },
        }
        made = workload, await self._create(POD_GROUPS, group)
        self._made[metadata["uid"]] = made
        return made

    async def _create(self, resource: Resource[T], wanted: T) -> T:
        metadata = wanted["metadata"]
        try:
            return await self._client.create(resource, metadata["namespace"], wanted)
        except AlreadyExists:
            return await self._client.get(resource, metadata["namespace"], metadata["name"])

    async def _resize(self, job: Job, workload: Workload, group: PodGroup) -> None:
        gang = policy_of(job).get("gang")
        known = (group["spec"].get("schedulingPolicy") or {}).get("gang")
        if gang is None or known is None or known["minCount"] == gang["minCount"]:
            return
        templates: list[PodGroupTemplate] = [
            {**t, "schedulingPolicy": {"gang": gang}} for t in workload["spec"]["podGroupTemplates"]
        ]
        namespace = job["metadata"]["namespace"]
        await self._client.patch(
            WORKLOADS, namespace, workload["metadata"]["name"], {"spec": {"podGroupTemplates": templates}},
            type=PatchType.MERGE,
        )  # fmt: skip
        written = await self._client.patch(
            POD_GROUPS, namespace, group["metadata"]["name"], {"spec": {"schedulingPolicy": {"gang": gang}}},
            type=PatchType.MERGE,
        )  # fmt: skip
        self._made[job["metadata"]["uid"]] = workload, written
