"""Plugins about other objects: owners, services, volume claims, and the one that refuses everything."""

from __future__ import annotations

from dray.server.auth.authorizer import NO_OPINION, AlwaysAllow, Attributes, Verdict
from tests.support.admission import config_map, make_world, refusal

MAPS = "/api/v1/namespaces/default/configmaps"
VOLUMES = "/api/v1/namespaces/default/persistentvolumeclaims"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"


async def test_everything_can_be_refused() -> None:
    world = await make_world("AlwaysDeny")
    error = await refusal(world.post(MAPS, config_map()))
    assert error.message == 'configmaps "m" is forbidden: admission control is denying all modifications'


async def test_external_addresses_of_services_can_be_kept_but_not_taken() -> None:
    world = await make_world()
    services = "/api/v1/namespaces/default/services"
    spec = {"ports": [{"port": 1}], "externalIPs": ["1.2.3.4"]}
    await world.post(services, {"metadata": {"name": "old"}, "spec": spec})
    restricted = await make_world("DenyServiceExternalIPs")
    error = await refusal(restricted.post(services, {"metadata": {"name": "s"}, "spec": spec}))
    assert "Use of external IPs is denied by admission control" in error.message


class _Weak(AlwaysAllow):
    """May do nothing to finalizers, and delete nothing."""

    def authorize(self, attributes: Attributes) -> Verdict:
        if attributes.subresource == "finalizers" or attributes.verb == "delete":
            return NO_OPINION
        return super().authorize(attributes)


async def test_owners_are_given_by_those_with_power_over_both() -> None:
    world = await make_world("OwnerReferencesPermissionEnforcement", authorizer=_Weak())
    owner = await world.post(MAPS, config_map("owner"))
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    mine = config_map("mine")
    mine["metadata"]["ownerReferences"] = [ref]
    assert await world.post(MAPS, mine)
    blocking = config_map("blocking")
    blocking["metadata"]["ownerReferences"] = [{**ref, "blockOwnerDeletion": True}]
    error = await refusal(world.post(MAPS, blocking))
    assert "refers to a resource you can't set finalizers on" in error.message
    error = await refusal(world.patch(f"{MAPS}/owner", {"metadata": {"ownerReferences": [ref]}}))
    assert "cannot set an ownerRef on a resource you can't delete" in error.message
    unknown = config_map("unknown")
    unknown["metadata"]["ownerReferences"] = [{**ref, "kind": "Nonsense", "blockOwnerDeletion": True}]
    error = await refusal(world.post(MAPS, unknown))
    assert "cannot find RESTMapping for APIVersion v1 Kind Nonsense" in error.message


async def test_volume_claims_get_the_default_class() -> None:
    world = await make_world("DefaultStorageClass")
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    await world.post(STORAGE, {"metadata": {"name": "slow"}, "provisioner": "x"})
    await world.post(STORAGE, {"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "x"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = await world.post(VOLUMES, {"metadata": {"name": "a"}, "spec": spec})
    assert made["spec"]["storageClassName"] == "fast"
    made = await world.post(VOLUMES, {"metadata": {"name": "b"}, "spec": {**spec, "storageClassName": ""}})
    assert made["spec"]["storageClassName"] == ""


async def test_volume_claims_grow_only_where_their_class_allows_it() -> None:
    world = await make_world("PersistentVolumeClaimResize")
    await world.post(STORAGE, {"metadata": {"name": "big"}, "provisioner": "x", "allowVolumeExpansion": True})
    await world.post(STORAGE, {"metadata": {"name": "fixed"}, "provisioner": "x"})
    for storage in ("big", "fixed"):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": storage,
            "volumeName": "v",
        }
        await world.post(VOLUMES, {"metadata": {"name": storage}, "spec": spec})
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    for storage in ("big", "fixed"):
        await world.patch(f"{VOLUMES}/{storage}/status", {"status": {"phase": "Bound"}})
    assert await world.patch(f"{VOLUMES}/big", larger)
    error = await refusal(world.patch(f"{VOLUMES}/fixed", larger))
    assert "the storageclass that provisions the pvc must support resize" in error.message
