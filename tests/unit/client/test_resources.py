"""Resources and their paths."""

from __future__ import annotations

from dray.client.resources import ALL, DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS


def test_resources_know_their_paths():
    assert PODS.path("a", "b", "status") == "/api/v1/namespaces/a/pods/b/status"
    assert PODS.path() == "/api/v1/pods"
    assert NODES.path("ignored", "n") == "/api/v1/nodes/n"
    assert RESOURCE_CLAIMS.path("a") == "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims"
    assert DEVICE_CLASSES.at("v1beta1").path("", "c") == "/apis/resource.k8s.io/v1beta1/deviceclasses/c"
    assert (str(PODS), str(RESOURCE_CLAIMS)) == ("pods", "resourceclaims.resource.k8s.io")


def test_every_resource_is_listed_once():
    assert ALL["PODS"] is PODS
    assert len(set(ALL.values())) == len(ALL)
