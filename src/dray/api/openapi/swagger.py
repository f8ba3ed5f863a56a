"""OpenAPI v3 paths rewritten as v2 (Swagger), which older clients ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Node = dict[str, Any]


def paths(v3: Mapping[str, Node]) -> dict[str, Node]:
    return {path: dict(_path(node)) for path, node in v3.items()}


def _path(node: Node) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key == "parameters":
            yield key, [_parameter(p) for p in value]
        else:
            yield key, _operation(value)


def _operation(operation: Node) -> Node:
    result = {k: v for k, v in operation.items() if k not in ("requestBody", "responses", "parameters")}
    parameters = [_parameter(p) for p in operation.get("parameters", ())]
    body = operation.get("requestBody")
    result["consumes"] = ["*/*"]
    if body is not None:
        media = list(body["content"])
        result["consumes"] = media
        schema = body["content"][media[0]]["schema"]
        parameters.insert(0, {"in": "body", "name": "body", "schema": schema})
        if body.get("required"):
            parameters[0]["required"] = True
    produces: list[str] = []
    responses: Node = {}
    for code, response in operation["responses"].items():
        responses[code] = {"description": response["description"]}
        for media_type, content in response.get("content", {}).items():
            responses[code]["schema"] = content["schema"]
            if media_type not in produces:
                produces.append(media_type)
    result["produces"] = produces or ["application/json"]
    result["schemes"] = ["https"]
    result["responses"] = responses
    if parameters:
        result["parameters"] = parameters
    return result


def _parameter(parameter: Node) -> Node:
    result = {k: v for k, v in parameter.items() if k != "schema"}
    result.update(parameter["schema"])
    return result
