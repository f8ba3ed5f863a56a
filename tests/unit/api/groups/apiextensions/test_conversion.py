"""What is remembered of a conversion webhook's answers."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.groups.apiextensions import conversion
from dray.api.groups.apiextensions.conversion import Conversion, ConversionNeeded


def host(name: str, version: str = "v1") -> dict[str, Any]:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Host",
        "metadata": {"name": name},
        "spec": "x" * 1000,
    }


def test_an_answer_is_known_until_the_answers_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "_MOST_BYTES", 10_000)
    it = Conversion({})
    for i in range(100):
        it.learn([host(f"h{i}")], [host(f"h{i}", "v2")], "example.com/v2")
        assert it.convert(host(f"h{i}"), "example.com/v2") == host(f"h{i}", "v2")
        assert it._held == sum(map(len, it._known.values())) < 12_000
    with pytest.raises(ConversionNeeded):
        it.convert(host("h0"), "example.com/v2")
