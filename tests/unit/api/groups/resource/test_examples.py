"""The manifests under examples/seeds are well-formed and valid for the releases they are made for."""

from __future__ import annotations

import copy

import pytest
import yaml

from dray.api.groups import resource
from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion
from dray.api.schema import decode, type_of
from dray.api.scheme.strategy import Context
from tests.support.paths import SEEDS

RELEASES = {
    "classic-1.27": "1.27",
    "structured-1.30": "1.30",
    "beta-1.32": "1.32",
    "v1": "1.34",
    "hands-on": "1.32",
}
MANIFESTS = sorted(path.relative_to(SEEDS).as_posix() for path in SEEDS.rglob("*.yaml"))


def documents(manifest):
    return [document for document in yaml.safe_load_all((SEEDS / manifest).read_text()) if document]


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_every_document_is_an_object_with_a_name(manifest):
    found = documents(manifest)
    assert found
    assert all(
        document["apiVersion"] and document["kind"] and document["metadata"]["name"] for document in found
    )


@pytest.mark.parametrize("everything", [False, True], ids=["its-release", "everything"])
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_resource_objects_are_valid_in_their_release_and_where_everything_is_served(manifest, everything):
    release_name = "" if everything else RELEASES[manifest.partition("/")[0]]
    release = EffectiveVersion.parse(release_name)
    gates = release.gates()
    ctx = Context(
        quirks=APIQuirks.of(release),
        gates=gates,
        now="2026-01-01T00:00:00Z",
        namespace_labels=lambda _: {"resource.kubernetes.io/admin-access": "true"},
    )
    serving = release.serving(gates=gates)
    kinds = {
        (kind.kind, version.name): (kind, version)
        for kind in resource.kinds(APIQuirks.of(release))
        for version in kind.versions
    }
    for document in documents(manifest):
        group, _, version_name = document["apiVersion"].rpartition("/")
        if group != "resource.k8s.io":
            continue
        kind, version = kinds[document["kind"], version_name]
        assert serving(group, version_name, kind.plural)
        decoded = decode(type_of(version.type, release.emulation), copy.deepcopy(document), strict=True)
        assert decoded.problems == []
        obj = decoded.object
        if version.default:
            version.default(obj)
        hub = version.to_hub(obj) if version.to_hub else obj
        kind.strategy.prepare_create(hub, ctx)
        assert list(kind.strategy.validate(hub, ctx)) == []
