"""Documents made to hurt: nothing worse than a refusal comes of them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import patch
from dray.api.errors import BadRequest, StatusError
from dray.api.patch import ownership, typed
from dray.api.patch.apply import Applier
from dray.api.patch.managedfields import track
from dray.api.schema import decode, normalise, omit_empty, parse, type_of

CLAIM = type_of("resource/v1.ResourceClaim")
DEPTHS = [200, 350, 500, 700, 900, 990, 1500, 5000]


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def claim(depth: int) -> bytes:
    config = b'{"requests":[],"config":[{"opaque":{"driver":"d","parameters":' + nested(depth) + b"}}]}"
    head = b'"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c"}'
    return b"{" + head + b',"spec":{"devices":' + config + b"}}"


@pytest.mark.parametrize("depth", DEPTHS)
def test_deep_documents_are_taken_or_refused(depth: int) -> None:
    try:
        found = decode(CLAIM, claim(depth), strict=True).object
    except BadRequest:
        found = normalise(CLAIM, {"metadata": {"name": "c"}})
    omit_empty(CLAIM, found)
    track(CLAIM, None, found, manager="m", api_version="resource.k8s.io/v1", now="t")
    applier = Applier(
        type=CLAIM, api_version="resource.k8s.io/v1", kind="ResourceClaim", manager="m", now="t"
    )
    try:
        applier.apply(None, parse(claim(depth)).object)
    except StatusError as e:
        assert e.message


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("media", [patch.MERGE, patch.STRATEGIC, patch.JSON])
def test_deep_patches_are_taken_or_refused(depth: int, media: str) -> None:
    live = normalise(
        CLAIM, {"metadata": {"name": "c"}, "spec": {"devices": {"config": [{"opaque": {"parameters": {}}}]}}}
    )
    change = (
        b'[{"op":"add","path":"/spec","value":' + nested(depth) + b"}]"
        if media == patch.JSON
        else claim(depth)
    )
    try:
        patch.apply_patch(media, live, change, decode=lambda o: decode(CLAIM, o), type_=CLAIM)
    except StatusError as e:
        assert e.http_code in (400, 422)


@pytest.mark.parametrize(
    "text",
    [
        b'{"metadata":{"generation":' + b"9" * 5000 + b"}}",
        b'{"metadata":{"generation":1e999999999}}',
        b'{"metadata":{"generation":-0.0}}',
        b'{"metadata":{"name":"' + b"\\u0000" * 1000 + b'"}}',
        b'{"metadata":{"labels":{"":""}}}',
        b"\xef\xbb\xbf{}",
        b"\x00",
        b'{"a":"\xed\xa0\x80"}',
    ],
)
def test_odd_documents_are_taken_or_refused(text: bytes) -> None:
    for read in (lambda: decode(CLAIM, text, strict=True), lambda: parse(text)):
        try:
            found: Any = read()
            assert found.problems is not None
        except BadRequest as e:
            assert e.message


def test_live_items_that_have_no_key_are_kept() -> None:
    """A list may be older than the keys that its schema has today."""
    node = ownership.ListNode(ownership.FREE, ("name",), {})
    live = [1, None, {"name": "a", "x": 1}, {"x": 2}]
    config = [{"name": "a", "x": 3}, {"name": "b"}]
    assert typed.merge(node, live, config) == [1, None, {"name": "a", "x": 3}, {"x": 2}, {"name": "b"}]
    gone = {'k:{"name":"a"}': {}}
    assert ownership.remove(node, live, gone) == [1, None, {"x": 2}]
