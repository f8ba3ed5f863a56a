"""The node authorizer: a node may use its own objects, those of its pods, and what the rules for all nodes allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from dray.api.user import UserInfo
from dray.server.auth.authorizer import NO_OPINION, Attributes, Decision, Verdict
from dray.server.auth.nodes.graph import Graph
from dray.server.auth.rbac.rules import PolicyRule
from dray.server.auth.user import node_name
from dray.server.quirks import Quirks

LEASES: Final = "kube-node-lease"
_ALLOW: Final = Verdict(Decision.ALLOW)
_OWN: Final = frozenset({"get", "create", "update", "patch", "delete"})
_READ: Final = frozenset({"get", "list", "watch"})


def unlisted_rules(user: UserInfo) -> str:
    """Why the rules of a user cannot be listed: a node's depend on what runs on it."""
    return "" if node_name(user) is None else "node authorizer does not support user rule resolution"


def _no(reason: str) -> Verdict:
    return Verdict(Decision.NO_OPINION, reason)


class NodeAuthorizer:
    def __init__(self, graph: Graph, rules: Sequence[PolicyRule], quirks: Quirks) -> None:
        self._graph = graph
        self._rules = tuple(rules)
        self._quirks = quirks
        self._checks: dict[tuple[str, str], Callable[[str, Attributes], Verdict]] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._volume_claim,
            ("", "persistentvolumes"): self._get,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("", "serviceaccounts"): self._account,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("resource.k8s.io", "resourceslices"): self._slice,
        }
        if quirks.authorizes_nodes_by_selector:
            self._checks["", "nodes"] = self._node
            self._checks["", "pods"] = self._pod

    def concerns(self, user: UserInfo) -> bool:
        return node_name(user) is not None

    def authorize(self, attributes: Attributes) -> Verdict:
        node = node_name(attributes.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _no(f'unknown node for user "{attributes.user.name}"')
        if attributes.is_resource:
            check = self._checks.get((attributes.group, attributes.resource))
            if check is not None:
                return check(node, attributes)
        if any(rule.allows(attributes) for rule in self._rules):
            return _ALLOW
        return NO_OPINION

    # -- what several kinds have in common

    def _related(self, node: str, a: Attributes) -> Verdict:
        if not a.name:
            return _no("No Object name found")
        if self._graph.related(node, a.resource, a.namespace, a.name, version=a.version):
            return _ALLOW
        return _no(f"no relationship found between node '{node}' and this object")

    def _read(self, node: str, a: Attributes) -> Verdict:
        if a.verb not in _READ:
            return _no("can only read resources of this type")
        if a.subresource:
            return _no("cannot read subresource")
        if not a.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, a)

    def _get(self, node: str, a: Attributes) -> Verdict:
        if a.verb != "get":
            return _no("can only get individual resources of this type")
        if a.subresource:
            return _no("cannot get subresource")
        return self._related(node, a)

    # -- kinds

    def _volume_claim(self, node: str, a: Attributes) -> Verdict:
        if a.subresource != "status":
            return self._get(node, a)
        if a.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return self._related(node, a)

    def _account(self, node: str, a: Attributes) -> Verdict:
        if a.verb == "get" and not a.subresource:
            if not self._quirks.lets_nodes_read_service_accounts:
                return _no("not allowed to get service accounts")
            return self._read(node, a)
        if a.verb != "create" or not a.name:
            return _no("can only create tokens for individual service accounts")
        if a.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, a)

    def _lease(self, node: str, a: Attributes) -> Verdict:
        if a.verb not in _OWN:
            return _no("can only get, create, update, patch, or delete a node lease")
        if a.namespace != LEASES:
            return _no(f'can only access leases in the "{LEASES}" system namespace')
        if a.verb != "create" and a.name != node:
            return _no("can only access node lease with the same name as the requesting node")
        return _ALLOW

    def _csi_node(self, node: str, a: Attributes) -> Verdict:
        if a.verb not in _OWN:
            return _no("can only get, create, update, patch, or delete a CSINode")
        if a.subresource:
            return _no("cannot authorize CSINode subresources")
        if a.verb != "create" and a.name != node:
            return _no("can only access CSINode with the same name as the requesting node")
        return _ALLOW

    def _slice(self, node: str, a: Attributes) -> Verdict:
        if a.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        match a.verb:
            case "create":
                return _ALLOW
            case "get" | "update" | "patch" | "delete":
                return self._related(node, a)
            case "watch" | "list" | "deletecollection":
                field = "nodeName" if a.version == "v1alpha2" else "spec.nodeName"
                if not self._quirks.authorizes_nodes_by_selector or selects(a.field_selector, field, node):
                    return _ALLOW
                return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        return _no(
            "only the following verbs are allowed for a ResourceSlice: "
            "get, watch, list, create, update, patch, delete, deletecollection"
        )

    def _node(self, node: str, a: Attributes) -> Verdict:
        match a.subresource, a.verb:
            case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
                return _ALLOW
            case "", "get" | "list" | "watch":
                if a.name == node:
                    return _ALLOW
                what = f"'{a.name}'" if a.name else "all nodes"
                return _no(f"node '{node}' cannot read {what}, only its own Node object")
        return NO_OPINION

    def _pod(self, node: str, a: Attributes) -> Verdict:
        match a.subresource, a.verb:
            case "", "get":
                return self._get(node, a)
            case "", "list" | "watch":
                if selects(a.field_selector, "spec.nodeName", node):
                    return _ALLOW
                if a.name:
                    return self._related(node, a)
                return _no("can only list/watch pods with spec.nodeName field selector")
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOW
        return NO_OPINION


def selects(selector: str, field: str, value: str) -> bool:
    """Whether a field selector demands this value."""
    return any(
        term.partition("=")[0] == field and term.partition("=")[2].removeprefix("=") == value
        for term in selector.split(",")
    )
