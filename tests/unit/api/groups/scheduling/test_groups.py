"""Workloads and groups of pods: what is refused, what may change, what a gate that is off drops."""

from __future__ import annotations

import copy

import pytest

from dray.api.groups.scheduling import COMPOSITE_POD_GROUP, POD_GROUP, WORKLOAD
from dray.api.release import EffectiveVersion, Gates
from dray.api.scheme.strategy import Context

ON = Context(gates=EffectiveVersion().gates())
OFF = Context(gates=Gates(frozenset({"GenericWorkload"})))
GANG = {"gang": {"minCount": 2}}


def group(**spec):
    return {"metadata": {"name": "g", "namespace": "n"}, "spec": {"schedulingPolicy": GANG, **spec}}


def workload(*templates, **spec):
    listed = [{"name": f"t{i}", "schedulingPolicy": GANG, **more} for i, more in enumerate(templates)]
    return {"metadata": {"name": "w", "namespace": "n"}, "spec": {"podGroupTemplates": listed, **spec}}


def problems(kind, obj, old=None):
    if old is None:
        return [str(problem) for problem in kind.strategy.validate(obj, ON)]
    return [str(problem) for problem in kind.strategy.validate_update(obj, old, ON)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"schedulingPolicy": {}}, ['spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`']),
        (
            {"schedulingPolicy": {"basic": {}, **GANG}},
            ['spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'],
        ),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, ["spec.schedulingPolicy.gang.minCount: Required value"]),
        (
            {"schedulingPolicy": {"gang": {"minCount": -1}}},
            ["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"],
        ),
        (
            {"resourceClaims": [{"name": "c", "resourceClaimName": "x"}] * 2},
            ['spec.resourceClaims[1]: Duplicate value: {"name":"c","resourceClaimName":"x"}'],
        ),
        (
            {"resourceClaims": [{"name": f"c{i}", "resourceClaimName": "x"} for i in range(5)]},
            ["spec.resourceClaims: Too many: 5: must have at most 4 items"],
        ),
        ({"priority": 1_000_000_001}, ["spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000"]),
        (
            {"parentCompositePodGroupName": "p"},
            ["spec.workloadRef: Required value: must be set when parentCompositePodGroupName is set"],
        ),
        ({"workloadRef": {"workloadName": "w"}}, ["spec.workloadRef.templateName: Required value"]),
    ],
)  # fmt: skip
def test_a_group_that_makes_no_sense_is_refused(spec, expected):
    assert problems(POD_GROUP, group(**spec)) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 3}}}, []),
        (
            {"schedulingPolicy": {"basic": {}}},
            [
                "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
                "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
            ],
        ),
        ({"priority": None}, ["spec.priority: Invalid value: null: field is immutable"]),
        (
            {"resourceClaims": [{"name": "c", "resourceClaimName": "x"}]},
            ["spec.resourceClaims: Invalid value: null: field is immutable"],
        ),
    ],
)
def test_of_a_group_only_the_least_number_of_members_may_change(change, expected):
    assert problems(POD_GROUP, group(**{"priority": 0, **change}), group(priority=0)) == expected


def test_templates_may_be_reordered_but_neither_added_nor_removed():
    old = workload({}, {})
    new = copy.deepcopy(old)
    new["spec"]["podGroupTemplates"].reverse()
    assert problems(WORKLOAD, new, old) == []
    assert problems(WORKLOAD, workload({}, {}, {}), old) == [
        "spec.podGroupTemplates[2]: Forbidden: item may not be added"
    ]
    assert problems(WORKLOAD, workload({}), old) == [
        "spec.podGroupTemplates: Forbidden: item may not be removed"
    ]


def test_templates_of_a_workload_have_one_priority():
    assert problems(WORKLOAD, workload({"priority": 1}, {"priority": 2})) == [
        "spec: Invalid value: null: detected multiple priority configurations"
    ]


def test_a_tree_of_templates_has_few_levels_unique_names_and_no_empty_branches():
    tree = {"name": "leaf", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [{"name": "root", "schedulingPolicy": GANG}]}  # fmt: skip
    for name in ("c", "b", "root"):
        tree = {"name": name, "schedulingPolicy": {"basic": {}}, "compositePodGroupTemplates": [tree]}
    found = problems(WORKLOAD, workload(compositePodGroupTemplates=[tree], podGroupTemplates=None))
    assert [text.partition(": ")[0].rpartition(".")[2] for text in found[:1]] == ["name"]
    assert "maximum template hierarchy depth is 4" in found[1]
    empty = {"name": "a", "schedulingPolicy": {"basic": {}}}
    found = problems(WORKLOAD, workload(compositePodGroupTemplates=[empty], podGroupTemplates=None))
    assert found == [
        'spec.compositePodGroupTemplates[0]: Invalid value: "a": must have at least one child PodGroupTemplate or '
        "CompositePodGroupTemplate"
    ]


def test_fields_of_gates_that_are_off_are_dropped():
    obj = group(preemptionPolicy="Never", resourceClaims=[{"name": "c"}], schedulingConstraints={})
    POD_GROUP.strategy.prepare_create(obj, OFF)
    assert obj["spec"] == {"schedulingPolicy": GANG}
    obj = workload({"preemptionPolicy": "Never"}, compositePodGroupTemplates=[])
    WORKLOAD.strategy.prepare_create(obj, OFF)
    assert obj == workload({"schedulingConstraints": None})


def test_a_composite_group_belongs_to_a_workload():
    obj = {"metadata": {"name": "c"}, "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}}
    assert problems(COMPOSITE_POD_GROUP, obj) == ["spec.workloadRef: Required value"]


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], "Pending"),
        ([("PodGroupInitiallyScheduled", "False", "SchedulerError")], "Unschedulable"),
        ([("PodGroupInitiallyScheduled", "True", "Scheduled")], "Scheduled"),
        ([("DisruptionTarget", "False", "PreemptionByScheduler")], "PreemptionByScheduler"),
    ],
)
def test_a_row_says_how_the_group_stands(conditions, state):
    listed = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    obj = {**group(), "status": {"conditions": listed}}
    obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    cells = POD_GROUP.printer.cells(obj, 1767225600.0)
    assert tuple(cells)[:4] == ("g", "Gang", "<none>", state)
