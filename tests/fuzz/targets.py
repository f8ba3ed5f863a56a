"""One function per reader: it draws an input, reads it, and fails if the reader crashes instead of refusing it.

What a target may raise beside the refusals that its reader is meant for is a bug. ``MOST`` says how long one input may
take; an input that takes longer holds whoever reads it.
"""

from __future__ import annotations

import copy
import gc
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from dray.api import patch, protobuf, schema, selectors, yamldocs
from dray.api.errors import BadRequest, StatusError
from dray.api.schema import Decoded, Struct
from dray.cel import CompileError, EvaluationError, compiler
from dray.kubelet_api.services import DEVICE_PLUGIN, DRA_V1, HEALTH_V1ALPHA1, REGISTRATION
from dray.node.container.cdi import CdiCache, CdiError
from dray.node.deviceplugins.endpoint import DevicePluginEndpoint
from dray.node.deviceplugins.manager import DeviceError, DeviceManager
from dray.node.dra import grpc_versions
from dray.node.dra.claims import ClaimError
from tests.integration.server.test_fuzz import CLAIM, KINDS, POD, SLICE
from tests.integration.server.test_hostile_documents import Attacked, types_of
from tests.support.apiserver import make_server
from tests.support.cel import ENVIRONMENT, LIMIT
from tests.support.hostile_documents import Hostile
from tests.unit.node.dra.test_manager import World, claim, pod
from tests.unit.wire.test_server_connection_fuzz import CORPUS, mutated, outcome, split

#: Seconds of processor time for one input, as one turn of an event loop.
MOST: Final = 0.1
#: Inputs from another seed, before anything is measured: they load modules and make what is made once.
_WARM: Final = 20
#: Inputs between two collections of garbage.
_COLLECT: Final = 500

Step = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Target:
    """``start`` takes the draw and returns what is done again and again; ``steps`` is enough for a quick run."""

    name: str
    start: Callable[[Hostile], Awaitable[Step]]
    steps: int


def _bytes(rng: random.Random, data: bytes, pieces: tuple[bytes, ...] = ()) -> bytes:
    """The same with some bytes replaced, removed, repeated or inserted."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(4):
            case 0:
                found[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del found[at : at + rng.randrange(1, 20)]
            case 2:
                found[at:at] = found[max(0, at - rng.randrange(1, 40)) : at]
            case _:
                found[at:at] = rng.choice(pieces) if pieces else rng.randbytes(rng.randrange(1, 5))
    return bytes(found)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


async def http(hostile: Hostile) -> Step:
    """Requests as bytes, pipelined, damaged, and split anywhere: what is read does not depend on the segments."""

    async def step() -> None:
        rng = hostile.rng
        data = mutated(rng, b"".join(rng.choices(CORPUS, k=rng.randint(1, 4))))
        assert await outcome(split(rng, data)) == await outcome([data]), data

    return step


async def yaml(hostile: Hostile) -> Step:
    async def step() -> None:
        data = hostile.yaml(hostile.damaged(hostile.rng.choice((POD, CLAIM, SLICE))))
        try:
            yamldocs.load_document(
                _bytes(hostile.rng, data, (b"&a ", b"*a ", b"<<: ", b"[", b"{", b"- ", b"!!"))
            )
        except yamldocs.InvalidYAML as e:
            assert str(e)

    return step


def _struct(name: str) -> Struct:
    return schema.type_of(name)


_TYPES: Final[Mapping[str, Any]] = {
    "core/v1.Pod": POD,
    "resource/v1.ResourceClaim": CLAIM,
    "resource/v1.ResourceSlice": SLICE,
}


async def json_bytes(hostile: Hostile) -> Step:
    async def step() -> None:
        name = hostile.rng.choice(sorted(_TYPES))
        data = _bytes(hostile.rng, json.dumps(hostile.damaged(_TYPES[name])).encode(), (b'"', b"{", b"[", b"1e999", b"\\ud800", b"\x00"))  # fmt: skip
        try:
            found = schema.decode(_struct(name), data, strict=True)
        except BadRequest as e:
            assert e.message
        else:
            msgspec.json.encode(found.object)

    return step


async def protobuf_bytes(hostile: Hostile) -> Step:
    async def step() -> None:
        name = hostile.rng.choice(sorted(_TYPES))
        type_ = _struct(name)
        sound = protobuf.encode(type_, _TYPES[name])
        try:
            found = protobuf.decode(type_, _bytes(hostile.rng, sound))
            schema.normalise(type_, found)
            protobuf.unwrap(_bytes(hostile.rng, b"k8s\x00" + sound))
        except (protobuf.Malformed, BadRequest) as e:
            assert str(e)

    return step


async def selector_texts(hostile: Hostile) -> Step:
    async def step() -> None:
        text = hostile.selector()
        try:
            selectors.parse_label_selector(text).matches({"a": "b"})
        except ValueError as e:
            assert str(e)
        try:
            str(selectors.parse_field_selector(text))
        except ValueError as e:
            assert str(e)

    return step


async def patches(hostile: Hostile) -> Step:
    media = (patch.JSON, patch.MERGE, patch.STRATEGIC)

    async def step() -> None:
        name = hostile.rng.choice(sorted(_TYPES))
        type_, before = _struct(name), schema.decode(_struct(name), json.dumps(_TYPES[name]).encode()).object
        kept, kind = copy.deepcopy(before), hostile.rng.choice(media)
        change = hostile.json_patch(before) if kind == patch.JSON else hostile.damaged(before)

        def decode(document: Any) -> Decoded:
            return schema.decode(type_, json.dumps(document).encode(), strict=False)

        try:
            patch.apply_patch(kind, before, json.dumps(change).encode(), decode=decode, type_=type_)
        except StatusError as e:
            # Upstream answers a few mistakes of clients with a 500 that gives no reason.
            assert e.http_code < 500 or not e.status_reason, e
        assert before == kept, "the object that is patched was changed"

    return step


_CDI: Final = {
    "cdiVersion": "0.6.0",
    "kind": "example.com/gpu",
    "devices": [
        {
            "name": "a",
            "containerEdits": {
                "env": ["A=b"],
                "deviceNodes": [
                    {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "permissions": "rw"}
                ],
                "mounts": [{"hostPath": "/etc", "containerPath": "/x", "options": ["ro"]}],
                "hooks": [{"hookName": "createContainer", "path": "/bin/true", "args": ["a"]}],
            },
        }
    ],
    "containerEdits": {"env": ["B=c"]},
}


async def cdi_specs(hostile: Hostile) -> Step:
    """A broken spec concerns only those who name its devices, and they are told."""
    folder = TemporaryDirectory(prefix="fuzz-cdi-")
    directory = Path(folder.name)
    (directory / "sound.json").write_text(json.dumps({**_CDI, "kind": "example.com/sound"}))

    async def step() -> None:
        assert folder
        rng = hostile.rng
        data = json.dumps(hostile.damaged(_CDI)).encode()
        name = rng.choice(("odd.json", "odd.yaml"))
        (directory / name).write_bytes(data if rng.random() < 0.5 else _bytes(rng, data))
        cache = CdiCache([directory])
        assert cache.resolve(["example.com/sound=a"]).env
        try:
            cache.resolve(["example.com/gpu=a"])
        except CdiError as e:
            assert str(e)
        (directory / name).unlink()

    return step


_CEL: Final = (
    'device.driver == "x" && device.attributes["a.example.com"].n > 3', "[1, 2].all(x, x > 0) || size('abc') == 3",
    "{'a': 1}.exists(k, k == 'a') ? 1.5 : -2.0", "cel.bind(a, [1], a.map(x, x * 2)).size() == 1",
    "'a'.matches('^[a-z]+$') && semver('1.2.3').isGreaterThan(semver('1.0.0'))", "quantity('1Gi').add(quantity('1Mi')).sign() == 1",
)  # fmt: skip
_CEL_PARTS: Final = (
    b"(", b")", b"[", b"]", b"{", b"}", b"?", b":", b".", b",", b"!", b"-", b"&&", b"||", b" in ", b"==", b"'", b'"""', b"r'", b"b'", b"\\x", b"\\u12",
    b"9223372036854775808", b"1u", b"0x", b"1e309", b"null", b"true", b".all(", b"has(", b"x", b"dyn(", b"duration('1h')", b"%", b"/0", b"\x00", b"\xff",
)  # fmt: skip


async def cel(hostile: Hostile) -> Step:
    async def step() -> None:
        text = _text(_bytes(hostile.rng, hostile.rng.choice(_CEL).encode(), _CEL_PARTS))
        try:
            checked = compiler.check_text(text, ENVIRONMENT)
            compiler.max_cost(checked, ENVIRONMENT)
            compiler.program(checked, ENVIRONMENT).run({}, LIMIT)
        except (CompileError, EvaluationError) as e:
            assert str(e), text

    return step


_PLUGIN_ANSWERS: Final = {
    "GetPreferredAllocation": "PreferredAllocationResponse",
    "Allocate": "AllocateResponse",
    "PreStartContainer": "PreStartContainerResponse",
}
_TEXTS: Final = (
    "", "a", "uid-c", "example.com/gpu=a", "../..", "x" * 5000, "ü\x00", "0", "d.example.com", "Healthy", "/dev/null", "9" * 5000,
)  # fmt: skip


def _message(rng: random.Random, kind: Any, depth: int = 4) -> Any:
    """A message of any kind, filled at random."""
    made = kind()
    for field in made.DESCRIPTOR.fields:
        if rng.random() < 0.3:
            continue
        many, value = field.is_repeated, None
        if field.message_type is not None:
            if field.message_type.GetOptions().map_entry:
                entries = getattr(made, field.name)
                for _ in range(rng.randrange(3)):
                    key = rng.choice(_TEXTS)
                    if field.message_type.fields_by_name["value"].message_type is not None:
                        entries[key].CopyFrom(_message(rng, type(entries[key]), depth - 1))
                    else:
                        entries[key] = rng.choice(_TEXTS)
            elif many and depth:
                for _ in range(rng.randrange(3)):
                    added = getattr(made, field.name).add()
                    added.CopyFrom(_message(rng, type(added), depth - 1))
            elif depth:
                getattr(made, field.name).CopyFrom(_message(rng, type(getattr(made, field.name)), depth - 1))
            continue
        if field.type == field.TYPE_STRING:
            value = rng.choice(_TEXTS)
        elif field.type == field.TYPE_BOOL:
            value = rng.random() < 0.5
        elif field.type == field.TYPE_ENUM:
            value = rng.randrange(5)
        elif field.type != field.TYPE_BYTES:
            value = rng.choice((0, 1, 7, 2**31 - 1))
        if value is not None and many:
            getattr(made, field.name).extend([value] * rng.randrange(3))
        elif value is not None:
            setattr(made, field.name, value)
    return made


async def kubelet_answers(hostile: Hostile) -> Step:
    """What drivers answer: the node's claims are prepared, or the pod is told why not."""
    folder = TemporaryDirectory(prefix="fuzz-node-")
    count = 0

    class Driver:
        driver = "d.example.com"

        async def prepare(self, claims: Any) -> Any:
            return await grpc_versions.prepare(DRA_V1, self._answer, claims)

        async def unprepare(self, claims: Any) -> Any:
            return await grpc_versions.unprepare(DRA_V1, self._answer, claims)

        async def _answer(self, method: str, request: Any) -> Any:
            kind = getattr(DRA_V1.module, f"{method}Response")
            answer = _message(hostile.rng, kind)
            if hostile.rng.random() < 0.7:  # about the claim that was asked for
                for asked in request.claims:
                    answer.claims[asked.uid].CopyFrom(_message(hostile.rng, type(answer.claims[asked.uid])))
                    if hostile.rng.random() < 0.5:
                        answer.claims[asked.uid].error = ""
            return kind.FromString(answer.SerializeToString())

    async def step() -> None:
        nonlocal count
        count += 1
        directory = Path(folder.name) / str(count % 50)
        directory.mkdir(exist_ok=True)
        world = World(directory)
        world.add(claim("c", "d.example.com"))
        world.plugins["d.example.com"] = Driver()  # type: ignore[assignment]
        manager, asked = world.start(), pod("p1", "c")
        for work in (manager.prepare, manager.unprepare):
            try:
                await work(asked)
                manager.cdi_devices(asked, asked["spec"]["containers"][0])
            except ClaimError as e:
                assert str(e)
        world.start()  # the checkpoint can be read again
        for service, name in ((HEALTH_V1ALPHA1, "NodeWatchResourcesResponse"), (REGISTRATION, "PluginInfo")):
            kind = getattr(service.module, name)
            kind.FromString(_message(hostile.rng, kind).SerializeToString())

    return step


async def device_plugin_answers(hostile: Hostile) -> Step:
    """What device plugins say about their devices and answer when some are taken: the pod gets them, or is told why not."""
    resource, folder = "example.com/fuzzed", TemporaryDirectory(prefix="fuzz-plugins-")
    module = DEVICE_PLUGIN.module

    class Plugin:
        """Any method answers a message of its own kind, filled at random."""

        def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
            async def answer(request: Any, timeout: float) -> Any:
                kind = getattr(module, _PLUGIN_ANSWERS[method])
                made = _message(hostile.rng, kind)
                return kind.FromString(made.SerializeToString())

            return answer

    async def step() -> None:
        manager = DeviceManager(Path(folder.name))
        endpoint = manager._endpoints[resource] = DevicePluginEndpoint(resource, Path("plugin.sock"))
        endpoint._plugin, endpoint.connected, endpoint.prefers, endpoint.wants_start = (
            Plugin(),
            True,
            True,
            True,
        )
        said = _message(hostile.rng, module.ListAndWatchResponse)
        for device in said.devices:
            device.health = hostile.rng.choice((device.health, "Healthy", "Healthy"))
        endpoint.took(said)
        asked: Any = pod("p1", "c")
        container = asked["spec"]["containers"][0]
        container["resources"] = {"limits": {resource: hostile.rng.choice(("0", "1", "2", "9" * 500))}}
        try:
            await manager.allocate(asked)
            await manager.before_start(asked, container["name"])
            manager.of_container(asked, container["name"])
        except DeviceError as e:
            assert str(e)
        assert set(manager.capacity()) == {resource}
        manager.health(asked, container["name"])
        DeviceManager(Path(folder.name)).release_gone(set())  # what was kept can be read again

    return step


async def manifests(hostile: Hostile) -> Step:
    """Documents of every kind that is served, in every version, sent in one way or another."""
    server = await make_server(served=None)
    it, types = Attacked(server), types_of(server)
    for path, sound in KINDS:
        await it.send("POST", path, sound)

    async def step() -> None:
        rng = hostile.rng
        path, typed, type_ = rng.choice(types)
        document = hostile.document(type_)
        if isinstance(document, dict):
            document |= typed
        if rng.random() < 0.3:
            path, document = rng.choice(KINDS)
            for _ in range(rng.randrange(1, 3)):
                document = hostile.damaged(document)
        at = f"{path}/a{rng.choice(('', '', '/status', '/scale'))}"
        match rng.randrange(7):
            case 0:
                await it.send("POST", path, document)
            case 1:
                await it.send("POST", path, hostile.yaml(document), "application/yaml")
            case 2:
                await it.send("PUT", at, document)
            case 3:
                await it.send("PATCH", at, hostile.json_patch(document), "application/json-patch+json")
            case 4:
                await it.send("PATCH", at, document, "application/merge-patch+json")
            case 5:
                await it.send("PATCH", at, document, "application/strategic-merge-patch+json")
            case _:
                apply = "application/apply-patch+yaml"
                await it.send("PATCH", at, document, apply, fieldManager=rng.choice("fm"), force="true")

    return step


TARGETS: Final = (
    Target("http", http, 150),
    Target("yaml", yaml, 300),
    Target("json", json_bytes, 600),
    Target("protobuf", protobuf_bytes, 300),
    Target("selectors", selector_texts, 2000),
    Target("patches", patches, 300),
    Target("cdi", cdi_specs, 150),
    Target("cel", cel, 200),
    Target("kubelet-answers", kubelet_answers, 100),
    Target("device-plugin-answers", device_plugin_answers, 150),
    Target("manifests", manifests, 400),
)


async def run(target: Target, *, seed: int, steps: int, seconds: float = float("inf")) -> int:
    """So many inputs, or as many as fit into the time. A failure names the seed and the number of its input."""
    warm = await target.start(Hostile(seed + 1))
    for _ in range(_WARM):
        await warm()
    step = await target.start(Hostile(seed))
    deadline = time.monotonic() + seconds
    done = 0
    with _collector_aside():
        while done < steps and time.monotonic() < deadline:
            began = time.thread_time()
            try:
                await step()
            except Exception as e:
                e.add_note(f"target {target.name}, seed {seed}, input {done}")
                raise
            took = time.thread_time() - began
            assert took <= MOST, f"target {target.name}, seed {seed}, input {done} takes {took:.3f} s"
            done += 1
            if not done % _COLLECT:
                gc.collect()
    return done


@contextmanager
def _collector_aside() -> Iterator[None]:
    """Garbage is collected between inputs: what the tests themselves keep is no part of what an input costs."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
