"""Every type and field of the group is described."""

from __future__ import annotations

import pytest

from dray.api.resource.describing import describe
from dray.api.schema import structs, type_of


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"])
def test_every_type_and_field_is_described(version):
    missing = []
    for name in structs(f"resource/{version}"):
        short = name.rpartition(".")[2]
        if not describe(version, short):
            missing.append(short)
        fields = [field.name for field in type_of(f"resource/{version}.{short}").fields]
        missing += [
            f"{short}.{field}"
            for field in fields
            if field not in ("kind", "apiVersion") and not describe(version, short, field)
        ]
    assert missing == []


def test_what_is_not_there_has_no_description():
    assert describe("v1", "NoSuchType") == ""
    assert describe("v1", "Device", "nothing") == ""
