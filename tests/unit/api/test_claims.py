"""How pods and resource claims refer to one another."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import claims

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
