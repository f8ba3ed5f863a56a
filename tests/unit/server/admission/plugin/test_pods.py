"""What plugins do to pods: priorities, tolerations, runtime classes, limits, accounts, images, node selectors."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.errors import Forbidden
from dray.api.scheme.kinds import Object
from dray.server.admission.plugin.serviceaccount import MOUNT_PATH
from tests.support.admission import make_world, pod, refusal

PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


# -- priority


async def test_a_pods_priority_is_that_of_its_class() -> None:
    world = await make_world("Priority")
    await world.post(CLASSES, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    made = await world.post(PODS, pod(priorityClassName="high"))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (1000, "Never")


async def test_without_a_class_the_default_class_counts_and_without_one_zero() -> None:
    world = await make_world("Priority")
    assert (await world.post(PODS, pod("a")))["spec"]["priority"] == 0
    await world.post(CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    made = await world.post(PODS, pod("b"))
    assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (7, "usual")
    await world.delete(f"{CLASSES}/usual")
    assert (await world.post(PODS, pod("c")))["spec"]["priority"] == 0


async def test_priorities_that_contradict_the_class_and_unknown_classes_are_refused() -> None:
    world = await make_world("Priority")
    error = await refusal(world.post(PODS, pod(priority=5)))
    assert "the integer value of priority (5) must not be provided" in error.message
    error = await refusal(world.post(PODS, pod(priorityClassName="none")))
    assert error.message == 'pods "p" is forbidden: no PriorityClass with name none was found'


async def test_there_is_one_default_class_and_those_of_the_system_stay() -> None:
    world = await make_world("Priority")
    await world.post(CLASSES, {"metadata": {"name": "one"}, "value": 1, "globalDefault": True})
    error = await refusal(
        world.post(CLASSES, {"metadata": {"name": "two"}, "value": 2, "globalDefault": True})
    )
    assert "PriorityClass one is already marked as default" in error.message
    error = await refusal(world.delete(f"{CLASSES}/system-node-critical"))
    assert "this is a system priority class and cannot be deleted" in error.message


# -- tolerations


async def test_pods_tolerate_failing_nodes_for_a_while() -> None:
    world = await make_world("DefaultTolerationSeconds")
    own = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    made = await world.post(PODS, pod(tolerations=[own]))
    assert [(t["key"], t["tolerationSeconds"]) for t in made["spec"]["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 5),
        ("node.kubernetes.io/unreachable", 300),
    ]


async def test_what_becomes_of_one_pods_additions_is_nothing_to_other_pods() -> None:
    world = await make_world("DefaultTolerationSeconds", "ServiceAccount")
    await world.post(ACCOUNTS, {"metadata": {"name": "default"}})
    first, second = await world.post(PODS, pod("first")), await world.post(PODS, pod("second"))
    assert first["spec"]["volumes"][0]["projected"] is second["spec"]["volumes"][0]["projected"]
    tolerations = [{**t, "tolerationSeconds": 300} for t in first["spec"]["tolerations"]]
    change = {"spec": {"tolerations": [*tolerations, {"key": "a", "operator": "Exists"}]}}
    patched = await world.patch(f"{PODS}/first", change)
    assert len(patched["spec"]["tolerations"]) == 3
    third = (await world.post(PODS, pod("third")))["spec"]
    assert third["tolerations"] == second["spec"]["tolerations"]
    assert third["volumes"][0]["projected"] == first["spec"]["volumes"][0]["projected"]


async def test_a_toleration_of_everything_needs_no_others() -> None:
    world = await make_world("DefaultTolerationSeconds")
    made = await world.post(PODS, pod(tolerations=[{"operator": "Exists"}]))
    assert made["spec"]["tolerations"] == [{"operator": "Exists"}]


async def test_extended_resources_bring_their_tolerations() -> None:
    world = await make_world("ExtendedResourceToleration")
    asked = {"limits": {"example.com/gpu": "1", "cpu": "1"}}
    container = {"name": "c", "image": "i", "resources": asked}
    made = await world.post(PODS, pod(containers=[container]))
    wanted = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert made["spec"]["tolerations"] == [wanted]


async def test_new_nodes_are_tainted_once() -> None:
    world = await make_world("TaintNodesByCondition")
    made = await world.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    again = await world.post("/api/v1/nodes", {"metadata": {"name": "m"}, "spec": made["spec"]})
    assert len(again["spec"]["taints"]) == 1


# -- runtime classes


async def test_a_runtime_class_gives_its_overhead_and_its_place() -> None:
    world = await make_world("RuntimeClass")
    scheduling = {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]}
    await world.post(
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            "metadata": {"name": "vm"},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": scheduling,
        },
    )
    made = await world.post(PODS, pod(runtimeClassName="vm", nodeSelector={"a": "b"}))
    assert made["spec"]["overhead"] == {"cpu": "250m"}
    assert made["spec"]["nodeSelector"] == {"a": "b", "vm": "yes"}
    assert made["spec"]["tolerations"][-1]["key"] == "vm"
    error = await refusal(world.post(PODS, pod("q", runtimeClassName="vm", overhead={"cpu": "1"})))
    assert "Pod's Overhead doesn't match RuntimeClass's defined Overhead" in error.message
    error = await refusal(world.post(PODS, pod("q", runtimeClassName="vm", nodeSelector={"vm": "no"})))
    assert "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes" in error.message


async def test_unknown_runtime_classes_and_overhead_without_one_are_refused() -> None:
    world = await make_world("RuntimeClass")
    error = await refusal(world.post(PODS, pod(runtimeClassName="none")))
    assert 'pod rejected: RuntimeClass "none" not found' in error.message
    error = await refusal(world.post(PODS, pod(overhead={"cpu": "1"})))
    assert "Pod Overhead set without corresponding RuntimeClass" in error.message


# -- limits

LIMITS = "/api/v1/namespaces/default/limitranges"


async def test_limit_ranges_fill_in_what_containers_do_not_say() -> None:
    world = await make_world("LimitRanger")
    limit = {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}
    await world.post(LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    made = await world.post(PODS, pod(initContainers=[{"name": "i", "image": "i"}]))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1"},
        "requests": {"cpu": "100m"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c; "
        "cpu request for init container i; cpu limit for init container i"
    )


@pytest.mark.parametrize(
    ("limit", "resources", "words"),
    [
        ({"max": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, "maximum cpu usage per Container is 1, but limit is 2"),
        ({"max": {"memory": "1Gi"}}, {"limits": {"cpu": "1"}}, "maximum memory usage per Container is 1Gi.  No"),
        ({"min": {"cpu": "200m"}}, {"requests": {"cpu": "100m"}}, "minimum cpu usage per Container is 200m, but request"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
    ],
)  # fmt: skip
async def test_containers_stay_within_their_limits(limit: Object, resources: Object, words: str) -> None:
    world = await make_world("LimitRanger")
    container = {"name": "c", "image": "i", "resources": resources}
    stored = {"type": "Container", **limit}
    await world.post(LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": [stored]}})
    # The API derives defaults from the bounds; without them the bounds themselves show.
    document = world.api.resource("", "limitranges").cache.get("default/l")
    for part in ("default", "defaultRequest"):
        document.hub["spec"]["limits"][0].pop(part, None)
    error = await refusal(world.post(PODS, pod(containers=[container])))
    assert isinstance(error, Forbidden)
    assert words in error.message


async def test_pods_are_limited_as_a_whole_too() -> None:
    world = await make_world("LimitRanger")
    await world.post(
        LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}
    )
    half = {"image": "i", "resources": {"limits": {"cpu": "600m"}}}
    error = await refusal(world.post(PODS, pod(containers=[{"name": n, **half} for n in ("a", "b")])))
    assert "maximum cpu usage per Pod is 1, but limit is 1200m" in error.message


async def test_volume_claims_are_limited_by_what_they_request() -> None:
    world = await make_world("LimitRanger")
    limit = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    await world.post(LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    error = await refusal(world.post(claims, {"metadata": {"name": "v"}, "spec": spec}))
    assert "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi" in error.message


# -- service accounts

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def test_pods_run_as_an_account_whose_token_is_mounted() -> None:
    world = await make_world("ServiceAccount")
    secrets = [{"name": "registry"}]
    await world.post(ACCOUNTS, {"metadata": {"name": "default"}, "imagePullSecrets": secrets})
    made = (await world.post(PODS, pod()))["spec"]
    assert made["serviceAccountName"] == made["serviceAccount"] == "default"
    [volume] = made["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert [next(iter(s)) for s in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    [mount] = made["containers"][0]["volumeMounts"]
    assert (mount["name"], mount["mountPath"], mount["readOnly"]) == (volume["name"], MOUNT_PATH, True)
    assert made["imagePullSecrets"] == secrets


async def test_tokens_are_not_mounted_where_automount_is_off() -> None:
    world = await make_world("ServiceAccount")
    await world.post(ACCOUNTS, {"metadata": {"name": "default"}, "automountServiceAccountToken": False})
    assert "volumes" not in (await world.post(PODS, pod("a")))["spec"]
    made = await world.post(PODS, pod("b", automountServiceAccountToken=True))
    assert len(made["spec"]["volumes"]) == 1
    own = {"name": "c", "image": "i", "volumeMounts": [{"name": "mine", "mountPath": MOUNT_PATH}]}
    made = await world.post(
        PODS,
        pod(
            "c",
            automountServiceAccountToken=True,
            containers=[own],
            volumes=[{"name": "mine", "emptyDir": {}}],
        ),
    )
    assert [v["name"] for v in made["spec"]["volumes"]] == ["mine"]


async def test_an_account_that_is_on_its_way_is_waited_for_and_a_missing_one_refused() -> None:
    world = await make_world("ServiceAccount")
    waiting = asyncio.create_task(world.post(PODS, pod()))
    await asyncio.sleep(0)
    await world.post(ACCOUNTS, {"metadata": {"name": "default"}})
    assert (await waiting)["spec"]["serviceAccountName"] == "default"
    error = await refusal(world.post(PODS, pod("q", serviceAccountName="other")))
    assert error.message == (
        'pods "q" is forbidden: error looking up service account default/other: serviceaccount "other" not found'
    )


async def test_secrets_can_be_bound_to_the_accounts_list() -> None:
    world = await make_world("ServiceAccount")
    annotations = {"kubernetes.io/enforce-mountable-secrets": "true"}
    await world.post(
        ACCOUNTS,
        {"metadata": {"name": "default", "annotations": annotations}, "secrets": [{"name": "known"}]},
    )
    env = [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}]
    error = await refusal(world.post(PODS, pod(containers=[{"name": "c", "image": "i", "env": env}])))
    assert 'container c with envVar E referencing secret.secretName="other" is not allowed' in error.message
    volume = {"name": "v", "secret": {"secretName": "known"}}
    assert await world.post(PODS, pod(volumes=[volume]))


async def test_mirror_pods_have_no_part_in_secrets() -> None:
    world = await make_world("ServiceAccount")
    mirror = pod(volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    error = await refusal(world.post(PODS, mirror))
    assert "a mirror pod may not reference secrets" in error.message


# -- the rest


async def test_images_are_always_pulled() -> None:
    world = await make_world("AlwaysPullImages")
    container = {"name": "c", "image": "i:1", "imagePullPolicy": "Never"}
    made = await world.post(PODS, pod(containers=[container]))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "Always"


async def test_a_namespaces_node_selector_holds_for_its_pods() -> None:
    world = await make_world("PodNodeSelector")
    annotations = {"scheduler.alpha.kubernetes.io/node-selector": "zone=a,ssd=true"}
    await world.patch("/api/v1/namespaces/default", {"metadata": {"annotations": annotations}})
    made = await world.post(PODS, pod(nodeSelector={"x": "y"}))
    assert made["spec"]["nodeSelector"] == {"zone": "a", "ssd": "true", "x": "y"}
    error = await refusal(world.post(PODS, pod("q", nodeSelector={"zone": "b"})))
    assert "pod node label selector conflicts with its namespace node label selector" in error.message


async def test_pods_get_the_topology_of_their_node() -> None:
    world = await make_world("PodTopologyLabels")
    labels = {"topology.kubernetes.io/zone": "a", "other": "x"}
    await world.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})
    made = await world.post(PODS, pod(nodeName="n"))
    assert made["metadata"]["labels"] == {"topology.kubernetes.io/zone": "a"}


async def test_hard_anti_affinity_is_for_nodes_only() -> None:
    world = await make_world("LimitPodHardAntiAffinityTopology")
    term = {"topologyKey": "zone", "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    error = await refusal(world.post(PODS, pod(affinity=affinity)))
    assert "has TopologyKey zone but only key kubernetes.io/hostname is allowed" in error.message


async def test_a_pod_cannot_be_resized_beyond_its_node() -> None:
    world = await make_world("PodResizeValidator")
    await world.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    await world.patch("/api/v1/nodes/n/status", {"status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}})
    resources = {"requests": {"cpu": "1", "memory": "100Mi"}, "limits": {"cpu": "1", "memory": "100Mi"}}
    await world.post(
        PODS, pod(nodeName="n", containers=[{"name": "c", "image": "i", "resources": resources}])
    )
    bigger = {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}
    change = {"spec": {"containers": [{"name": "c", "resources": bigger}]}}
    kind = "application/strategic-merge-patch+json"
    error = await refusal(world.client.request("PATCH", f"{PODS}/p/resize", body=change, content_type=kind))
    assert "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000" in str(
        error
    )
    assert error.details is not None
    assert error.details["causes"] == [{"reason": "NodeCapacity"}]


async def test_a_binding_is_not_taken_for_a_pod() -> None:
    world = await make_world("ServiceAccount", "Priority", "DefaultTolerationSeconds", "RuntimeClass")
    await world.post(ACCOUNTS, {"metadata": {"name": "default"}})
    await world.post(PODS, pod())
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await world.post("/api/v1/namespaces/default/bindings", binding)
    assert (await world.get(f"{PODS}/p"))["spec"]["nodeName"] == "n"
