"""Reconciliation: creates the default roles and bindings at start, and adds what is missing from existing ones.

Rules and subjects that somebody has added are kept. An object whose autoupdate annotation is false is not changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from dray.api.errors import AlreadyExists
from dray.api.groups.rbac import GROUP
from dray.api.objects import clone
from dray.server.apiserver import APIServer
from dray.server.auth.rbac.bootstrappolicy import notation
from dray.server.auth.rbac.rules import PolicyRule, uncovered
from dray.server.bootstrap import APISERVER_USER
from dray.server.endpoints.requests import Request

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.rbac import ClusterRole, ClusterRoleBinding, Subject

    class _Default(ClusterRole, ClusterRoleBinding):
        """A role or a binding."""


_ANNOTATION: Final = "rbac.authorization.kubernetes.io/autoupdate"
_LABEL: Final = "kubernetes.io/bootstrapping"
_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_CONTROLLER: Final = "system:controller:"
_API_VERSION: Final = f"{GROUP}/v1"


async def reconcile(api: APIServer) -> None:
    """Bring the cluster's own roles, then its bindings, to what they have to be."""
    wanted = list(defaults(api))
    # All at once: the store then commits them together.
    for kinds in (("ClusterRole", "Role"), ("ClusterRoleBinding", "RoleBinding")):
        await asyncio.gather(*(_ensure(api, obj) for obj in wanted if obj["kind"] in kinds))


def _holds(api: APIServer) -> notation.Holds:
    def holds(condition: str) -> bool:
        name = condition[1:]
        if condition[0] != "?":
            return (name in api.gates) == (condition[0] == "@")
        return api.resources.resource("resource.k8s.io", name) is not None

    return holds


def node_rules(api: APIServer) -> tuple[PolicyRule, ...]:
    """What every node may do, whether or not a role says so."""
    return next(
        role.rules for role in notation.roles("cluster.txt", _holds(api)) if role.name == "system:node"
    )


def defaults(api: APIServer) -> Iterator[_Default]:
    """Every object that this cluster has to have."""
    holds = _holds(api)
    for role in notation.roles("cluster.txt", holds):
        yield _role(role)
    for role in notation.roles("controllers.txt", holds):
        name = _CONTROLLER + role.name
        yield _role(notation.Role("", name, role.rules))
        account = ("ServiceAccount", "kube-system", role.name)
        yield _binding(notation.Binding("", name, name, (account,)))
    for role in notation.roles("namespaces.txt", holds):
        yield _role(role)
    for binding in notation.bindings("bindings.txt", holds):
        yield _binding(binding)


def _metadata(namespace: str, name: str, labels: Mapping[str, str]) -> ObjectMeta:
    found: ObjectMeta = {"namespace": namespace} if namespace else {}
    found["name"] = name
    found["labels"] = {_LABEL: "rbac-defaults", **labels}
    found["annotations"] = {_ANNOTATION: "true"}
    return found


def _role(role: notation.Role) -> _Default:
    labels = {_AGGREGATE + role.gathered: "true"} if role.gathered else {}
    found: _Default = {
        "apiVersion": _API_VERSION,
        "kind": "Role" if role.namespace else "ClusterRole",
        "metadata": _metadata(role.namespace, role.name, labels),
    }
    if role.gathers:
        found["aggregationRule"] = {
            "clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + role.gathers: "true"}}]
        }
    rules: Any = [rule.object() for rule in role.rules] if role.rules else None
    found["rules"] = rules
    return found


def _binding(binding: notation.Binding) -> _Default:
    namespaced = bool(binding.namespace)
    found: _Default = {
        "apiVersion": _API_VERSION,
        "kind": "RoleBinding" if namespaced else "ClusterRoleBinding",
        "metadata": _metadata(binding.namespace, binding.name, {}),
        "roleRef": {
            "apiGroup": GROUP,
            "kind": "Role" if namespaced else "ClusterRole",
            "name": binding.role,
        },
    }
    if binding.subjects:
        found["subjects"] = [_subject(*subject) for subject in binding.subjects]
    return found


def _subject(kind: str, namespace: str, name: str) -> Subject:
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"kind": kind, "apiGroup": GROUP, "name": name}


async def _ensure(api: APIServer, wanted: _Default) -> None:
    meta = wanted["metadata"]
    plural = wanted["kind"].lower() + "s"
    resource = api.resource(GROUP, plural)
    namespace = meta.get("namespace", "")
    base = f"/apis/{_API_VERSION}" + (f"/namespaces/{namespace}" if namespace else "") + f"/{plural}"
    document = resource.cache.get(resource.key(namespace, meta["name"]))
    if document is not None:
        repaired = _repaired(document.hub, wanted)
        if repaired is None:
            return
        path = f"{base}/{meta['name']}"
        if repaired.get("roleRef") == document.hub.get("roleRef"):
            await api.handle(Request("PUT", path, body=cast("dict[str, Any]", repaired), user=APISERVER_USER))
            return
        # What a binding refers to cannot be changed; it has to be made anew.
        await api.handle(Request("DELETE", path, user=APISERVER_USER))
    with contextlib.suppress(AlreadyExists):
        await api.handle(Request("POST", base, body=cast("dict[str, Any]", wanted), user=APISERVER_USER))


def _repaired(present: _Default, wanted: _Default) -> _Default | None:
    """The object with what it lacks; None if it lacks nothing, or must be left alone."""
    meta = present["metadata"]
    if (meta.get("annotations") or {}).get(_ANNOTATION) == "false":
        return None
    if present.get("roleRef") != wanted.get("roleRef"):
        return wanted
    new: _Default = clone(present)
    expected = wanted["metadata"]
    new["metadata"]["labels"] = {**expected["labels"], **(meta.get("labels") or {})}
    new["metadata"]["annotations"] = {**expected["annotations"], **(meta.get("annotations") or {})}
    if "rules" in wanted:
        owned = [PolicyRule.of(rule) for rule in present.get("rules") or ()]
        missing = [
            part.object() for part in uncovered(owned, [PolicyRule.of(r) for r in wanted["rules"] or ()])
        ]
        if missing:
            new["rules"] = [*(present.get("rules") or ()), *missing]
    if "aggregationRule" in wanted:
        selectors = (present.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        lacking = [s for s in wanted["aggregationRule"]["clusterRoleSelectors"] if s not in selectors]
        if lacking:
            new["aggregationRule"] = {"clusterRoleSelectors": [*selectors, *lacking]}
    if absent := [s for s in wanted.get("subjects", ()) if s not in (present.get("subjects") or ())]:
        new["subjects"] = [*(present.get("subjects") or ()), *absent]
    return None if new == present else new
