"""What the node agent relies on, shown for every runtime. ``cri`` runs where DRAY_TEST_CRI names a socket and an image
that has a shell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dray.runtimes.interface import (
    ContainerConfig,
    ContainerStatus,
    DeviceNode,
    Edits,
    Mount,
    Output,
    Runtime,
    RuntimeFailure,
    SandboxConfig,
    State,
)
from dray.runtimes.logs import LogOptions, read
from dray.runtimes.process.runtime import ProcessRuntime
from dray.runtimes.simulated import PREFIX, SimulatedRuntime

CRI = os.environ.get("DRAY_TEST_CRI", "")  # /path/to/containerd.sock,image


@asynccontextmanager
async def running(kind: str, directory: Path) -> AsyncIterator[Runtime]:
    runtime: Any
    if kind == "simulated":
        runtime = SimulatedRuntime()
    elif kind == "process":
        runtime = ProcessRuntime(directory / "runtime")
    else:
        from dray.runtimes.cri.runtime import CriRuntime

        runtime = CriRuntime(Path(CRI.partition(",")[0]))
    await runtime.start()
    try:
        yield runtime
    finally:
        for sandbox in (await runtime.list()).sandboxes:
            await runtime.remove_sandbox(sandbox.id)
        await runtime.close(keep=False)


def _kinds(*kinds: str) -> pytest.MarkDecorator:
    # containerd joins when DRAY_TEST_CRI names one, as tests/integration/node/test_containers.py does.
    return pytest.mark.parametrize("kind", [k for k in kinds if k != "cri" or CRI])


every_runtime = _kinds("simulated", "process", "cri")
real_runtimes = _kinds("process", "cri")


def scene(kind: str, directory: Path, play: Callable[[Runtime], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(kind, directory) as runtime:
            await play(runtime)

    asyncio.run(run())


def pod(directory: Path, **changes: Any) -> SandboxConfig:
    defaults: dict[str, Any] = {
        "uid": os.urandom(8).hex(),
        "name": "pod",
        "namespace": "ns",
        "hostname": "pod",
        "host_network": True,
        "log_directory": directory / "logs",
    }
    (directory / "logs").mkdir(exist_ok=True)
    return SandboxConfig(**{**defaults, **changes})


def container(directory: Path, *command: str, **changes: Any) -> ContainerConfig:
    defaults: dict[str, Any] = {
        "name": "main",
        "image": CRI.partition(",")[2] or "anything",
        "command": command,
        "log_path": directory / "logs" / "main.log",
    }
    return ContainerConfig(**{**defaults, **changes})


def shell(directory: Path, script: str, **changes: Any) -> ContainerConfig:
    return container(directory, "sh", "-c", script, **changes)


async def start(runtime: Runtime, directory: Path, config: ContainerConfig | None = None) -> ContainerStatus:
    """A container that runs, in a pod of its own; it sleeps unless told otherwise."""
    sandbox = await runtime.run_sandbox(pod(directory))
    created = await runtime.create_container(sandbox.id, config or container(directory, "sleep", "1000"))
    await runtime.start_container(created.id)
    return created


async def status_of(runtime: Runtime, container: str) -> ContainerStatus:
    [found] = [c for c in (await runtime.list()).containers if c.id == container]
    return found


async def run_to_end(runtime: Runtime, sandbox: str, config: ContainerConfig) -> ContainerStatus:
    created = await runtime.create_container(sandbox, config)
    changes = runtime.container_events()
    ended = asyncio.ensure_future(_end_of(changes, created.id))
    await asyncio.sleep(0)
    await runtime.start_container(created.id)
    return await asyncio.wait_for(ended, 20)


async def _end_of(changes: AsyncIterator[ContainerStatus], container: str) -> ContainerStatus:
    async for status in changes:
        if status.id == container and status.state is State.EXITED:
            return status
    raise AssertionError("no more changes")


async def log_of(status: ContainerStatus) -> bytes:
    return b"".join([piece async for piece in read(status.log_path, LogOptions())])


@every_runtime
def test_a_container_goes_from_created_to_running_to_exited(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        created = await runtime.create_container(sandbox.id, container(tmp_path, "sleep", "1000"))
        assert created.state is State.CREATED
        started = await runtime.start_container(created.id)
        assert started.state is State.RUNNING
        assert started.started_at >= created.created_at
        await runtime.stop_container(created.id, grace=0)
        listed = await status_of(runtime, created.id)
        assert listed.state is State.EXITED
        assert listed.exit_code != 0
        assert listed.finished_at >= listed.started_at

    scene(kind, tmp_path, play)


@every_runtime
def test_listing_names_pod_container_and_attempt(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        config = pod(tmp_path)
        sandbox = await runtime.run_sandbox(config)
        created = await runtime.create_container(sandbox.id, container(tmp_path, "sleep", "1000", attempt=3))
        listing = await runtime.list()
        assert [(s.pod_uid, s.name, s.namespace) for s in listing.sandboxes] == [(config.uid, "pod", "ns")]
        assert [(c.id, c.pod_uid, c.name, c.attempt) for c in listing.containers] == [
            (created.id, config.uid, "main", 3)
        ]

    scene(kind, tmp_path, play)


@every_runtime
def test_removing_a_sandbox_ends_its_containers_and_removing_it_again_is_no_error(
    kind: str, tmp_path: Path
) -> None:
    async def play(runtime: Runtime) -> None:
        started = await start(runtime, tmp_path)
        await runtime.remove_sandbox(started.sandbox)
        await runtime.remove_sandbox(started.sandbox)
        assert (await runtime.list()).containers == []

    scene(kind, tmp_path, play)


@every_runtime
def test_stopping_what_has_ended_or_never_was_is_no_error(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        started = await start(runtime, tmp_path)
        await runtime.stop_container(started.id, grace=0)
        await runtime.stop_container(started.id, grace=0)
        await runtime.remove_container(started.id)
        await runtime.remove_container(started.id)

    scene(kind, tmp_path, play)


def test_a_simulated_container_follows_the_pods_annotations(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        annotations = {PREFIX + "run-for": "0.001", PREFIX + "exit-code.main": "7"}
        sandbox = await runtime.run_sandbox(pod(tmp_path, annotations=annotations))
        assert (await run_to_end(runtime, sandbox.id, container(tmp_path))).exit_code == 7

    scene("simulated", tmp_path, play)


@real_runtimes
def test_exit_code_and_both_streams_are_kept(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        status = await run_to_end(
            runtime, sandbox.id, shell(tmp_path, "echo out; echo err >&2; printf end; exit 3")
        )
        assert (status.exit_code, status.reason) == (3, "Error")
        text = await log_of(status)
        # The two streams meet in no particular order, and the last piece has no end of line.
        assert sorted(text.replace(b"\n", b" ").replace(b"end", b"end ").split()) == [b"end", b"err", b"out"]

    scene(kind, tmp_path, play)


@real_runtimes
def test_environment_mounts_and_devices_reach_the_container(kind: str, tmp_path: Path) -> None:
    source = tmp_path / "given"
    source.mkdir()
    (source / "file").write_text("from the host")
    mounts = (Mount(source=str(source), target="/var/run/some/where", read_only=True),)

    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        script = "echo $COLOR $GPU; cat /var/run/some/where/file; echo; touch /var/run/some/where/new 2>/dev/null || echo read-only"
        edits = Edits(env=(("GPU", "gpu-0"),)) if not runtime.capabilities.resolves_cdi else Edits()
        config = shell(
            tmp_path,
            script,
            env=(("COLOR", "black"),) if edits.env else (("COLOR", "black"), ("GPU", "gpu-0")),
        )
        config = ContainerConfig(
            **{f: getattr(config, f) for f in config.__slots__} | {"mounts": mounts, "edits": edits}
        )
        status = await run_to_end(runtime, sandbox.id, config)
        lines = (await log_of(status)).splitlines()
        assert lines[:2] == [b"black gpu-0", b"from the host"]
        assert lines[-1] == b"read-only"

    scene(kind, tmp_path, play)


@real_runtimes
def test_what_a_container_writes_stays_in_the_container(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        await run_to_end(runtime, sandbox.id, shell(tmp_path, "echo x > /left-behind; ls /left-behind"))
        assert not Path("/left-behind").exists()

    scene(kind, tmp_path, play)


@real_runtimes
def test_a_container_may_clean_up_within_its_grace_period(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        script = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
        started = await start(runtime, tmp_path, shell(tmp_path, script))
        follow = read(started.log_path, LogOptions(follow=True), ended=lambda: False)
        assert await anext(follow) == b"ready\n"
        await runtime.stop_container(started.id, grace=10)
        assert (await status_of(runtime, started.id)).exit_code == 5
        assert b"bye" in await log_of(started)

    scene(kind, tmp_path, play)


@real_runtimes
def test_a_container_that_ignores_sigterm_is_killed(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        started = await start(
            runtime, tmp_path, shell(tmp_path, "trap '' TERM; while :; do sleep 0.05; done")
        )
        await runtime.stop_container(started.id, grace=0.1)
        assert (await status_of(runtime, started.id)).exit_code == 137

    scene(kind, tmp_path, play)


@real_runtimes
def test_a_command_that_is_not_there_is_a_failure_with_a_reason(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        created = await runtime.create_container(sandbox.id, container(tmp_path, "no-such-command"))
        with pytest.raises(RuntimeFailure, match="executable file not found") as failure:
            await runtime.start_container(created.id)
        assert failure.value.reason == "StartError"

    scene(kind, tmp_path, play)


@real_runtimes
def test_commands_run_inside_and_answer_with_code_and_output(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        asked = container(tmp_path, "sleep", "1000", env=(("WHO", "me"),))
        started = await start(runtime, tmp_path, asked)
        result = await runtime.exec_sync(
            started.id, ["sh", "-c", "echo $WHO; echo no >&2; exit 4"], timeout=10
        )
        assert result == (4, b"me\n", b"no\n")
        with pytest.raises(TimeoutError):
            await runtime.exec_sync(started.id, ["sleep", "100"], timeout=0.2)

    scene(kind, tmp_path, play)


@real_runtimes
def test_a_session_carries_input_and_output(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        started = await start(runtime, tmp_path)
        session = await runtime.exec(started.id, ["sh", "-c", "head -c 10; exit 6"], tty=False, stdin=True)
        await session.write(b"over there")
        pieces = [piece async for piece in session.output()]
        assert pieces == [Output("stdout", b"over there")]
        assert await session.wait() == 6
        await session.close()

    scene(kind, tmp_path, play)


@real_runtimes
def test_the_end_of_the_input_reaches_the_command(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        started = await start(runtime, tmp_path)
        session = await runtime.exec(started.id, ["sh", "-c", "cat; exit 6"], tty=False, stdin=True)
        await session.write(b"over ")
        await session.write(b"there")
        await session.close_input()
        assert b"".join([piece.data async for piece in session.output()]) == b"over there"
        assert await session.wait() == 6
        await session.close()

    scene(kind, tmp_path, play)


@real_runtimes
def test_an_open_port_of_a_pod_can_be_reached_and_a_closed_one_fails(kind: str, tmp_path: Path) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readexactly(5))
        writer.close()

    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))  # on the host's network, as this test is
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = await runtime.port_forward(sandbox.id, port)
        await connection.send(b"there")
        assert b"".join([data async for data in connection.received()]) == b"hello there"
        await connection.close()
        server.close()
        with pytest.raises((RuntimeFailure, OSError), match=str(port)):
            refused = await runtime.port_forward(sandbox.id, port)
            assert not [data async for data in refused.received()]

    scene(kind, tmp_path, play)


@real_runtimes
def test_a_session_with_a_terminal_knows_its_size(kind: str, tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        started = await start(runtime, tmp_path)
        script = 'read go; while [ "$(stty size 2>&1)" != "11 22" ]; do sleep 0.05; done; echo as told'
        session = await runtime.exec(started.id, ["sh", "-c", script], tty=True, stdin=True)
        await session.resize(rows=11, columns=22)
        await session.write(b"now\n")
        text = b"".join([piece.data async for piece in session.output()])
        assert b"as told" in text
        assert await session.wait() == 0
        await session.close()

    scene(kind, tmp_path, play)


@real_runtimes
def test_a_terminal_has_a_name_in_the_container(kind: str, tmp_path: Path) -> None:
    """Programs such as screen, tmux or gpg open their terminal by it."""

    async def play(runtime: Runtime) -> None:
        started = await start(runtime, tmp_path)
        session = await runtime.exec(
            started.id, ["sh", "-c", "tty; echo by name > $(tty)"], tty=True, stdin=True
        )
        text = b"".join([piece.data async for piece in session.output()])
        assert text.split() == [b"/dev/pts/0", b"by", b"name"]
        await session.close()
        script = "read go; tty; echo done by $go"
        own = await start(runtime, tmp_path, shell(tmp_path, script, tty=True, stdin=True, name="own"))
        attached = await runtime.attach(own.id, tty=True, stdin=True)
        await attached.write(b"me\n")
        said = b""
        async for piece in attached.output():
            said += piece.data
            if b"done by me" in said:
                break
        assert b"/dev/pts/0" in said
        await attached.close()

    scene(kind, tmp_path, play)


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes of one's own need root")
def test_input_that_a_container_does_not_read_holds_up_no_other_container(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        deaf = await start(runtime, tmp_path, container(tmp_path, "sleep", "1000", stdin=True))
        attached = await runtime.attach(deaf.id, tty=False, stdin=True)
        writing = asyncio.create_task(attached.write(bytes(1 << 20)))
        other = await run_to_end(runtime, deaf.sandbox, shell(tmp_path, "exit 4", name="other"))
        assert other.exit_code == 4
        assert not writing.done()
        await runtime.stop_container(deaf.id, grace=0)
        await writing  # there is nobody left to read it
        await attached.close()

    scene("process", tmp_path, play)


def test_the_end_of_a_session_closes_stdin_only_with_stdin_once(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        for once in (False, True):
            config = shell(
                tmp_path, "cat; echo over; sleep 1000", name=f"c-{once}", stdin=True, stdin_once=once
            )
            created = await runtime.create_container(sandbox.id, config)
            await runtime.start_container(created.id)
            attached = await runtime.attach(created.id, tty=False, stdin=True)
            await attached.write(b"hello ")
            await attached.close_input()
            second = await runtime.attach(created.id, tty=False, stdin=True)
            await second.write(b"again ")
            text = b""
            async for piece in attached.output():
                text += piece.data
                if text in (b"hello again ", b"hello over\n"):
                    break
            assert text == (b"hello over\n" if once else b"hello again ")
            await attached.close()
            await second.close()

    scene("process", tmp_path, play)


def test_a_device_node_is_there_even_if_the_host_has_none(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        nodes = (
            DeviceNode(target="/dev/given", source="/dev/null"),
            DeviceNode(target="/dev/made", source="/dev/made-up", kind="c", major=1, minor=5),
        )
        config = shell(tmp_path, "stat -c '%F %t:%T' /dev/given /dev/made", edits=Edits(devices=nodes))
        status = await run_to_end(runtime, sandbox.id, config)
        assert (await log_of(status)).splitlines() == [
            b"character special file 1:3",
            b"character special file 1:5",
        ]

    scene("process", tmp_path, play)


def test_containers_outlive_an_agent_that_vanishes_and_are_found_again(tmp_path: Path) -> None:
    async def play() -> None:
        first = ProcessRuntime(tmp_path / "runtime")
        await first.start()
        sandbox = await first.run_sandbox(pod(tmp_path, uid="the-uid"))
        created = await first.create_container(sandbox.id, container(tmp_path, "sleep", "1000"))
        await first.start_container(created.id)
        await first.close(keep=True)
        second = ProcessRuntime(tmp_path / "runtime")
        await second.start()
        [found] = (await second.list()).containers
        assert (found.id, found.pod_uid, found.state) == (created.id, "the-uid", State.RUNNING)
        await second.close(keep=False)

    asyncio.run(play())


def test_containers_are_ended_when_no_agent_comes_back(tmp_path: Path) -> None:
    async def play() -> None:
        runtime = ProcessRuntime(tmp_path / "runtime", orphan_grace=0.2)
        await runtime.start()
        await start(runtime, tmp_path)
        supervisor = os.pidfd_open(runtime.supervisor_pid)
        await runtime.close(keep=True)
        gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(supervisor, gone.set)
        await asyncio.wait_for(gone.wait(), 20)
        asyncio.get_running_loop().remove_reader(supervisor)
        os.close(supervisor)

    asyncio.run(play())


@pytest.mark.parametrize("mode", ["root", "user", "plain"])
def test_processes_are_kept_apart_as_well_as_the_host_allows(mode: str, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    mount = Mount(source=str(tmp_path / "given"), target="/run/deep/inside", read_only=True)

    async def play() -> None:
        runtime = ProcessRuntime(tmp_path / "runtime", modes=[mode] if mode != "plain" else [])
        await runtime.start()
        if runtime.mode != mode:
            await runtime.close(keep=False)
            pytest.skip(f"this host does not allow {mode}")
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        script = "trap 'exit 4' TERM; echo pid $$; ls -d /run/deep/inside; sleep 100 & wait"
        mounts = () if mode == "plain" else (mount,)
        created = await runtime.create_container(sandbox.id, shell(tmp_path, script, mounts=mounts))
        await runtime.start_container(created.id)
        follow = read(created.log_path, LogOptions(follow=True), ended=lambda: False)
        assert (await anext(follow)).startswith(b"pid 1\n") == (mode != "plain")
        result = await runtime.exec_sync(created.id, ["sh", "-c", "echo $$"], timeout=10)
        assert (int(result.stdout) < 20) == (mode != "plain")
        await runtime.stop_container(created.id, grace=10)
        [ended] = (await runtime.list()).containers
        assert ended.exit_code == 4
        if mode == "plain":
            refused = await runtime.create_container(sandbox.id, shell(tmp_path, "true", mounts=(mount,)))
            with pytest.raises(RuntimeFailure, match="need a mount namespace"):
                await runtime.start_container(refused.id)
        await runtime.close(keep=False)

    asyncio.run(play())


def test_a_supervisor_that_is_killed_takes_its_containers_along_and_is_replaced(tmp_path: Path) -> None:
    async def play() -> None:
        runtime = ProcessRuntime(tmp_path / "runtime")
        await runtime.start()
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        created = await runtime.create_container(sandbox.id, container(tmp_path, "sleep", "1000"))
        ended = asyncio.ensure_future(_end_of(runtime.container_events(), created.id))
        await asyncio.sleep(0)
        await runtime.start_container(created.id)
        os.kill(runtime.supervisor_pid, signal.SIGKILL)
        status = await asyncio.wait_for(ended, 10)
        assert (status.exit_code, status.reason) == (137, "ContainerStatusUnknown")
        again = await runtime.create_container(sandbox.id, container(tmp_path, "sleep", "1000", attempt=1))
        assert (await runtime.start_container(again.id)).state is State.RUNNING
        await runtime.close(keep=False)

    asyncio.run(play())


def test_hundreds_of_containers_can_be_listed(tmp_path: Path) -> None:
    async def play() -> None:
        runtime = ProcessRuntime(tmp_path / "runtime")
        await runtime.start()
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        for i in range(400):
            await runtime.create_container(sandbox.id, container(tmp_path, "true", name=f"c{i}"))
        assert len((await runtime.list()).containers) == 400
        await runtime.close(keep=False)

    asyncio.run(play())


def test_a_sub_path_that_is_swapped_for_a_link_meanwhile_never_leads_out_of_its_volume(
    tmp_path: Path,
) -> None:
    foreign, volume = tmp_path / "foreign", tmp_path / "volume"
    foreign.mkdir()
    (foreign / "secret").write_text("another pod's")
    (volume / "sub").mkdir(parents=True)
    # One container of the pod, as fast as it can: a directory, then a link, then a directory again.
    swapping = (
        "import os\n"
        "os.symlink('/foreign', 'link')\n"
        "while True:\n"
        "    os.rename('sub', 'kept'); os.rename('link', 'sub'); os.rename('sub', 'link'); os.rename('kept', 'sub')\n"
    ).replace("/foreign", str(foreign))

    async def play(runtime: Runtime) -> None:
        swapper = container(tmp_path, sys.executable, "-c", swapping, working_dir="/v", name="swapper")
        swapper = replace(swapper, mounts=(Mount(source=str(volume), target="/v"),))
        await start(runtime, tmp_path, swapper)
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        seen = []
        for number in range(40):
            reader = shell(
                tmp_path,
                "ls /m",
                attempt=number,
                log_path=tmp_path / "logs" / f"{number}.log",
                mounts=(Mount(source=str(volume), sub_path="sub", target="/m"),),
            )
            try:
                seen.append(await log_of(await run_to_end(runtime, sandbox.id, reader)))
            except RuntimeFailure as e:
                assert "leads out of its volume" in e.message or "does not exist" in e.message
        assert b"secret\n" not in seen

    scene("process", tmp_path, play)


def test_a_link_in_a_volume_makes_no_file_on_the_host(tmp_path: Path) -> None:
    """A mount point below another volume is made where the container's links lead: in its own root, never the host's."""
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.mkdir()
    volume.mkdir()
    (volume / "link").symlink_to(f"/.host{outside}")
    (volume / "plain").symlink_to(outside)

    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        for name in ("link", "plain"):
            mounts = (
                Mount(source=str(volume), target="/v"),
                Mount(source="/etc/hostname", target=f"/v/{name}/made"),
            )
            with contextlib.suppress(RuntimeFailure):
                await run_to_end(runtime, sandbox.id, shell(tmp_path, "true", mounts=mounts, name=name))
        assert list(outside.iterdir()) == []

    scene("process", tmp_path, play)


@real_runtimes
def test_a_sub_path_shows_one_directory_or_file_of_its_volume(kind: str, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "deep" / "inside").mkdir(parents=True)
    (volume / "deep" / "inside" / "file").write_text("found\n")
    (volume / "link").symlink_to("deep/inside/file")
    (volume / "out").symlink_to("/etc")
    mounts = (
        Mount(source=str(volume), sub_path="deep/inside", target="/mnt/directory"),
        Mount(source=str(volume), sub_path="link", target="/mnt/file", read_only=True),
    )

    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        # The shell's complaint goes to the same stream as the rest, so that their order is certain.
        script = "exec 2>&1; ls /mnt/directory; cat /mnt/file; echo written > /mnt/directory/new; echo no > /mnt/file"
        ended = await run_to_end(runtime, sandbox.id, shell(tmp_path, script, mounts=mounts))
        assert (await log_of(ended)).startswith(b"file\nfound\n")
        assert (volume / "deep/inside/new").read_text() == "written\n"
        assert (volume / "link").read_text() == "found\n"
        escape = Mount(source=str(volume), sub_path="out", target="/mnt/out")
        with pytest.raises(RuntimeFailure):
            await run_to_end(runtime, sandbox.id, shell(tmp_path, "true", mounts=(escape,), name="escape"))

    scene(kind, tmp_path, play)


ESCAPES = """
import ctypes, os, pathlib
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try:
        print(name, act())
    except OSError:
        print(name, "refused")
def umount(path):
    if libc.umount2(path.encode(), 2): raise OSError
    return "done"
attempt("key", lambda: pathlib.Path({key!r}).read_text())
attempt("umount", lambda: umount({data!r}))
attempt("key again", lambda: pathlib.Path({key!r}).read_text())
attempt("core_pattern", lambda: pathlib.Path("/proc/sys/kernel/core_pattern").open("r+").close())
attempt("uevent", lambda: pathlib.Path("/sys/kernel/uevent_seqnum").parent.joinpath("made").mkdir())
attempt("cgroup", lambda: pathlib.Path("/sys/fs/cgroup/made-by-a-container").mkdir())
attempt("mknod", lambda: os.mknod("/tmp/disk", 0o600 | 0o060000, os.makedev(254, 0)))
attempt("remount", lambda: umount("/proc/sys"))
"""


@pytest.mark.parametrize("mode", ["root", "user"])
def test_root_in_a_container_gets_neither_at_the_data_directory_nor_at_the_kernel(
    mode: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    (data / "pki").mkdir(parents=True)
    (data / "pki" / "ca.key").write_text("the key")
    (data / "volume").mkdir()
    (data / "volume" / "file").write_text("mine\n")
    script = ESCAPES.format(key=str(data / "pki" / "ca.key"), data=str(data))

    async def play() -> None:
        runtime = ProcessRuntime(data / "runtime", hidden=[data], modes=[mode])
        await runtime.start()
        try:
            if runtime.mode != mode:
                pytest.skip(f"this host does not allow {mode}")
            sandbox = await runtime.run_sandbox(pod(tmp_path))
            ended = await run_to_end(runtime, sandbox.id, container(tmp_path, sys.executable, "-c", script))
            lines = (await log_of(ended)).decode().splitlines()
            assert [line.rpartition(" ")[2] for line in lines] == ["refused"] * 8, lines
            mount = Mount(source=str(data / "volume"), target=str(data / "volume"))
            reader = shell(tmp_path, f"cat {data}/volume/file", mounts=(mount,), name="reader")
            reader = replace(reader, log_path=tmp_path / "logs" / "reader.log")
            assert await log_of(await run_to_end(runtime, sandbox.id, reader)) == b"mine\n"
        finally:
            await runtime.close(keep=False)

    asyncio.run(play())


@real_runtimes
@pytest.mark.parametrize(
    ("security", "kept"),
    [
        ({"drop_capabilities": ("ALL",)}, 0),
        ({"drop_capabilities": ("ALL",), "add_capabilities": ("NET_ADMIN",)}, 1 << 12),
    ],
)
def test_capabilities_are_dropped_and_added_as_the_container_says(
    kind: str, security: dict[str, Any], kept: int, tmp_path: Path
) -> None:
    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        show = ("cat", "/proc/self/status")
        created = await start(runtime, tmp_path, container(tmp_path, "sleep", "1000", **security))
        told = [(await runtime.exec_sync(created.id, show, timeout=10)).stdout]
        status = container(tmp_path, *show, log_path=tmp_path / "logs" / "status.log", **security)
        told.append(await log_of(await run_to_end(runtime, sandbox.id, status)))
        for text in told:
            lines = dict(line.split(":\t", 1) for line in text.decode().splitlines() if "Cap" in line)
            assert {int(lines[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {kept}

    scene(kind, tmp_path, play)


def test_profiles_that_cannot_be_applied_are_refused_and_the_default_one_is_applied(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path))
        for wanted in ({"seccomp": "/etc/profile.json"}, {"apparmor": "mine"}):
            with pytest.raises(RuntimeFailure, match="process runtime applies"):
                await runtime.create_container(sandbox.id, shell(tmp_path, "true", **wanted))
        config = shell(
            tmp_path, "grep -q '^Seccomp:.*2' /proc/self/status && hostname", seccomp="RuntimeDefault"
        )
        assert (await run_to_end(runtime, sandbox.id, config)).exit_code == 0

    if os.geteuid() == 0:
        scene("process", tmp_path, play)


async def _with_users(tmp_path: Path, play: Callable[[ProcessRuntime], Awaitable[None]]) -> None:
    runtime = ProcessRuntime(tmp_path / "runtime")
    await runtime.start()
    try:
        if runtime.mode != "root":
            pytest.skip("this host does not allow root to keep containers apart")
        await play(runtime)
    finally:
        await runtime.close(keep=False)


def test_root_of_a_pod_with_users_of_its_own_is_nobody_on_the_host(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "secret").write_text("mine")
    (volume / "secret").chmod(0o400)
    script = (
        "id -u; cat /proc/self/uid_map; cat /volume/secret; echo; echo made > /volume/made; echo named > /dev/stdout; "
        "cat /etc/shadow || echo refused; umount /proc/sys || echo refused; umount /volume || echo refused; "
        "touch /etc/made || echo refused; touch /tmp/made && echo made"
    )
    mount = Mount(source=str(volume), target="/volume")

    async def play(runtime: ProcessRuntime) -> None:
        maps = set()
        for number, add in enumerate(((), ("SYS_ADMIN",))):
            sandbox = await runtime.run_sandbox(pod(tmp_path, host_users=False))
            config = shell(tmp_path, script, mounts=(mount,), add_capabilities=add)
            config = replace(config, log_path=tmp_path / "logs" / f"{number}.log")
            lines = (await log_of(await run_to_end(runtime, sandbox.id, config))).decode().splitlines()
            said = [line for line in lines if ": " not in line]
            inside, outside, count = said[1].split()
            assert (said[0], inside, count) == ("0", "0", "65536"), lines
            assert said[2:] == ["mine", "named", "refused", "refused", "refused", "refused", "made"], lines
            maps.add(int(outside))
        assert len(maps) == 2 and min(maps) > 65536, maps
        assert (
            volume / "made"
        ).stat().st_uid == 0  # on disk it is of the pod's root, whichever block that has

    asyncio.run(_with_users(tmp_path, play))


def test_commands_and_other_users_are_in_the_user_namespace_of_their_pod(tmp_path: Path) -> None:
    show = "readlink /proc/self/ns/user; id -u; id -g; echo named > /dev/stdout"

    async def play(runtime: ProcessRuntime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path, host_users=False))
        first = await runtime.create_container(sandbox.id, shell(tmp_path, f"{show}; sleep 1000"))
        await runtime.start_container(first.id)
        executed = await runtime.exec_sync(first.id, ["sh", "-c", show], timeout=20)
        identity: dict[str, Any] = {"user": 1000, "group": 2000, "seccomp": "RuntimeDefault"}
        other = shell(tmp_path, show, log_path=tmp_path / "logs" / "other.log", **identity)
        other_said = await log_of(await run_to_end(runtime, sandbox.id, other))
        namespace, *rest = executed.stdout.decode().split()
        assert rest == ["0", "0", "named"], executed
        assert other_said.decode().split() == [namespace, "1000", "2000", "named"]
        assert namespace != str(Path("/proc/self/ns/user").readlink())
        with pytest.raises(RuntimeFailure, match="Invalid argument"):
            created = await runtime.create_container(sandbox.id, shell(tmp_path, show, user=70_000))
            await runtime.start_container(created.id)

    asyncio.run(_with_users(tmp_path, play))


def test_a_volume_that_cannot_be_shown_to_a_user_namespace_is_refused_in_words(tmp_path: Path) -> None:
    async def play(runtime: ProcessRuntime) -> None:
        sandbox = await runtime.run_sandbox(pod(tmp_path, host_users=False))
        config = shell(tmp_path, "true", mounts=(Mount(source="/proc/self", target="/volume"),))
        created = await runtime.create_container(sandbox.id, config)
        with pytest.raises(RuntimeFailure, match="cannot be shown to a user namespace"):
            await runtime.start_container(created.id)

    asyncio.run(_with_users(tmp_path, play))


def test_a_pod_gets_no_users_of_its_own_where_there_are_no_namespaces(tmp_path: Path) -> None:
    async def play() -> None:
        runtime = ProcessRuntime(tmp_path / "runtime", modes=())
        await runtime.start()
        try:
            with pytest.raises(RuntimeFailure, match="hostUsers"):
                await runtime.run_sandbox(pod(tmp_path, host_users=False))
        finally:
            await runtime.close(keep=False)

    asyncio.run(play())


@pytest.mark.parametrize("host_users", [True, False])
@pytest.mark.parametrize("user", [None, 1000])
def test_no_process_of_a_container_outlives_a_supervisor_that_is_killed(
    host_users: bool, user: int | None, tmp_path: Path
) -> None:
    async def play() -> None:
        runtime = ProcessRuntime(tmp_path / "runtime")
        await runtime.start()
        if not host_users and runtime.mode != "root":
            pytest.skip("user namespaces of pods are for root alone")
        sandbox = await runtime.run_sandbox(pod(tmp_path, host_users=host_users))
        config = container(tmp_path, "sleep", "1000", user=user)
        created = await runtime.create_container(sandbox.id, config)
        await runtime.start_container(created.id)
        process = os.pidfd_open((await runtime._ask("process", id=created.id))["pid"])
        os.kill(runtime.supervisor_pid, signal.SIGKILL)
        gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(process, gone.set)
        await asyncio.wait_for(gone.wait(), 20)
        asyncio.get_running_loop().remove_reader(process)
        os.close(process)
        await runtime.close(keep=False)

    asyncio.run(play())
