"""The pages of objects say what there is to know about them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.ui import details
from dray.ui.board import Board
from dray.ui.cluster import LiveCluster
from tests.support import explain as given
from tests.support import showcase


def board(*documents: Any) -> Board:
    cluster = LiveCluster(release="1.36")
    cluster.fill(given.cluster(*documents).snapshot)
    found = Board(cluster)
    found.refresh()
    return found


def shown(found: Board, kind: str, id: str) -> dict[str, Any]:
    page = details.page(found, kind, id)
    assert page is not None
    return msgspec.to_builtins(page)


def section(page: dict[str, Any], title: str) -> Any:
    return next(one for one in page["sections"] if one["title"] == title)


def texts(value: Any) -> str:
    """Everything that can be read in a part of a page."""
    if isinstance(value, dict):
        return " ".join(texts(one) for name, one in value.items() if name not in ("type", "kind", "id"))
    if isinstance(value, list | tuple):
        return " ".join(map(texts, value))
    return str(value)


BY_MODEL = 'device.attributes["gpu.example.com"].model == "A100"'


def test_a_claim_tells_which_selector_chose_its_devices():
    claim = given.claim("c", BY_MODEL, taken=("n1/a",))
    found = board(given.node("n1"), given.slice_("n1", given.device("a")), given.device_class(), claim)
    (line,) = section(shown(found, "claim", "default/c"), "What it has")["rows"]
    assert line[0] == "r"
    assert line[1]["id"] == "gpu.example.com/n1/a"
    assert BY_MODEL in texts(line[2])
    assert "gpu.example.com/model=A100" in texts(line[3])


def test_a_device_tells_who_has_it_and_what_its_driver_reports():
    claim = given.claim("c", taken=("n1/a",))
    condition = {"type": "Ready", "status": "True", "reason": "Up", "message": "link is up"}
    status = {"driver": given.DRIVER, "pool": "n1", "device": "a", "conditions": [condition]}
    claim["status"]["devices"] = [{**status, "data": {"vlan": 7}, "networkData": {"ips": ["10.0.0.1/24"]}}]
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    pod = given.pod("p", "c", nodeName="n1")
    found = board(given.slice_("n1", given.device("a")), given.device_class(), claim, pod)
    page = shown(found, "device", "gpu.example.com/n1/a")
    assert page["state"] == "allocated"
    (line,) = section(page, "Who has it")["rows"]
    assert [line[0]["id"], line[1][0]["id"]] == ["default/c", "default/p"]
    assert all(word in texts(page) for word in ("link is up", "vlan: 7", "10.0.0.1/24", "the whole device"))


def test_a_pool_tells_which_slices_are_missing():
    page = shown(board(given.slice_("n1", given.device("a"), count=3)), "pool", "gpu.example.com/n1")
    assert page["state"] == "incomplete"
    assert page["summary"].startswith("2 slices are missing of generation 1")
    page = shown(board(given.slice_("n1", given.device("a"), count=2)), "pool", "gpu.example.com/n1")
    assert page["summary"].startswith("1 slice is missing of generation 1")


def test_a_class_tells_how_many_devices_it_selects():
    found = board(given.slice_("n1", given.device("a"), given.device("b")), given.device_class())
    page = shown(found, "class", "gpu")
    assert "2: 2 free" in texts(section(page, "What it is"))
    assert section(page, "Selectors")["rows"][0][1] == "2 of 2"


def test_a_pod_tells_of_the_negotiation_with_drivers():
    context = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "PodSchedulingContext",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"potentialNodes": ["n1", "n2"], "selectedNode": "n1"},
        "status": {"resourceClaims": [{"name": "c", "unsuitableNodes": ["n2"]}]},
    }
    page = shown(board(given.node("n1"), given.pod("p"), context), "pod", "default/p")
    negotiation = texts(section(page, "Negotiation with drivers (PodSchedulingContext)"))
    assert "Selected node n1" in negotiation
    assert "n1 n2" in negotiation
    assert "c n2" in texts(section(page, "What drivers answered"))


def test_every_object_has_a_page():
    named = [
        {**one, "spec": {**one["spec"], "nodeName": "node-1"}}
        for one in showcase.showcase()
        if one["kind"] == "Pod"
    ]
    others = [one for one in showcase.showcase() if one["kind"] != "Pod"]
    found = board(*(given.node(f"node-{i}") for i in (1, 2, 3)), *others, *named)
    cluster = found.cluster
    ids = [
        *(("device", str(view.id)) for pool in cluster.pools.values() for view in cluster.devices(pool)),
        *(("pool", str(id)) for id in cluster.pools),
        *((kind, id) for kind, rows in (("pod", "pods"), ("node", "nodes"), ("class", "classes"), ("slice", "slices")) for id in found.rows[rows]),
    ]  # fmt: skip
    assert len(ids) > 80
    for kind, id in ids:
        assert shown(found, kind, id)["sections"]


@pytest.mark.parametrize(
    ("kind", "id"), [("pod", "none"), ("device", "x"), ("device", "a/b/c"), ("nosuch", "x")]
)
def test_what_is_not_there_has_no_page(kind: str, id: str):
    assert details.page(board(), kind, id) is None
