"""What a pending pod is told, in the words of the release whose rules hold."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.release import V1_30, V1_36, EffectiveVersion, Release
from dray.placement.claims import Deallocate
from dray.placement.outcome import Bind, Failure, Gated, Unschedulable
from dray.placement.placement import Placement
from dray.placement.plugins.volume_binding import VolumeBinding
from dray.placement.quirks import PlacementQuirks
from dray.placement.status import Diagnosis
from tests.support.scheduler import Harness, claim, cluster, node, pod, slice_of


def refused(stage: Harness, wanted: Any) -> Unschedulable:
    decision = stage.decide(wanted)
    assert isinstance(decision, Unschedulable)
    return decision


def quirks(release: Release) -> PlacementQuirks:
    version = EffectiveVersion(release)
    return PlacementQuirks.of(version, version.gates())


def reasons(release: Release, *nodes: dict[str, Any], **spec: Any) -> list[tuple[str, ...]]:
    placement = Placement(cluster(*nodes), quirks=quirks(release))
    outcome = placement.find(pod(**spec), None)
    assert isinstance(outcome, Diagnosis)
    return [rejection.reasons for rejection in outcome.rejections.values()]


@pytest.mark.parametrize(
    ("release", "said"),
    [(V1_30, "node(s) had untolerated taint {team: red}"), (V1_36, "node(s) had untolerated taint(s)")],
)
def test_a_taint_is_named_until_1_34(release: Release, said: str) -> None:
    tainted = node("a", spec={"taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}]})
    assert reasons(release, tainted) == [(said,)]


@pytest.mark.parametrize(("release", "helps"), [(V1_30, True), (V1_36, False)])
def test_a_node_that_is_too_small_even_without_its_pods_is_unresolvable_since_1_34(
    release: Release, helps: bool
) -> None:
    placement = Placement(cluster(node("a", cpu="1")), quirks=quirks(release))
    outcome = placement.find(pod(requests={"cpu": "2"}), None)
    assert isinstance(outcome, Diagnosis)
    assert outcome.rejections["a"].resolvable is helps


def pinned(*names: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_nodes_that_a_pod_does_not_name_are_counted_since_1_32() -> None:
    nodes = node("a", cpu="1"), node("b")
    wanted = {"requests": {"cpu": "2"}, "affinity": pinned("a")}
    assert reasons(V1_30, *nodes, **wanted) == [("Insufficient cpu",)]
    assert reasons(V1_36, *nodes, **wanted) == [
        ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), ("Insufficient cpu",),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("release", "said"),
    [
        (V1_30, "node(s) had volume node affinity conflict"),
        (V1_36, "node(s) didn't match PersistentVolume's node affinity"),
    ],
)
def test_the_reason_for_a_volume_on_another_node_depends_on_the_release(release: Release, said: str) -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]
    volume = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
    storage = VolumeBinding(
        volume_claim=lambda namespace, name: {"metadata": {"name": name}, "spec": {"volumeName": "v"}},
        volume=lambda name: volume,
        storage_class=lambda name: None,
        quirks=quirks(release),
    )
    user = pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}])
    [here] = cluster(node("a"))
    rejection = storage.on(user, here)
    assert rejection is not None and rejection.reasons == (said,)


def test_affinity_terms_that_contradict_themselves_fit_no_node() -> None:
    stage = Harness({"a": []})
    message = refused(stage, pod(affinity=pinned("a", "b"))).message
    assert message.startswith("0/1 nodes are available: pod affinity terms conflict. preemption")


def test_in_an_emulated_release_postfilter_does_not_find_its_cycle_state() -> None:
    stage = Harness(
        {"a": []},
        quirks=PlacementQuirks(adds_reason_summary=False, postfilter_needs_cycle_state=True),
    )
    refusal = refused(stage, pod(affinity=pinned("a", "b"), status={"nominatedNodeName": "a"}))
    assert refusal.message == "0/1 nodes are available: pod affinity terms conflict. not found"
    assert refusal.keeps_nomination


def shared(users: int) -> dict[str, Any]:
    allocation: dict[str, Any] = {"devices": {"results": []}}
    return claim(allocation=allocation, reservedFor=[{"resource": "pods", "name": f"p{i}", "uid": f"u{i}"} for i in range(users)])  # fmt: skip


def test_a_claim_with_the_maximum_of_consumers_is_in_use() -> None:
    stage = Harness({"a": []})
    message = refused(stage, stage.user(shared(256))).message
    assert message == (
        "0/1 nodes are available: resourceclaim in use. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_in_an_emulated_release_the_api_server_is_left_to_refuse_another_consumer() -> None:
    stage = Harness({"a": []}, quirks=PlacementQuirks(tries_full_claims=True))
    assert isinstance(stage.decide(stage.user(shared(256))), Bind)


def test_a_claim_with_fewer_consumers_than_the_maximum_is_shared() -> None:
    stage = Harness({"a": []})
    assert isinstance(stage.decide(stage.user(shared(255))), Bind)


def test_a_consumer_of_a_full_claim_can_use_it() -> None:
    stage = Harness({"a": []})
    full = shared(256)
    user = stage.user(full)
    full["status"]["reservedFor"][7]["uid"] = user.uid
    assert isinstance(stage.decide(user), Bind)


def elsewhere() -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]
    return claim(allocation={"devices": {"results": []}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}})  # fmt: skip


def test_an_unavailable_claim_is_deallocated_if_the_other_claims_can_be_allocated() -> None:
    stage = Harness({"a": ["gpu-0"]})
    blocking = elsewhere()
    refusal = refused(stage, stage.user(blocking, claim()))
    assert refusal.writes == (Deallocate(blocking),)


def test_no_claim_is_deallocated_if_another_claim_cannot_be_allocated() -> None:
    stage = Harness({"a": ["gpu-0"]}, quirks=PlacementQuirks(adds_reason_summary=False))
    refusal = refused(stage, stage.user(elsewhere(), claim(count=2)))
    assert refusal.writes == ()
    assert "1 cannot allocate all claims. preemption: " in refusal.message


def test_in_an_emulated_release_a_selector_error_on_one_node_fails_the_attempt() -> None:
    """Otherwise the pod goes where it can."""
    devices: dict[str, Any] = {"a": [{"name": "gpu-0", "attributes": {"size": {"int": 1}}}], "b": ["gpu-0"]}
    picky = 'device.attributes["gpu.example.com"].size == 1'
    for every_node, outcome in ((True, Failure), (False, Bind)):
        stage = Harness(devices, quirks=PlacementQuirks(filters_devices_on_every_node=every_node))
        # Were it asked for devices at all, the node without the attribute would be asked last.
        stage.cluster.set_node(node("b", cpu="1"))
        stage.claim_cache.set_slice(slice_of("b", ["gpu-0"]))
        decision = stage.decide(stage.user(claim(selector=picky), requests={"cpu": "500m"}))
        assert isinstance(decision, outcome)


def test_a_pod_whose_claim_was_deleted_while_it_was_queued_is_gated() -> None:
    stage = Harness({"a": ["gpu-0"]})
    leaving = claim("c")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    user = stage.user(leaving)
    assert stage.decide(user) == Gated('resourceclaim "c" is being deleted')
    stage.claim_cache.remove_claim(leaving)
    assert stage.decide(user) == Gated('resourceclaim.resource.k8s.io "c" not found')
