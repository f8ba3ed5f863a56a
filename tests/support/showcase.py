"""A small cluster with something of everything that the dashboard shows: partitions, shares, taints, pods that wait."""

from __future__ import annotations

from typing import Any

Doc = dict[str, Any]
MIG, NIC = "mig.example.com", "net.example.com"
_PROFILES = {"1g": "10Gi", "2g": "20Gi", "3g": "40Gi"}


def partitioned_slices(node: str, cards: int = 2) -> list[Doc]:
    """Two slices: the counters of some cards, and the partitions that consume them."""
    memory = {"memory": {"value": "80Gi"}, "slices": {"value": "7"}}
    sets = [{"name": f"card-{card}", "counters": memory} for card in range(cards)]
    devices = [
        {
            "name": f"card-{card}-{profile}-{number}",
            "attributes": {
                f"{MIG}/model": {"string": f"B200 {profile}"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{card:02x}"},
            },
            "capacity": {"memory": {"value": size}},
            "consumesCounters": [
                {
                    "counterSet": f"card-{card}",
                    "counters": {"memory": {"value": size}, "slices": {"value": profile[0]}},
                }
            ],
        }
        for card in range(cards)
        for profile, size in _PROFILES.items()
        for number in range(4 if profile == "1g" else 2)
    ]
    pool = {"name": f"{node}-mig", "generation": 1, "resourceSliceCount": 2}
    base = {"driver": MIG, "nodeName": node, "pool": pool}
    return [
        _slice(f"{node}-mig-counters", {**base, "sharedCounters": sets}),
        _slice(f"{node}-mig-devices", {**base, "devices": devices}),
    ]


def shared_slice(node: str) -> Doc:
    """Network cards whose bandwidth several claims share."""
    policy = {"default": "1G", "validRange": {"min": "1G", "step": "1G"}}
    devices = [
        {
            "name": f"nic-{number}",
            "allowMultipleAllocations": True,
            "attributes": {f"{NIC}/model": {"string": "ConnectX"}},
            "capacity": {"bandwidth": {"value": "100G", "requestPolicy": policy}},
        }
        for number in range(2)
    ]
    pool = {"name": f"{node}-net", "generation": 1, "resourceSliceCount": 1}
    return _slice(f"{node}-net", {"driver": NIC, "nodeName": node, "pool": pool, "devices": devices})


def incomplete_slice(node: str) -> Doc:
    pool = {"name": f"{node}-fpga", "generation": 3, "resourceSliceCount": 2}
    devices = [{"name": "fpga-0"}, {"name": "fpga-1"}]
    return _slice(
        f"{node}-fpga", {"driver": "fpga.example.com", "nodeName": node, "pool": pool, "devices": devices}
    )


def _slice(name: str, spec: Doc) -> Doc:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def device_class(name: str) -> Doc:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{name}"'}}]},
    }


def taint_rule(pool: str, device: str) -> Doc:
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"{pool}-{device}"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "pool": pool, "device": device},
            "taint": {"key": "example.com/replace-fan", "effect": "NoSchedule"},
        },
    }


def template(name: str, namespace: str, **exactly: Any) -> Doc:
    request = {"name": "devices", "exactly": exactly}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def pod(name: str, namespace: str, uses: str) -> Doc:
    container = {"name": "main", "image": "work", "command": ["sleep", "1000"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{**container, "resources": {"claims": [{"name": "devices"}]}}],
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": uses}],
        },
    }


def namespace(name: str) -> Doc:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def showcase(nodes: int = 3) -> list[Doc]:
    """On top of what ``dray up --runtime simulated`` has."""
    wanted = 'device.attributes["gpu.example.com"].model == "LATEST-GPU-MODL"'
    names = [f"node-{number + 1}" for number in range(nodes)]
    documents = [namespace("training"), namespace("serving"), device_class(MIG), device_class(NIC)]
    for node in names[:3]:
        documents += [*partitioned_slices(node), shared_slice(node)]
    documents += [incomplete_slice(names[0]), taint_rule("node-2", "gpu-5")]
    documents += [
        template("two-gpus", "training", deviceClassName="gpu.example.com", count=2),
        template("twelve-gpus", "training", deviceClassName="gpu.example.com", count=12),
        template(
            "misspelt",
            "serving",
            deviceClassName="gpu.example.com",
            selectors=[{"cel": {"expression": wanted}}],
        ),
        template("a-part", "serving", deviceClassName=MIG),
        template("bandwidth", "serving", deviceClassName=NIC, capacity={"requests": {"bandwidth": "30G"}}),
    ]
    documents += [pod(f"worker-{number}", "training", "two-gpus") for number in range(2 * nodes)]
    documents += [pod(f"chat-{number}", "serving", "a-part") for number in range(5)]
    documents += [pod(f"gateway-{number}", "serving", "bandwidth") for number in range(4)]
    documents += [pod("huge", "training", "twelve-gpus"), pod("ranker", "serving", "misspelt")]
    return documents
