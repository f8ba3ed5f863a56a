"""Structured parameters as documents and as messages."""

from __future__ import annotations

from typing import Any

from dray.kubelet_api import structured

STRUCTURED = {
    "vendorClassParameters": {"fur": "long"},
    "nodeName": "las1",
    "results": [{"namedResources": {"name": "tom"}, "vendorRequestParameters": {"mood": ["good"]}}],
}


def test_structured_parameters_survive_a_round_trip() -> None:
    assert structured.handle_document(structured.handle_message(STRUCTURED)) == STRUCTURED
    attributes: list[dict[str, Any]] = [
        {"name": "a", "bool": False},
        {"name": "b", "int": 0},
        {"name": "c", "string": ""},
        {"name": "d", "version": "1.0.0"},
        {"name": "e", "quantity": "1Gi"},
        {"name": "f", "intSlice": {"ints": [1, 2]}},
        {"name": "g", "stringSlice": {"strings": ["x"]}},
    ]
    model = {"namedResources": {"instances": [{"name": "i", "attributes": attributes}, {"name": "j"}]}}
    assert structured.model_document(structured.model_message(model)) == model
