"""Dicts that are emptied when they are full."""

from __future__ import annotations

from dray.limiteddict import LimitedDict


def test_a_full_dict_begins_anew_with_the_next_key():
    known: LimitedDict[str, int] = LimitedDict(2)
    known["a"], known["b"] = 1, 2
    assert known == {"a": 1, "b": 2}
    known["c"] = 3
    assert known == {"c": 3}
