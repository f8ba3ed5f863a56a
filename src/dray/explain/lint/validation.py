"""Manifests checked without a server: schema, validation and CEL expressions as the API server checks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from dray.api.objects import clone
from dray.api.quirks import APIQuirks
from dray.api.release import RESOURCE_GROUP, EffectiveVersion, Gates, Serving
from dray.api.scheme.registry import scheme
from dray.api.scheme.strategy import Context, name_is_path_segment
from dray.api.validation import expressions, objectmeta
from dray.explain.model.manifests import Manifest

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.explain.model.documents import FindingDocument

NOW = "1970-01-01T00:00:00Z"  # validation compares with it only what a manifest cannot have yet


class Level(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark about one line of a manifest."""

    rule: str
    level: Level
    message: str
    file: str = ""
    line: int = 1
    subject: str = ""  # kind and name

    def as_document(self) -> FindingDocument:
        return {
            "rule": self.rule,
            "level": self.level.value,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "object": self.subject,
        }


def finding(manifest: Manifest, rule: str, level: Level, message: str, *, path: str = "") -> Finding:
    subject = f"{manifest.kind} {manifest.name}".strip()
    return Finding(rule, level, message, manifest.file, manifest.line_of(path), subject)


def check(
    manifests: Iterable[Manifest],
    *,
    gates: Gates,
    quirks: APIQuirks,
    compiler: expressions.Compiler,
    namespace_labels: Mapping[str, Mapping[str, str]] | None = None,
    served: Serving | None = None,
    release: EffectiveVersion | None = None,
) -> list[Finding]:
    """What the API server would refuse or warn about.

    ``namespace_labels``: None if namespaces are not known. ``served``: what it can be made to serve; None: anything.
    ``release``: whose deprecations count; None: the newest's.
    """
    labels = namespace_labels
    context = Context(
        gates=gates,
        quirks=quirks,
        now=NOW,
        verb="create",
        expressions=compiler,
        namespace_labels=lambda name: _ANY if labels is None else labels.get(name),
    )
    return [
        found
        for manifest in manifests
        for found in (*_version(manifest, served, release), *_check(manifest, context))
    ]


#: The labels of a namespace that is not known: those that allow everything.
_ANY: Mapping[str, str] = {
    "resource.kubernetes.io/admin-access": "true",
    "resource.k8s.io/admin-access": "true",
}


def _version(
    manifest: Manifest, served: Serving | None, release: EffectiveVersion | None
) -> Iterator[Finding]:
    """Findings about the version alone."""
    found = manifest.found
    if found is None:
        return
    group, _, version = manifest.api_version.rpartition("/")
    if served is not None and not served(group, version, found.kind.plural):
        text = f'this release has no kind "{manifest.kind}" in version "{manifest.api_version}"'
        yield finding(manifest, "schema", Level.ERROR, text, path="apiVersion")
        return
    known = scheme(release).by_kind(group, version, found.kind.kind)
    text = known.version.deprecated if known is not None else ""
    if served is None and _in_resource_group(manifest.api_version) and version in _GONE:
        text = f"{manifest.api_version} {manifest.kind} is not served since Kubernetes {_GONE[version]}"
    if text:
        help = "; dray convert --to v1 rewrites it" if _in_resource_group(manifest.api_version) else ""
        yield finding(manifest, "deprecated-version", Level.WARNING, text + help, path="apiVersion")


#: Versions of the generations before today's → the first release without them.
_GONE: Mapping[str, str] = {"v1alpha1": "1.27", "v1alpha2": "1.31"}


def _check(manifest: Manifest, context: Context) -> Iterator[Finding]:
    if not manifest.kind or not manifest.api_version:
        yield finding(manifest, "schema", Level.ERROR, "apiVersion and kind must be set")
        return
    found = manifest.found
    if found is None:
        if _in_resource_group(manifest.api_version):
            text = f'no kind "{manifest.kind}" is known in version "{manifest.api_version}"'
            yield finding(manifest, "schema", Level.ERROR, text)
        elif not manifest.name:
            text = "metadata.name: Required value: name or generateName is required"
            yield finding(manifest, "validation", Level.ERROR, text + _misplaced_name(manifest))
        return
    for problem in manifest.problems:
        hint = _misplaced_name(manifest) if problem == 'unknown field "name"' else ""
        yield finding(manifest, "schema", Level.ERROR, problem + hint, path=_path_in(problem))
    kind = found.kind
    obj: Object = clone(manifest.document)
    metadata = obj.setdefault("metadata", {})
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName']}xxxxx"
    try:
        kind.strategy.prepare_create(obj, context)
        problems = [
            *objectmeta.validate_object_meta(
                metadata,
                namespaced=kind.namespaced,
                check_name=kind.strategy.check_name or name_is_path_segment,
            ),
            *kind.strategy.validate(obj, context),
        ]
        warnings = list(kind.strategy.warn(obj, context))
    except (KeyError, TypeError, AttributeError, ValueError):
        if manifest.problems:
            return  # too far from its shape to be looked at, which has been said
        raise
    for error in problems:
        path = error.field
        yield finding(manifest, "validation", Level.ERROR, str(error), path=_versioned(manifest, path))
    for text in warnings:
        yield finding(manifest, "warning", Level.WARNING, text, path=_path_in(text))


def _misplaced_name(manifest: Manifest) -> str:
    return "; name belongs under metadata" if "name" in manifest.lines else ""


def _in_resource_group(api_version: str) -> bool:
    """Whether every kind of a group is known here; what else is not known may be somebody's custom resource."""
    return api_version.rpartition("/")[0] == RESOURCE_GROUP


def _path_in(problem: str) -> str:
    """The field that a message names in quotes or at its start."""
    parts = problem.split('"')
    if len(parts) > 2:
        return parts[1]
    return problem.partition(":")[0]


def _versioned(manifest: Manifest, path: str) -> str:
    """A path of the newest shape as the manifest's version has it: v1beta1 has no ``exactly``."""
    return path if path in manifest.lines else path.replace(".exactly", "")
