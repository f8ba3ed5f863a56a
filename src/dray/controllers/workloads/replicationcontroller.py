"""The ReplicationController controller: what the ReplicaSet controller does, for its predecessor's selector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.client.resources import REPLICATION_CONTROLLERS
from dray.controllers.controller import ControllerContext
from dray.controllers.workloads.replicaset import ReplicaController

if TYPE_CHECKING:
    from dray.api.types.core import ReplicationController
    from dray.api.types.meta import LabelSelector


class ReplicationControllerController(ReplicaController["ReplicationController"]):
    name = "replicationcontroller-controller"
    resource = REPLICATION_CONTROLLERS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._counts_terminating = False

    def selector(self, owner: ReplicationController) -> LabelSelector:
        """Labels and their values, which a selector of today calls ``matchLabels``."""
        return {"matchLabels": owner["spec"].get("selector") or {}}
