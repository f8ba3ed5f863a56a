from __future__ import annotations

from dray.api.identity import ObjectKey
from dray.explain import Cluster, Snapshot
from dray.explain.explainer import explain_pod
from dray.explain.model.anonymizer import anonymize
from dray.explain.model.explanation import Outcome
from tests.support.explain import claim, device, device_class, node, pod, slice_


def test_anonymized_snapshot_has_no_names_and_the_same_explanation() -> None:
    serial = device("a")
    serial["attributes"] |= {"uuid": {"string": "GPU-secret"}, "host": {"string": "secret-node"}}
    held = claim("secret-claim", taken=("secret-node/a",))
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "secret-pod", "uid": "uid-secret-pod"}]
    snapshot = Snapshot().with_objects(
        [
            node("secret-node"), slice_("secret-node", serial), device_class(), held, claim("secret-wish"),
            pod("secret-pod", "secret-claim", nodeName="secret-node"),
            pod("secret-waiting", "secret-wish"),
        ]
    )  # fmt: skip
    hidden = anonymize(snapshot)
    assert b"secret" not in hidden.dump()
    (waiting,) = [p for p in hidden.pods if "nodeName" not in p["spec"]]
    found = explain_pod(Cluster(hidden), ObjectKey("ns-1", waiting["metadata"]["name"]))
    assert found.outcome is Outcome.PENDING
    assert found.requests[0].removed[0].cause == "already allocated"
    assert found.requests[0].removed[0].holders == ("ns-1/claim-1 (ns-1/pod-1)",)
