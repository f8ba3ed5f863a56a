"""What kubectl remembers of another release is told of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.app.kubectl_cache import stale_discovery
from tests.support.apiserver import make_server

URL = "https://127.0.0.1:6443"


def remember(home: Path, version: str, *names: str) -> Path:
    directory = home / "discovery" / "127.0.0.1_6443"
    file = directory / "resource.k8s.io" / version / "serverresources.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"resources": [{"name": name} for name in names]}))
    return directory


async def test_only_the_memory_of_another_release_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path))
    groups = (await make_server()).api.resources.groups()
    assert stale_discovery(URL, groups) is None  # kubectl was never here
    for group in groups:
        if group.name == "resource.k8s.io":
            for version, resources in group.resources.items():
                remember(tmp_path, version, "resourceclaims/status", *(r.kind.plural for r in resources))
    assert stale_discovery(URL, groups) is None
    directory = remember(tmp_path, "v0", "resourceclasses")
    assert stale_discovery(URL, groups) == directory
    assert stale_discovery("https://127.0.0.1:6444", groups) is None
