"""cel-go's ext/comprehensions: macros over keys and values, such as ``map.transformMap(k, v, v + 1)``."""

from __future__ import annotations

from typing import Final

from dray.cel.common.decls import Library, overload
from dray.cel.common.go_format import go_string
from dray.cel.common.values import Map, Value, make_map
from dray.cel.errors import EvaluationError
from dray.cel.parser import macros


def _map_insert(target: Value, *update: Value) -> Value:
    """A map with one entry, or all entries of another map, added; an entry that is there is an error."""
    entries = list(target.items())
    known = Map(entries)
    added = [update] if len(update) == 2 else list(update[0].items())
    for key, value in added:
        if key in known:
            raise EvaluationError(f"insert failed: key {go_string(key)} already exists")
        entries.append((key, value))
    return make_map(entries)


TWO_VARIABLE_COMPREHENSIONS: Final = Library(
    name="cel.lib.ext.comprev2",
    macros=macros.TWO_VARIABLES,
    overloads=(
        overload("cel.@mapInsert", "@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)", _map_insert),
        overload("cel.@mapInsert", "@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)", _map_insert),
    ),
)
