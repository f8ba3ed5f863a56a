"""How pods and resource claims refer to one another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api import claims, objects

Doc = dict[str, Any]


def pod(*entries: Doc, **status: Any) -> Doc:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"resourceClaims": list(entries)},
        "status": status,
    }


NAMED: Doc = {"name": "a", "resourceClaimName": "c"}
MADE: Doc = {"name": "b", "source": {"resourceClaimTemplateName": "t"}}


def test_a_claim_from_a_template_is_the_one_that_the_status_names() -> None:
    subject = pod(NAMED, MADE, resourceClaimStatuses=[{"name": "b", "resourceClaimName": "p-b-x2z4w"}])
    assert [r.claim for r in claims.references(subject)] == ["c", "p-b-x2z4w"]


def test_without_a_status_it_does_not_exist_yet() -> None:
    assert [r.claim for r in claims.references(pod(NAMED, MADE))] == ["c"]
    with pytest.raises(claims.ClaimNotCreated, match="ResourceClaim not created yet"):
        claims.reference(pod(MADE), MADE)


def test_where_names_are_fixed_no_status_is_needed() -> None:
    found = list(claims.references(pod(NAMED, MADE), fixed_names=True))
    assert found == [
        claims.ClaimReference("a", "c", generated=False),
        claims.ClaimReference("b", "p-b", generated=True),
    ]


@pytest.mark.parametrize(("release", "fixed"), [((1, 26), True), ((1, 27), True), ((1, 30), False)])
def test_names_are_fixed_in_the_first_two_releases(release: tuple[int, int], fixed: bool) -> None:
    assert claims.has_fixed_names(release) is fixed


SOURCES = st.fixed_dictionaries(
    {}, optional={"resourceClaimName": st.just("c"), "resourceClaimTemplateName": st.just("t")}
)
ENTRIES = st.lists(st.tuples(st.sampled_from("ab"), SOURCES, st.booleans()), max_size=3)
STATUSES = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("ab")}, optional={"resourceClaimName": st.just("made")})
)


@given(ENTRIES, STATUSES, st.booleans())
def test_references_are_those_that_none_is_refused_for(
    entries: Any, statuses: Any, fixed_names: bool
) -> None:
    made = [
        {"name": name, "source": source} if nested else {"name": name, **source}
        for name, source, nested in entries
    ]
    subject = pod(*made, resourceClaimStatuses=statuses)
    found = []
    for entry in made:
        try:
            found.append(claims.reference(subject, entry, fixed_names=fixed_names))
        except claims.ClaimNotCreated as e:
            lacks = claims.claim_and_template_names(entry) == (None, None)
            assert ("none of the supported fields are set" in str(e)) is lacks
    assert list(claims.references(subject, fixed_names=fixed_names)) == found


def test_a_pod_without_claims_refers_to_none() -> None:
    assert list(claims.references({"metadata": {}, "spec": {}})) == []


def test_only_the_owner_that_controls_an_object_is_its_controller() -> None:
    owners = [{"uid": "1"}, {"uid": "2", "controller": True}]
    assert objects.controller_of({"metadata": {"ownerReferences": owners}}) is owners[1]
    assert objects.controller_of({"metadata": {"ownerReferences": owners[:1]}}) is None
    assert objects.controller_of({"metadata": {}}) is None
