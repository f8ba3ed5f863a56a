from __future__ import annotations

from dray.ui import metrics
from dray.ui.board import Board
from dray.ui.cluster import LiveCluster
from tests.support import explain as given


def text_of(*documents: object, unread: tuple[str, ...] = ()) -> str:
    cluster = LiveCluster(release="1.36", unread=unread)
    cluster.fill(given.cluster(*documents).snapshot)  # type: ignore[arg-type]
    return metrics.Metrics(Board(cluster), clock=lambda: 1_800_000_100.0).text()


def test_devices_claims_pods_and_pools_are_counted():
    waiting = given.claim("waits")
    waiting["metadata"]["creationTimestamp"] = "2027-01-15T08:00:00Z"  # 1,800,000,000 seconds since the epoch
    shared = given.device("s", allowMultipleAllocations=True, capacity={"memory": {"value": "80"}})
    share = given.claim("share", taken=("n1/s",))
    share["status"]["allocation"]["devices"]["results"][0] |= {
        "shareID": "1",
        "consumedCapacity": {"memory": "20"},
    }
    text = text_of(
        given.slice_("n1", given.device("a"), given.device("b"), shared),
        given.slice_("n2", given.device("x"), count=2),
        given.device_class(),
        given.claim("has", taken=("n1/a",)),
        waiting,
        share,
        given.pod("p", "gone"),
        unread=("Node",),
    )
    for line in (
        'dray_devices{driver="gpu.example.com",state="allocated"} 1',
        'dray_devices{driver="gpu.example.com",state="free"} 1',
        'dray_devices{driver="gpu.example.com",state="shared"} 1',
        'dray_devices{driver="gpu.example.com",state="withheld"} 1',
        'dray_class_devices{class="gpu",state="free"} 1',
        'dray_node_devices{node="n1",driver="gpu.example.com",state="allocated"} 1',
        'dray_capacity_available{driver="gpu.example.com",capacity="memory"} 80',
        'dray_capacity_used{driver="gpu.example.com",capacity="memory"} 20',
        'dray_claims{state="pending"} 1',
        'dray_claims{state="allocated"} 2',
        'dray_claim_pending_seconds{namespace="default",claim="waits"} 100',
        'dray_pods_pending{cause="claims"} 1',
        'dray_slices{driver="gpu.example.com"} 2',
        'dray_pools{driver="gpu.example.com",state="incomplete"} 1',
        'dray_unreadable_kinds{kind="Node"} 1',
    ):
        assert f"{line}\n" in text


def test_the_number_of_series_is_bounded_and_the_sum_stays_right(monkeypatch):
    monkeypatch.setattr(metrics, "_NODES", 10)
    text = text_of(*(given.slice_(f"n{i}", given.device("a")) for i in range(50)))
    lines = [line for line in text.splitlines() if line.startswith("dray_node_devices{")]
    assert len(lines) == 11
    assert sum(int(line.split()[-1]) for line in lines) == 50
    assert any('node="(others)"' in line for line in lines)


def test_what_the_scheduler_says_tells_why_a_pod_waits():
    said = {
        "devices": "0/3 nodes are available: 3 cannot allocate all claims.",
        "classic": "0/3 nodes are available: 3 resourceclaim cannot be allocated for the node (unsuitable).",
        "gang": "minCount (8) cannot be satisfied: 0 scheduled, 7 remaining",
        "line": "waiting in line",
        "nodes": "0/3 nodes are available: 3 Insufficient cpu.",
        "untried": "",
    }
    pods = [
        {
            **given.pod(name),
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": text}]},
        }
        for name, text in said.items()
    ]
    text = text_of(*pods)
    for cause, number in (("devices", 2), ("gang", 2), ("nodes", 1), ("waiting", 1), ("claims", 0)):
        assert f'dray_pods_pending{{cause="{cause}"}} {number}\n' in text


def test_a_class_that_may_not_be_read_is_not_said_to_be_missing():
    pod = given.pod("p", "c")
    assert 'dray_pods_pending{cause="claims"} 1' in text_of(given.claim("c"), pod)
    assert 'dray_pods_pending{cause="claims"} 0' in text_of(given.claim("c"), pod, unread=("DeviceClass",))
