"""Mirror pods: they show the parts of the control plane that run on a node, as a kubeadm cluster does.

Deleting a mirror pod does nothing to what it shows, and the node creates the pod again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dray.api.errors import AlreadyExists, NotFound, StatusError
from dray.api.pods import MIRROR_ANNOTATION
from dray.api.times import from_epoch
from dray.backoff import Backoff
from dray.client.client import Client, PatchType
from dray.client.resources import PODS
from dray.node.pod_status import NO_TIME

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodStatus
    from dray.api.types.meta import OwnerReference

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"
_RETRY = Backoff(initial=0.2, factor=2.0, maximum=10.0, jitter=0.2)


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlPlanePart:
    """One part, such as the API server."""

    name: str
    command: Sequence[str] = ()
    image: str = "dray"
    log: Path | None = None  # in the format of containers' logs

    @property
    def hash(self) -> str:
        """Changes with what the pod shows (upstream: the hash of the manifest)."""
        return hashlib.md5(
            repr((self.name, *self.command, self.image)).encode(), usedforsecurity=False
        ).hexdigest()


def pod_of(part: ControlPlanePart, *, node: str, node_uid: str) -> Pod:
    owner: OwnerReference = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node,
        "uid": node_uid,
        "controller": True,
    }
    return {
        "metadata": {
            "name": f"{part.name}-{node}",
            "namespace": NAMESPACE,
            "labels": {"component": part.name, "tier": "control-plane"},
            "annotations": {
                MIRROR_ANNOTATION: part.hash,
                "kubernetes.io/config.hash": part.hash,
                "kubernetes.io/config.source": "file",
            },
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            "containers": [{"name": part.name, "image": part.image, "command": list(part.command)}],
        },
    }


class MirrorPods:
    """Keeps the mirrors of one node."""

    def __init__(
        self,
        client: Client,
        parts: Sequence[ControlPlanePart],
        *,
        node: str,
        address: str,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._parts = {f"{p.name}-{node}": p for p in parts}
        self._node = node
        self._address = address
        self._clock = clock
        self._since = from_epoch(clock())
        self._wake = asyncio.Event()
        self._deleting: dict[str, str] = {}  # uids of pods that are being deleted, by name

    def changed(self, pod: Pod) -> None:
        """A pod that shows something else than what runs goes, too: the options have changed since it was made."""
        metadata = pod["metadata"]
        part = self._parts.get(metadata["name"])
        if metadata.get("deletionTimestamp") or part is None or part.hash != _hash(pod):
            self._deleting[metadata["name"]] = metadata["uid"]
            self._wake.set()

    def deleted(self, pod: Pod) -> None:
        self._wake.set()

    def log(self, pod: Pod) -> Path | None:
        """Where the part that this pod shows writes its log."""
        part = self._parts.get(pod["metadata"]["name"])
        return part.log if part else None

    async def run(self, node_uid: str) -> None:
        pauses = _RETRY.pauses()
        while True:
            self._wake.clear()
            try:
                await self._confirm_deletions()
                for part in self._parts.values():
                    await self._ensure(part, node_uid)
                pauses = _RETRY.pauses()
                await self._wake.wait()
            except StatusError as e:
                log.info("mirror pods of %s: %s", self._node, e)
                await asyncio.sleep(next(pauses))

    async def _confirm_deletions(self) -> None:
        """Nothing has to end for a mirror to go: its deletion is confirmed at once."""
        for name, uid in list(self._deleting.items()):
            with contextlib.suppress(NotFound):
                await self._client.delete(PODS, NAMESPACE, name, uid=uid, grace_seconds=0)
            del self._deleting[name]

    async def _ensure(self, part: ControlPlanePart, node_uid: str) -> None:
        wanted = pod_of(part, node=self._node, node_uid=node_uid)
        name = wanted["metadata"]["name"]
        try:
            pod = await self._client.create(PODS, NAMESPACE, wanted)
        except AlreadyExists:
            pod = await self._client.get(PODS, NAMESPACE, name)
            if part.hash != _hash(pod):
                return  # its deletion is seen, and then it is created anew
        if (pod.get("status") or {}).get("phase") != "Running":
            await self._client.patch_status(
                PODS, NAMESPACE, name, {"status": self._status(part)}, type=PatchType.STRATEGIC
            )

    def _status(self, part: ControlPlanePart) -> PodStatus:
        kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        return {
            "phase": "Running",
            "startTime": self._since,
            "hostIP": self._address,
            "hostIPs": [{"ip": self._address}],
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "conditions": [
                {"type": k, "status": "True", "lastProbeTime": NO_TIME, "lastTransitionTime": self._since}
                for k in kinds
            ],
            "containerStatuses": [
                {
                    "name": part.name,
                    "state": {"running": {"startedAt": self._since}},
                    "lastState": {},
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "image": part.image,
                    "imageID": part.image,
                    "containerID": f"dray://{part.name}",
                }
            ],
        }


def _hash(pod: Pod) -> str:
    return (pod["metadata"].get("annotations") or {}).get(MIRROR_ANNOTATION, "")
