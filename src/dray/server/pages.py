"""The pages that are about no resource: version, metrics, and the list of paths at the root."""

from __future__ import annotations

import platform
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from dray.server.api import API
from dray.server.requests import Request
from dray.server.responses import Raw, Response
from dray.server.routing import Target

#: How metrics call the stages of features.
_STAGES: Final = {"a": "ALPHA", "b": "BETA", "g": "", "d": "DEPRECATED"}


def version_info(api: API) -> dict[str, str]:
    git_version = api.release.git_version
    major, minor = api.release.number
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": str(major),
        "minor": str(minor),
        "emulationMajor": str(major),
        "emulationMinor": str(minor),
        "minCompatibilityMajor": str(major),
        "minCompatibilityMinor": str(minor - 1),
        "gitVersion": f"{git_version}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"linux/{machine}",
    }


def _resident() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return float(pages * resource.getpagesize())


class Pages:
    def __init__(self, api: API) -> None:
        self._api = api
        self._started = time.time()

    def install(self) -> None:
        pages = self._api.pages
        pages["/"] = self.root
        pages["/version"] = self.version
        pages["/metrics"] = self.metrics
        self._add_gauges()

    def _add_gauges(self) -> None:
        metrics, resources = self._api.metrics, self._api.resources

        def stored() -> Iterator[tuple[Mapping[str, str], float]]:
            for served in resources:
                if served.collection is not None and served.kind.stored_as is None:
                    labels = {"group": served.kind.group, "resource": served.kind.plural}
                    yield labels, float(len(served.collection))

        def watched() -> Iterator[tuple[Mapping[str, str], float]]:
            for served in resources:
                if served.collection is not None and (count := served.collection.watchers):
                    labels = {
                        "group": served.kind.group,
                        "kind": served.kind.kind,
                        "version": served.served[0],
                    }
                    yield labels, float(count)

        metrics.gauge(
            "apiserver_storage_objects", "Number of stored objects at the time of last check.", stored
        )
        metrics.gauge("apiserver_registered_watchers", "Number of currently registered watchers.", watched)
        metrics.gauge(
            "kubernetes_feature_enabled",
            "This metric records the data about the stage and enablement of a k8s feature.",
            self._features,
            stability="BETA",
        )
        metrics.gauge(
            "process_resident_memory_bytes", "Resident memory size in bytes.", lambda: [({}, _resident())]
        )
        metrics.gauge(
            "process_start_time_seconds",
            "Start time since the epoch in seconds.",
            lambda: [({}, self._started)],
        )

    def _features(self) -> Iterator[tuple[Mapping[str, str], float]]:
        for name, feature in sorted(self._api.release.known_gates().items()):
            yield {"name": name, "stage": _STAGES[feature.stage]}, float(name in self._api.gates)

    async def root(self, request: Request, target: Target) -> Response:
        paths = {p for p in self._api.pages if p not in ("/", "")}
        for group in self._api.resources.groups():
            base = f"/apis/{group.name}" if group.name else "/api"
            paths.add(base)
            paths.update(f"{base}/{v}" for v in group.versions)
        return Response(200, {"paths": sorted(paths)})

    async def version(self, request: Request, target: Target) -> Response:
        return Response(200, version_info(self._api))

    async def metrics(self, request: Request, target: Target) -> Response:
        text = self._api.metrics.text()
        return Response(
            200, Raw(text.encode(), "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
        )
