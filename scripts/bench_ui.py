"""The dashboard on a large cluster, in a real browser: first view, a change, memory. Prints the figures.

An API server in memory gets the nodes, slices and claims; ``dray ui`` reads it as it reads any cluster, and Chromium opens
the page. Usage: ``python scripts/bench_ui.py [--nodes 5000] [--devices 8] [--claims 10000]``
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from dray.client import factory
from dray.client.client import Client
from dray.client.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES

DRIVER = "gpu.example.com"
DRAY = [sys.executable, "-c", "from dray.cli import main; main()"]
TOKEN = "bench"
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
#: Scrolls by a screen and more, and draws every step.
SCROLL = """async () => {
    const main = document.getElementById("content");
    main.scrollTop = 0;
    let longest = 0;
    const began = performance.now();
    let last = began;
    for (let i = 0; i < 60; i++) {
        main.scrollTop += 300;
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        longest = Math.max(longest, now - last);
        last = now;
    }
    return [60, (last - began) / 1000, longest];
}"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def resident(pid: int) -> str:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return f"{int(line.split()[1]) / 1024:.0f} MB"
    return "?"


async def each(items: Iterable[Any], work: Callable[[Any], Awaitable[Any]], *, at_once: int = 32) -> None:
    waiting = iter(items)

    async def worker() -> None:
        for one in waiting:
            await work(one)

    await asyncio.gather(*(worker() for _ in range(at_once)))


def slice_of(number: int, devices: int) -> Any:
    node = f"node-{number}"
    attributes = {"model": {"string": "H200" if number % 3 else "A100"}, "numa": {"int": number % 2}}
    return {
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{i}", "attributes": {**attributes, "index": {"int": i}}, "capacity": {"memory": {"value": "80Gi"}}}
                for i in range(devices)
            ],
        },
    }  # fmt: skip


async def fill(client: Client, nodes: int, devices: int, claims: int) -> None:
    selector: Any = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    await client.create(DEVICE_CLASSES, "", {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}})
    await each(range(nodes), lambda i: client.create(NODES, "", {"metadata": {"name": f"node-{i}"}}))
    await each(range(nodes), lambda i: client.create(RESOURCE_SLICES, "", slice_of(i, devices)))
    request: Any = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}

    async def claim(i: int) -> None:
        name = f"claim-{i}"
        spec: Any = {"devices": {"requests": [request]}}
        await client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": name}, "spec": spec})
        await allocate(client, name, f"node-{i % nodes}", f"gpu-{i // nodes}")

    await each(range(claims), claim)
    spec: Any = {"devices": {"requests": [request]}}
    await client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "last"}, "spec": spec})


async def allocate(client: Client, claim: str, node: str, device: str) -> None:
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
    await client.patch_status(
        RESOURCE_CLAIMS, "default", claim, {"status": {"allocation": {"devices": {"results": [result]}}}}
    )


def wait(what: str, look: Callable[[], bool], seconds: float = 180) -> float:
    began = time.perf_counter()
    while not look():
        if time.perf_counter() - began > seconds:
            raise SystemExit(f"waited in vain for {what}")
        time.sleep(0.02)
    return time.perf_counter() - began


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def look(port: int, kubeconfig: Path, nodes: int, devices: int, ui: int) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium; make tools installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")

        def heap() -> str:
            session.send("HeapProfiler.collectGarbage")
            found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
            return f"{found['JSHeapUsedSize'] / 2**20:.0f} MB"

        began = time.perf_counter()
        page.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page.locator(".tile .figure", has_text=f"{nodes * devices:,}").wait_for()
        print(f"first view            {time.perf_counter() - began:6.2f} s")
        print(f"page's memory         {heap():>8}")
        base = f"http://127.0.0.1:{port}/"
        views = [
            ("map", "map", ".cell"),
            ("devices", "devices", ".row .chip"),
            ("nodes", "nodes", ".row .chip"),
        ]
        for name, hash, there in views:
            began = time.perf_counter()
            page.goto(f"{base}#/{hash}")
            page.locator(there).first.wait_for()
            print(f"{name:<21} {time.perf_counter() - began:6.2f} s")
        scrolled = [
            ("map", "map", ".cell"),
            ("devices", "devices", ".row .chip"),
            ("sorted", "devices?sort=-node", ".row .chip"),
        ]
        for name, hash, there in scrolled:
            page.goto(f"{base}#/{hash}")
            page.locator(there).first.wait_for()
            frames, seconds, longest = page.evaluate(SCROLL)
            print(
                f"scrolling {name:<11} {frames / seconds:6.0f} frames a second, the longest took {longest:.0f} ms"
            )
        page.goto(f"{base}#/map?q=node-{nodes - 1}+gpu-{devices - 1}")
        page.locator(".cell").first.wait_for()
        free = page.locator(f".cell.s-allocated[href*='node-{nodes - 1}%2Fgpu-{devices - 1}']")
        assert free.count() == 0

        async def change() -> None:
            async with factory.connect(kubeconfig) as client:
                await allocate(client, "last", f"node-{nodes - 1}", f"gpu-{devices - 1}")

        # A thread, because the browser's own loop runs in this one.
        import threading

        began = time.perf_counter()
        thread = threading.Thread(target=lambda: asyncio.run(change()))
        thread.start()
        free.wait_for()
        print(f"a change is visible   {time.perf_counter() - began:6.2f} s after its write was begun")
        thread.join()
        print(f"page's memory         {heap():>8} after all that")
        print(f"server's memory       {resident(ui):>8}")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--claims", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        kubeconfig = data / "kubeconfig"
        api, ui = free_port(), free_port()
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = [*DRAY, "server", "--store", "memory", "--data", folder, "--listen", f"127.0.0.1:{api}"]
        server = subprocess.Popen([*command, "--kubeconfig", str(kubeconfig)], **quiet)
        children = [server]
        try:
            wait("the API server", kubeconfig.exists)

            async def prepare() -> None:
                async with factory.connect(kubeconfig) as client:
                    while True:
                        try:
                            await client.request("GET", "/readyz")
                            break
                        except Exception:
                            await asyncio.sleep(0.1)
                    await fill(client, options.nodes, options.devices, options.claims)

            asyncio.run(prepare())
            print(f"{options.nodes:,} nodes × {options.devices} devices, {options.claims:,} claims")
            environment = {**os.environ, "DRAY_UI_TOKEN": TOKEN}
            command = [*DRAY, "ui", "--kubeconfig", str(kubeconfig), "--listen", f"127.0.0.1:{ui}"]
            children.append(subprocess.Popen(command, env=environment, **quiet))
            seconds = wait("the dashboard", lambda: answers(f"http://127.0.0.1:{ui}/readyz"))
            print(f"the cluster is read   {seconds:6.2f} s after the start of dray ui")
            asked = urllib.request.Request(
                f"http://127.0.0.1:{ui}/api/attributes", headers={"Authorization": f"Bearer {TOKEN}"}
            )
            json.load(urllib.request.urlopen(asked, timeout=60))
            look(ui, kubeconfig, options.nodes, options.devices, children[1].pid)
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.wait(20)


if __name__ == "__main__":
    main()
