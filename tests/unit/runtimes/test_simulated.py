"""What is particular to the runtime in which nothing runs."""

from __future__ import annotations

import asyncio
import ipaddress

from dray.runtimes.interface import SandboxConfig
from dray.runtimes.simulated import SimulatedRuntime


def test_every_pod_has_an_address_that_no_other_pod_has_and_that_endpoints_accept() -> None:
    async def play() -> None:
        runtime = SimulatedRuntime()
        configs = [SandboxConfig(uid=f"u{i}", name="p", namespace="ns") for i in range(3000)]
        addresses = [(await runtime.run_sandbox(config)).ip for config in configs]
        assert len(set(addresses)) == len(addresses)
        for text in addresses:
            ip = ipaddress.ip_address(text)
            assert not (ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified)

    asyncio.run(play())


def test_an_address_is_free_again_when_its_pod_is_gone() -> None:
    async def play() -> None:
        runtime, config = SimulatedRuntime(), SandboxConfig(uid="u", name="p", namespace="ns")
        first = await runtime.run_sandbox(config)
        assert (await runtime.run_sandbox(config)).ip != first.ip
        await runtime.remove_sandbox(first.id)
        assert (await runtime.run_sandbox(config)).ip == first.ip

    asyncio.run(play())
