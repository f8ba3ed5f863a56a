"""Pods and claims of the classic API, explained from what the scheduler and the drivers have written."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.identity import ObjectKey
from dray.explain import Cluster, Snapshot
from dray.explain.classic import list_instances, why_no_devices
from dray.explain.explainer import explain_claim, explain_pod
from dray.explain.model.explanation import Explanation, Outcome
from dray.explain.model.snapshot import parse
from dray.explain.nodes.whatif import WhatIf, place_copies
from tests.support.explain import Doc, node, pod

V1ALPHA2 = "resource.k8s.io/v1alpha2"
POD = ObjectKey("default", "p")


def classic(kind: str, name: str, **more: Any) -> Doc:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **more.pop("metadata", {})}
    return {"apiVersion": V1ALPHA2, "kind": kind, "metadata": metadata, **more}


def resource_class(**more: Any) -> Doc:
    made = classic("ResourceClass", "cats", driverName="cats.example.com", **more)
    del made["metadata"]["namespace"]
    return made


def claim(name: str = "c", owner: str = "", **status: Any) -> Doc:
    owners = [{"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}] if owner else []
    spec = {"resourceClassName": "cats", "parametersRef": {"kind": "Cat", "name": "black"}}
    return classic("ResourceClaim", name, metadata={"ownerReferences": owners}, spec=spec, status=status)


def context(unsuitable: list[str] | None, selected: str = "") -> Doc:
    owner = {"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    answers = [] if unsuitable is None else [{"name": "c", "unsuitableNodes": unsuitable}]
    spec = {"potentialNodes": ["a", "b"], **({"selectedNode": selected} if selected else {})}
    return classic(
        "PodSchedulingContext",
        "p",
        metadata={"ownerReferences": [owner]},
        spec=spec,
        status={"resourceClaims": answers},
    )


def created(document: Doc) -> Doc:
    document["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return document


def templated(name: str = "p", template: str = "t") -> Doc:
    made = pod(name)
    made["spec"]["resourceClaims"] = [{"name": "cat", "source": {"resourceClaimTemplateName": template}}]
    return made


def cluster(*documents: Doc, release: str = "") -> Cluster:
    return Cluster(
        Snapshot(release=release).with_objects([node("a"), node("b"), *documents]), filters_nodes=True
    )


def explained(*documents: Doc, release: str = "") -> Explanation:
    return explain_pod(cluster(*documents, release=release), POD)


TEMPLATE = classic("ResourceClaimTemplate", "t", spec={"spec": {"resourceClassName": "cats"}})
ALLOCATED = {"allocation": {"resourceHandles": [{"driverName": "cats.example.com", "data": "x"}]}}


@pytest.mark.parametrize("release", ["", "1.27", "1.30"])
def test_a_template_beside_the_pod_is_found(release: str) -> None:
    found = explained(resource_class(), TEMPLATE, templated(), release=release)
    assert found.outcome is Outcome.FITS
    assert "claim default/p-cat is a classic one of class cats (driver cats.example.com)" in found.facts[0]
    assert "only the driver of its claims knows what is free" in found.headline


def test_a_missing_template_is_said_once_however_many_entries_name_it() -> None:
    made = templated(template="tt")
    made["spec"]["resourceClaims"] *= 2
    found = explained(resource_class(), TEMPLATE, made)
    assert (found.headline, found.facts) == (
        "there is no ResourceClaimTemplate tt in namespace default",
        (),
    )
    assert len(found.advice) == 1


def test_a_claim_whose_name_follows_from_its_pod_is_found() -> None:
    made = claim("p-cat", owner="p")
    there = cluster(resource_class(), TEMPLATE, made, created(templated()), release="1.27")
    assert explain_pod(there, POD).outcome is Outcome.PENDING
    of_claim = explain_claim(there, ObjectKey("default", "p-cat"))
    assert of_claim.facts[0] == "pod default/p uses it"


def test_a_class_that_does_not_exist_is_named() -> None:
    found = explained(claim(), pod("p", "c"))
    assert found.headline == "claim default/c wants resource class cats, which does not exist"


def test_nodes_that_the_driver_rules_out_are_the_answer() -> None:
    other = claim("other", reservedFor=[{"resource": "pods", "name": "q", "uid": "uid-q"}], **ALLOCATED)
    found = explained(resource_class(), claim(), other, context(["a", "b"]), created(pod("p", "c")), pod("q"))
    assert not found.well
    assert found.headline == "no node takes the pod: a classic claim cannot be allocated there"
    assert "claim default/c: driver cats.example.com has answered; unsuitable are a, b" in found.facts, (
        found.facts
    )
    assert "wait for or delete others of class cats (pod default/q)" in found.advice[0]


@pytest.mark.parametrize(
    ("answer", "selected", "headline"),
    [
        (None, "", "driver cats.example.com has not said yet which nodes suit claim default/c"),
        (["b"], "a", "driver cats.example.com has not allocated claim default/c on a yet"),
    ],
)
def test_who_has_not_answered_is_named(answer: list[str] | None, selected: str, headline: str) -> None:
    found = explained(resource_class(), claim(), context(answer, selected), created(pod("p", "c")))
    assert (found.outcome, found.headline) == (Outcome.PENDING, headline)
    assert "is the controller of driver cats.example.com running" in found.advice[0]


def test_a_pod_that_nobody_has_asked_for_yet_waits_for_the_scheduler() -> None:
    found = explained(resource_class(), claim(), created(pod("p", "c")))
    assert not found.well
    assert "there is no PodSchedulingContext p" in "".join(found.facts)


@pytest.mark.parametrize("release", ["1.27", "1.30", ""])
def test_pod_and_claim_agree_where_the_scheduler_was_bypassed(release: str) -> None:
    made = templated()
    made["spec"]["nodeName"], made["status"]["phase"] = "a", "Pending"
    made["status"]["resourceClaimStatuses"] = [{"name": "cat", "resourceClaimName": "p-cat"}]
    there = cluster(resource_class(), TEMPLATE, claim("p-cat", owner="p"), made, release=release)
    of_pod, of_claim = explain_pod(there, POD), explain_claim(there, ObjectKey("default", "p-cat"))
    assert of_pod.outcome is of_claim.outcome is Outcome.STUCK
    assert of_pod.facts[0] == of_claim.facts[0]
    assert "claim p-cat is not allocated: the pod got its node without it" in of_pod.facts[0]
    assert of_pod.advice == of_claim.advice


def test_a_driver_asked_after_the_pod_was_bound_is_named() -> None:
    made = pod("p", "c", nodeName="a")
    made["status"]["phase"] = "Pending"
    found = explained(resource_class(), claim(), context(None, "a"), made)
    assert "driver cats.example.com has been asked since" in found.facts[0]


def structured_cluster() -> Cluster:
    slices = [
        {
            **classic("ResourceSlice", f"{name}-slice"),
            "nodeName": name,
            "driverName": "cats.example.com",
            "namedResources": {"instances": [{"name": "tom"}]},
        }
        for name in ("a", "b")
    ]
    return cluster(resource_class(structuredParameters=True), TEMPLATE, *slices, release="1.30")


def test_structured_claims_are_allocated_by_the_scheduler() -> None:
    there = structured_cluster()
    found = explain_pod(there.changed(there.snapshot.with_objects([templated()])), POD)
    assert found.outcome is Outcome.FITS
    assert found.facts[0].endswith("the scheduler allocates it")
    assert found.facts[1] == "claim p-cat: cats.example.com/a/tom"


def test_instances_that_copies_of_a_pod_would_get_run_out() -> None:
    whatif = WhatIf(structured_cluster())
    placed = place_copies(whatif, POD, templated(), 3)
    assert [(one.node, [str(d.device) for d in one.devices]) for one in placed] == [
        ("a", ["cats.example.com/a/tom"]),
        ("b", ["cats.example.com/b/tom"]),
        ("", []),
    ]
    failing = templated("p-2")
    explained_cluster = whatif.explained()
    found = explain_pod(
        explained_cluster.changed(explained_cluster.snapshot.with_objects([failing])),
        ObjectKey("default", "p-2"),
    )
    assert found.outcome is Outcome.PENDING
    assert "publishes too few free instances there" in found.nodes[0].causes[0]


def test_an_allocated_structured_claim_shows_its_instances() -> None:
    handle = {
        "driverName": "cats.example.com",
        "structuredData": {"nodeName": "a", "results": [{"namedResources": {"name": "tom"}}]},
    }
    made = claim(allocation={"resourceHandles": [handle]})
    found = explain_claim(cluster(resource_class(structuredParameters=True), made), ObjectKey("default", "c"))
    assert found.facts[0] == "claim default/c: cats.example.com/a/tom, allocated by the scheduler"


def test_named_resources_are_listed_with_the_claims_that_have_them() -> None:
    handle = {
        "driverName": "cats.example.com",
        "structuredData": {"nodeName": "a", "results": [{"namedResources": {"name": "tom"}}]},
    }
    there = structured_cluster()
    made = claim(allocation={"resourceHandles": [handle]}, reservedFor=[{"resource": "pods", "name": "p"}])
    views = list(list_instances(there.changed(there.snapshot.with_objects([made]))))
    assert [(str(v.id), v.state.value, ", ".join(map(str, v.holders))) for v in views] == [
        ("cats.example.com/a/tom", "allocated", "default/c (default/p)"),
        ("cats.example.com/b/tom", "free", ""),
    ]


@pytest.mark.parametrize(("release", "said"), [("1.27", True), ("1.30", True), ("1.32", False), ("", False)])
def test_a_release_whose_drivers_keep_their_devices_to_themselves_says_so(release: str, said: bool) -> None:
    assert bool(why_no_devices(cluster(release=release))) is said


def test_a_snapshot_file_keeps_classic_objects() -> None:
    there = cluster(resource_class(), TEMPLATE, claim(), context(["a"])).snapshot
    assert parse(there.dump()) == there
