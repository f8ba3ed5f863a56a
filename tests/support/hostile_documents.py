"""Documents, patches and selectors that nobody would send in good faith, from a seed."""

from __future__ import annotations

import json
import random
from typing import Any

from dray.api.schema import ListOf, MapOf, Scalar, Struct, Type

_TEXTS = (
    "",
    "a",
    "b",
    "default",
    "example.com/x",
    "x" * 70,
    "x" * 300,
    "ü\x00",
    "..",
    "1",
    "-1",
    "0s",
    "True",
    "Update",
    "²",
    "9" * 5000,
    "0" * 5000 + "!",
)
_JUNK: tuple[Any, ...] = (
    None, True, -1, 2**31, 2**63, 2**70, 1.5, 1e300, "", "x" * 300, "ü\x00", [], {}, [None], {"a": None}, [[1]], [{}], "2001",
)  # fmt: skip
_SCALARS: dict[str, tuple[Any, ...]] = {
    "string": _TEXTS,
    "bool": (True, False),
    "int32": (0, 1, -1, 2**31 - 1),
    "int64": (0, 1, -(2**63), 2**63 - 1),
    "float64": (0, -1.5, 1e300),
    "quantity": ("0", "-1", "1e3", "1Gi", 5, "9" * 400, "1e999999999", "9" * 5000, "0" * 5000 + "!", "." + "0" * 5000, "²"),
    "intorstring": (0, -1, "", "http", "150%", "9" * 5000 + "%", "²%"),
    "time": ("2024-05-01T12:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00", "2024-05-01T12:00:00." + "1" * 5000 + "Z"),
    "microtime": ("2024-05-01T12:00:00.000001Z", "0001-01-01T00:00:00Z"),
    "duration": ("0s", "-90m", "2540400h", "1" * 5000, "1" * 5000 + "s", "0." + "1" * 5000 + "s", "0s" * 2000),
    "bytes": ("", "YQ==", "="),
    "raw": ({"a": 1}, [], "x", None, {"f:a": {}}, {"k:{\"a\":1}": {"f:b": {}}}, {".": {}, "v:1": {}}, {"": {}}, {"k:[]": {}}),
}  # fmt: skip
_ELEMENTS = (
    "f:a",
    "f:spec",
    "f:metadata",
    'k:{"name":"a"}',
    "k:{}",
    "k:1",
    "v:1",
    "v:{}",
    "i:0",
    "i:x",
    ".",
    "",
    ":",
    "f:",
)


class Hostile:
    """Draws from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def document(self, type_: Struct) -> Any:
        """An object of a type, with a few places that do not belong there."""
        found = self._value(type_, 7)
        metadata = found.setdefault("metadata", {})
        if isinstance(metadata, dict):
            metadata["name"] = "a"
            if self.rng.random() < 0.5:
                metadata["managedFields"] = [self.managed_fields() for _ in range(self.rng.randrange(3))]
        for _ in range(self.rng.randrange(3)):
            found = self.damaged(found)
        return found

    def damaged(self, value: Any) -> Any:
        rng = self.rng
        if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
            return rng.choice(_JUNK)
        if isinstance(value, list):
            at = rng.randrange(len(value))
            if rng.random() < 0.2:
                return [*value, value[at]]
            return [*value[:at], self.damaged(value[at]), *value[at + 1 :]]
        key = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: self.damaged(value[key])}

    def managed_fields(self) -> Any:
        """An entry of metadata.managedFields."""
        rng = self.rng
        return {
            "manager": rng.choice(("m", "", "f", "x" * 200)), "operation": rng.choice(("Apply", "Update", "")),
            "apiVersion": rng.choice(("v1", "apps/v1", "nosuch/v9", "a/b/c", "")), "fieldsType": "FieldsV1",
            "time": rng.choice(("2024-05-01T12:00:00Z", None)), "subresource": rng.choice(("", "status")),
            "fieldsV1": self._fields(4),
        }  # fmt: skip

    def _fields(self, depth: int) -> Any:
        rng = self.rng
        if depth == 0 or rng.random() < 0.05:
            return rng.choice(({}, {}, {}, None, 1, []))
        return {rng.choice(_ELEMENTS): self._fields(depth - 1) for _ in range(rng.randrange(3))}

    def _value(self, type_: Type, depth: int) -> Any:
        rng = self.rng
        match type_:
            case Scalar():
                return rng.choice(_SCALARS[type_.base])
            case Struct():
                if not depth or not type_.fields:
                    return {}
                chosen = rng.sample(type_.fields, min(len(type_.fields), rng.randrange(1, 7)))
                if depth > 5:
                    chosen += [
                        f for f in type_.fields if f.name in ("spec", "containers", "devices", "requests")
                    ]
                return {f.name: self._value(f.type, depth - 1) for f in chosen}
            case ListOf():
                return [self._value(type_.item, depth - 1) for _ in range(rng.randrange(3))] if depth else []
            case MapOf():
                return {rng.choice(_TEXTS): self._value(type_.value, depth - 1)} if depth else {}
        return rng.random() < 0.5

    def json_patch(self, document: Any) -> Any:
        rng = self.rng
        return [
            {
                "op": rng.choice(("add", "remove", "replace", "move", "copy", "test", "nosuch", None)),
                "path": self._pointer(document), "from": self._pointer(document), "value": rng.choice(_JUNK),
            }
            for _ in range(rng.randrange(4))
        ]  # fmt: skip

    def _pointer(self, document: Any) -> Any:
        rng, path = self.rng, ""
        while isinstance(document, dict | list) and document and rng.random() < 0.8:
            key = rng.choice(sorted(document)) if isinstance(document, dict) else rng.randrange(len(document))
            path, document = f"{path}/{str(key).replace('/', '~1')}", document[key]
        return (
            path + rng.choice(("", "", "", "/-", "/x", "/99", "/~", "/-1")) if rng.random() < 0.97 else None
        )

    def yaml(self, document: Any) -> bytes:
        """A document as YAML with bytes of its own grammar strewn in."""
        import yaml

        rng = self.rng
        data = bytearray(
            yaml.safe_dump(json.loads(json.dumps(document)), default_flow_style=rng.random() < 0.5).encode()
        )
        parts = (b"&a ", b"*a", b"<<: *a\n", b"!!bool ", b"!!int ", b"!!set ", b"!x ", b"? ", b"- ", b": ", b"[", b"{", b"|\n", b"'", b'"', b"\x00", b"\xff", b"0x" + b"f" * 20, b"1_0", b"---\n", b"%YAML 9\n", b".nan", b"!!binary =", b"\t")  # fmt: skip
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data) + 1)
            data[at:at] = rng.choice(parts)
        return bytes(data)

    def selector(self) -> str:
        parts = (
            "a",
            "b/c",
            "in",
            "notin",
            "(",
            ")",
            ",",
            "=",
            "==",
            "!=",
            "!",
            ">",
            "<",
            " ",
            "\\",
            "\x00",
            "ü",
            "x" * 70,
            "metadata.name",
            "1",
        )
        return "".join(self.rng.choice(parts) for _ in range(self.rng.randrange(12)))
