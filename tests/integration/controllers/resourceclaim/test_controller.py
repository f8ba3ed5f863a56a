"""Resource claims: made, reserved, released."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dray.api.claims import FINALIZER, POD_CLAIM_ANNOTATION
from dray.api.errors import AlreadyExists
from dray.api.release import EffectiveVersion
from dray.api.scheme.kinds import Object
from dray.client.events import EventRecorder
from dray.client.resources import EVENTS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.controllers.controller import ControllerContext, SharedInformers
from dray.controllers.quirks import Quirks
from dray.controllers.resourceclaim.creator import ClaimCreator
from dray.controllers.resourceclaim.generation import ClaimInformers
from dray.controllers.resourceclaim.modern import ModernGeneration
from tests.support.controlplane import ControlPlane, control_plane, controllers, owned_by, server
from tests.support.wait import wait_for

CLAIMS = "resourceclaim-controller"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT = {"request": "r", "driver": "d.example.com", "pool": "n", "device": "gpu-0"}


async def template(s: ControlPlane, name: str = "t") -> None:
    await s.client.create(
        RESOURCE_CLAIM_TEMPLATES, "default", {"metadata": {"name": name}, "spec": {"spec": SPEC}}
    )


async def pod(s: ControlPlane, name: str = "p", *, template: str = "t", **spec: Any) -> Object:
    entries = spec.pop("entries", [{"name": "gpu", "resourceClaimTemplateName": template}])
    return await s.pod(name, resourceClaims=entries, **spec)


async def statuses(s: ControlPlane, name: str = "p") -> dict[str, str]:
    found = (await s.get(PODS, name))["status"].get("resourceClaimStatuses") or ()
    return {entry["name"]: entry["resourceClaimName"] for entry in found}


async def status_of(s: ControlPlane, name: str = "p") -> dict[str, str]:
    async def told() -> dict[str, str]:
        return await statuses(s, name)

    found: dict[str, str] = await wait_for(f"the claims of pod {name} in its status", told)
    return found


async def allocate(s: ControlPlane, name: str, *pods: Object, finalizer: bool = True) -> None:
    """What the scheduler does."""
    if finalizer:
        await s.client.patch(RESOURCE_CLAIMS, "default", name, {"metadata": {"finalizers": [FINALIZER]}})
    reserved = [
        {"resource": "pods", "name": p["metadata"]["name"], "uid": p["metadata"]["uid"]} for p in pods
    ]
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": reserved}
    await s.client.patch_status(RESOURCE_CLAIMS, "default", name, {"status": status})


async def is_free(s: ControlPlane, name: str) -> None:
    async def free() -> bool:
        found = await s.get(RESOURCE_CLAIMS, name)
        return not (found.get("status") or {}).get("allocation") and "finalizers" not in found["metadata"]

    await wait_for(f"claim {name} to be deallocated", free)


async def finish(s: ControlPlane, name: str = "p") -> None:
    await s.client.patch_status(PODS, "default", name, {"status": {"phase": "Succeeded"}})


async def test_a_template_becomes_a_claim_that_the_pod_tells_of():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await template(s)
        owner = await pod(s)
        made = await s.get(RESOURCE_CLAIMS, (await status_of(s))["gpu"])
        assert made["metadata"]["ownerReferences"] == [owned_by("Pod", owner, controller=True)]
        assert made["spec"]["devices"]["requests"][0]["name"] == "r"


async def test_each_entry_gets_its_own_claim():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await template(s)
        entries = [{"name": n, "resourceClaimTemplateName": "t"} for n in ("a", "b")]
        await pod(s, entries=entries)
        found = await status_of(s)
        assert sorted(found) == ["a", "b"]
        assert len(set(found.values())) == 2


async def test_a_pod_waits_for_its_template_and_users_are_told():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await pod(s)

        async def events() -> list[Object]:
            found = (await s.client.list(EVENTS, "default")).items
            return [e for e in found if e["reason"] == "FailedResourceClaimCreation"]

        event = (await wait_for("a FailedResourceClaimCreation event", events))[0]
        assert event["message"] == (
            'PodResourceClaim gpu: resource claim template "t": '
            'resourceclaimtemplate.resource.k8s.io "t" not found'
        )
        assert event["source"]["component"] == "resource_claim"
        await template(s)
        assert await status_of(s)


async def test_a_claim_that_was_made_and_not_told_of_is_adopted():
    async with server("1.36") as s:
        await template(s)
        owner = await pod(s)
        metadata = {
            "name": "made-before",
            "annotations": {POD_CLAIM_ANNOTATION: "gpu"},
            "ownerReferences": [owned_by("Pod", owner, controller=True)],
        }
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": metadata, "spec": SPEC})
        async with controllers(s, CLAIMS):
            assert await status_of(s) == {"gpu": "made-before"}
        assert len((await s.client.list(RESOURCE_CLAIMS)).items) == 1


async def test_a_claim_deleted_by_mistake_is_made_anew_and_the_others_stay_told():
    async with server("1.36") as s:
        await template(s)
        await pod(s, entries=[{"name": n, "resourceClaimTemplateName": "t"} for n in ("a", "b")])
        async with controllers(s, CLAIMS):
            before = await status_of(s)
        async with controllers(s, CLAIMS):
            await s.client.delete(RESOURCE_CLAIMS, "default", before["a"])

            async def anew() -> bool:
                return (await statuses(s)).get("a") not in (None, before["a"])

            await wait_for("the pod's status to name a new claim for entry a", anew)
            assert (await statuses(s))["b"] == before["b"]


async def test_old_releases_make_a_deleted_claim_anew_only_when_they_have_forgotten_that_they_made_it():
    later = 0.0
    clock = {"clock": lambda: time.time() + later}
    async with control_plane(CLAIMS, emulate="1.36", **clock) as s:
        await template(s)
        await pod(s)
        before = await status_of(s)
        await s.client.delete(RESOURCE_CLAIMS, "default", before["gpu"])
        await s.wait_quiet()
        assert await statuses(s) == before
        assert not (await s.client.list(RESOURCE_CLAIMS)).items
        later = 3700.0
        await s.client.patch(PODS, "default", "p", {"metadata": {"labels": {"look": "again"}}})

        async def anew() -> bool:
            return await statuses(s) != before

        await wait_for("the pod's status to name a new claim", anew)


async def test_a_pod_that_was_made_to_name_a_claim_that_is_not_there_names_its_own_again():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await template(s)
        await pod(s)
        before = await status_of(s)
        await s.wait_quiet()
        wrong = [{"name": "gpu", "resourceClaimName": "ghost"}]
        await s.client.patch_status(PODS, "default", "p", {"status": {"resourceClaimStatuses": wrong}})

        async def again() -> bool:
            return await statuses(s) == before

        await wait_for("the pod's status to name the claim again", again)
        assert len((await s.client.list(RESOURCE_CLAIMS)).items) == 1


async def test_a_deleted_claim_is_made_anew():
    async with control_plane(CLAIMS) as s:
        await template(s)
        owner = await pod(s)
        made = (await claims_of(s, owner))["gpu"]
        await s.wait_quiet()
        await s.client.delete(RESOURCE_CLAIMS, "default", made["metadata"]["name"])
        anew = (await claims_of(s, owner))["gpu"]
        assert anew["metadata"]["uid"] != made["metadata"]["uid"]


# -- with names that the API server has given


async def claims_of(s: ControlPlane, owner: Object) -> dict[str, Object]:
    """The claims that were made for a pod, by entry, once there is one."""

    async def made() -> dict[str, Object]:
        found = (await s.client.list(RESOURCE_CLAIMS, "default")).items
        mine = owned_by("Pod", owner, controller=True)
        return {
            c["metadata"]["annotations"][POD_CLAIM_ANNOTATION]: c
            for c in found
            if mine in c["metadata"].get("ownerReferences", ())
        }

    found: dict[str, Object] = await wait_for(f"the claims of pod {owner['metadata']['name']}", made)
    return found


async def test_a_claim_is_made_under_the_name_that_the_pod_was_born_with():
    async with control_plane(CLAIMS) as s:
        await template(s)
        owner = await pod(s)
        made = (await claims_of(s, owner))["gpu"]
        assert made["metadata"]["generateName"] == "p-gpu-"
        assert await statuses(s) == {"gpu": made["metadata"]["name"]}
        await s.wait_quiet()
        unchanged = (await s.get(PODS, "p"))["metadata"]["resourceVersion"]
        assert unchanged == owner["metadata"]["resourceVersion"], "the pod was not written to"


async def test_an_entry_whose_template_comes_late_is_named_when_its_claim_is_made():
    async with control_plane(CLAIMS) as s:
        await template(s)
        entries = [{"name": n, "resourceClaimTemplateName": n} for n in ("t", "late")]
        owner = await pod(s, entries=entries)
        born_with = await statuses(s)
        assert sorted(born_with) == ["t"]
        await template(s, "late")

        async def both() -> bool:
            return sorted(await statuses(s)) == ["late", "t"]

        await wait_for("claims of both entries", both)
        made = await claims_of(s, owner)
        assert await statuses(s) == {entry: claim["metadata"]["name"] for entry, claim in made.items()}
        assert (await statuses(s))["t"] == born_with["t"]


async def test_a_given_name_that_somebody_took_is_used_when_that_claim_goes():
    async with server() as s:
        await template(s)
        owner = await pod(s)
        given = (await statuses(s))["gpu"]
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": given}, "spec": SPEC})
        async with controllers(s, CLAIMS):
            await s.wait_quiet()
            await s.client.delete(RESOURCE_CLAIMS, "default", given)
            assert (await claims_of(s, owner))["gpu"]["metadata"]["name"] == given


class Race:
    """A client to whom a claim and its template appear that no informer has shown."""

    def __init__(self, there: Object) -> None:
        self.there = there
        self.told: list[Object] = []

    async def create(self, resource: Any, namespace: str, obj: Object) -> Object:
        if obj["metadata"].get("name") == self.there["metadata"]["name"]:
            raise AlreadyExists("it is there")
        return {**obj, "metadata": {**obj["metadata"], "name": "another"}}

    async def get(self, resource: Any, namespace: str, name: str) -> Object:
        return {"spec": {"spec": SPEC}} if resource == RESOURCE_CLAIM_TEMPLATES else self.there

    async def apply(self, resource: Any, namespace: str, obj: Object, **options: Any) -> None:
        self.told += obj["status"]["resourceClaimStatuses"]


@pytest.mark.parametrize(("uid", "name"), [("u", "given"), ("somebody-else", "another")])
async def test_a_claim_that_appears_under_the_given_name_is_the_pods_or_is_left_alone(uid, name):
    there = {
        "metadata": {
            "name": "given",
            "namespace": "default",
            "ownerReferences": [{"uid": uid, "controller": True}],
        }
    }
    owner = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "given"}]},
    }
    async with server() as s:
        context = ControllerContext(
            client=(client := Race(there)),
            informers=SharedInformers(s.client),
            recorder=EventRecorder(s.client, component="x"),
            quirks=Quirks.of(s.api.version, s.api.gates),
        )
        informers = ClaimInformers.of(
            context, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, versions=("v1",), other_versions=()
        )
        creator = ClaimCreator(context, ModernGeneration(context, informers))
        await creator.create_for(owner)
        assert creator.created_name("u", "gpu") == name
        assert client.told == ([] if name == "given" else [{"name": "gpu", "resourceClaimName": name}])


async def test_a_controller_that_knows_nothing_of_given_names_names_its_own():
    version = EffectiveVersion.parse("1.36")
    async with control_plane(CLAIMS, version=version, gates=version.gates()) as s:
        await template(s)
        owner = await pod(s)
        born_with = await statuses(s)
        made = (await claims_of(s, owner))["gpu"]["metadata"]["name"]

        async def told() -> bool:
            return await statuses(s) == {"gpu": made}

        await wait_for("the pod's status to name the claim that was made", told)
        assert born_with != {"gpu": made}


async def test_nothing_is_written_twice():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await template(s)
        await pod(s)
        name = (await status_of(s))["gpu"]
        await s.wait_quiet()
        versions = [
            (await s.get(PODS, "p"))["metadata"]["resourceVersion"],
            (await s.get(RESOURCE_CLAIMS, name))["metadata"]["resourceVersion"],
        ]
        assert versions[0] == str(int(versions[1]) + 1), "one claim created, one status applied"
    async with controllers(s, CLAIMS):
        await s.wait_quiet()
        assert (await s.get(PODS, "p"))["metadata"]["resourceVersion"] == versions[0]


async def test_a_claim_whose_name_somebody_else_took_is_made_anew_when_that_one_goes():
    async with server("1.36") as s:
        await template(s)
        await pod(s)
        taken = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "taken"}]}}
        await s.client.patch_status(PODS, "default", "p", taken)
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "taken"}, "spec": SPEC})
        async with controllers(s, CLAIMS):
            await s.wait_quiet()
            assert (await statuses(s))["gpu"] == "taken"
            await s.client.delete(RESOURCE_CLAIMS, "default", "taken")

            async def anew() -> bool:
                return (await statuses(s))["gpu"] != "taken"

            await wait_for("the pod's status to name another claim", anew)


async def test_an_allocated_claim_is_reserved_for_a_pod_that_chose_its_node():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "c"}, "spec": SPEC})
        owner = await pod(s, nodeName="n", entries=[{"name": "gpu", "resourceClaimName": "c"}])
        await allocate(s, "c")

        async def reserved() -> bool:
            found = (await s.get(RESOURCE_CLAIMS, "c"))["status"].get("reservedFor") or ()
            return [r["uid"] for r in found] == [owner["metadata"]["uid"]]

        await wait_for("claim c to be reserved for the pod", reserved)


@pytest.mark.parametrize("end", ["finish", "delete", "delete before start"])
async def test_the_end_of_the_pod_frees_a_named_claim(end):
    async with server("1.36") as s:
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "c"}, "spec": SPEC})
        owner = await pod(s, entries=[{"name": "gpu", "resourceClaimName": "c"}])
        await allocate(s, "c", owner)
        if end == "delete before start":
            await s.client.delete(PODS, "default", "p")
        async with controllers(s, CLAIMS):
            if end == "finish":
                await finish(s)
            elif end == "delete":
                await s.client.delete(PODS, "default", "p")
            await is_free(s, "c")
            assert not (await s.get(RESOURCE_CLAIMS, "c")).get("status", {}).get("reservedFor")


async def test_a_claim_goes_on_for_those_who_still_use_it():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "c"}, "spec": SPEC})
        entries = [{"name": "gpu", "resourceClaimName": "c"}]
        users = [await pod(s, name, entries=entries, nodeName="n") for name in ("a", "b")]
        await allocate(s, "c", *users)
        await finish(s, "a")

        async def left() -> bool:
            found = (await s.get(RESOURCE_CLAIMS, "c"))["status"]["reservedFor"]
            return [r["name"] for r in found] == ["b"]

        await wait_for("claim c to be reserved for pod b alone", left)
        version = (await s.get(RESOURCE_CLAIMS, "c"))["metadata"]["resourceVersion"]
        await s.wait_quiet()
        found = await s.get(RESOURCE_CLAIMS, "c")
        assert found["metadata"]["resourceVersion"] == version, "the finished pod does not come back"
        assert found["status"]["allocation"]


async def test_a_consumer_of_another_kind_is_never_removed():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "c"}, "spec": SPEC})
        await allocate(s, "c")
        stranger = {"apiGroup": "example.com", "resource": "things", "name": "x", "uid": "x"}
        ghost = {"resource": "pods", "name": "ghost", "uid": "ghost"}
        await s.client.patch_status(
            RESOURCE_CLAIMS, "default", "c", {"status": {"reservedFor": [stranger, ghost]}}
        )

        async def ghost_left() -> bool:
            return (await s.get(RESOURCE_CLAIMS, "c"))["status"]["reservedFor"] == [stranger]

        await wait_for("claim c to be reserved for the stranger alone", ghost_left)


async def test_the_claim_of_a_finished_pod_is_deleted():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await template(s)
        owner = await pod(s)
        name = (await status_of(s))["gpu"]
        await allocate(s, name, owner)
        await finish(s)
        await s.wait_gone(RESOURCE_CLAIMS, name)
        await s.wait_quiet()
        assert not (await s.client.list(RESOURCE_CLAIMS)).items, "and not made again"


async def test_the_claim_for_extended_resources_is_released_and_deleted():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        resources = {"limits": {"example.com/gpu": "1"}}
        owner = await s.pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
        metadata = {"name": "x", "ownerReferences": [owned_by("Pod", owner, controller=True)]}
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": metadata, "spec": SPEC})
        await allocate(s, "x", owner)
        mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
        status = {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [mapping]}}
        await s.client.patch_status(PODS, "default", "p", {"status": status})
        await finish(s)
        await s.wait_gone(RESOURCE_CLAIMS, "x")


async def test_a_deleted_claim_that_nobody_uses_is_let_go():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "c"}, "spec": SPEC})
        await allocate(s, "c")
        await s.wait_quiet()
        assert (await s.get(RESOURCE_CLAIMS, "c"))["status"]["allocation"], "unused is no reason"
        await s.client.delete(RESOURCE_CLAIMS, "default", "c")
        await s.wait_gone(RESOURCE_CLAIMS, "c")


async def test_many_pods_get_one_claim_each():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        await template(s)
        for i in range(100):
            await pod(s, f"p-{i}")
        found = [(await status_of(s, f"p-{i}"))["gpu"] for i in range(100)]
        await s.wait_quiet()
        assert sorted(found) == sorted(
            c["metadata"]["name"] for c in (await s.client.list(RESOURCE_CLAIMS)).items
        )


async def test_claims_are_made_and_released_on_servers_that_know_only_an_old_version():
    async with server(emulate="1.32") as s, controllers(s, CLAIMS):
        old = RESOURCE_CLAIMS.at("v1beta1")
        spec = {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}
        await s.client.create(
            RESOURCE_CLAIM_TEMPLATES.at("v1beta1"),
            "default",
            {"metadata": {"name": "t"}, "spec": {"spec": spec}},
        )
        await pod(s)
        name = (await status_of(s))["gpu"]
        assert (await s.get(old, name))["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu"
        await finish(s)
        await s.wait_gone(old, name)


OLD_SPEC = {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}


@pytest.mark.parametrize(("release", "made"), [("1.32", []), ("1.36", ["gpu"])])
async def test_a_missing_claim_holds_up_those_behind_it_in_old_releases_only(release, made):
    version, spec = ("v1", SPEC) if release == "1.36" else ("v1beta1", OLD_SPEC)
    async with control_plane(CLAIMS, emulate=release) as s:
        template = {"metadata": {"name": "t"}, "spec": {"spec": spec}}
        await s.client.create(RESOURCE_CLAIM_TEMPLATES.at(version), "default", template)
        entries = [
            {"name": "own", "resourceClaimName": "c"},
            {"name": "gpu", "resourceClaimTemplateName": "t"},
        ]
        await pod(s, entries=entries)
        await pod(s, "last", entries=entries[::-1])
        await status_of(s, "last")
        await s.wait_quiet()
        assert list(await statuses(s)) == made
        await s.client.create(
            RESOURCE_CLAIMS.at(version), "default", {"metadata": {"name": "c"}, "spec": spec}
        )
        assert list(await status_of(s)) == ["gpu"]


async def test_claims_behind_a_missing_one_are_not_reserved_for_a_pod_that_chose_its_node():
    async with control_plane(CLAIMS, emulate="1.36") as s:
        for name in ("a", "c"):
            await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": name}, "spec": SPEC})
            await allocate(s, name)
        await pod(s, nodeName="n", entries=[{"name": n, "resourceClaimName": n} for n in "abc"])

        async def reserved(name: str) -> list[str]:
            found = (await s.get(RESOURCE_CLAIMS, name))["status"].get("reservedFor") or ()
            return [consumer["name"] for consumer in found]

        assert await wait_for("claim of pod a to be reserved", lambda: reserved("a")) == ["p"]
        await s.wait_quiet()
        assert await reserved("c") == []
        await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "b"}, "spec": SPEC})
        assert await wait_for("claim of pod c to be reserved", lambda: reserved("c")) == ["p"]


async def test_old_releases_leave_a_claim_alone_that_has_a_consumer_of_another_kind():
    async with control_plane(CLAIMS, emulate="1.32") as s:
        resource = RESOURCE_CLAIMS.at("v1beta1")
        await s.client.create(resource, "default", {"metadata": {"name": "c"}, "spec": OLD_SPEC})
        stranger = {"apiGroup": "example.com", "resource": "things", "name": "x", "uid": "x"}
        ghost = {"resource": "pods", "name": "ghost", "uid": "ghost"}
        status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": [stranger, ghost]}
        await s.client.patch_status(resource, "default", "c", {"status": status})
        await s.wait_quiet()
        assert (await s.get(resource, "c"))["status"]["reservedFor"] == [stranger, ghost]
