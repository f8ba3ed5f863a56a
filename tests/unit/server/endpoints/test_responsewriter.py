from __future__ import annotations

import copy

from dray.server.endpoints.requests import Request
from dray.server.endpoints.responsewriter import _warnings, list_to_yaml, to_yaml


def warned(*texts: str) -> list[str]:
    request = Request("GET", "/")
    for text in texts:
        request.warn(text)
    return [value.removeprefix('299 - "').removesuffix('"') for _, value in _warnings(request)]


def test_warnings_of_4096_characters_are_sent_whole():
    assert warned("a" * 2048, "b" * 2048) == ["a" * 2048, "b" * 2048]


def test_warnings_that_are_too_much_in_total_are_cut():
    assert warned("a" * 2048, "b" * 2049, "c") == ["a" * 256, "b" * 256, "c"]


def test_many_warnings_have_a_bounded_length():
    found = warned(*(f"unknown field number {i}" for i in range(150_000)))
    assert found[0] == "unknown field number 0"
    assert 4096 <= sum(map(len, found)) < 4096 + 256


def test_a_list_is_the_same_yaml_item_by_item():
    item = {"a": 1, "b": {"c": ["x", {"d": None, "e": "true"}]}, "z": "é\n\nk", "l": []}
    for items in ([], [{}], [item, copy.deepcopy(item)]):
        listed = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
        assert list_to_yaml(listed) == to_yaml(listed)
