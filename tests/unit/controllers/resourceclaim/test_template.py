"""From a claim template to the claim of one pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.claims import POD_CLAIM_ANNOTATION, claim_generate_name
from dray.controllers.resourceclaim.template import TemplateError, claim_from_template

SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE = {
    "spec": {"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "x"}}, "spec": SPEC},
}
POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}}


@given(st.text("ab", min_size=1, max_size=253), st.text("cd", min_size=1, max_size=63))
def test_generated_names_have_something_of_both(pod, entry):
    name = claim_generate_name(pod, entry)
    assert len(name) <= 58
    assert name[0] in "ab"
    if len(pod) + len(entry) + 2 <= 57:
        assert name == f"{pod}-{entry}-"


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
