"""Namespaces that are deleted."""

from __future__ import annotations

import asyncio

from dray.client.resources import CONFIGMAPS, NAMESPACES, PODS
from dray.controllers.discovery import ServerResources
from dray.controllers.namespace import conditions
from tests.support.controlplane import ControlPlane, control_plane, controllers, server
from tests.support.wait import wait_for

NAMESPACE = "namespace-controller"
AT_ONCE = {"settings": {NAMESPACE: {"grace_seconds": 0}}}
SEEN_ALL = ServerResources(())


def told(present, outcomes, *, discovered=SEEN_ALL, pods_left=False):
    found = conditions(present, outcomes, discovered, pods_left=pods_left, now="now")
    return None if found is None else {c["type"]: (c["status"], c["reason"], c["message"]) for c in found}


async def condition(s: ControlPlane, kind: str, name: str = "n") -> tuple[str, str]:
    found = (await s.get(NAMESPACES, name))["status"].get("conditions") or ()
    return next(((c["status"], c["message"]) for c in found if c["type"] == kind), ("", ""))


async def test_a_namespace_goes_with_everything_in_it():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n")
        await s.pod("p", namespace="n")
        await s.client.delete(NAMESPACES, "", "n")
        await s.wait_gone(NAMESPACES, "n")
        assert not (await s.client.list(CONFIGMAPS, "n")).items
        assert not (await s.client.list(PODS, "n")).items


async def test_pods_go_first():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n")
        await s.pod("p", namespace="n", metadata={"finalizers": ["example.com/hold"]})
        await s.client.delete(NAMESPACES, "", "n")

        async def told() -> bool:
            return bool((await s.get(NAMESPACES, "n"))["status"].get("conditions"))

        await wait_for("conditions of namespace n", told)
        assert await s.get(CONFIGMAPS, "c", "n")
        await s.client.patch(PODS, "n", "p", {"metadata": {"finalizers": None}})
        await s.wait_gone(NAMESPACES, "n")


async def test_old_releases_delete_everything_at_once_and_tell_of_all_that_remains():
    async with control_plane(NAMESPACE, emulate="1.30", **AT_ONCE) as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n")
        await s.pod("p", namespace="n", metadata={"finalizers": ["example.com/hold"]})
        await s.client.delete(NAMESPACES, "", "n")
        await s.wait_gone(CONFIGMAPS, "c", "n")

        async def remaining() -> str:
            status, message = await condition(s, "NamespaceContentRemaining")
            return message if status == "True" else ""

        assert (
            await wait_for("NamespaceContentRemaining", remaining)
            == "Some resources are remaining: pods. has 1 resource instances"
        )
        await s.client.patch(PODS, "n", "p", {"metadata": {"finalizers": None}})
        await s.wait_gone(NAMESPACES, "n")


async def test_what_is_held_is_told_and_waited_for():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n", finalizers=["example.com/hold"])
        await s.client.delete(NAMESPACES, "", "n")

        async def held() -> bool:
            return (await condition(s, "NamespaceFinalizersRemaining"))[0] == "True"

        await wait_for("NamespaceFinalizersRemaining", held)
        assert (await condition(s, "NamespaceFinalizersRemaining"))[1] == (
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )
        await s.client.patch(CONFIGMAPS, "n", "c", {"metadata": {"finalizers": None}})
        await s.wait_gone(NAMESPACES, "n")


async def test_a_foreign_hold_on_the_namespace_itself_is_respected():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        spec = {"finalizers": ["example.com/hold"]}
        await s.client.create(NAMESPACES, "", {"metadata": {"name": "n"}, "spec": spec})
        await s.client.delete(NAMESPACES, "", "n")

        async def ours_is_gone() -> bool:
            return (await s.get(NAMESPACES, "n"))["spec"]["finalizers"] == ["example.com/hold"]

        await wait_for("the kubernetes finalizer to go", ours_is_gone)


async def test_a_deletion_begun_before_the_controller_is_finished():
    async with server() as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n")
        await s.client.delete(NAMESPACES, "", "n")
        async with controllers(s, NAMESPACE, **AT_ONCE):
            await s.wait_gone(NAMESPACES, "n")


async def test_a_namespace_that_is_not_deleted_is_left_alone():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        before = await s.namespace("n")
        await s.namespace("gone")
        await s.client.delete(NAMESPACES, "", "gone")
        await s.wait_gone(NAMESPACES, "gone")
        await asyncio.sleep(0)
        assert await s.get(NAMESPACES, "n") == before
