"""Every kind that is served has a form in protobuf, down to its last field."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dray.api import protobuf
from dray.api.schema import ListOf, MapOf, Struct, Type, UnionOf, type_of
from dray.api.scheme import registry

SERVED = sorted({v.type for kind in registry.kinds() for v in kind.versions if v.type})
OTHERS = ["meta/v1.Status", "meta/v1.DeleteOptions", "meta/v1.PartialObjectMetadata", "autoscaling/v1.Scale"]


def reachable(type_: Type, seen: dict[str, Struct]) -> Iterator[Struct]:
    match type_:
        case Struct() if type_.name not in seen:
            seen[type_.name] = type_
            yield type_
            for field in type_.fields:
                yield from reachable(field.type, seen)
        case ListOf():
            yield from reachable(type_.item, seen)
        case MapOf():
            yield from reachable(type_.value, seen)
        case UnionOf():
            for option in type_.options:
                yield from reachable(option, seen)


@pytest.mark.parametrize("name", [*SERVED, *OTHERS])
def test_every_field_has_a_number_of_its_own(name: str) -> None:
    for struct in reachable(type_of(name), {}):
        places: dict[tuple[int, ...], str] = {}
        for field in struct.fields:
            if field.via[-1:] == ("TypeMeta",):
                assert not field.number
                continue
            assert field.number, f"{struct.name}.{field.name} has no number (@N) in its .types file"
            place = (*field.within, field.number)
            assert place not in places, f"{struct.name}: {field.name} and {places[place]} share {place}"
            places[place] = field.name


def test_objects_are_recognised_by_what_they_say_they_are() -> None:
    for kind in registry.kinds():
        for version in kind.versions:
            api_version = f"{kind.group}/{version.name}" if kind.group else version.name
            type_ = protobuf.type_for(api_version, kind.kind)
            assert type_ is not None and type_.name == version.type
