from __future__ import annotations

from dray.api.identity import ObjectKey
from dray.explain import Cluster, Snapshot
from dray.explain.devices.selectors import split_conjunction
from dray.explain.explainer import explain_claim, explain_pod
from dray.explain.model.explanation import Explanation, Outcome
from tests.support.explain import claim, cluster, device, device_class, node, pod, slice_

MODEL = 'device.attributes["gpu.example.com"].model'


def explained(*documents: dict[str, object], name: str = "p") -> Explanation:
    return explain_pod(cluster(*documents), ObjectKey("default", name))


def test_explanation_of_a_fitting_pod_names_its_node_and_devices() -> None:
    found = explained(node("n"), slice_("n", device("a")), device_class(), claim("c"), pod("p", "c"))
    assert found.outcome is Outcome.FITS
    assert found.facts == ("claim c, request r: gpu.example.com/n/a",)


def test_selector_is_split_to_show_the_condition_that_fails() -> None:
    source = f'{MODEL} == "A100" && device.driver == "other"'
    found = explained(node("n"), slice_("n", device("a")), device_class(), claim("c", source), pod("p", "c"))
    conditions = found.requests[0].removed[0].conditions
    assert [(one.source, one.true) for one in conditions] == [
        (f'{MODEL} == "A100"', 1), ('device.driver == "other"', 0),
    ]  # fmt: skip
    assert any('device.driver == "other"' in text for text in found.advice)


def test_value_close_to_a_real_one_is_suggested() -> None:
    found = explained(
        node("n"), slice_("n", device("a", "NVIDIA-A100")), device_class(), claim("c", f'{MODEL} == "nvidia-a100"'),
        pod("p", "c"),
    )  # fmt: skip
    asked = found.requests[0].removed[0].asked[0]
    assert asked.values == (("NVIDIA-A100", 1),)
    assert asked.suggestion.startswith('"NVIDIA-A100"')


def test_nodes_with_the_same_reasons_are_grouped() -> None:
    world = [d for i in range(30) for d in (node(f"n{i}"), slice_(f"n{i}", device("a")))]
    found = explained(*world, device_class(), claim("c", count=2), pod("p", "c"))
    assert [group.count for group in found.nodes] == [30]
    assert found.requests[0].considered == 30
    assert any("lower the count to 1" in text for text in found.advice)


def test_network_attached_devices_are_counted_once() -> None:
    shared = slice_("net", device("a"))
    shared["spec"] |= {"allNodes": True}
    del shared["spec"]["nodeName"]
    found = explained(node("n"), node("m"), shared, device_class(), claim("c", count=2), pod("p", "c"))
    assert found.requests[0].considered == 1


def test_node_causes_are_explained_beside_devices() -> None:
    tainted = node("n", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    found = explained(tainted, node("m"), slice_("n", device("a")), device_class(), claim("c"), pod("p", "c"))
    assert "untolerated node taint k=v:NoSchedule" in found.headline
    assert found.nodes[0].closest == "n"
    assert found.nodes[0].devices == ("has the devices",)


def test_missing_class_is_named_with_the_one_that_was_meant() -> None:
    found = explained(
        node("n"), slice_("n", device("a")), device_class("gpu-large"), claim("c", deviceClassName="gpu-lagre"),
        pod("p", "c"),
    )  # fmt: skip
    assert "device class gpu-lagre, which does not exist" in found.headline
    assert found.advice == ("did you mean gpu-large?",)


def test_missing_claim_is_the_headline() -> None:
    found = explained(node("n"), claim("train-gpu"), pod("p", "train-gpus"))
    assert found.headline == "there is no ResourceClaim train-gpus in namespace default"
    assert found.advice == ("did you mean train-gpu?",)


def test_claim_of_a_template_counts_before_it_is_created() -> None:
    template = {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"spec": claim("c")["spec"]},
    }
    user = pod("p")
    user["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimTemplateName": "t"}]
    found = explained(node("n"), slice_("n", device("a")), device_class(), template, user)
    assert found.outcome is Outcome.FITS


def test_claim_being_deleted_names_the_pod_it_is_reserved_for() -> None:
    held = claim("c", taken=("n/a",))
    held["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.example.com/keep"]}
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    world = cluster(node("n"), slice_("n", device("a")), held, pod("p", "c", nodeName="n"))
    found = explain_claim(world, ObjectKey("default", "c"))
    assert found.outcome is Outcome.STUCK
    assert found.facts[0] == "held by pod default/p (Running), for which it is reserved"
    assert "x.example.com/keep" in found.facts[1]


def test_explanation_of_an_allocated_claim_says_why_its_device_matches() -> None:
    given = claim("c", f'{MODEL} == "A100"', taken=("n/a",))
    found = explain_claim(
        cluster(node("n"), slice_("n", device("a")), device_class(), given), ObjectKey("default", "c")
    )
    assert found.outcome is Outcome.ALLOCATED
    assert "  it matches with device.driver=gpu.example.com, gpu.example.com/model=A100" in found.facts


def test_pod_bound_without_the_scheduler_is_stuck() -> None:
    user = pod("p", "c", nodeName="n")
    user["status"]["phase"] = "Pending"
    found = explained(node("n"), slice_("n", device("a")), device_class(), claim("c"), user)
    assert found.outcome is Outcome.STUCK
    assert "remove nodeName" in found.advice[0]
    assert "feature gate DynamicResourceAllocation" in found.advice[0]


def test_advice_asks_for_the_driver_when_no_slices_are_published() -> None:
    found = explained(node("n"), device_class(), claim("c"), pod("p", "c"))
    assert found.headline == "no node has any device"
    assert "is the driver installed" in found.advice[0]


def test_empty_cluster_has_no_nodes() -> None:
    world = Cluster(Snapshot().with_objects([device_class(), claim("c"), pod("p", "c")]))
    assert explain_pod(world, ObjectKey("default", "p")).headline == "there are no nodes"


def test_conjunction_is_split_only_at_its_top() -> None:
    assert split_conjunction('a && (b && c) && d == "x && y"') == ["a", "(b && c)", 'd == "x && y"']
    assert split_conjunction("a && b || c") == ["a && b || c"]
    assert split_conjunction("a ? b && c : d") == ["a ? b && c : d"]


def test_kinds_that_the_user_may_not_read_are_not_explained() -> None:
    blind = Snapshot(unread=("DeviceClass",)).with_objects([node("n"), claim("c"), pod("p", "c")])
    found = explain_pod(Cluster(blind), ObjectKey("default", "p"))
    assert found.headline == "why cannot be told, as you may not read DeviceClass"


def test_explanation_shows_kubelet_warnings_of_a_pod_that_does_not_start() -> None:
    holder = claim("c", taken=("n/a",))
    holder["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    bound = pod("p", "c", nodeName="n")
    bound["status"] = {"phase": "Pending"}
    text = "prepare dynamic resources: DRA driver gpu.example.com is not registered"
    event = {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "uid": "uid-p"},
        "reason": "FailedPrepareDynamicResources",
        "message": text,
    }
    found = explained(node("n"), slice_("n", device("a")), device_class(), holder, bound, event)
    assert found.outcome is Outcome.STUCK
    assert f"FailedPrepareDynamicResources: {text}" in found.facts
    assert found.advice == ("the driver does not run on n: install it there, or restart it",)


def test_explanation_names_the_finalizer_of_a_pod_that_has_ended() -> None:
    kept = pod("p", nodeName="n")
    kept["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/keep"]}
    kept["status"] = {"phase": "Failed"}
    found = explained(node("n"), kept)
    assert (found.outcome, found.facts) == (Outcome.STUCK, ("held by finalizer example.com/keep",))


def test_incomplete_pool_removes_only_devices_that_would_be_selected() -> None:
    lost = slice_("n", device("z"), count=2)
    lost["metadata"]["name"] = "lost"
    lost["spec"] |= {"driver": "other.example.com"}
    found = explained(
        node("n"), slice_("n", device("a")), lost, device_class(), claim("c", count=2), pod("p", "c")
    )
    assert [(one.cause, one.count) for one in found.requests[0].removed] == [("class selector", 1)]
    assert not any("slices" in text for text in found.advice)


def test_advice_does_not_free_devices_that_would_not_be_enough() -> None:
    world = (node("n"), slice_("n", device("a"), device("b")), device_class(), claim("old", taken=("n/a",)))
    enough = explained(*world, claim("c", count=2), pod("p", "c"))
    assert any("wait for or delete default/old" in text for text in enough.advice)
    more = explained(*world, claim("c", count=3), pod("p", "c"))
    assert not any("wait for or delete" in text for text in more.advice)


def test_pod_waits_for_binding_conditions() -> None:
    waited = claim("c", taken=("n/a",))
    waited["status"]["allocation"]["devices"]["results"][0]["bindingConditions"] = ["attached"]
    world = (node("n"), slice_("n", device("a")), device_class())
    found = explained(*world, waited, pod("p", "c"))
    assert (found.outcome, found.headline) == (Outcome.STUCK, "it waits for its devices")
    assert found.facts == ("claim c, request r: gpu.example.com/n/a: attached is not true yet",)
    conditions = [{"type": "attached", "status": "True"}]
    waited["status"]["devices"] = [
        {"driver": "gpu.example.com", "pool": "n", "device": "a", "conditions": conditions}
    ]
    assert explained(*world, waited, pod("p", "c")).outcome is Outcome.FITS


def test_conditions_that_no_device_meets_together() -> None:
    devices = (device("a", "A100"), device("b", "L4", capacity={"memory": {"value": "80Gi"}}))
    memory = '"memory" in device.capacity["gpu.example.com"]'
    found = explained(
        node("n"),
        slice_("n", *devices),
        device_class(),
        claim("c", f'{MODEL} == "A100" && {memory}'),
        pod("p", "c"),
    )
    assert (
        "every condition of the claim is met by some device, but no device meets all of them" in found.advice
    )


def test_advice_counts_what_the_other_claims_of_the_pod_want() -> None:
    gpus = slice_("n", *(device(f"gpu-{i}") for i in range(8)))
    there = (node("n"), gpus, device_class(), pod("p", "one", "many"))
    found = explained(*there, claim("one"), claim("many", count=9))
    assert found.headline.startswith("request r of claim default/many wants 9 devices on one node")
    assert any(
        "8 usable, of which other requests want 1: lower the count to 7" in text for text in found.advice
    )
    devices = found.nodes[0].devices
    assert [text.partition(":")[0] for text in devices] == [
        "request r of claim default/one",
        "request r of claim default/many",
    ]
    followed = explained(*there, claim("one"), claim("many", count=8))
    assert followed.outcome is Outcome.PENDING
    assert any("want 9 devices of class gpu on one node" in text for text in followed.advice)
    assert any("lower the counts to 8 in all" in text for text in followed.advice)
    assert explained(*there, claim("one"), claim("many", count=7)).outcome is Outcome.FITS


def test_claim_of_a_pod_that_bypassed_the_scheduler_says_what_the_pod_says() -> None:
    bypassed = pod("p", "c", nodeName="n")
    bypassed["status"]["phase"] = "Pending"
    there = cluster(node("n"), slice_("n", device("a")), device_class(), claim("c"), bypassed)
    of_pod = explain_pod(there, ObjectKey("default", "p"))
    of_claim = explain_claim(there, ObjectKey("default", "c"))
    assert (of_claim.outcome, of_claim.facts[0]) == (Outcome.STUCK, of_pod.facts[0])
    assert of_claim.advice == of_pod.advice


def test_another_scheduler_that_does_not_allocate_claims_is_named() -> None:
    bound = pod("p", "c", nodeName="n", schedulerName="mine")
    bound["status"]["phase"] = "Pending"
    found = explained(node("n"), slice_("n", device("a")), device_class(), claim("c"), bound)
    assert (
        found.facts[0] == "claim c is not allocated: scheduler mine does not allocate claims before it binds"
    )
    assert found.advice == (
        "have mine run the DynamicResources plugin, or remove schedulerName from the pod",
    )
