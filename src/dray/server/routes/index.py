"""``/version``, ``/metrics`` and the list of paths at ``/``."""

from __future__ import annotations

import platform
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dray.metrics.registry import Labels
from dray.server.apiserver import APIServer
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import RawBody, Response

#: How metrics call the stages of features.
_STAGES: Final = {"a": "ALPHA", "b": "BETA", "g": "", "d": "DEPRECATED"}


def version_info(api: APIServer) -> dict[str, str]:
    git_version = api.version.git_version
    major, minor = api.version.release
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    emulation = {
        "emulationMajor": str(major),
        "emulationMinor": str(minor),
        "minCompatibilityMajor": str(major),
        "minCompatibilityMinor": str(minor - 1),
    }
    return {
        "major": str(major),
        "minor": str(minor),
        **(emulation if api.api_quirks.tells_emulation else {}),
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
        path_handlers = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return float(path_handlers * resource.getpagesize())


class IndexRoutes:
    def __init__(self, api: APIServer) -> None:
        self._api = api
        self._started = time.time()

    def install(self) -> None:
        path_handlers = self._api.path_handlers
        path_handlers["/"] = self.root
        path_handlers["/version"] = self.version
        path_handlers["/metrics"] = self.metrics
        self._add_gauges()

    def _add_gauges(self) -> None:
        registry, resources = self._api.metrics.registry, self._api.resources

        def stored() -> Iterator[tuple[Labels, float]]:
            for served in resources:
                if not served.kind.virtual and served.kind.stored_as is None:
                    yield (served.kind.group, served.kind.plural), float(len(served.cache))

        def watched() -> Iterator[tuple[Labels, float]]:
            for served in resources:
                if not served.kind.virtual and (count := served.cache.watchers):
                    yield (served.kind.group, served.kind.kind, served.served[0]), float(count)

        registry.gauge(
            "apiserver_storage_objects",
            "Number of stored objects at the time of last check.",
            *("group", "resource"),
            read=stored,
            stability="STABLE",
        )
        registry.gauge(
            "apiserver_registered_watchers",
            "Number of currently registered watchers.",
            *("group", "kind", "version"),
            read=watched,
            stability="STABLE",
        )
        registry.gauge(
            "kubernetes_feature_enabled",
            "This metric records the data about the stage and enablement of a k8s feature.",
            *("name", "stage"),
            read=self._features,
            stability="BETA",
        )
        registry.gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            read=lambda: [((), _resident())],
            stability="STABLE",
        )
        registry.gauge(
            "process_start_time_seconds",
            "Start time since the epoch in seconds.",
            read=lambda: [((), self._started)],
            stability="STABLE",
        )

    def _features(self) -> Iterator[tuple[Labels, float]]:
        for name, feature in sorted(self._api.version.known_gates().items()):
            yield (name, _STAGES[feature.stage]), float(name in self._api.gates)

    async def root(self, request: Request, info: RequestInfo) -> Response:
        paths = {p for p in self._api.path_handlers if p not in ("/", "")}
        for group in self._api.resources.groups():
            base = f"/apis/{group.name}" if group.name else "/api"
            paths.add(base)
            paths.update(f"{base}/{v}" for v in group.versions)
        return Response(200, {"paths": sorted(paths)})

    async def version(self, request: Request, info: RequestInfo) -> Response:
        return Response(200, version_info(self._api))

    async def metrics(self, request: Request, info: RequestInfo) -> Response:
        text = self._api.metrics.registry.text()
        return Response(
            200, RawBody(text.encode(), "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
        )
