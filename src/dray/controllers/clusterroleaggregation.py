"""Aggregated ClusterRoles: a role with an aggregationRule gets the rules of all roles that its selectors match."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from dray.api.selectors import label_selector
from dray.client.resources import CLUSTER_ROLES
from dray.controllers.controller import Controller, ControllerContext

if TYPE_CHECKING:
    from dray.api.types.rbac import ClusterRole, PolicyRule


MANAGER: Final = "clusterrole-aggregation-controller"


def aggregated_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[PolicyRule]:
    """The rules a role gets from others: selector by selector, role by role in the order of names, each rule once."""
    by_name = sorted(roles, key=lambda r: r["metadata"]["name"])
    found: list[PolicyRule] = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        test = label_selector(selector)
        for other in by_name:
            metadata = other["metadata"]
            if metadata["name"] == role["metadata"]["name"] or not test.matches(metadata.get("labels")):
                continue
            found += [rule for rule in other.get("rules") or () if rule not in found]
    return found


class ClusterRoleAggregationController(Controller[str]):
    """Keys are names of aggregating roles. Which roles they draw on is not tracked: any change concerns all of them."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._roles = context.informers.get(CLUSTER_ROLES)
        self._roles.add_handler(
            on_add=self._changed, on_update=lambda old, new: self._changed(new), on_delete=self._changed
        )

    def _changed(self, role: ClusterRole) -> None:
        for other in self._roles.items():
            if other.get("aggregationRule"):
                self.enqueue(other["metadata"]["name"])

    async def sync(self, key: str) -> float | None:
        role = self._roles.get("", key)
        if role is None or not role.get("aggregationRule"):
            return None
        rules = aggregated_rules(role, self._roles.items())
        if rules != (role.get("rules") or []):
            # An apply without rules gives up the rules that the controller owned.
            wanted: ClusterRole = {"metadata": {"name": key}}
            if rules:
                wanted["rules"] = rules
            await self.context.client.apply(CLUSTER_ROLES, "", wanted, field_manager=MANAGER, force=True)
        return None
