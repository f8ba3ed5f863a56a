"""The type files: every name resolves, and what the notation says is what the loader makes of it."""

from __future__ import annotations

from importlib import resources

import pytest

from dray.api.release import V1_26, V1_30, V1_34, V1_36
from dray.api.schema import ListOf, MapOf, Scalar, Struct, Type, known, structs, structural_type, type_of

PACKAGES = sorted(
    file.name.removesuffix(".types").replace("_", "/")
    for file in (resources.files("dray.api.schema") / "types").iterdir()
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_field_of_every_type_resolves_for_every_release(package: str) -> None:
    for release in (None, V1_26, V1_30, V1_34, V1_36):
        for name in structs(package):
            for field in type_of(name, release).fields:
                assert _named(field.type), f"{name}.{field.name}"


def _named(type_: Type) -> bool:
    match type_:
        case Struct():
            return known(type_.name)
        case ListOf():
            return _named(type_.item)
        case MapOf():
            return _named(type_.value)
    return bool(type_.go)


@pytest.mark.parametrize("package", PACKAGES)
def test_keys_of_lists_are_fields_of_their_items(package: str) -> None:
    for name in structs(package):
        for field in type_of(name).fields:
            item = field.type.item if isinstance(field.type, ListOf) else None
            for key in (*field.list_keys, *([field.merge_key] if field.merge_key else ())):
                assert isinstance(item, Struct), f"{name}.{field.name}"
                assert key in item.by_name, f"{name}.{field.name} by {key}"


def test_flags_are_read_as_they_are_written() -> None:
    ports = type_of("core/v1.Container").by_name["ports"]
    assert (ports.patch, ports.merge_key) == (("merge",), "containerPort")
    assert (ports.list_type, ports.list_keys) == ("map", ("containerPort", "protocol"))
    assert type_of("core/v1.ContainerPort").by_name["protocol"].default == "TCP"
    statuses = type_of("core/v1.PodStatus").by_name["resourceClaimStatuses"]
    assert (statuses.patch, statuses.merge_key) == (("merge", "retainKeys"), "name")
    assert type_of("core/v1.PodSpec").by_name["nodeSelector"].atomic
    assert type_of("core/v1.Volume").by_name["emptyDir"].via == ("VolumeSource",)


def test_a_list_exists_for_every_kind() -> None:
    fields = {f.name: f for f in type_of("resource/v1.ResourceClaimList").fields}
    assert list(fields) == ["kind", "apiVersion", "metadata", "items"]
    items = fields["items"].type
    assert isinstance(items, ListOf)
    assert items.item is type_of("resource/v1.ResourceClaim")


def test_a_name_that_is_no_struct_is_refused() -> None:
    with pytest.raises(KeyError):
        type_of("core/v1.PullPolicy")
    with pytest.raises(KeyError):
        type_of("core/v1.Nonsense")
    assert not known("core/v9.Pod")


def test_a_custom_resource_has_the_type_its_schema_describes() -> None:
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "parts": {**keyed, "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "either": {"x-kubernetes-int-or-string": True},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    type_ = structural_type("Widget", {"type": "object", "properties": {"spec": spec}})
    assert [f.name for f in type_.fields] == ["kind", "apiVersion", "metadata", "spec"]
    inner = type_.by_name["spec"].type
    assert isinstance(inner, Struct)
    assert inner.by_name["parts"].list_keys == ("name",)
    assert isinstance(inner.by_name["labels"].type, MapOf)
    for name, base in (("size", "int64"), ("either", "intorstring"), ("free", "raw")):
        found = inner.by_name[name].type
        assert isinstance(found, Scalar)
        assert found.base == base
