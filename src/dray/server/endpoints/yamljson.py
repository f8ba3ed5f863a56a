"""YAML converted to JSON as upstream does: one document, no dates, and a limit on aliases."""

from __future__ import annotations

import base64
import math
from functools import cache
from typing import Any, Final

from dray.api import schema
from dray.api.errors import BadRequest
from dray.api.scheme.kinds import Object
from dray.server.storage.codec import encode

_MAX_NODES: Final = 1_000_000


def json_from_yaml(data: bytes) -> tuple[bytes, list[str]]:
    """YAML as the JSON upstream makes of it, and what a strict reader would object to."""
    document, problems = load_yaml(data)
    return encode(document), problems


def load_yaml_object(data: bytes) -> tuple[Object, list[str]]:
    """An apply's configuration: one YAML document (JSON is YAML too) that holds an object."""
    try:
        document, problems = load_yaml(data)
    except BadRequest as e:
        raise BadRequest(f"error decoding YAML: {e.message}") from None
    if document is None:
        document = {}
    if not isinstance(document, dict):
        kind = json_name(document)
        words = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {words}")
    return document, problems


def load_yaml(data: bytes) -> tuple[Any, list[str]]:
    """One document, no dates, no bombs made of aliases; and the keys that occur twice, in upstream's words."""
    if data.lstrip()[:1] == b"{":
        try:
            found = schema.parse(data)
            if isinstance(found.object, dict):
                return found.object, found.problems
        except BadRequest:
            pass  # perhaps YAML in flow style
    import yaml

    loader = _loader()(data)
    try:
        document = loader.get_single_data()
    except yaml.YAMLError as e:
        raise BadRequest(f"error converting YAML to JSON: yaml: {_yaml_problem(e)}") from None
    except (ValueError, RecursionError, OverflowError) as e:
        raise BadRequest(f"error converting YAML to JSON: yaml: {e}") from None
    finally:
        loader.dispose()
    try:
        shaped = _json_values(document, [_MAX_NODES])
    except RecursionError:
        raise BadRequest("error converting YAML to JSON: yaml: exceeded max depth") from None
    if loader.twice:
        return shaped, ["yaml: unmarshal errors:" + "".join(f"\n  {words}" for words in loader.twice)]
    return shaped, []


def _yaml_problem(error: Any) -> str:
    """The words and the line of go-yaml, which shares libyaml's words but counts lines in its own way."""
    import yaml

    scanning = isinstance(error, yaml.scanner.ScannerError)
    for mark in (getattr(error, "context_mark", None), getattr(error, "problem_mark", None)):
        if mark is not None and mark.line + scanning:
            return f"line {mark.line + scanning}: {error.problem}"
    problem = getattr(error, "problem", None) or str(error).replace("\n", " ")
    return str(problem)


def _json_values(value: Any, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise BadRequest("error converting YAML to JSON: yaml: document contains excessive aliasing")
    if isinstance(value, dict):
        return {_json_key(k): _json_values(v, budget) for k, v in value.items()}
    if isinstance(value, list):
        return [_json_values(v, budget) for v in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise BadRequest(f"error converting YAML to JSON: json: unsupported value: {value}")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise BadRequest(f"error converting YAML to JSON: unsupported value of type {type(value).__name__}")


def _json_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise BadRequest(f"error converting YAML to JSON: unsupported map key: {key!r}")


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """Safe, without dates (JSON has none, and upstream keeps them as text), and aware of doubled keys."""

        def __init__(self, stream: bytes) -> None:
            super().__init__(stream)
            self.twice: list[str] = []

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        self.twice.append(
                            f'line {key.start_mark.line + 1}: key "{key.value}" already set in map'
                        )
                    seen.add(key.value)
            return super().construct_mapping(node, deep=deep)

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in base.yaml_implicit_resolvers.items()
    }
    return Loader


def json_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
