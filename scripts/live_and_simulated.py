"""Feeds the same pods to a live ``dray up --nodes 0`` and to the simulator, under each policy, and compares.

Every pod has to get the same node and the same devices. Prints a line for each policy, and ends with 1 if one differs.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import live

from dray.client.factory import connect
from dray.placement.policies.registry import BUILT_IN

DRAY = Path(sys.executable).with_name("dray")


async def feed(kubeconfig: Path, nodes: int, pods: int) -> live.Placements:
    async with connect(kubeconfig) as client:
        return await live.lived(client, nodes, pods)


def lived(policy: str, nodes: int, pods: int) -> live.Placements:
    """Where a cluster of its own puts the pods."""
    with tempfile.TemporaryDirectory() as folder:
        data = ("--data", folder)
        up = [DRAY, "up", "--nodes", "0", "--device-policy", policy, "--listen", "127.0.0.1:0", "--detach"]
        subprocess.run([*up, *data], check=True, stdout=subprocess.DEVNULL)
        try:
            return asyncio.run(feed(Path(folder) / "kubeconfig", nodes, pods))
        finally:
            subprocess.run([DRAY, "down", *data], check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=150)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--policies", default=",".join(BUILT_IN), help="with commas; default: all")
    options = parser.parse_args()
    differing = 0
    for policy in options.policies.split(","):
        there = lived(policy, options.nodes, options.pods)
        here = live.simulated(options.nodes, options.pods, policy)
        wrong = [pod for pod in sorted({*there, *here}) if there.get(pod) != here.get(pod)]
        differing += bool(wrong)
        said = f"{len(wrong)} pods differ, first {wrong[0]}" if wrong else "the same nodes and devices"
        print(f"{policy:<14} {len(there)} of {options.pods} pods run: {said}", flush=True)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
