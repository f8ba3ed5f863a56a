"""Every type and field of the group is described."""

from __future__ import annotations

import pytest

from dray.api.openapi import descriptions
from dray.api.schema import structs, type_of

VERSIONS = ["v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_type_and_field_is_described(version):
    missing = []
    for name in structs(f"resource/{version}"):
        full = f"resource/{version}.{name.rpartition('.')[2]}"
        words = descriptions.of(full)
        wanted = ["", *(field.name for field in type_of(full).fields)]
        missing += [f"{full}.{field}" for field in wanted if not words.get(field)]
    assert missing == []


def test_classic_claims_are_described_as_such():
    for version in ("v1alpha1", "v1alpha2"):
        assert "at most 32" in descriptions.of(f"resource/{version}.ResourceClaimStatus")["reservedFor"]
    assert "at most 256" in descriptions.of("resource/v1.ResourceClaimStatus")["reservedFor"]
