"""Random documents of a type: what a client might send, in any order and with any field left out."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dray.api.schema import ListOf, MapOf, Scalar, Struct, Type, UnionOf

_texts = st.sampled_from(["", "a", "b", "example.com/x", "ü"])
_scalars: dict[str, st.SearchStrategy[Any]] = {
    "string": _texts,
    "bool": st.booleans(),
    "int32": st.sampled_from([0, 1, -1, 2**31 - 1]),
    "int64": st.sampled_from([0, 1, 80, 2**63 - 1]),
    "float64": st.sampled_from([0, 1, 1.5]),
    "quantity": st.sampled_from(["0", "1", "1000m", "1024Mi", "80Gi", "1e3", 5, "0.5"]),
    "intorstring": st.sampled_from([0, 80, "", "http"]),
    "time": st.sampled_from(["2024-05-01T12:00:00Z", "2024-05-01T14:00:00+02:00", "0001-01-01T00:00:00Z"]),
    "microtime": st.sampled_from(["2024-05-01T12:00:00.000001Z", "2024-05-01T12:00:00.500000+01:00"]),
    "duration": st.sampled_from(["0s", "90m", "1.5s"]),
    "bytes": st.sampled_from(["", "YQ==", "aGVsbG8="]),
    "raw": st.sampled_from([{"a": 1}, {"a": {"b": ["c"]}}, [], "x"]),
}


def documents(type_: Struct, *, nulls: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of the type, most fields missing, some null if ``nulls``."""
    return _values(type_, 6, nulls)


def _values(type_: Type, depth: int, nulls: bool) -> st.SearchStrategy[Any]:
    match type_:
        case Scalar():
            return _scalars[type_.base]
        case Struct():
            if depth == 0:
                return st.just({})
            return st.deferred(lambda: _structs(type_, depth, nulls))
        case ListOf():
            return st.lists(_values(type_.item, depth - 1, nulls), max_size=2) if depth else st.just([])
        case MapOf():
            if depth == 0:
                return st.just({})
            inner = _values(type_.value, depth - 1, nulls)
            return st.dictionaries(st.sampled_from(["a", "b", "x.example.com/y"]), inner, max_size=2)
        case UnionOf():
            return st.booleans()


@st.composite
def _structs(draw: st.DrawFn, type_: Struct, depth: int, nulls: bool) -> dict[str, Any]:
    chosen = draw(st.lists(st.sampled_from(type_.fields), max_size=4, unique=True)) if type_.fields else []
    return {
        f.name: None if nulls and draw(st.integers(0, 9)) == 0 else draw(_values(f.type, depth - 1, nulls))
        for f in chosen
        if f.name not in ("managedFields", "fieldsV1")
    }
