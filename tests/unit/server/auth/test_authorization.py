"""Roles, bindings, nodes and reviews on a running API."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.errors import Forbidden
from dray.api.user import UserInfo
from dray.server.auth.authorizer import Attributes, AuthorizerChain, Decision, Verdict
from dray.server.auth.rbac import PolicyRule
from tests.support.authorization import RBAC, guarded, rule

PODS = "/api/v1/namespaces/default/pods"


async def test_a_grant_counts_at_once_and_so_does_its_end(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        alice = server.as_user("alice")
        with pytest.raises(Forbidden, match='User "alice" cannot list resource "pods"'):
            await alice.request("GET", PODS)
        await server.grant("alice", rule("list", "pods"))
        assert (await alice.request("GET", PODS)).status == 200
        await server.root.request("DELETE", f"{RBAC}/namespaces/default/rolebindings/given")
        with pytest.raises(Forbidden):
            await alice.request("GET", PODS)


async def test_a_binding_to_a_missing_role_is_told_in_the_refusal(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.grant("alice", rule("list", "pods"))
        await server.root.request("DELETE", f"{RBAC}/namespaces/default/roles/given")
        with pytest.raises(Forbidden, match=r'RBAC: role\.rbac\.authorization\.k8s\.io "given" not found'):
            await server.as_user("alice").request("GET", PODS)


async def test_nobody_grants_permissions_they_do_not_have(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.grant(
            "alice",
            rule("get", "pods"),
            rule("create", "roles,rolebindings", group="rbac.authorization.k8s.io"),
        )
        alice, roles = server.as_user("alice"), f"{RBAC}/namespaces/default/roles"
        held = {"metadata": {"name": "held"}, "rules": [rule("get", "pods")]}
        assert (await alice.request("POST", roles, body=held)).status == 201
        more = {"metadata": {"name": "more"}, "rules": [rule("get,delete", "pods")]}
        with pytest.raises(Forbidden, match=r'not currently held:\n\{.*Verbs:\["delete"\]\}'):
            await alice.request("POST", roles, body=more)
        binding = {
            "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": "alice"}],
        }
        with pytest.raises(Forbidden, match="attempting to grant"):
            await alice.request("POST", f"{RBAC}/namespaces/default/rolebindings", body=binding)


async def test_default_roles_get_back_what_was_taken_and_keep_what_was_added(tmp_path: Path) -> None:
    from dray.server.auth.rbac import bootstrappolicy

    async with guarded(tmp_path) as server:
        path = f"{RBAC}/clusterroles/system:basic-user"
        role = (await server.root.request("GET", path)).object
        changed = {**role, "rules": [rule("get", "things")]}
        await server.root.request("PUT", path, body=changed)
        await bootstrappolicy.reconcile(server.api)
        now = [PolicyRule.of(r) for r in (await server.root.request("GET", path)).object["rules"]]
        assert PolicyRule(("get",), ("",), ("things",)) in now
        assert PolicyRule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",)) in now


async def test_a_node_sees_the_secrets_of_its_pods_and_no_others(tmp_path: Path) -> None:
    async with guarded(tmp_path, disable_plugins=("ServiceAccount",)) as server:
        for name in ("mine", "other"):
            await server.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": name}})
        volumes = [{"name": "v", "secret": {"secretName": "mine"}}]
        containers = [{"name": "c", "image": "registry.example.com/c:1"}]
        pod = {
            "metadata": {"name": "p"},
            "spec": {"nodeName": "n1", "containers": containers, "volumes": volumes},
        }
        await server.post(PODS, pod)
        node = server.as_user("system:node:n1", "system:nodes")
        secrets = "/api/v1/namespaces/default/secrets"
        assert (await node.request("GET", f"{secrets}/mine")).status == 200
        with pytest.raises(Forbidden, match="no relationship found between node 'n1' and this object"):
            await node.request("GET", f"{secrets}/other")
        with pytest.raises(Forbidden):
            await server.as_user("system:node:n2", "system:nodes").request("GET", f"{secrets}/mine")
        await server.root.request("DELETE", f"{PODS}/p", query={"gracePeriodSeconds": "0"})
        with pytest.raises(Forbidden):
            await node.request("GET", f"{secrets}/mine")


async def test_reviews_answer_as_the_authorizer_would(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.grant("alice", rule("get", "pods", names="p"))
        asked = {"verb": "get", "resource": "pods", "namespace": "default", "name": "p"}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        review = await server.post(path, {"spec": {"user": "alice", "resourceAttributes": asked}})
        assert review["status"]["allowed"]
        assert review["status"]["reason"].startswith('RBAC: allowed by RoleBinding "given/default"')
        asked["name"] = "q"
        empty = {"name": "", "creationTimestamp": None}  # as clients in Go write it
        review = await server.post(
            path, {"metadata": empty, "spec": {"user": "alice", "resourceAttributes": asked}}
        )
        assert review["status"] == {"allowed": False}


async def test_rules_are_listed_but_for_those_of_nodes(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.grant("alice", rule("get", "pods"))
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        asked = {"spec": {"namespace": "default"}}
        mine = (await server.as_user("alice").request("POST", path, body=asked)).object["status"]
        assert rule("get", "pods") in mine["resourceRules"]
        assert mine["incomplete"] is False
        node = server.as_user("system:node:n1", "system:nodes")
        listed = (await node.request("POST", path, body=asked)).object["status"]
        assert listed["incomplete"] is True
        assert listed["evaluationError"] == "node authorizer does not support user rule resolution"


class OnGroup:
    """Allows everything to a group, and has no opinion on others."""

    def __init__(self, group: str) -> None:
        self._group = group
        self.asked = 0

    def concerns(self, user: UserInfo) -> bool:
        return self._group in user.groups

    def authorize(self, attributes: Attributes) -> Verdict:
        self.asked += 1
        return Verdict(Decision.ALLOW, self._group)


def test_authorizers_are_only_asked_about_users_that_concern_them() -> None:
    first, second = OnGroup("first"), OnGroup("second")
    chain = AuthorizerChain([first, second])
    for groups, reason in ((("second",), "second"), (("first", "second"), "first"), ((), "")):
        for _ in range(2):
            assert chain.authorize(Attributes(UserInfo("u", groups=groups), "get")).reason == reason
    assert (first.asked, second.asked) == (2, 2)
