"""Checks whether a driver keeps to what kubelets rely on, whatever language it is written in.

It plays the kubelet: finds the driver's registration socket, reads its slices, makes claims with devices of its own
choosing and has them prepared and unprepared, well and badly. Every expectation is a ``Check`` with an outcome; what a
driver may do one way or the other is a note, not a failure.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from dray.api.errors import NotFound, StatusError
from dray.client.client import Client
from dray.client.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.driver.api import ResourceApi
from dray.driver.model import ClaimRef
from dray.kubelet_api.services import DRA_PLUGIN, DRA_SERVICES, HEALTH_V1ALPHA1, REGISTRATION, Service, stub
from dray.kubelet_api.unix import SocketPath

_DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CDI_ID = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w.-]*=[A-Za-z0-9][\w.:-]*")
#: Seconds for one call; a kubelet would wait longer, a person should not have to.
CALL_TIMEOUT = 15.0


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation and what came of it."""

    name: str
    outcome: Outcome
    detail: str = ""


@dataclass(slots=True)
class Report:
    """All checks of one driver."""

    driver: str = ""
    checks: list[Check] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(c.outcome is Outcome.FAILED for c in self.checks)

    def expect(self, name: str, good: bool, detail: str = "") -> bool:
        self.checks.append(Check(name, Outcome.PASSED if good else Outcome.FAILED, "" if good else detail))
        return good

    def skip(self, name: str, why: str) -> None:
        self.checks.append(Check(name, Outcome.SKIPPED, why))

    def note(self, name: str, detail: str) -> None:
        self.checks.append(Check(name, Outcome.NOTE, detail))


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Which driver to check, and where it lives."""

    registry: Path = Path("/var/lib/kubelet/plugins_registry")
    driver: str = ""  # default: the only one in the registry
    node: str = ""
    cdi_dirs: Sequence[Path] = (Path("/etc/cdi"), Path("/var/run/cdi"))
    namespace: str = "default"
    #: A shell command that restarts the driver; without it, restarts are not tried.
    restart: str = ""
    #: Where a path that the driver names is found here.
    locate: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class _Device:
    pool: str
    name: str


async def run(client: Client | None, *, options: Options) -> Report:
    """Checks one driver. Without a client, only what needs no API server."""
    report = Report(driver=options.driver)
    found = await _registration(report, options)
    if found is None:
        return report
    services, endpoint = found
    if client is None:
        report.skip("slices and claims", "no API server was given")
        return report
    api = await ResourceApi.connect(client)
    devices = await _slices(report, api, options)
    if len(devices) < 2:
        report.skip("preparing claims", f"{len(devices)} free devices were found, two are needed")
        return report
    async with _Claims(api, report.driver, options) as claims:
        for service in services:
            await _Calls(report, service, endpoint, claims, devices, options).check()
        await _restart(report, services[0], endpoint, claims, devices, options)
    return report


# Registration


async def _registration(report: Report, options: Options) -> tuple[list[Service], Path] | None:
    infos = []
    for path in sorted(options.registry.rglob("*.sock")) if options.registry.is_dir() else []:
        try:
            infos.append((path, await _get_info(path)))
        except _CallFailed as e:
            report.note(f"socket {path.name}", f"does not answer GetInfo: {e}")
    wanted = [(p, i) for p, i in infos if i.type == DRA_PLUGIN and options.driver in ("", i.name)]
    who = f"driver {options.driver}" if options.driver else "a driver"
    if not report.expect("registers", bool(wanted), f"no socket in {options.registry} belongs to {who}"):
        return None
    path, info = wanted[-1]
    report.driver = info.name
    report.expect("has a DNS name", bool(_DNS.fullmatch(info.name)) and len(info.name) <= 63, info.name)
    endpoint = Path(options.locate(info.endpoint)) if info.endpoint else path
    report.expect("names a socket to be called on", endpoint.is_socket(), f"{info.endpoint} is no socket")
    announced = list(info.supported_versions)
    services = [DRA_SERVICES[a] for a in announced if a in DRA_SERVICES]
    known = ", ".join(DRA_SERVICES)
    if not report.expect("announces a known version", bool(services), f"{announced} has none of {known}"):
        return None
    await _notify(path)
    if HEALTH_V1ALPHA1.announced in announced:
        await _health(report, endpoint)
    return services, endpoint


async def _get_info(path: Path) -> Any:
    async with _channel(path) as channel:
        return await _call(stub(REGISTRATION, channel).GetInfo, REGISTRATION.module.InfoRequest())


async def _notify(path: Path) -> None:
    status = REGISTRATION.module.RegistrationStatus(plugin_registered=True)
    async with _channel(path) as channel:
        await _call(stub(REGISTRATION, channel).NotifyRegistrationStatus, status)


async def _health(report: Report, endpoint: Path) -> None:
    async with _channel(endpoint) as channel:
        messages = HEALTH_V1ALPHA1.module
        stream = stub(HEALTH_V1ALPHA1, channel).NodeWatchResources(messages.NodeWatchResourcesRequest())
        try:
            first = await asyncio.wait_for(stream.read(), CALL_TIMEOUT)
            report.expect("reports health at once", hasattr(first, "devices"), "the stream ended")
        except Exception as e:
            report.expect("reports health at once", False, str(e) or type(e).__name__)
        finally:
            stream.cancel()


# Slices


async def _slices(report: Report, api: ResourceApi, options: Options) -> list[_Device]:
    listed = await api.client.list(
        RESOURCE_SLICES.at(api.version), field_selector=f"spec.driver={report.driver}"
    )
    slices = [api.read(s) for s in listed.items]
    if not report.expect("publishes slices", bool(slices), "the API server has none of this driver"):
        return []
    pools: dict[str, list[Mapping[str, Any]]] = {}
    for s in slices:
        pools.setdefault(s["spec"]["pool"]["name"], []).append(s["spec"])
    for name, specs in pools.items():
        _check_pool(report, name, specs)
    mine = [
        s["spec"] for s in slices if not options.node or s["spec"].get("nodeName") in (None, "", options.node)
    ]
    taken = await _taken(api, report.driver)
    return [
        _Device(spec["pool"]["name"], d["name"])
        for spec in mine
        for d in spec.get("devices") or []
        if (spec["pool"]["name"], d["name"]) not in taken and not d.get("bindingConditions")
    ]


def _check_pool(report: Report, name: str, specs: Sequence[Mapping[str, Any]]) -> None:
    newest = max(s["pool"]["generation"] for s in specs)
    current = [s for s in specs if s["pool"]["generation"] == newest]
    wanted = current[0]["pool"]["resourceSliceCount"]
    report.expect(
        f"pool {name} is complete",
        len(current) == wanted,
        f"{len(current)} slices of generation {newest}, not {wanted}",
    )
    names = [d["name"] for s in current for d in s.get("devices") or []]
    twice = sorted({n for n in names if names.count(n) > 1})
    report.expect(f"pool {name} names each device once", not twice, ", ".join(twice))


async def _taken(api: ResourceApi, driver: str) -> set[tuple[str, str]]:
    listed = await api.client.list(RESOURCE_CLAIMS.at(api.version))
    return {
        (r["pool"], r["device"])
        for c in listed.items
        for r in (((c.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or []
        if r["driver"] == driver
    }


class _Claims:
    """Claims made for the checks, and removed afterwards."""

    def __init__(self, api: ResourceApi, driver: str, options: Options) -> None:
        self._api = api
        self._driver = driver
        self._namespace = options.namespace
        self._resource = RESOURCE_CLAIMS.at(api.version)
        self._made: list[str] = []

    async def __aenter__(self) -> _Claims:
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in self._made:
            try:
                await self._api.client.patch_status(
                    self._resource,
                    self._namespace,
                    name,
                    {"status": {"allocation": None, "reservedFor": None, "devices": None}},
                )
                await self._api.client.delete(self._resource, self._namespace, name)
            except (NotFound, StatusError):
                continue

    async def make(self, device: _Device) -> ClaimRef:
        """A claim that has this device and is reserved for a pod."""
        client, name = self._api.client, f"verify-{secrets.token_hex(4)}"
        exactly = {"deviceClassName": "verify"}
        request = (
            {"name": "r", "exactly": exactly} if self._api.version != "v1beta1" else {"name": "r", **exactly}
        )
        made = await client.create(
            self._resource,
            self._namespace,
            {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}},
        )
        self._made.append(name)
        result = {"request": "r", "driver": self._driver, "pool": device.pool, "device": device.name}
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "verify", "uid": secrets.token_hex(8)}],
        }
        await client.patch_status(self._resource, self._namespace, name, {"status": status})
        return ClaimRef(self._namespace, name, made["metadata"]["uid"])


# Calls


class _CallFailed(Exception):
    """A call came back with an error, or not at all."""


@dataclass(frozen=True, slots=True)
class _Calls:
    """The expectations about one version of the interface."""

    report: Report
    service: Service
    endpoint: Path
    claims: _Claims
    devices: Sequence[_Device]
    options: Options

    def expect(self, name: str, good: bool, detail: str = "") -> bool:
        return self.report.expect(f"{self.service.announced}: {name}", good, detail)

    def note(self, name: str, detail: str) -> None:
        self.report.note(f"{self.service.announced}: {name}", detail)

    async def check(self) -> None:
        try:
            empty = await self.prepare()
        except _CallFailed as e:
            self.expect("answers an empty request", False, str(e))
            return
        self.expect("answers an empty request", not empty, "claims that were not asked about")
        one, two = await self.claims.make(self.devices[0]), await self.claims.make(self.devices[1])
        ids = await self._prepared(one, two)
        if ids is not None:
            await self._refusals(one)
            await self._unprepared(one, two, ids)

    async def _prepared(self, one: ClaimRef, two: ClaimRef) -> list[str] | None:
        try:
            first = await self.prepare(one, two)
        except _CallFailed as e:
            self.expect("prepares two claims in one call", False, str(e))
            return None
        errors = [f"{uid}: {a.error}" for uid, a in first.items() if a.error]
        complete = set(first) == {one.uid, two.uid}
        if not self.expect(
            "prepares two claims in one call", complete and not errors, "; ".join(errors) or "missing"
        ):
            return None
        for ref, device in ((one, self.devices[0]), (two, self.devices[1])):
            told = {(d.pool_name, d.device_name) for d in first[ref.uid].devices}
            wanted = {(device.pool, device.name)}
            self.expect(
                f"names the device {device.name}", told <= wanted, f"{sorted(told)}, not {sorted(wanted)}"
            )
            requests = {r for d in first[ref.uid].devices for r in d.request_names}
            self.expect(f"names the request of {device.name}", requests <= {"r"}, str(sorted(requests)))
        ids = [i for a in first.values() for d in a.devices for i in d.cdi_device_ids]
        bad = [i for i in ids if not _CDI_ID.fullmatch(i)]
        self.expect("gives qualified CDI names", not bad, ", ".join(bad))
        missing = sorted(set(ids) - _defined(self.options.cdi_dirs))
        self.expect("defines its CDI devices", not missing, f"not found: {', '.join(missing)}")
        again = await self.prepare(one, two)
        self.expect(
            "prepares again with the same answer",
            {u: a.SerializeToString(deterministic=True) for u, a in again.items()}
            == {u: a.SerializeToString(deterministic=True) for u, a in first.items()},
            "the second answer differs from the first",
        )
        return ids

    async def _refusals(self, one: ClaimRef) -> None:
        nobody = ClaimRef(one.namespace, "verify-never-made", "00000000-0000-0000-0000-000000000000")
        replaced = one._replace(uid="11111111-1111-1111-1111-111111111111")
        for name, ref in (("a claim that does not exist", nobody), ("a claim that was replaced", replaced)):
            self.expect(f"refuses {name}", bool(await self.refusal(ref)), "it was prepared")
        # The library for Go refuses the whole call, which a kubelet can live with: it tries again.
        try:
            answers = await self.prepare(one, nobody)
        except _CallFailed:
            self.note("one bad claim in a call", "the whole call fails")
        else:
            good = one.uid in answers and not answers[one.uid].error
            self.expect("prepares the good claim beside a bad one", good, "it was refused as well")
            self.expect(
                "answers for the bad one too",
                bool(answers.get(nobody.uid) and answers[nobody.uid].error),
                "no error",
            )

    async def _unprepared(self, one: ClaimRef, two: ClaimRef, ids: Sequence[str]) -> None:
        for name in ("unprepares", "unprepares again"):
            try:
                answers = await self.unprepare(one, two)
            except _CallFailed as e:
                self.expect(name, False, str(e))
                return
            errors = [a.error for a in answers.values() if a.error]
            self.expect(
                name, set(answers) == {one.uid, two.uid} and not errors, "; ".join(errors) or "claims missing"
            )
        own = {i for i in ids if one.uid in i or two.uid in i}
        left = sorted(own & _defined(self.options.cdi_dirs))
        self.expect("removes what it defined for the claims", not left, ", ".join(left))
        never = ClaimRef(one.namespace, "verify-never-made", "00000000-0000-0000-0000-000000000000")
        try:
            answers = await self.unprepare(never)
            good = never.uid in answers and not answers[never.uid].error
            self.expect("unpreparing what was never prepared is no error", good, "an error, or no answer")
        except _CallFailed as e:
            self.expect("unpreparing what was never prepared is no error", False, str(e))
        again = await self.prepare(one)
        self.expect(
            "prepares once more after that", one.uid in again and not again[one.uid].error, "it was refused"
        )
        await self.unprepare(one)

    async def refusal(self, ref: ClaimRef) -> str:
        try:
            answers = await self.prepare(ref)
        except _CallFailed as e:
            return str(e)
        return str(answers[ref.uid].error) if ref.uid in answers else ""

    async def prepare(self, *refs: ClaimRef) -> Mapping[str, Any]:
        return await self._call("NodePrepareResources", refs)

    async def unprepare(self, *refs: ClaimRef) -> Mapping[str, Any]:
        return await self._call("NodeUnprepareResources", refs)

    async def _call(self, method: str, refs: Sequence[ClaimRef]) -> Mapping[str, Any]:
        messages = self.service.module
        claims = [messages.Claim(namespace=r.namespace, name=r.name, uid=r.uid) for r in refs]
        async with _channel(self.endpoint) as channel:
            call = getattr(stub(self.service, channel), method)
            response = await _call(call, getattr(messages, f"{method}Request")(claims=claims))
        return dict(response.claims)


async def _restart(
    report: Report,
    service: Service,
    endpoint: Path,
    claims: _Claims,
    devices: Sequence[_Device],
    options: Options,
) -> None:
    if not options.restart:
        report.skip("survives a restart", "no command to restart the driver was given")
        return
    calls = _Calls(report, service, endpoint, claims, devices, options)
    one = await claims.make(devices[0])
    before = await calls.prepare(one)
    process = await asyncio.create_subprocess_shell(options.restart)
    await process.wait()
    deadline = asyncio.get_running_loop().time() + 30
    while True:
        try:
            after = await calls.prepare(one)
            break
        except _CallFailed as e:
            if asyncio.get_running_loop().time() > deadline:
                report.expect("comes back after a restart", False, str(e))
                return
            await asyncio.sleep(0.2)
    report.expect("comes back after a restart", True)
    same = _plain(before[one.uid]) == _plain(after[one.uid]) if one.uid in after else False
    report.expect("remembers a prepared claim over a restart", same, "the answer differs")
    answers = await calls.unprepare(one)
    report.expect(
        "unprepares after a restart",
        one.uid in answers and not answers[one.uid].error,
        "an error, or no answer",
    )


def _plain(answer: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(d.pool_name, d.device_name, tuple(d.cdi_device_ids)) for d in answer.devices]


def _defined(directories: Sequence[Path]) -> set[str]:
    """The qualified names of all CDI devices that are defined."""
    names: set[str] = set()
    for directory in directories:
        for path in [*directory.glob("*.json"), *directory.glob("*.yaml")]:
            try:
                text = path.read_text()
                if path.suffix == ".json":
                    spec = json.loads(text)
                else:
                    import yaml

                    spec = yaml.safe_load(text)
                names |= {f"{spec['kind']}={d['name']}" for d in spec["devices"]}
            except (OSError, ValueError, KeyError, TypeError):
                continue
    return names


@asynccontextmanager
async def _channel(path: Path) -> AsyncIterator[Any]:
    import grpc.aio

    with SocketPath(path) as address:
        async with grpc.aio.insecure_channel(address.grpc) as channel:
            yield channel


async def _call(method: Any, request: Any) -> Any:
    import grpc.aio

    try:
        return await method(request, timeout=CALL_TIMEOUT)
    except grpc.aio.AioRpcError as e:
        raise _CallFailed(f"{e.code().name}: {e.details()}") from e
