"""What claims are charged."""

from __future__ import annotations

from dray.api.quota import claims


def claim(*requests):
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": list(requests)}}}


def exact(class_name, **fields):
    return {
        "name": "r",
        "exactly": {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": 1, **fields},
    }


def test_a_claim_without_requests_counts_as_one_object():
    assert claims.charges(claim()) == {"count/resourceclaims.resource.k8s.io": 1}


def test_requests_for_one_class_add_up():
    charged = claims.charges(claim(exact("gpu", count=2), exact("gpu"), exact("nic")))
    assert charged["gpu.deviceclass.resource.k8s.io/devices"] == 3
    assert charged["nic.deviceclass.resource.k8s.io/devices"] == 1


def test_all_devices_are_charged_as_many_as_an_allocation_can_hold():
    charged = claims.charges(
        claim({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}})
    )
    assert charged["gpu.deviceclass.resource.k8s.io/devices"] == 32


def test_alternatives_are_charged_the_maximum_of_each_class():
    alternatives = [
        {"name": "a", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
        {"name": "b", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 5},
        {"name": "c", "deviceClassName": "nic", "allocationMode": "All"},
    ]
    charged = claims.charges(claim({"name": "r", "firstAvailable": alternatives}))
    assert charged["gpu.deviceclass.resource.k8s.io/devices"] == 5
    assert charged["nic.deviceclass.resource.k8s.io/devices"] == 32


def test_unknown_modes_are_free():
    charged = claims.charges(
        claim({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "Some"}})
    )
    assert charged["gpu.deviceclass.resource.k8s.io/devices"] == 0


def test_classes_that_serve_extended_resources_are_charged_under_those_names_too():
    charged = claims.charges(claim(exact("gpu", count=3)), extended_resources={"gpu": "example.com/gpu"})
    assert charged["requests.example.com/gpu"] == 3
    assert charged["requests.deviceclass.resource.kubernetes.io/gpu"] == 3


def test_what_the_pod_was_charged_already_is_not_charged_again():
    charged = claims.charges(
        claim(exact("gpu", count=3)),
        extended_resources={"gpu": "example.com/gpu"},
        pod_usage={"requests.example.com/gpu": 3, "requests.deviceclass.resource.kubernetes.io/gpu": 1},
    )
    assert "requests.example.com/gpu" not in charged
    assert charged["requests.deviceclass.resource.kubernetes.io/gpu"] == 2


def test_only_names_that_concern_claims_match():
    names = ["pods", "count/resourceclaims.resource.k8s.io", "gpu.deviceclass.resource.k8s.io/devices",
             "requests.example.com/gpu", "requests.cpu", "requests.deviceclass.resource.kubernetes.io/gpu"]  # fmt: skip
    assert claims.matching(names) == names[1:3]
    assert claims.matching(names, extended_resources={"gpu": "example.com/gpu"}) == [*names[1:4], names[5]]
