"""Pod security: what each level forbids, and how namespaces ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.scheme.kinds import Object
from dray.server.admission.podsecurity.levels import LevelVersion, policy_of
from dray.server.admission.podsecurity.standards import violations
from tests.support.admission import listen, make_world, pod, refusal

PODS = "/api/v1/namespaces/default/pods"
NAMESPACE = "/api/v1/namespaces/default"
NEWEST = 36


def labels(**modes: str) -> Object:
    return {f"pod-security.kubernetes.io/{mode.replace('_', '-')}": value for mode, value in modes.items()}


def containers(**context: Any) -> list[Object]:
    return [{"name": "c", "image": "i", "securityContext": context}]


def said(level: str, spec: Object, *, minor: int = NEWEST, metadata: Object | None = None) -> list[str]:
    found = violations(LevelVersion(level, minor), metadata or {}, {"containers": [], **spec}, newest=NEWEST)
    return [str(violation) for violation in found]


#: What a level has against a pod; what is fine at the baseline is shown with nothing.
BASELINE: list[tuple[Object, str]] = [
    ({"hostNetwork": True, "hostIPC": True}, "host namespaces (hostNetwork=true, hostIPC=true)"),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, 'hostPath volumes (volume "v")'),
    (
        {"containers": containers(privileged=True)},
        'privileged (container "c" must not set securityContext.privileged=true)',
    ),
    (
        {"initContainers": containers(capabilities={"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]})},
        'non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    (
        {"containers": [{"name": n, "ports": [{"hostPort": p}]} for n, p in (("a", 81), ("b", 80))]},
        'hostPort (containers "a", "b" use hostPorts 80, 81)',
    ),
    (
        {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "h", "port": 1}}}]},
        'probe or lifecycle host (container "c" uses probe or lifecycle host "h")',
    ),
    (
        {"containers": containers(procMount="Unmasked")},
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        {"securityContext": {"seLinuxOptions": {"type": "spc_t", "user": "u"}}, "containers": containers()},
        'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set)',
    ),
    (
        {
            "securityContext": {"seccompProfile": {"type": "Unconfined"}},
            "containers": containers(seccompProfile={"type": "Unconfined"}),
        },
        'seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}},
        "forbidden sysctls (kernel.msgmax)",
    ),
    (
        {"containers": containers(appArmorProfile={"type": "Unconfined"})},
        'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")',
    ),
    (
        {"containers": containers(windowsOptions={"hostProcess": True})},
        'hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)',
    ),
    ({"hostUsers": False, "containers": containers(procMount="Unmasked")}, ""),
    ({"containers": containers(capabilities={"add": ["CHOWN"]}, runAsUser=0)}, ""),
    ({"volumes": [{"name": "v", "nfs": {}}]}, ""),
]

GOOD: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED: list[tuple[Object, str]] = [
    ({"containers": containers(**GOOD)}, ""),
    (
        {"containers": containers(**{**GOOD, "allowPrivilegeEscalation": None})},
        "allowPrivilegeEscalation != false "
        '(container "c" must set securityContext.allowPrivilegeEscalation=false)',
    ),
    (
        {"containers": containers(**{**GOOD, "capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"]}})},
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; '
        'container "c" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    (
        {"securityContext": {"runAsNonRoot": False}, "containers": containers(**GOOD)},
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
    ),
    (
        {"containers": containers(**{**GOOD, "runAsNonRoot": None})},
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
    ),
    ({"hostUsers": False, "containers": containers(**{**GOOD, "runAsNonRoot": None, "runAsUser": 0})}, ""),
    (
        {"containers": containers(**GOOD, runAsUser=0)},
        'runAsUser=0 (container "c" must not set runAsUser=0)',
    ),
    (
        {"containers": containers(**{**GOOD, "seccompProfile": None})},
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" '
        'or "Localhost")',
    ),
    (
        {"volumes": [{"name": "v", "nfs": {}}, {"name": "w", "hostPath": {}}, {"name": "e", "emptyDir": {}}]},
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
    ),
]


@pytest.mark.parametrize(("spec", "wanted"), BASELINE)
def test_what_the_baseline_forbids(spec: Object, wanted: str) -> None:
    assert said("baseline", spec) == ([wanted] if wanted else [])
    assert said("privileged", spec) == []


@pytest.mark.parametrize(("spec", "wanted"), RESTRICTED)
def test_what_is_forbidden_beyond_it(spec: Object, wanted: str) -> None:
    assert said("restricted", spec) == ([wanted] if wanted else [])


def test_annotations_count_where_fields_did_not_exist_yet() -> None:
    metadata = {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}
    assert said("baseline", {}, metadata=metadata) == [
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
        '"container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
    ]
    metadata = {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}
    assert said("baseline", {}, metadata=metadata, minor=18) == [
        'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    ]
    assert said("baseline", {}, metadata=metadata) == []


def test_a_namespace_may_stay_with_the_standards_of_a_release() -> None:
    spec = {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}
    assert said("baseline", spec, minor=31) != [] == said("baseline", spec, minor=32)
    assert said("baseline", spec, minor=99) == []
    windows = {"os": {"name": "windows"}, "containers": containers(runAsNonRoot=True)}
    assert said("restricted", windows) == []
    assert len(said("restricted", windows, minor=24)) == 3


def test_labels_are_read_leniently_but_enforced_strictly() -> None:
    policy, problems = policy_of(labels(enforce="baseline", enforce_version="v1.30", audit="restricted"))
    assert [str(demand) for demand in policy] == ["baseline:v1.30", "restricted:latest", "baseline:v1.30"]
    assert problems == []
    policy, problems = policy_of(labels(enforce="strict", warn="x", audit_version="1.2"))
    assert [str(demand) for demand in policy] == [
        "restricted:latest",
        "privileged:latest",
        "privileged:latest",
    ]
    assert [str(problem) for problem in problems] == [
        'metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": '
        "must be one of privileged, baseline, restricted",
        "metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: "
        '"1.2": must be "latest" or "v1.x"',
        'metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "x": '
        "must be one of privileged, baseline, restricted",
    ]


async def test_pods_keep_to_the_level_of_their_namespace() -> None:
    world = await make_world("PodSecurity")
    await world.post(PODS, pod("before", hostNetwork=True))
    await world.patch(NAMESPACE, {"metadata": {"labels": labels(enforce="baseline")}})
    await world.post(PODS, pod("fine"))
    error = await refusal(world.post(PODS, pod("bad", hostPID=True)))
    assert (error.http_code, error.message) == (
        403,
        'pods "bad" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)',
    )
    # What is there may change in other ways, but not run anything new.
    await world.patch(f"{PODS}/before", {"metadata": {"labels": {"a": "b"}}})
    made = (await world.get(f"{PODS}/before"))["spec"]["containers"][0]
    image = {"spec": {"containers": [{**made, "image": "registry.example.com/c:2"}]}}
    assert (await refusal(world.patch(f"{PODS}/before", image))).http_code == 403


async def test_what_makes_pods_is_warned() -> None:
    world = await make_world("PodSecurity")
    await world.patch(NAMESPACE, {"metadata": {"labels": labels(enforce="baseline")}})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(hostNetwork=True)["spec"]}
    deployment = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    warned = await world.warnings("/apis/apps/v1/namespaces/default/deployments", deployment)
    assert 'would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)' in warned


async def test_a_namespace_that_becomes_stricter_tells_who_is_left_behind() -> None:
    world = await make_world("PodSecurity")
    for name in ("b", "a", "c"):
        await world.post(PODS, pod(name, hostNetwork=True))
    await world.post(
        PODS, pod("d", hostPID=True, hostIPC=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    )
    reply = await world.client.request(
        "PATCH",
        NAMESPACE,
        body={"metadata": {"labels": labels(enforce="baseline", enforce_version="latest")}},
        content_type="application/merge-patch+json",
    )
    warned = reply.headers["warning"]
    assert 'existing pods in namespace "default" violate the new PodSecurity enforce level' in warned
    assert "a (and 2 other pods): host namespaces" in warned
    assert "d: host namespaces, hostPath volumes" in warned


async def test_labels_that_make_no_sense_are_refused_where_they_are_new() -> None:
    world = await make_world("PodSecurity")
    bad = {"metadata": {"name": "n", "labels": labels(enforce="careful")}}
    error = await refusal(world.post("/api/v1/namespaces", bad))
    assert error.http_code == 422 and 'Namespace "n" is invalid: metadata.labels[' in error.message


async def test_the_audit_log_tells_what_was_enforced_and_what_would_not_have_passed() -> None:
    world = await make_world("PodSecurity")
    events = listen(world)
    await world.patch(NAMESPACE, {"metadata": {"labels": labels(audit="baseline")}})
    await world.post(PODS, pod("p", hostPID=True))
    notes = events[-1]["annotations"]
    assert notes["pod-security.kubernetes.io/enforce-policy"] == "privileged:latest"
    assert notes["pod-security.kubernetes.io/audit-violations"].startswith("would violate PodSecurity")
