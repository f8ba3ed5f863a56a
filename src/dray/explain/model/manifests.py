"""Manifests: objects in files, in any version, decoded as the API server decodes them, with the line of every field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dray.api import schema, yamldocs
from dray.api.errors import BadRequest
from dray.api.scheme.registry import KindVersion, scheme
from dray.explain.model.snapshot import SnapshotError

if TYPE_CHECKING:
    from dray.api.types import Object, ObjectList
    from dray.api.types.meta import ObjectMeta

Lines = Mapping[str, int]

#: Kinds that tools work with. An object of another group of such a name would be taken for one of them.
_OURS = frozenset(
    {"DeviceClass", "Node", "Pod", "PodGroup", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}
)
#: more than any object that a server takes; references to references can make it billions
_FIELDS = 200_000


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    document: Any  # an object of any kind in the newest shape, with defaults filled in
    api_version: str
    kind: str
    file: str = ""
    line: int = 1
    lines: Lines = field(default_factory=dict)  # field path → line
    problems: tuple[str, ...] = ()  # what strict decoding objects to
    malformed: str = ""  # why it is no object of its kind; then the document is as it was written
    found: KindVersion | None = None  # None: a kind that is not known here

    @property
    def name(self) -> str:
        return self._metadata.get("name") or self._metadata.get("generateName") or ""

    @property
    def namespace(self) -> str:
        return self._metadata.get("namespace") or ""

    @property
    def _metadata(self) -> ObjectMeta:
        written: Object = self.document
        found = written.get("metadata")
        return cast("ObjectMeta", found if isinstance(found, dict) else {})

    def line_of(self, path: str) -> int:
        """The line of a field, or of the nearest thing around it that is there."""
        while path:
            if path in self.lines:
                return self.lines[path]
            cut = max(path.rfind("."), path.rfind("["))
            path = path[:cut] if cut > 0 else ""
        return self.line


class Unreadable(SnapshotError):
    """A file that is not YAML or JSON, or holds something else than objects of the kinds that it names."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem


def read_files(
    paths: Iterable[Path],
    *,
    unreadable: Callable[[Unreadable], None] | None = None,
    keep_malformed: bool = False,
) -> list[Manifest]:
    """The objects of files, folders of YAML and JSON files, or ``-`` for standard input.

    ``unreadable`` gets the errors of files that cannot be read, which are then left out from that place on.
    ``keep_malformed``: objects that are none of their kind are wanted too, as they are written.
    """
    found: list[Manifest] = []
    for path in paths:
        for one in _expand(path):
            try:
                data = _stdin() if str(one) == "-" else one.read_bytes()
            except OSError as error:
                raise SnapshotError(f"{one}: {error.strerror or error}") from None
            try:
                found += read(data, str(one), keep_malformed=keep_malformed)
            except Unreadable as problem:
                if unreadable is None:
                    raise
                unreadable(problem)
    return found


def _expand(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml", ".json"))
    return [path]


def _stdin() -> bytes:
    import sys

    return sys.stdin.buffer.read()


def read(data: bytes, file: str = "", *, keep_malformed: bool = False) -> Iterator[Manifest]:
    """The objects of a text up to the place where it cannot be read, which is then raised as Unreadable."""
    found, problem = _read(data, file)
    if not keep_malformed and (wrong := next((one for one in found if one.malformed), None)):
        raise Unreadable(file, wrong.line, wrong.malformed)
    if problem is not None:
        text = data.decode("utf-8", "replace")
        if dashes := yamldocs.typographic_separator(text):
            # What was meant is clear: the objects are read as if it said so.
            found, _ = _read(yamldocs.with_separators(text).encode(), file)
            problem = Unreadable(file, dashes.line, dashes.problem)
    yield from found
    if problem is not None:
        raise problem


def _read(data: bytes, file: str) -> tuple[list[Manifest], Unreadable | None]:
    import yaml

    try:
        yamldocs.check(data)
    except yamldocs.TooLarge as error:
        return [], Unreadable(file, error.line, error.problem)
    loader = _loader()(data)
    found: list[Manifest] = []
    try:
        while loader.check_node():
            node = loader.get_node()
            document = loader.construct_document(node)
            found += _objects(document, node, file)
    except Unreadable as problem:
        return found, problem
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        return found, Unreadable(file, line, f"not YAML: {error.problem or error.context}")
    except (yaml.YAMLError, ValueError) as error:
        return found, Unreadable(file, 1, f"not YAML: {' '.join(str(error).split())}")
    finally:
        loader.dispose()
    return found, None


def _objects(document: Any, node: Any, file: str) -> Iterator[Manifest]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise Unreadable(file, node.start_mark.line + 1, "not an object")
    listed = cast("ObjectList", document)
    if isinstance(listed.get("items"), list) and str(listed.get("kind", "")).endswith("List"):
        nodes = next((value for key, value in node.value if key.value == "items"), node).value
        kind, version = str(listed["kind"]).removesuffix("List"), listed.get("apiVersion", "")
        for item, item_node in zip(listed["items"], nodes, strict=True):
            typed: Object = {"apiVersion": version, "kind": kind}
            yield from _objects({**typed, **item} if kind else item, item_node, file)
        return
    lines: dict[str, int] = {}
    _walk(node, "", lines)
    if len(lines) > _FIELDS:
        raise Unreadable(file, node.start_mark.line + 1, "an object of too many fields")
    yield manifest(document, file=file, line=node.start_mark.line + 1, lines=lines)


def _walk(node: Any, path: str, lines: dict[str, int]) -> None:
    if len(lines) > _FIELDS:
        return
    if node.id == "mapping":
        for key, value in node.value:
            here = f"{path}.{key.value}" if path else str(key.value)
            lines[here] = key.start_mark.line + 1
            _walk(value, here, lines)
    elif node.id == "sequence":
        for position, value in enumerate(node.value):
            here = f"{path}[{position}]"
            lines[here] = value.start_mark.line + 1
            _walk(value, here, lines)


def manifest(
    document: Mapping[str, Any], *, file: str = "", line: int = 1, lines: Lines | None = None
) -> Manifest:
    """An object as the server would take it in. Kinds that are not known stay as they are."""
    written = cast("Object", document)
    api_version, kind = str(written.get("apiVersion") or ""), str(written.get("kind") or "")
    group, _, version = api_version.rpartition("/")
    found = scheme().by_kind(group, version, kind)
    lines = lines or {}
    if found is None or not found.version.type:
        wrong = _malformed(document, api_version, kind)
        return Manifest(document, api_version, kind, file, line, lines, malformed=wrong)
    try:
        decoded = schema.decode(schema.type_of(found.version.type), dict(document), strict=True)
    except BadRequest as error:
        wrong = f"no {kind}: {error.message}"
        return Manifest(document, api_version, kind, file, line, lines, (error.message,), wrong, found)
    hub = _hub(decoded.object, found)
    return Manifest(hub, api_version, kind, file, line, lines, tuple(decoded.problems), found=found)


def _malformed(document: Mapping[str, Any], api_version: str, kind: str) -> str:
    """Why a tool can do nothing with an object of a kind that is not known."""
    if kind in _OURS:
        unknown = f'no kind "{kind}" is known in version "{api_version}"'
        return unknown if api_version else "apiVersion and kind must be set"
    if not isinstance(cast("Object", document).get("metadata") or {}, dict):
        return "metadata is not an object"
    return ""


def _hub(obj: dict[str, Any], found: KindVersion) -> dict[str, Any]:
    if found.version.default is not None:
        found.version.default(obj)
    hub = found.version.to_hub(obj) if found.version.to_hub is not None else obj
    kind = found.kind
    name = kind.hub or kind.storage
    typed: Object = {"kind": kind.kind, "apiVersion": f"{kind.group}/{name}" if kind.group else name}
    return {**typed, **{k: v for k, v in hub.items() if k not in typed}}


def newest(document: Mapping[str, Any]) -> Any:
    """An object from an API server in the newest shape."""
    return manifest(document).document


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """Safe, and without dates, which JSON does not have."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in base.yaml_implicit_resolvers.items()
    }
    return Loader
