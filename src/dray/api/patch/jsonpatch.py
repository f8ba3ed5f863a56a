"""JSON patch (RFC 6902) with the habits of the library that Kubernetes uses.

Its habits differ from the RFC: ``replace`` of a missing member adds it, negative indices count from the end, and
errors have their own words. The document is never changed; what the patch does not touch is shared with the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dray.api.errors import BadRequest, RequestEntityTooLarge, StatusError
from dray.api.schema import gojson
from dray.api.schema.model import Field, ListOf, Scalar, Struct
from dray.api.schema.reader import read_value

_MOST_OPERATIONS: Final = 10_000
_MOST_COPIED: Final = 3 * 1024 * 1024

_STRING: Final = Scalar("string", "string")
_OPERATION: Final = Struct(
    "handlers.jsonPatchOp",
    "handlers.jsonPatchOp",
    atomic=False,
    fields=lambda: (
        Field("op", _STRING, "omitempty"),
        Field("path", _STRING, "omitempty"),
        Field("from", _STRING, "omitempty"),
        Field("value", Scalar("raw", "interface {}"), "omitempty"),
    ),
)
_OPERATIONS: Final = ListOf(_OPERATION, "[]handlers.jsonPatchOp")
_MISSING: Final = object()
_NO_PATH: Final = "operation missing path field: missing value"
_NO_FROM: Final = "operation, missing from field: missing value"

Operation = dict[str, Any]


class _Failed(Exception):
    """An operation that cannot be carried out."""


def parse(data: bytes) -> tuple[list[Operation], list[str]]:
    """The operations of a patch, and what a strict reader objects to."""
    try:
        document = gojson.parse(data)
        _, problems = read_value(_OPERATIONS, document)
    except BadRequest as e:
        raise BadRequest(f"error decoding patch: {e.message}") from None
    operations = gojson.plain(document) or []
    if len(operations) > _MOST_OPERATIONS:
        raise RequestEntityTooLarge(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        )
    return operations, [f"json patch {problem}" for problem in problems]


def apply(document: Any, operations: Sequence[Operation]) -> Any:
    """The patched document; a plain 422 when an operation does not fit."""
    patcher = _Patcher(document)
    try:
        for operation in operations:
            patcher.run(operation or {})
    except _Failed as e:
        raise StatusError(str(e), code=422, reason="") from None
    return patcher.root


class _Patcher:
    """Copies each container the first time it is changed, and the way to it."""

    def __init__(self, document: Any) -> None:
        self.root = document
        self._owned: set[int] = set()
        self._keep: list[Any] = []  # owned containers stay alive, so that no other can take over an id
        self._copied = 0

    def run(self, operation: Operation) -> None:
        op = operation.get("op")
        match op:
            case "add":
                self._add(operation)
            case "remove":
                self._remove(operation)
            case "replace":
                self._replace(operation)
            case "move":
                self._move(operation)
            case "copy":
                self._copy(operation)
            case "test":
                self._test(operation)
            case _:
                raise _Failed(f"Unexpected kind: {op if isinstance(op, str) else 'unknown'}")

    def _add(self, operation: Operation) -> None:
        path = _text(operation, "path")
        container, key = self._find(path, 'add operation does not apply: doc is missing path: "%s"')
        try:
            _insert(container, key, operation.get("value"))
        except _Failed as e:
            raise _Failed(f"error in add for path: '{path}': {e}") from None

    def _remove(self, operation: Operation) -> None:
        path = _text(operation, "path")
        container, key = self._find(path, 'remove operation does not apply: doc is missing path: "%s"')
        try:
            _delete(container, key)
        except _Failed as e:
            raise _Failed(f"error in remove for path: '{path}': {e}") from None

    def _replace(self, operation: Operation) -> None:
        path = _text(operation, "path", _NO_PATH)
        value = operation.get("value")
        if path == "":
            if not isinstance(value, dict | list):
                raise _Failed("replace operation value must be object or array: %!w(<nil>)")
            self.root = value
            return
        container, key = self._find(path, "replace operation does not apply: doc is missing path: %s")
        if isinstance(container, dict):
            container[key] = value
            return
        try:
            container[_index(container, key)] = value
        except _Failed:
            words = f"replace operation does not apply: doc is missing key: {path}: missing value"
            raise _Failed(words) from None

    def _move(self, operation: Operation) -> None:
        source = _text(operation, "from", _NO_FROM)
        container, key = self._find(source, "move operation does not apply: doc is missing from path: %s")
        try:
            value = _get(container, key)
            _delete(container, key)
        except _Failed as e:
            raise _Failed(f"error in move for path: '{key}': {e}") from None
        path = _text(operation, "path", _NO_PATH)
        target, key = self._find(path, "move operation does not apply: doc is missing destination path: %s")
        try:
            _insert(target, key, None if value is _MISSING else value)
        except _Failed as e:
            raise _Failed(f"error in move for path: '{path}': {e}") from None

    def _copy(self, operation: Operation) -> None:
        source = _text(operation, "from", _NO_FROM)
        container, key = self._find(
            source, "copy operation does not apply: doc is missing from path: %s", own=False
        )
        try:
            value = _get(container, key)
        except _Failed as e:
            raise _Failed(f"error in copy for from: '{source}': {e}") from None
        path = _text(operation, "path")
        target, key = self._find(path, "copy operation does not apply: doc is missing destination path: %s")
        encoded = msgspec.json.encode(None if value is _MISSING else value)
        self._copied += len(encoded)
        if self._copied > _MOST_COPIED:
            raise _Failed(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {_MOST_COPIED}"
            )
        try:
            _insert(target, key, msgspec.json.decode(encoded))
        except _Failed as e:
            raise _Failed(f"error while adding value during copy: {e}") from None

    def _test(self, operation: Operation) -> None:
        path = _text(operation, "path", _NO_PATH)
        expected = operation.get("value", _MISSING)
        if path == "":
            found: Any = self.root
        else:
            container, key = self._find(path, "test operation does not apply: is missing path: %s", own=False)
            try:
                found = _get(container, key)
            except _Failed as e:
                raise _Failed(f"error in test for path: '{path}': {e}") from None
        # A null and no value at all are the same to the library.
        found, expected = (None if v is _MISSING else v for v in (found, expected))
        if not same(found, expected):
            raise _Failed(f"testing value {path} failed: test failed")

    def _find(self, path: str, missing: str, *, own: bool = True) -> tuple[Any, str]:
        """The container that holds the last part of the path, and that part; ``own`` makes it safe to change.

        ``missing`` is what to say of a path that leads nowhere.
        """
        parts = [p.replace("~1", "/").replace("~0", "~") for p in path.split("/")]
        if len(parts) < 2:
            raise _Failed(f"{missing % path}: missing value")
        if own:
            self.root = self._owned_copy(self.root)
        container = self.root
        for part in parts[1:-1]:
            try:
                inner = _get(container, part)
            except _Failed:
                inner = _MISSING
            if not isinstance(inner, dict | list):
                raise _Failed(f"{missing % path}: missing value")
            if own:
                inner = self._owned_copy(inner)
                if isinstance(container, dict):
                    container[part] = inner
                else:
                    container[_index(container, part)] = inner
            container = inner
        return container, parts[-1]

    def _owned_copy(self, container: Any) -> Any:
        if id(container) in self._owned:
            return container
        copied = container.copy()
        self._owned.add(id(copied))
        self._keep.append(copied)
        return copied


def _text(operation: Operation, name: str, missing: str = "missing value") -> str:
    value = operation.get(name)
    if not isinstance(value, str):
        raise _Failed(f"{operation['op']} operation failed to decode {name}: {missing}")
    return value


def _number(key: str) -> int:
    digits = key[1:] if key[:1] in ("-", "+") else key
    if not (digits.isascii() and digits.isdigit()):
        raise _Failed(f'strconv.Atoi: parsing "{key}": invalid syntax')
    if len(digits) > 18:
        raise _Failed(f'strconv.Atoi: parsing "{key}": value out of range')
    return int(key)


def _index(items: list[Any], key: str) -> int:
    at = _number(key)
    if not -len(items) <= at < len(items):
        raise _Failed(f"Unable to access invalid index: {at}: invalid index referenced")
    return at % len(items)


def _get(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key, _MISSING)
    return container[_index(container, key)]


def _insert(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
        return
    if key == "-":
        container.append(value)
        return
    try:
        at = _number(key)
    except _Failed as e:
        raise _Failed(f"value was not a proper array index: '{key}': {e}") from None
    size = len(container) + 1
    if not -size <= at < size:
        raise _Failed(f"Unable to access invalid index: {at}: invalid index referenced")
    container.insert(at % size, value)


def _delete(container: Any, key: str) -> None:
    if isinstance(container, list):
        del container[_index(container, key)]
    elif key in container:
        del container[key]
    else:
        raise _Failed(f"Unable to remove nonexistent key: {key}: missing value")


def same(a: Any, b: Any) -> bool:
    """Equal as JSON: true is not 1, and 1 is not 1.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(k in b and same(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)
