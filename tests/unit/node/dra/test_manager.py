"""Claims on a node: prepared once, unprepared once, whatever fails in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import NotFound
from dray.kubelet_api.checkpoint import CorruptCheckpoint
from dray.node.dra import manager as manager_module
from dray.node.dra.checkpoint import Checkpoint
from dray.node.dra.claiminfo import ClaimInfoCache, PreparedDevice
from dray.node.dra.claims import ClaimError
from dray.node.dra.grpc_versions import CallFailed, ClaimRef, PrepareResult
from dray.node.dra.manager import Manager
from dray.node.metrics import Metrics


def claim(
    name: str, *drivers: str, pods: Sequence[str] = ("p1",), owner: str = "", uid: str = ""
) -> dict[str, Any]:
    results = [{"request": "r", "driver": d, "pool": "n", "device": f"{name}-dev"} for d in drivers]
    metadata: dict[str, Any] = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    return {
        "metadata": metadata,
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"uid": p} for p in pods],
        },
    }


def pod(uid: str, *claims: str, templates: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    entries: list[dict[str, Any]] = [{"name": c, "resourceClaimName": c} for c in claims]
    entries += [{"name": t, "resourceClaimTemplateName": "t"} for t in templates or {}]
    names = [*claims, *(templates or {})]
    return {
        "metadata": {"namespace": "ns", "name": f"pod-{uid}", "uid": uid},
        "spec": {
            "resourceClaims": entries,
            "containers": [{"name": "main", "resources": {"claims": [{"name": n} for n in names]}}],
        },
        "status": {
            "resourceClaimStatuses": [
                {"name": t, **({"resourceClaimName": c} if c else {})} for t, c in (templates or {}).items()
            ]
        },
    }


class FakePlugin:
    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.calls: list[tuple[str, list[str]]] = []
        self.held: set[str] = set()
        self.errors: dict[str, str] = {}
        self.silent_about: set[str] = set()
        self.down = False
        self.pause: asyncio.Event | None = None

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        self.calls.append(("prepare", sorted(c.name for c in claims)))
        if self.pause:
            await self.pause.wait()
        if self.down:
            raise CallFailed("rpc error: code = Unavailable desc = gone")
        answers = {}
        for c in claims:
            if c.uid in self.silent_about:
                continue
            error = self.errors.get(c.uid, "")
            if not error:
                self.held.add(c.uid)
            device = PreparedDevice(
                pool="n", name=f"{c.name}-dev", requests=("r",), cdi_ids=(f"{self.driver}/x={c.name}",)
            )
            answers[c.uid] = PrepareResult([] if error else [device], error)
        return answers

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        self.calls.append(("unprepare", sorted(c.name for c in claims)))
        if self.down:
            raise CallFailed("rpc error: code = Unavailable desc = gone")
        for c in claims:
            self.held.discard(c.uid)
        return {c.uid: "" for c in claims}


class World:
    """An API server's claims, drivers, and a node's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.claims: dict[str, dict[str, Any]] = {}
        self.plugins: dict[str, FakePlugin] = {}
        self.metrics = Metrics()

    def add(self, *claims: dict[str, Any]) -> None:
        for c in claims:
            self.claims[c["metadata"]["name"]] = c
            for r in c["status"]["allocation"]["devices"]["results"]:
                self.plugins.setdefault(r["driver"], FakePlugin(r["driver"]))

    async def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        if name not in self.claims:
            raise NotFound(f'resourceclaims.resource.k8s.io "{name}" not found')
        return self.claims[name]

    def get(self, driver: str) -> FakePlugin | None:
        return self.plugins.get(driver)

    def start(self, **options: Any) -> Manager:
        return Manager(
            claims=self.get_claim,
            state=ClaimInfoCache(Checkpoint(self.directory)),
            plugins=self,
            metrics=self.metrics,
            **options,
        )

    @property
    def calls(self) -> list[tuple[str, list[str]]]:
        return [call for p in self.plugins.values() for call in p.calls]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_all_claims_of_a_pod_are_one_call_to_each_driver(world: World) -> None:
    names = [f"c{i}" for i in range(8)]
    world.add(*(claim(n, "a.example.com", "b.example.com") for n in names))
    await world.start().prepare(pod("p1", *names))
    assert world.calls == [("prepare", names), ("prepare", names)]


def skipping(name: str, **operations: Sequence[str]) -> dict[str, Any]:
    """A claim with one device of each driver, that does without these operations."""
    made = claim(name, *operations)
    for result in made["status"]["allocation"]["devices"]["results"]:
        result["skipNodeOperations"] = list(operations[result["driver"]])
    return made


async def test_a_driver_is_not_called_for_what_all_its_devices_do_without(
    world: World, tmp_path: Path
) -> None:
    world.add(skipping("c1", a=["*"], b=["NodeUnprepareResources"], c=[]))
    del world.plugins["a"]  # need not be there at all
    asked = pod("p1", "c1")
    await world.start().prepare(asked)
    assert [(d, p.calls) for d, p in world.plugins.items()] == [
        ("b", [("prepare", ["c1"])]),
        ("c", [("prepare", ["c1"])]),
    ]
    del world.plugins["b"]
    await world.start().unprepare(asked)  # also after a restart
    assert world.plugins["c"].calls[1:] == [("unprepare", ["c1"])]
    assert not world.start().holds_claims_of("p1")


async def test_a_driver_with_one_device_that_needs_the_call_gets_it(world: World) -> None:
    mixed = claim("c1", "a", "a")
    mixed["status"]["allocation"]["devices"]["results"][0]["skipNodeOperations"] = ["*"]
    world.add(mixed)
    await world.start().prepare(pod("p1", "c1"))
    assert world.calls == [("prepare", ["c1"])]


async def test_a_node_that_cannot_leave_out_calls_refuses_the_claim(world: World) -> None:
    world.add(skipping("c1", a=["*"]))
    with pytest.raises(ClaimError, match="DRAOptionalNodeOperations feature gate is disabled on kubelet"):
        await world.start(skips_operations=False).prepare(pod("p1", "c1"))
    assert not world.start().holds_claims_of("p1")


async def test_containers_get_the_devices_of_their_claims(world: World) -> None:
    world.add(claim("c1", "a"), claim("c2", "a"))
    manager = world.start()
    asked = pod("p1", "c1", "c2")
    asked["spec"]["containers"] = [
        {"name": "one", "resources": {"claims": [{"name": "c1"}]}},
        {"name": "both", "resources": {"claims": [{"name": "c1", "request": "r"}, {"name": "c2"}]}},
        {"name": "other", "resources": {"claims": [{"name": "c1", "request": "another"}]}},
        {"name": "none"},
    ]
    await manager.prepare(asked)
    found = [manager.cdi_devices(asked, c) for c in asked["spec"]["containers"]]
    assert found == [["a/x=c1"], ["a/x=c1", "a/x=c2"], [], []]


async def test_a_claim_shared_by_two_pods_is_prepared_once_and_unprepared_with_the_last(world: World) -> None:
    world.add(claim("c", "a", pods=["p1", "p2"]))
    manager = world.start()
    world.plugins["a"].pause = asyncio.Event()
    both = asyncio.gather(manager.prepare(pod("p1", "c")), manager.prepare(pod("p2", "c")))
    await asyncio.sleep(0.01)
    world.plugins["a"].pause.set()
    await both
    await manager.unprepare(pod("p1", "c"))
    assert world.calls == [("prepare", ["c"])]
    await manager.unprepare(pod("p2", "c"))
    assert world.calls == [("prepare", ["c"]), ("unprepare", ["c"])]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"reservedFor": []}, "pod pod-p1 (p1) is not allowed to use ResourceClaim c (uid-c)"),
        ({"allocation": None}, "ResourceClaim c: not allocated"),
    ],
)
async def test_a_pod_waits_for_its_claim_to_be_in_order(
    world: World, change: dict[str, Any], problem: str
) -> None:
    world.add(claim("c", "a"))
    good = world.claims["c"]
    world.claims["c"] = {**good, "status": {**good["status"], **change}}
    manager = world.start()
    with pytest.raises(ClaimError) as caught:
        await manager.prepare(pod("p1", "c"))
    assert str(caught.value) == f"prepare dynamic resources: {problem}"
    assert not manager.holds_claims_of("p1")
    world.claims["c"] = good
    await manager.prepare(pod("p1", "c"))


async def test_errors_name_missing_claims_and_drivers(world: World) -> None:
    manager = world.start()
    with pytest.raises(
        ClaimError, match=r'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'
    ):
        await manager.prepare(pod("p1", "c"))
    with pytest.raises(ClaimError, match='pod "ns/pod-p1": ResourceClaim not created yet'):
        missing = pod("p1", templates={"t": "x"})
        missing["status"] = {}
        await manager.prepare(missing)
    world.add(claim("c", "gone"))
    del world.plugins["gone"]
    with pytest.raises(ClaimError, match="DRA driver gone is not registered"):
        await manager.prepare(pod("p1", "c"))


async def test_a_generated_claim_must_belong_to_the_pod(world: World) -> None:
    world.add(claim("mine", "a", owner="p1"), claim("theirs", "a", owner="p2"))
    manager = world.start()
    await manager.prepare(pod("p1", templates={"t": "mine"}))
    with pytest.raises(ClaimError, match=r"was not created for Pod ns/pod-p1 \(Pod is not owner\)"):
        await manager.prepare(pod("p1", templates={"t": "theirs"}))


async def test_a_template_that_needs_no_claim_is_fine(world: World) -> None:
    await world.start().prepare(pod("p1", templates={"t": None}))
    assert world.calls == []


async def test_after_an_error_of_a_driver_nothing_counts_as_prepared(world: World) -> None:
    world.add(claim("c", "a"))
    plugin = world.plugins["a"]
    manager = world.start()
    plugin.errors["uid-c"] = "it is broken"
    with pytest.raises(ClaimError, match="NodePrepareResources failed for ResourceClaim c: it is broken"):
        await manager.prepare(pod("p1", "c"))
    plugin.errors.clear()
    plugin.silent_about.add("uid-c")
    with pytest.raises(ClaimError, match="NodePrepareResources skipped 1 ResourceClaims"):
        await manager.prepare(pod("p1", "c"))
    plugin.silent_about.clear()
    plugin.down = True
    with pytest.raises(ClaimError, match="NodePrepareResources: rpc error: code = Unavailable"):
        await manager.prepare(pod("p1", "c"))
    plugin.down = False
    assert manager.claims_in_use() == {"<any>": 0}
    await manager.prepare(pod("p1", "c"))
    assert manager.claims_in_use() == {"a": 1, "<any>": 1}


async def test_a_pod_cannot_end_while_its_driver_is_away(world: World) -> None:
    world.add(claim("c", "a"))
    manager = world.start()
    await manager.prepare(pod("p1", "c"))
    plugin = world.plugins.pop("a")
    with pytest.raises(ClaimError, match="unprepare dynamic resources: DRA driver a is not registered"):
        await manager.unprepare(pod("p1", "c"))
    assert manager.holds_claims_of("p1")
    world.plugins["a"] = plugin
    await manager.unprepare(pod("p1", "c"))
    assert (plugin.held, manager.holds_claims_of("p1")) == (set(), False)


async def test_a_claim_prepared_before_a_restart_is_not_prepared_again(world: World) -> None:
    world.add(claim("c", "a"))
    await world.start().prepare(pod("p1", "c"))
    again = world.start()
    await again.prepare(pod("p1", "c"))
    assert world.calls == [("prepare", ["c"])]
    assert again.cdi_devices(pod("p1", "c"), pod("p1", "c")["spec"]["containers"][0]) == ["a/x=c"]


async def test_a_claim_prepared_before_a_reboot_is_prepared_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add(claim("c", "a"))
    await world.start().prepare(pod("p1", "c"))
    monkeypatch.setattr("dray.kubelet_api.checkpoint.boot_id", lambda: "another start")
    await world.start().prepare(pod("p1", "c"))
    assert world.calls == [("prepare", ["c"])] * 2


async def test_claims_of_pods_that_are_gone_are_found_and_unprepared(world: World) -> None:
    world.add(claim("c", "a"), claim("d", "a", pods=["p2"]))
    manager = world.start()
    await manager.prepare(pod("p1", "c"))
    await manager.prepare(pod("p2", "d"))
    again = world.start()
    await again.reconcile(["p2"])
    assert world.calls[2:] == [("unprepare", ["c"])]
    assert again.holds_claims_of("p2")


async def test_an_old_claim_of_the_same_name_must_be_cleared_away_first(world: World) -> None:
    world.add(claim("c", "a"))
    manager = world.start()
    await manager.prepare(pod("p1", "c"))
    world.add(claim("c", "a", pods=["p2"], uid="newer"))
    with pytest.raises(
        ClaimError, match="old ResourceClaim with same name c and different UID uid-c still exists"
    ):
        await manager.prepare(pod("p2", "c"))
    await manager.reconcile([])
    await manager.prepare(pod("p2", "c"))


def test_the_checkpoint_has_the_kubelets_form(world: World) -> None:
    world.add(claim("c", "a"))
    asyncio.run(world.start().prepare(pod("p1", "c")))
    outer = json.loads((world.directory / "dra_manager_state").read_text())
    inner = json.loads(outer["Data"])
    assert (inner["kind"], inner["apiVersion"]) == ("DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1")
    [entry] = inner["ClaimInfoStateList"]
    assert entry["PodUIDs"] == {"p1": {}}
    assert entry["DriverState"]["a"]["Devices"] == [
        {
            "PoolName": "n",
            "DeviceName": "c-dev",
            "ShareID": None,
            "RequestNames": ["r"],
            "CDIDeviceIDs": ["a/x=c"],
        }
    ]


def test_a_damaged_checkpoint_is_refused(world: World) -> None:
    world.add(claim("c", "a"))
    asyncio.run(world.start().prepare(pod("p1", "c")))
    path = world.directory / "dra_manager_state"
    path.write_text(path.read_text().replace("c-dev", "d-dev"))
    with pytest.raises(CorruptCheckpoint):
        world.start()


class Crash(BaseException):
    """The process ends here."""


def crash_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def failpoint(reached: str) -> None:
        if reached == name:
            raise Crash(name)

    monkeypatch.setattr(manager_module, "failpoint", failpoint)


@pytest.mark.parametrize("where", ["node.prepare.enlisted", "node.prepare.called", "node.prepare.done"])
@pytest.mark.parametrize("pod_survives", [True, False])
async def test_a_crash_while_preparing_leaks_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str, pod_survives: bool
) -> None:
    world.add(claim("c", "a"))
    crash_at(monkeypatch, where)
    with pytest.raises(Crash):
        await world.start().prepare(pod("p1", "c"))
    monkeypatch.undo()
    again = world.start()
    if pod_survives:
        await again.prepare(pod("p1", "c"))
        assert world.plugins["a"].held == {"uid-c"}
        await again.unprepare(pod("p1", "c"))
    else:
        await again.reconcile([])
    assert (world.plugins["a"].held, again.holds_claims_of("p1")) == (set(), False)
    if where == "node.prepare.done" and pod_survives:
        assert world.calls == [("prepare", ["c"]), ("unprepare", ["c"])]


@pytest.mark.parametrize("where", ["node.unprepare.begun", "node.unprepare.called", "node.unprepare.done"])
async def test_a_crash_while_unpreparing_is_made_good(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    world.add(claim("c", "a"))
    manager = world.start()
    await manager.prepare(pod("p1", "c"))
    crash_at(monkeypatch, where)
    with pytest.raises(Crash):
        await manager.unprepare(pod("p1", "c"))
    monkeypatch.undo()
    again = world.start()
    await again.unprepare(pod("p1", "c"))
    assert (world.plugins["a"].held, again.holds_claims_of("p1")) == (set(), False)


async def test_extended_resources_reach_the_containers_that_asked(world: World) -> None:
    world.add(claim("ext", "a"))
    asked = {
        "metadata": {"namespace": "ns", "name": "pod-p1", "uid": "p1"},
        "spec": {
            "containers": [
                {"name": "main", "resources": {"requests": {"example.com/gpu": "1"}}},
                {"name": "o"},
            ]
        },
        "status": {
            "extendedResourceClaimStatus": {
                "resourceClaimName": "ext",
                "requestMappings": [
                    {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r"}
                ],
            }
        },
    }
    manager = world.start()
    await manager.prepare(asked)
    assert [manager.cdi_devices(asked, c) for c in asked["spec"]["containers"]] == [["a/x=ext"], []]


async def test_operations_are_measured_under_upstreams_names(world: World) -> None:
    world.add(claim("c", "a"))
    manager = world.start()
    await manager.prepare(pod("p1", "c"))
    with pytest.raises(ClaimError):
        await manager.prepare(pod("p9", "c"))
    text = world.metrics.text()
    assert (
        'dra_operations_duration_seconds_count{operation_name="PrepareResources",is_error="false"} 1' in text
    )
    assert (
        'dra_operations_duration_seconds_count{operation_name="PrepareResources",is_error="true"} 1' in text
    )
    assert 'dra_resource_claims_in_use{driver_name="<any>"} 1' in text


async def test_a_kubelet_without_the_gate_starts_pods_without_their_devices(world):
    manager = world.start(prepares=False)
    await manager.prepare(pod("p1", "missing"))
    assert manager.cdi_devices(pod("p1", "missing"), pod("p1", "missing")["spec"]["containers"][0]) == []
    await manager.unprepare(pod("p1", "missing"))
