"""What keeps a pod off a node, devices aside: the scheduler's filters decide, explain finds the words."""

from __future__ import annotations

from typing import Any

from dray.api.identity import ObjectKey
from dray.explain.explainer import explain_pod
from dray.explain.model.explanation import Explanation, Outcome
from tests.support.explain import Doc, claim, cluster, device, device_class, node, pod, slice_

HERE = (node("n"), slice_("n", device("a")), device_class(), claim("c"))
TERM = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"


def explained(*documents: Doc) -> Explanation:
    return explain_pod(cluster(*HERE, *documents), ObjectKey("default", "p"))


def labelled(document: Doc, **labels: str) -> Doc:
    document["metadata"]["labels"] = labels
    return document


def near(kind: str, **labels: str) -> dict[str, Any]:
    return {kind: {TERM: [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}]}}


def only_cause(found: Explanation) -> str:
    assert found.outcome is Outcome.PENDING
    (group,) = found.nodes
    (cause,) = group.causes
    assert group.devices == ("has the devices",)
    return cause


def test_anti_affinity_names_the_pod_in_the_way() -> None:
    other = labelled(pod("other", nodeName="n"), app="x")
    found = explained(other, pod("p", "c", affinity=near("podAntiAffinity", app="x")))
    assert only_cause(found) == f"the pod must not share {HOSTNAME} with default/other"
    assert found.advice == ("move default/other, add nodes, or make the anti-affinity a preference",)


def test_anti_affinity_of_a_pod_that_is_there_counts_as_well() -> None:
    other = pod("other", nodeName="n", affinity=near("podAntiAffinity", app="mine"))
    found = explained(other, labelled(pod("p", "c"), app="mine"))
    assert only_cause(found) == "default/other will not have the pod near it"


def test_affinity_to_pods_that_do_not_exist() -> None:
    found = explained(pod("p", "c", affinity=near("podAffinity", app="nobody")))
    assert only_cause(found) == f"no pod that the pod affinity asks for shares {HOSTNAME} with the node"


def test_topology_spread_shows_the_counts() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    there = [labelled(pod(f"o{i}", nodeName="n"), app="x") for i in range(2)]
    mine = labelled(pod("p", "c", topologySpreadConstraints=[constraint]), app="x")
    found = explained(node("m"), *there, mine)
    (refused,) = [group for group in found.nodes if group.closest == "n"]
    assert refused.causes == (
        f"one more pod here would be too uneven: {HOSTNAME}=n has 2 such pods, m has 0, and maxSkew is 1",
    )


def test_node_without_the_label_to_spread_over() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    found = explained(pod("p", "c", topologySpreadConstraints=[constraint]))
    assert only_cause(found) == "the node lacks a label that pods are spread over: zone"


def test_host_port_names_its_holder() -> None:
    ports = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    found = explained(pod("other", nodeName="n", containers=ports), pod("p", "c", containers=ports))
    assert only_cause(found) == "the host ports of the pod are in use by default/other"


def test_node_affinity_is_explained_with_its_terms() -> None:
    terms = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["big"]}]}]
    }
    found = explained(pod("p", "c", nodeSelector={"a": "b"}, affinity={"nodeAffinity": {TERM: terms}}))
    assert only_cause(found) == "the pod wants a=b and gpu In big"


def with_volume(name: str = "data") -> Doc:
    return pod("p", "c", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


def volume_claim(**spec: str) -> Doc:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": spec,
    }


def test_missing_volume_claim_rejects_every_node() -> None:
    found = explained(with_volume())
    assert found.headline == 'no node will do: persistentvolumeclaim "data" not found'
    assert found.nodes == ()


def test_volume_on_another_node() -> None:
    required = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["m"]}]}]
    }
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {"nodeAffinity": {"required": required}},
    }
    found = explained(volume_claim(volumeName="pv"), volume, with_volume())
    assert only_cause(found) == "a volume of the pod is elsewhere"


def asking(**limits: str) -> Doc:
    return pod("p", containers=[{"name": "c", "resources": {"requests": limits, "limits": limits}}])


def test_extended_resource_of_a_device_class_is_served_by_devices() -> None:
    of_class = {"deviceclass.resource.kubernetes.io/gpu": "1"}
    found = explained(asking(**of_class))
    assert found.outcome is Outcome.FITS
    assert found.facts == ("claim p-extended-resources, request container-0-request-0: gpu.example.com/n/a",)


def test_extended_resource_with_too_few_devices() -> None:
    found = explained(asking(**{"deviceclass.resource.kubernetes.io/gpu": "2"}))
    assert found.headline == (
        "request container-0-request-0 of claim default/p-extended-resources wants 2 devices on one node; the best node, n, has 1 usable"
    )


def test_extended_resource_that_nobody_offers() -> None:
    found = explained(asking(**{"vendor.example.com/gpu": "1"}))
    assert found.headline == "no node takes the pod: insufficient vendor.example.com/gpu"
    assert "no device class stands for it" in found.advice[0]


def test_advice_is_about_the_node_that_lacks_least() -> None:
    full = pod("other", nodeName="n", cpu="8")
    half = pod("another", nodeName="m", cpu="4")
    found = explained(node("m"), slice_("m", device("a")), full, half, pod("p", "c", cpu="5"))
    assert found.advice == ("free 1 of cpu on m, or ask for less",)
