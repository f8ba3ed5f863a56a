"""MutatingAdmissionPolicy: apply configurations, JSON patches, reinvocation, and what cannot be done."""

from __future__ import annotations

from typing import Any

from dray.api.errors import InternalError
from dray.api.scheme.kinds import Object
from tests.support.admission import POLICIES, World, binding, make_world, pod, refusal

PODS = "/api/v1/namespaces/default/pods"
PLUGIN = "MutatingAdmissionPolicy"


def apply(expression: str) -> Object:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Object:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def labelled(key: str, value: str = "yes") -> str:
    return f"Object{{metadata: Object.metadata{{labels: {{'{key}': '{value}'}}}}}}"


def mutating_policy(name: str, *mutations: Object, **spec: Any) -> Object:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "reinvocationPolicy": "Never",
            "mutations": list(mutations),
            **spec,
        },
    }


async def world_with(*policies: Object) -> World:
    world = await make_world(PLUGIN, "DefaultTolerationSeconds")
    for policy in policies:
        await world.post(f"{POLICIES}/mutatingadmissionpolicies", policy)
        await world.post(f"{POLICIES}/mutatingadmissionpolicybindings", binding(policy["metadata"]["name"]))
    return world


async def test_a_configuration_is_merged_by_keys_and_gets_defaults() -> None:
    sidecar = (
        "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'mesh', image: 'm:1', "
        "restartPolicy: 'Always'}]}}"
    )
    world = await world_with(mutating_policy("p", apply(sidecar), apply(labelled("a"))))
    made = await world.post(PODS, pod(initContainers=[{"name": "first", "image": "f"}]))
    assert [c["name"] for c in made["spec"]["initContainers"]] == ["first", "mesh"]
    assert made["spec"]["initContainers"][1]["imagePullPolicy"] == "IfNotPresent"
    assert made["metadata"]["labels"] == {"a": "yes"}


async def test_later_mutations_see_what_earlier_ones_did() -> None:
    second = "Object{metadata: Object.metadata{annotations: {'seen': object.metadata.labels['a']}}}"
    world = await world_with(mutating_policy("p", apply(labelled("a", "x")), apply(second)))
    made = await world.post(PODS, pod())
    assert made["metadata"]["annotations"] == {"seen": "x"}


async def test_a_json_patch_adds_removes_and_tests() -> None:
    world = await world_with(
        mutating_policy(
            "p",
            patch(
                "[JSONPatch{op: 'remove', path: '/spec/nodeName'}, "
                "JSONPatch{op: 'add', path: '/metadata/labels', value: {'a.b/c': 'x'}}]"
            ),
            patch(
                "[JSONPatch{op: 'test', path: '/metadata/name', value: 'other'}, "
                "JSONPatch{op: 'add', path: '/metadata/labels/never', value: 'x'}]"
            ),
            patch(
                "[JSONPatch{op: 'replace', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), value: 'y'}]"
            ),
        )
    )
    made = await world.post(PODS, pod(nodeName="n"))
    assert "nodeName" not in made["spec"]
    assert made["metadata"]["labels"] == {"a.b/c": "y"}


async def test_objects_made_in_expressions_become_parts_of_the_patch() -> None:
    toleration = "Object.spec.tolerations{key: 'a', operator: 'Exists'}"
    world = await world_with(
        mutating_policy(
            "p", patch(f"[JSONPatch{{op: 'add', path: '/spec/tolerations/0', value: {toleration}}}]")
        )
    )
    made = await world.post(PODS, pod())
    assert made["spec"]["tolerations"][0] == {"key": "a", "operator": "Exists"}


async def test_lists_that_are_replaced_as_a_whole_are_not_for_configurations() -> None:
    tolerations = "Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: 'a'}]}}"
    world = await world_with(mutating_policy("p", apply(tolerations)))
    error = await refusal(world.post(PODS, pod()))
    assert (error.http_code, error.status_reason) == (403, "Invalid")
    assert error.message == (
        "policy 'p' with binding 'p-binding' denied request: error applying patch: invalid ApplyConfiguration: "
        "may not mutate atomic arrays, maps or structs: .spec.tolerations"
    )


async def test_misnamed_types_unknown_fields_and_wrong_paths_are_refused() -> None:
    wrong = "Object{spec: Object.spec{securityContext: Object.wrong{}}}"
    world = await world_with(mutating_policy("p", apply(wrong)))
    assert "type mismatch: unexpected type name" in (await refusal(world.post(PODS, pod()))).message
    world = await world_with(mutating_policy("p", apply("Object{spec: Object.spec{nonsense: 1}}")))
    error = await refusal(world.post(PODS, pod()))
    assert (
        "failed to convert patch object to typed object: .spec.nonsense: field not declared" in error.message
    )
    world = await world_with(mutating_policy("p", patch("[JSONPatch{op: 'remove', path: '/spec/none'}]")))
    assert "denied request: JSON Patch: " in (await refusal(world.post(PODS, pod()))).message
    unknown = "[JSONPatch{op: 'add', path: '/spec/nonsense', value: 1}]"
    world = await world_with(mutating_policy("p", patch(unknown)))
    error = await refusal(world.post(PODS, pod()))
    assert isinstance(error, InternalError)
    assert 'strict decoding error: unknown field "spec.nonsense"' in error.message


async def test_failures_can_be_ignored() -> None:
    broken = apply("Object{metadata: Object.metadata{labels: {'a': string(object.metadata.labels['none'])}}}")
    world = await world_with(mutating_policy("p", broken, failurePolicy="Ignore"))
    assert "labels" not in (await world.post(PODS, pod()))["metadata"]


async def test_a_policy_runs_again_when_others_have_changed_the_object_after_it() -> None:
    counting = patch(
        "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'seen': "
        "string(size(object.metadata.?labels.orValue({})))}}]"
    )
    late = mutating_policy("z-late", apply(labelled("late")))
    world = await world_with(mutating_policy("a-first", counting, reinvocationPolicy="IfNeeded"), late)
    assert (await world.post(PODS, pod()))["metadata"]["annotations"] == {"seen": "1"}
    world = await world_with(mutating_policy("a-first", counting, reinvocationPolicy="Never"), late)
    assert (await world.post(PODS, pod()))["metadata"]["annotations"] == {"seen": "0"}


async def test_other_plugins_see_the_changed_object_in_the_second_round() -> None:
    removing = patch("[JSONPatch{op: 'remove', path: '/spec/tolerations'}]")
    world = await world_with(mutating_policy("p", removing))
    assert len((await world.post(PODS, pod()))["spec"]["tolerations"]) == 2


async def test_scale_is_changed_through_its_own_shape() -> None:
    policy = mutating_policy("p", apply("Object{spec: Object.spec{replicas: 3}}"))
    policy["spec"]["matchConstraints"]["resourceRules"] = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["deployments/scale"],
        }
    ]
    policy["spec"]["matchConditions"] = [{"name": "is-scale", "expression": "object.kind == 'Scale'"}]
    world = await world_with(policy)
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    await world.post(path, {"metadata": {"name": "d"}, "spec": spec})
    scaled = await world.patch(f"{path}/d/scale", {"spec": {"replicas": 9}})
    assert scaled["spec"]["replicas"] == 3
