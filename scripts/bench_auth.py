"""What authorization and admission cost: writes with both on and with both off, and the ratio of the two.

Two servers run side by side and are loaded in turns. What counts is the processor time that a server spends per
request: wall-clock figures of a busy machine say little. The administrator's requests pass by the roles, a user's by
role do not; both are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from dray.client.client import Client
from dray.client.config import Config
from dray.client.factory import connect
from dray.client.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, RESOURCE_CLAIMS, Resource
from dray.client.transport import Unreachable
from dray.server.admission.names import DEFAULT_ON

DRAY = Path(sys.executable).parent / "dray"
TOKENS = {"administrator": "bench-admin", "user by role": "bench-user"}
OFF = ("--authorization-mode", "AlwaysAllow", "--disable-admission-plugins", ",".join(sorted(DEFAULT_ON)))
NAMESPACE = "bench"
WORKERS = 16
VERBS = ("create", "patch", "delete")


@dataclass
class Server:
    name: str
    pid: int
    clients: dict[str, Client]
    #: Microseconds of processor time a request, round by round, by who asked and what for.
    spent: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def processor_time(self) -> float:
        """Seconds, of all threads."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9


@contextlib.asynccontextmanager
async def server(name: str, port: int, *options: str) -> AsyncIterator[Server]:
    with tempfile.TemporaryDirectory(prefix="dray-bench-") as data:
        users = Path(data) / "users.csv"
        users.write_text(f"{TOKENS['user by role']},bench,u-bench\n")
        line = [
            DRAY, "server", "--listen", f"127.0.0.1:{port}", "--data", data, "--token-auth-file", users,
            "--admin-token", TOKENS["administrator"], *options,
        ]  # fmt: skip
        with (Path(data) / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(*line, stdout=log, stderr=log)
        try:
            async with contextlib.AsyncExitStack() as stack:
                clients = {}
                for who, token in TOKENS.items():
                    config = Config(server=f"https://127.0.0.1:{port}", insecure=True, token=token)
                    clients[who] = await stack.enter_async_context(connect(config))
                await ready(clients["administrator"])
                await prepare(clients["administrator"])
                yield Server(name, process.pid, clients)
        finally:
            process.terminate()
            await process.wait()


async def ready(client: Client) -> None:
    for _ in range(500):
        with contextlib.suppress(Unreachable):
            await client.request("GET", "/readyz")
            return
        await asyncio.sleep(0.02)
    raise SystemExit("dray did not start")


async def prepare(client: Client) -> None:
    """A namespace, and what the user by role may do there."""

    async def make(resource: Resource, **body: object) -> None:
        await client.create(resource, "", {"metadata": {"name": NAMESPACE}, **body})

    await make(NAMESPACES)
    rule = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["*"]}
    await make(CLUSTER_ROLES, rules=[rule])
    await make(
        CLUSTER_ROLE_BINDINGS,
        roleRef={"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": NAMESPACE},
        subjects=[{"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": "bench"}],
    )


def claim(name: str) -> dict[str, object]:
    selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].model == "a"'}}
    exactly = {"deviceClassName": "gpu.example.com", "selectors": [selector]}
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def operations(client: Client) -> dict[str, Callable[[str], Awaitable[object]]]:
    return {
        "create": lambda name: client.create(RESOURCE_CLAIMS, NAMESPACE, claim(name)),
        "patch": lambda name: client.patch(
            RESOURCE_CLAIMS, NAMESPACE, name, {"metadata": {"labels": {"p": "1"}}}
        ),
        "delete": lambda name: client.delete(RESOURCE_CLAIMS, NAMESPACE, name),
    }


async def load(server: Server, who: str, objects: int) -> None:
    """One round: create, patch and delete so many claims."""
    for verb, operation in operations(server.clients[who]).items():
        names = iter([f"c-{i:06d}" for i in range(objects)])

        async def worker(names: object = names, operation: object = operation) -> None:
            for name in names:  # type: ignore[attr-defined]
                await operation(name)  # type: ignore[operator]

        before = server.processor_time()
        await asyncio.gather(*(worker() for _ in range(WORKERS)))
        spent = (server.processor_time() - before) / objects * 1e6
        server.spent.setdefault((who, verb), []).append(spent)


async def measure(objects: int, rounds: int, port: int) -> dict[str, float]:
    found = {}
    async with server("on", port) as on, server("off", port + 1, *OFF) as off:
        for turn in range(rounds + 1):
            pair = (on, off) if turn % 2 else (off, on)
            for who in TOKENS:
                for one in pair:
                    await load(one, who, objects)
            if turn == 0:  # everything has been seen once
                on.spent.clear()
                off.spent.clear()
    for who in TOKENS:
        for verb in VERBS:
            ratio = _show(f"{verb} as {who}", on.spent[who, verb], off.spent[who, verb])
            found[f"{who}: {verb}"] = round(ratio, 4)
        sums = [[sum(one.spent[who, v][i] for v in VERBS) for i in range(rounds)] for one in (on, off)]
        found[f"{who}: all"] = round(_show(f"all three as {who}", *sums), 4)
    return found


def _show(what: str, on: list[float], off: list[float]) -> float:
    """Neighbours in time are compared: what disturbs the one disturbs the other too."""
    ratio = median(a / b for a, b in zip(on, off, strict=True))
    print(
        f"  {what:32} {median(on):8.0f} µs on, {median(off):8.0f} µs off   {(ratio - 1) * 100:+6.1f} %",
        flush=True,
    )
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=50, help="claims a round")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--port", type=int, default=16543)
    parser.add_argument("--json", action="store_true", help="print the ratios as one line of JSON too")
    args = parser.parse_args()
    found = asyncio.run(measure(args.objects, args.rounds, args.port))
    if args.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
