"""Preparing claims: once, wholly, and so that a crash at any point does no harm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import NotFound
from dray.driver import cdi, metadata, preparation
from dray.driver.base import Driver
from dray.driver.checkpoint import Checkpoint, CorruptCheckpoint
from dray.driver.metadata import Writer
from dray.driver.model import Allocated, Claim, ClaimRef, Edits, Metadata, Prepared
from dray.driver.preparation import Preparer

DRIVER = "gpu.example.com"


def claim(uid: str, *devices: str, **changes: Any) -> dict[str, Any]:
    results = [{"request": "r", "driver": DRIVER, "pool": "las1", "device": d} for d in devices]
    status: dict[str, Any] = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"uid": "pod"}],
    }
    return {
        "metadata": {"namespace": "ns", "name": f"claim-{uid}", "uid": uid},
        "status": {**status, **changes},
    }


def ref(uid: str) -> ClaimRef:
    return ClaimRef("ns", f"claim-{uid}", uid)


class Hardware:
    """Outlives the driver: what was really done to devices. Doing it twice without undoing it is an error."""

    def __init__(self) -> None:
        self.in_use: dict[str, str] = {}
        self.prepared = 0
        self.unprepared = 0


class TestDriver(Driver):
    __test__ = False
    name = DRIVER

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self.broken: set[str] = set()

    async def prepare(self, claim: Claim) -> Sequence[Prepared]:
        for device in claim.devices:
            if device.name in self.broken:
                raise RuntimeError(f"{device.name} is broken")
            assert device.name not in self.hardware.in_use, "prepared twice without unprepare"
            self.hardware.in_use[device.name] = claim.ref.uid
        self.hardware.prepared += 1
        return await super().prepare(claim)

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        return Edits(env={"GPU": device.name})

    async def unprepare(self, claim: ClaimRef) -> None:
        self.hardware.in_use = {d: c for d, c in self.hardware.in_use.items() if c != claim.uid}
        self.hardware.unprepared += 1


class World:
    """A node's directories and the API server, around drivers that come and go."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.claims: dict[str, dict[str, Any]] = {}
        self.hardware = Hardware()

    def add(self, *claims: dict[str, Any]) -> list[ClaimRef]:
        for c in claims:
            self.claims[c["metadata"]["name"]] = c
        return [ref(c["metadata"]["uid"]) for c in claims]

    async def get(self, namespace: str, name: str) -> dict[str, Any]:
        if name not in self.claims:
            raise NotFound(f'resourceclaims.resource.k8s.io "{name}" not found')
        return self.claims[name]

    def start(self, *, files: bool = False) -> tuple[TestDriver, Preparer]:
        driver = TestDriver(self.hardware)
        cdi_dir = self.directory / "cdi"
        preparer = Preparer(
            driver,
            claims=self.get,
            checkpoint=Checkpoint(self.directory / "checkpoint.json"),
            specs=cdi.Specs(cdi_dir, cdi.Kind.of(DRIVER)),
            lock_file=self.directory / "lock",
            files=Writer(driver=DRIVER, data_dir=self.directory, cdi_dir=cdi_dir) if files else None,
        )
        return driver, preparer

    @property
    def specs(self) -> set[str]:
        return cdi.Specs(self.directory / "cdi", cdi.Kind.of(DRIVER)).names()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_prepared_claim_has_a_spec_and_an_answer_that_names_it(world: World) -> None:
    _, preparer = world.start()
    refs = world.add(claim("u1", "gpu-0", "gpu-1"))
    answer = (await preparer.prepare(refs))["u1"]
    assert answer.error == ""
    assert [d.id.device for d in answer.devices] == ["gpu-0", "gpu-1"]
    assert answer.devices[1].cdi_ids == ("k8s.gpu.example.com/gpu=u1-gpu-1", "k8s.gpu.example.com/gpu=common")
    spec = json.loads((world.directory / "cdi" / "k8s.gpu.example.com-gpu_u1.json").read_text())
    assert spec["kind"] == "k8s.gpu.example.com/gpu"
    assert spec["devices"][1] == {"name": "u1-gpu-1", "containerEdits": {"env": ["GPU=gpu-1"]}}


async def test_preparing_again_gives_the_same_answer_without_calling_the_driver(world: World) -> None:
    _, preparer = world.start()
    refs = world.add(claim("u1", "gpu-0"))
    first = await preparer.prepare(refs)
    _, later = world.start()
    assert await later.prepare(refs) == first
    assert world.hardware.prepared == 1


async def test_a_spec_that_vanished_is_restored(world: World) -> None:
    _, preparer = world.start()
    refs = world.add(claim("u1", "gpu-0"))
    await preparer.prepare(refs)
    (world.directory / "cdi" / "k8s.gpu.example.com-gpu_u1.json").unlink()
    await preparer.prepare(refs)
    assert world.specs == {"u1"}


async def test_unprepare_removes_spec_and_checkpoint_entry_and_may_be_repeated(world: World) -> None:
    _, preparer = world.start()
    refs = world.add(claim("u1", "gpu-0"))
    await preparer.prepare(refs)
    assert await preparer.unprepare(refs) == {"u1": ""}
    assert await preparer.unprepare(refs) == {"u1": ""}
    assert (world.specs, world.hardware.in_use, world.hardware.unprepared) == (set(), {}, 1)


async def test_each_claim_of_a_call_succeeds_or_fails_for_itself(world: World) -> None:
    driver, preparer = world.start()
    driver.broken = {"gpu-1"}
    refs = world.add(claim("u1", "gpu-0"), claim("u2", "gpu-1"), claim("u3", "gpu-2", reservedFor=[]))
    answers = await preparer.prepare([*refs, ref("missing")])
    assert answers["u1"].error == ""
    assert answers["u2"].error == "prepare claim ns/claim-u2: gpu-1 is broken"
    assert answers["u3"].error == "claim ns/claim-u3 is not reserved for any consumer"
    assert answers["missing"].error == (
        'retrieve claim ns/claim-missing: resourceclaims.resource.k8s.io "claim-missing" not found'
    )
    assert world.specs == {"u1"}
    driver.broken = set()
    assert (await preparer.prepare([ref("u2")]))["u2"].error == ""


async def test_a_replaced_or_unallocated_claim_is_refused(world: World) -> None:
    _, preparer = world.start()
    world.add(claim("u1", "gpu-0"), claim("u2", allocation=None))
    answers = await preparer.prepare([ClaimRef("ns", "claim-u1", "older"), ref("u2")])
    assert answers["older"].error == "claim ns/claim-u1 got replaced"
    assert answers["u2"].error == "claim ns/claim-u2 not allocated"


async def test_a_device_is_never_prepared_for_two_claims(world: World) -> None:
    _, preparer = world.start()
    refs = world.add(claim("u1", "gpu-0"), claim("u2", "gpu-0"))
    answers = await preparer.prepare(refs)
    assert answers["u1"].error == ""
    assert answers["u2"].error == "device gpu-0 of pool las1 is prepared for claim ns/claim-u1"


async def test_administrators_and_shares_may_use_a_device_that_is_in_use(world: World) -> None:
    class Careless(TestDriver):
        async def prepare(self, claim: Claim) -> Sequence[Prepared]:
            return [Prepared(device=d, edits=Edits()) for d in claim.devices]

    _, preparer = world.start()
    preparer.driver = Careless(world.hardware)
    admin, share = claim("u2", "gpu-0"), claim("u3", "gpu-0")
    admin["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    share["status"]["allocation"]["devices"]["results"][0]["shareID"] = "s1"
    answers = await preparer.prepare(world.add(claim("u1", "gpu-0"), admin, share))
    assert [a.error for a in answers.values()] == ["", "", ""]
    assert answers["u3"].devices[0].cdi_ids[0].endswith("=u3-gpu-0-s1")


class Crash(BaseException):
    """The process ends here."""


POINTS = ["prepare.intent", "prepare.driver", "prepare.spec", "prepare.done"]
UNDO_POINTS = ["unprepare.intent", "unprepare.driver", "unprepare.done"]


def crash_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def failpoint(reached: str) -> None:
        if reached == name:
            raise Crash(name)

    monkeypatch.setattr(preparation, "failpoint", failpoint)


@pytest.mark.parametrize("where", POINTS)
async def test_after_a_crash_while_preparing_the_claim_can_be_prepared(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    refs = world.add(claim("u1", "gpu-0"), claim("u2", "gpu-1"))
    crash_at(monkeypatch, where)
    _, preparer = world.start()
    with pytest.raises(Crash):
        await preparer.prepare(refs)
    monkeypatch.undo()
    _, again = world.start()
    answers = await again.prepare(refs)
    assert [a.error for a in answers.values()] == ["", ""]
    assert world.hardware.in_use == {"gpu-0": "u1", "gpu-1": "u2"}
    assert world.specs == {"u1", "u2"}


@pytest.mark.parametrize("where", POINTS)
async def test_after_a_crash_while_preparing_the_claim_can_be_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    refs = world.add(claim("u1", "gpu-0"))
    crash_at(monkeypatch, where)
    _, preparer = world.start()
    with pytest.raises(Crash):
        await preparer.prepare(refs)
    monkeypatch.undo()
    _, again = world.start()
    assert await again.unprepare(refs) == {"u1": ""}
    assert (world.hardware.in_use, world.specs) == ({}, set())
    # The device is free for others.
    assert (await again.prepare(world.add(claim("u2", "gpu-0"))))["u2"].error == ""


@pytest.mark.parametrize("where", UNDO_POINTS)
async def test_after_a_crash_while_unpreparing_nothing_is_taken_for_prepared(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    refs = world.add(claim("u1", "gpu-0"))
    _, preparer = world.start()
    await preparer.prepare(refs)
    crash_at(monkeypatch, where)
    with pytest.raises(Crash):
        await preparer.unprepare(refs)
    monkeypatch.undo()
    _, again = world.start()
    answers = await again.prepare(refs)
    assert answers["u1"].error == ""
    assert world.hardware.in_use == {"gpu-0": "u1"}
    assert world.hardware.prepared == 2


async def test_a_device_that_cannot_be_unprepared_is_not_prepared_for_another_claim(world: World) -> None:
    class Stuck(TestDriver):
        async def unprepare(self, claim: ClaimRef) -> None:
            raise RuntimeError("it does not let go")

    refs = world.add(claim("u1", "gpu-0"), claim("u2", "gpu-0"))
    _, preparer = world.start()
    await preparer.prepare(refs[:1])
    preparer.driver = Stuck(world.hardware)
    assert await preparer.unprepare(refs[:1]) == {"u1": "unprepare claim ns/claim-u1: it does not let go"}
    assert "is prepared for claim ns/claim-u1" in (await preparer.prepare(refs[1:]))["u2"].error


async def test_a_checkpoint_that_was_tampered_with_is_refused(world: World) -> None:
    _, preparer = world.start()
    await preparer.prepare(world.add(claim("u1", "gpu-0")))
    path = world.directory / "checkpoint.json"
    path.write_text(path.read_text().replace("gpu-0", "gpu-1"))
    with pytest.raises(CorruptCheckpoint):
        await preparer.unprepare([ref("u1")])


async def test_after_a_reboot_claims_are_prepared_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = world.add(claim("u1", "gpu-0"))
    _, preparer = world.start()
    await preparer.prepare(refs)
    monkeypatch.setattr("dray.kubelet_api.checkpoint.boot_id", lambda: "another start")
    world.hardware.in_use.clear()
    assert (await preparer.prepare(refs))["u1"].error == ""
    assert world.hardware.in_use == {"gpu-0": "u1"}


async def test_metadata_files_come_with_the_first_device_of_a_request(world: World) -> None:
    class Describing(TestDriver):
        async def prepare(self, claim: Claim) -> Sequence[Prepared]:
            known = Metadata(attributes={"model": "M"})
            return [Prepared(device=d, edits=Edits(), metadata=known) for d in claim.devices]

    _, preparer = world.start(files=True)
    preparer.driver = Describing(world.hardware)
    made = claim("u1", "gpu-0", "gpu-1")
    made["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    answer = (await preparer.prepare(world.add(made)))["u1"]
    assert answer.devices[0].cdi_ids[-1] == "gpu.example.com/metadata=u1_r"
    assert "metadata" not in answer.devices[1].cdi_ids[-1]
    spec = json.loads((world.directory / "cdi" / "gpu.example.com_metadata_u1_r.json").read_text())
    [mount] = spec["devices"][0]["containerEdits"]["mounts"]
    assert mount["containerPath"] == (
        "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/gpu/r/gpu.example.com-metadata.json"
    )
    document, older = metadata.read(Path(mount["hostPath"]).read_text())
    assert document["apiVersion"] == "metadata.resource.k8s.io/v1beta1"
    assert older == {**document, "apiVersion": "metadata.resource.k8s.io/v1alpha1"}
    assert document["podClaimName"] == "gpu"
    assert document["requests"][0]["devices"][1] == {
        "driver": DRIVER,
        "pool": "las1",
        "name": "gpu-1",
        "attributes": {"model": {"string": "M"}},
    }
    await preparer.unprepare([ref("u1")])
    assert not Path(mount["hostPath"]).exists()
    assert list((world.directory / "cdi").iterdir()) == []
