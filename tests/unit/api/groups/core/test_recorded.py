"""Upstream's recorded answers about core kinds, on the rules alone."""

from __future__ import annotations

import pytest

RECORDINGS = (
    ("api-136/core-configmaps-secrets", "1.36"),
    ("api-136/core-namespaces", "1.36"),
    ("api-136/core-pod-claims", "1.36"),
    ("api-136/core-pod-lifecycle", "1.36"),
    ("api-136/gen-strategic-pods", "1.36"),
    ("api-130/a2-pods", "1.30"),
    ("authz-136/rbac-subjects", "1.36"),
    ("api-136/crd-custom-resources", "1.36"),
    ("api-136/vap-admin-access", "1.36"),
    ("authz-136/aggregation-controller", "1.36"),
    ("authz-136/dra-status-driver", "1.36"),
    ("authz-136/rbac-escalation", "1.36"),
    ("authz-136/vap-invalid", "1.36"),
)


@pytest.mark.parametrize(("name", "release"), RECORDINGS)
def test_rules_answer_as_recorded(replay, name, release):
    played = replay(name, release=release)
    assert played
    different = [p for p in played if not p.equal]
    assert not different, f"{len(different)} of {len(played)}: {different[0]}"
