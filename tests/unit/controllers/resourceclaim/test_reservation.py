"""What claims are to be, as they are made from templates and as their consumers come and go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.claims import EXTENDED_RESOURCE_ANNOTATION, FINALIZER, POD_CLAIM_ANNOTATION, claim_generate_name
from dray.api.scheme.kinds import Object
from dray.controllers.resourceclaim.reservation import (
    count_claims,
    has_needless_finalizer,
    released,
    should_reserve,
)
from dray.controllers.resourceclaim.template import TemplateError, claim_from_template

SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def claim(*reserved: str, allocated: bool = True, protected: bool = True, deleting: bool = False) -> Object:
    metadata: Object = {"name": "c", "finalizers": [FINALIZER, "x"] if protected else ["x"]}
    if deleting:
        metadata["deletionTimestamp"] = "now"
    status: Object = {"reservedFor": consumers(*reserved)}
    if allocated:
        status["allocation"] = {"devices": {}}
    return {"metadata": metadata, "status": status}


def consumers(*names: str) -> list[Object]:
    return [{"resource": "pods", "name": name, "uid": name} for name in names]


def test_a_consumer_that_leaves_others_behind_only_leaves():
    assert released(claim("a", "b"), consumers("b")) == {
        "reservedFor": consumers("b"), "allocation": {"devices": {}},
    }  # fmt: skip


def test_the_last_consumer_takes_the_allocation_with_it():
    assert released(claim("a"), []) == {"reservedFor": []}


def test_what_somebody_else_allocated_stays_allocated():
    assert "allocation" in released(claim("a", protected=False), [])


def test_an_allocation_that_nobody_used_stays_until_the_claim_is_deleted():
    assert released(claim(), []) is None
    assert released(claim(deleting=True), []) == {"reservedFor": []}


def test_a_claim_in_use_is_kept_even_while_it_is_deleted():
    assert released(claim("a", deleting=True), consumers("a")) is None
    assert not has_needless_finalizer(claim("a"))
    assert has_needless_finalizer(claim(allocated=False))


def test_reservations_are_made_for_pods_that_bypassed_the_scheduler():
    def pod(**spec: Any) -> Object:
        return {"metadata": {"uid": "p"}, "spec": spec, "status": {"phase": "Pending"}}

    assert should_reserve(pod(nodeName="n"), claim())
    assert not should_reserve(pod(), claim())
    assert not should_reserve(pod(nodeName="n"), claim(allocated=False))
    assert not should_reserve(pod(nodeName="n"), claim("p"))
    finished = {**pod(nodeName="n"), "status": {"phase": "Succeeded"}}
    assert not should_reserve(finished, claim("somebody-else")), (
        "it would be released at once, and so on for ever"
    )


@given(st.text("ab", min_size=1, max_size=253), st.text("cd", min_size=1, max_size=63))
def test_generated_names_have_something_of_both(pod, entry):
    name = claim_generate_name(pod, entry)
    assert len(name) <= 58
    assert name[0] in "ab"
    if len(pod) + len(entry) + 2 <= 57:
        assert name == f"{pod}-{entry}-"


TEMPLATE = {
    "spec": {"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "x"}}, "spec": SPEC},
}
POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}}


def test_a_claim_has_what_its_template_says_and_belongs_to_the_pod():
    made = claim_from_template(POD, "gpu", TEMPLATE, admin_access=True, prioritized_list=True)
    assert made["spec"] == SPEC
    assert made["metadata"] == {
        "generateName": "p-gpu-",
        "labels": {"team": "blue"},
        "annotations": {"note": "x", POD_CLAIM_ANNOTATION: "gpu"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
    }
    assert POD_CLAIM_ANNOTATION not in TEMPLATE["spec"]["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"exactly": {"adminAccess": True}}, "admin access is requested"),
        ({"adminAccess": True}, "admin access is requested"),
        ({"firstAvailable": [{"name": "a"}]}, "template includes a prioritized list of subrequests"),
    ],
)
def test_features_that_are_off_are_refused(request_, words):
    template = {"spec": {"spec": {"devices": {"requests": [{"name": "r", **request_}]}}}}
    with pytest.raises(TemplateError, match=words):
        claim_from_template(POD, "gpu", template, admin_access=False, prioritized_list=False)


def test_claims_are_counted_by_allocation_access_and_origin():
    def one(request: Object, **annotations: str) -> Object:
        spec = {"devices": {"requests": [{"name": "r", "exactly": request}]}}
        return {"metadata": {"annotations": annotations}, "spec": spec}

    known = [
        claim(),
        claim("a"),
        one({}),
        one({"adminAccess": True}, **{POD_CLAIM_ANNOTATION: "gpu"}),
        one({}, **{EXTENDED_RESOURCE_ANNOTATION: "true", POD_CLAIM_ANNOTATION: "gpu"}),
    ]
    assert dict(count_claims(known)) == {
        ("true", "false", ""): 2.0,
        ("false", "false", ""): 1.0,
        ("false", "true", "resource_claim_template"): 1.0,
        ("false", "false", "extended_resource"): 1.0,
    }
