from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.identity import ObjectKey
from dray.explain.devices.evaluation import evaluate
from dray.explain.nodes.whatif import WhatIf, place_copies
from tests.support.explain import claim, cluster, device, device_class, node, pod, slice_


def templated(count: int) -> tuple[dict[str, object], dict[str, object]]:
    template = {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"spec": claim("c", count=count)["spec"]},
    }
    user = pod("p")
    user["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimTemplateName": "t"}]
    return template, user


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=5), each=st.integers(1, 3))
def test_as_many_fit_as_there_is_room_on_single_nodes(sizes: list[int], each: int) -> None:
    template, user = templated(each)
    world = [
        d
        for i, size in enumerate(sizes)
        for d in (node(f"n{i}"), slice_(f"n{i}", *(device(f"d{k}") for k in range(size))))
    ]
    placed = place_copies(
        WhatIf(cluster(*world, device_class(), template)), ObjectKey("default", "p"), user, 50
    )
    fitting = [one for one in placed if not one.problem]
    # Eight pods of one cpu each fit on a node.
    assert len(fitting) == sum(min(size // each, 8) for size in sizes)
    assert placed[-1].problem
    given_out = [one.device for p in fitting for one in p.devices]
    assert len(given_out) == len(set(given_out))


def test_cpu_counts_as_well_as_devices() -> None:
    template, user = templated(1)
    user["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"  # type: ignore[index]
    world = [node("n"), slice_("n", *(device(f"d{k}") for k in range(5))), device_class(), template]
    placed = place_copies(WhatIf(cluster(*world)), ObjectKey("default", "p"), user, 5)
    assert [bool(one.node) for one in placed] == [True, True, False]


def test_pods_that_share_a_claim_share_its_devices() -> None:
    whatif = WhatIf(cluster(node("n"), slice_("n", device("a")), device_class(), claim("c")), policy="spread")
    first = whatif.place(ObjectKey("default", "p"), pod("p", "c"))
    second = whatif.place(ObjectKey("default", "q"), pod("q", "c"))
    assert (first.node, second.node) == ("n", "n")
    assert len(first.devices) == 1
    assert second.devices == ()


def test_expression_is_counted_by_outcome_with_its_cost() -> None:
    odd = {"name": "odd"}
    world = cluster(slice_("n", device("a"), device("b", "H100"), odd))
    devices = [d for pool in world.pools.values() for d in pool.devices]
    found = evaluate('device.attributes["gpu.example.com"].model == "A100"', devices, world.features)
    assert [one.device for one in found.matching] == ["a"]
    assert found.others == 1
    assert [(message, count) for message, count, _ in found.errors] == [("no such key: model", 1)]
    assert 0 < found.cost <= found.estimate
