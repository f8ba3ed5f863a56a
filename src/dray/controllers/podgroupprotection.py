"""The PodGroup protection controller: a deleted group stays while pods that have not finished refer to it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from dray.api import objects, pods
from dray.api.errors import NotFound
from dray.api.groups.scheduling.podgroup import PROTECTION_FINALIZER
from dray.client.resources import POD_GROUPS, PODS, ObjectKey
from dray.controllers.controller import Controller, ControllerContext

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.scheduling_v1beta1 import PodGroup

_BY_GROUP = "pod group"


def _group_of(pod: Pod) -> list[str]:
    if "schedulingGroup" not in pod["spec"]:
        return []
    return [f"{pod['metadata']['namespace']}/{pod['spec']['schedulingGroup'].get('podGroupName', '')}"]


class PodGroupProtectionController(Controller[ObjectKey]):
    name = "podgroup-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        context.resource(POD_GROUPS, "v1beta1")
        self._groups = context.informers.get(POD_GROUPS)
        self._pods = context.informers.get(PODS, indexers={_BY_GROUP: _group_of})
        self._groups.add_handler(on_set=self._group_set)
        self._pods.add_handler(on_set=self._pod_set, on_delete=self._pod_set)

    def _group_set(self, group: PodGroup) -> None:
        if objects.is_terminating(group) and objects.has_finalizer(group, PROTECTION_FINALIZER):
            self.enqueue(ObjectKey(group["metadata"]["namespace"], group["metadata"]["name"]))

    def _pod_set(self, pod: Pod) -> None:
        if "schedulingGroup" in pod["spec"]:
            name = pod["spec"]["schedulingGroup"].get("podGroupName") or ""
            group = self._groups.get(pod["metadata"]["namespace"], name)
            if group is not None:
                self._group_set(group)

    async def sync(self, key: ObjectKey) -> float | None:
        group = self._groups.get(*key)
        if group is None or not objects.is_terminating(group):
            return None
        if any(
            not pods.is_terminal(pod) for pod in self._pods.by_index(_BY_GROUP, f"{key.namespace}/{key.name}")
        ):
            return None
        metadata = group["metadata"]
        left = [f for f in metadata.get("finalizers") or () if f != PROTECTION_FINALIZER]
        kept: ObjectMeta = {**metadata, "finalizers": left}
        with contextlib.suppress(NotFound):
            await self.context.client.update(POD_GROUPS, key.namespace, {**group, "metadata": kept})
        return None
