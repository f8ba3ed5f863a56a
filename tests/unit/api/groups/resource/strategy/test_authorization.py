"""Who may write which part of a claim's status, and who may ask for admin access."""

from __future__ import annotations

import pytest

from dray.api.groups import resource
from dray.api.quirks import NEWEST_QUIRKS, APIQuirks
from dray.api.release import EffectiveVersion
from dray.api.scheme.strategy import Context
from dray.api.user import UserInfo

CLAIM = next(
    kind for kind in resource.kinds(NEWEST_QUIRKS) if kind.kind == "ResourceClaim" and kind.hub == "v1"
)
VIEW = CLAIM.subresources["status"]
GATES = EffectiveVersion().gates()
ON_NODE = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]
}
DRIVER = UserInfo(
    "system:serviceaccount:ns:drv", extra={"authentication.kubernetes.io/node-name": ("node-a",)}
)


def claim(*, allocated=True, devices=(), reserved=(), selector=ON_NODE, admin=None):
    status = {}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "x"}
    if admin is not None:
        result["adminAccess"] = admin
    if allocated:
        status["allocation"] = {"devices": {"results": [result]}, "nodeSelector": selector}
    if devices:
        status["devices"] = [{"driver": "gpu.example.com", "pool": "p", "device": "x", **d} for d in devices]
    if reserved:
        status["reservedFor"] = [{"resource": "pods", "name": n, "uid": n} for n in reserved]
    requests = [
        {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}
    ]
    metadata = {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}, "status": status}


def problems(new, old, *, allowed=(), user=DRIVER, labels=None, gates=GATES, quirks=NEWEST_QUIRKS):
    asked = []

    def allows(*what):
        asked.append(what)
        return what in allowed

    ctx = Context(
        gates=gates,
        quirks=quirks,
        user=user,
        verb="patch",
        allows=allows,
        namespace_labels=lambda name: labels,
    )
    return [str(p) for p in VIEW.validate_update(new, old, ctx)], asked


BINDING = ("patch", "resource.k8s.io", "resourceclaims", "binding", "", "")


def driver_right(where):
    return (f"{where}-node:patch", "resource.k8s.io", "resourceclaims", "driver", "ns", "gpu.example.com")


def test_reserving_needs_the_right_to_bind():
    found, _ = problems(claim(reserved=["p"]), claim())
    assert found == [
        "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: User '
        '"system:serviceaccount:ns:drv" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at '
        "the cluster scope"
    ]
    assert problems(claim(reserved=["p"]), claim(), allowed=[BINDING])[0] == []


def test_a_driver_on_the_claims_node_needs_less_than_one_elsewhere():
    new, old = claim(devices=[{"data": {"a": 1}}]), claim()
    assert problems(new, old, allowed=[driver_right("associated")])[0] == []
    assert problems(new, old, allowed=[driver_right("arbitrary")])[0] == []
    elsewhere = UserInfo(DRIVER.name, extra={"authentication.kubernetes.io/node-name": ("node-b",)})
    found, asked = problems(new, old, allowed=[driver_right("associated")], user=elsewhere)
    assert len(found) == 1
    assert 'verb="[arbitrary-node:patch]"' in found[0]
    assert asked == [driver_right("arbitrary")]


@pytest.mark.parametrize(
    "user", [UserInfo("dina"), UserInfo("system:serviceaccount:ns:drv"), UserInfo("system:serviceaccount:ns:drv", extra={"authentication.kubernetes.io/node-name": ("node-a", "node-b")})]
)  # fmt: skip
def test_only_a_service_account_bound_to_one_node_is_on_it(user):
    found, _ = problems(claim(devices=[{}]), claim(), allowed=[driver_right("associated")], user=user)
    assert len(found) == 1


@pytest.mark.parametrize(
    "selector", [None, {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}]
)
def test_a_claim_that_is_not_on_one_node_has_no_associated_node(selector):
    new, old = claim(devices=[{}], selector=selector), claim(selector=selector)
    found, _ = problems(new, old, allowed=[driver_right("associated")])
    assert len(found) == 1


def test_unchanged_parts_need_no_right():
    same = claim(devices=[{"data": {"a": 1}}], reserved=["p"])
    found, asked = problems(same, same)
    assert (found, asked) == ([], [])


def test_deallocation_needs_no_drivers_right():
    found, asked = problems(claim(allocated=False), claim(devices=[{}]), allowed=[BINDING])
    assert found == []
    assert asked == [BINDING]


def test_without_the_gate_nothing_is_asked():
    gates = GATES.with_changes({"DRAResourceClaimGranularStatusAuthorization": False})
    assert problems(claim(reserved=["p"], devices=[{}]), claim(), gates=gates) == ([], [])


def test_granting_admin_access_needs_the_namespaces_label():
    allowed = [BINDING]
    new, old = claim(admin=True), claim(allocated=False)
    found, _ = problems(new, old, allowed=allowed, labels={})
    assert found == [
        "status.allocation.devices.results[0].adminAccess: Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
    ]
    labels = {"resource.kubernetes.io/admin-access": "true"}
    assert problems(new, old, allowed=allowed, labels=labels)[0] == []
    assert problems(claim(admin=True), claim(admin=True), labels={})[0] == []


def test_a_namespace_that_is_gone_is_an_internal_error():
    found, _ = problems(claim(admin=True), claim(allocated=False), allowed=[BINDING], labels=None)
    assert found == [
        "status.allocation.devices.results[0].adminAccess: Internal error: could not retrieve namespace to verify admin "
        'access: namespaces "ns" not found'
    ]


def test_releases_before_the_label_left_admin_access_to_policies():
    version = EffectiveVersion.parse("1.32")
    gates, quirks = version.gates({"DRAAdminAccess": True}), APIQuirks.of(version)
    assert problems(claim(admin=True), claim(allocated=False), labels={}, gates=gates, quirks=quirks)[0] == []
