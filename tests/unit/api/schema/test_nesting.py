"""How deep documents nest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.api.schema.nesting import MOST, is_too_deep


def nested(depth: int) -> bytes:
    document: Any = "]}" * 1000
    for i in range(depth):
        document = [document, {}] if i % 2 else {'a"[': document, "b\\": "{[" * 1000}
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("depth", "expected"), [(1, False), (MOST, False), (MOST + 1, True), (MOST + 100, True)]
)
def test_brackets_are_counted_but_not_those_in_texts(depth: int, expected: bool) -> None:
    assert is_too_deep(nested(depth)) is expected


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert not is_too_deep(b"[" + b",".join([b"[{}]"] * 10 * MOST) + b"]")


@pytest.mark.parametrize(("opened", "closed"), [(b'{"":', b"}"), (b"[", b"]"), (b'[{"":', b"}]")])
def test_no_document_is_too_short_to_be_told_too_deep(opened: bytes, closed: bytes) -> None:
    levels = opened.count(b"[") + opened.count(b"{")
    assert not is_too_deep(opened * (MOST // levels) + b"0" + closed * (MOST // levels))
    assert is_too_deep(b"[" + opened * (MOST // levels) + closed * (MOST // levels) + b"]")
