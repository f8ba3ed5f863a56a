"""What the default roles allow, resource by resource and verb by verb, as ``kubectl auth can-i`` would tell."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from dray.api.user import UserInfo
from dray.client.client import Client
from dray.controllers import manager
from dray.controllers.clusterroleaggregation import aggregated_rules
from dray.server.auth.authorizer import Attributes
from tests.support.authorization import RBAC, Guarded, guarded
from tests.support.wait import wait_for

MATRIX = Path(__file__).with_name("default_roles.txt")
USER_FACING = ("cluster-admin", "admin", "edit", "view")
VERBS = {
    "c": "create", "d": "delete", "g": "get", "l": "list",
    "p": "patch", "u": "update", "w": "watch", "x": "deletecollection",
}  # fmt: skip


def user_facing() -> dict[str, dict[str, str]]:
    """By resource and role, the letters of the verbs."""
    table, _, _ = MATRIX.read_text().partition("\n= ")
    rows = (line.split() for line in table.splitlines() if line and not line.startswith("#"))
    return {name: dict(zip(USER_FACING, cells, strict=True)) for name, *cells in rows}


def of_the_system() -> Iterator[tuple[str, dict[str, str]]]:
    """Each role with the letters of what it allows, by resource."""
    for part in MATRIX.read_text().split("\n= ")[1:]:
        name, *lines = part.splitlines()
        words = (line.split() for line in lines if not line.startswith("#"))
        yield name, {resource: letters for letters, *resources in words for resource in resources}


async def served_resources(server: Guarded) -> list[str]:
    """Everything of discovery, as ``RESOURCE[/SUBRESOURCE][.GROUP]``."""
    groups = (await server.root.request("GET", "/apis")).object["groups"]
    found = set()
    for group, path in [("", "/api/v1")] + [
        (g["name"], f"/apis/{v['groupVersion']}") for g in groups for v in g["versions"]
    ]:
        listed = (await server.root.request("GET", path)).object["resources"]
        found |= {r["name"] + (f".{group}" if group else "") for r in listed}
    return sorted(found)


@asynccontextmanager
async def with_aggregation(tmp_path: Path) -> AsyncIterator[Guarded]:
    """A server on which the roles that gather others have done so."""
    async with guarded(tmp_path) as server:
        ready = asyncio.Event()
        options = manager.Options(controllers=("clusterrole-aggregation-controller",), gates=server.api.gates)
        task = asyncio.create_task(manager.run(Client(server.root), options=options, ready=ready.set))
        await ready.wait()
        await wait_for("the aggregated rules", lambda: gathered(server))
        try:
            yield server
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def gathered(server: Guarded) -> bool:
    """Whether all roles have what they gather; some gather from roles that gather themselves."""
    roles = (await server.root.request("GET", f"{RBAC}/clusterroles")).object["items"]
    return all(r["rules"] == aggregated_rules(r, roles) for r in roles if "aggregationRule" in r)


async def bind(server: Guarded, role: str) -> UserInfo:
    """Somebody who has this role and no other."""
    user = f"has-{role}"
    binding = {
        "metadata": {"name": user},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user}],
    }
    await server.post(f"{RBAC}/clusterrolebindings", binding)
    return UserInfo(user)


def letters(server: Guarded, user: UserInfo, name: str) -> str:
    """What somebody may do to a resource."""
    resource, _, group = name.partition(".")
    plural, _, subresource = resource.partition("/")

    def may(verb: str) -> bool:
        asked = Attributes(
            user, verb, group=group, resource=plural, subresource=subresource, namespace="default"
        )
        return server.api.authorizer.authorize(asked).allowed

    found = "".join(letter for letter, verb in VERBS.items() if may(verb))
    return {"": "-", "".join(VERBS): "*"}.get(found, found)


async def test_the_roles_for_people_allow_what_upstreams_do(tmp_path: Path) -> None:
    wanted = user_facing()
    async with with_aggregation(tmp_path) as server:
        assert set(await served_resources(server)) == set(wanted)
        people = {role: await bind(server, role) for role in USER_FACING}
        found = {name: {role: letters(server, people[role], name) for role in people} for name in wanted}
        assert found == wanted


async def test_the_roles_of_the_system_allow_what_upstreams_do_and_no_more(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        names = await served_resources(server)
        for role, wanted in of_the_system():
            user = await bind(server, role)
            found = {name: letters(server, user, name) for name in names}
            expected = {name: wanted.get(name) or wanted.get("*", "-") for name in names}
            assert differences(found, expected) == {}, role


def differences(found: Mapping[str, str], expected: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (found[name], expected[name]) for name in found if found[name] != expected[name]}
