"""Compares dray with upstream's recorded answers, set by set, and prints the scores.

Each set names how upstream was run; dray is started the same way. A set fails the run when its score is below its
floor, so a score once reached is kept. ``--set NAME`` runs some sets only, ``--verbose`` shows every difference.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.util
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DRAY = Path(sys.executable).parent / "dray"
TOKEN = "admin-token"

ALPHA_KINDS = "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true"
#: What the recordings of 1.37 have on beside the defaults: ``main``, and ``alpha`` with the newest of groups of pods.
MAIN_137 = (
    "DRAFractionalCapacityRange", "DRADerivedAttributes", "DRADeviceCompatibilityGroups",
    "DRAPartitionableDevicesType", "DRAOptionalNodeOperations", "DRAListTypeAttributes",
    "DRANodeAllocatableResources", "DRAResourcePoolStatus", "GenericWorkload", "DRAWorkloadResourceClaims",
)  # fmt: skip
ALPHA_137 = (
    *MAIN_137, "TopologyAwareWorkloadScheduling", "CompositePodGroup", "PodGroupPreemptionPolicy", "WorkloadWithJob",
)  # fmt: skip
QUIET_PLUGINS = "ServiceAccount,TaintNodesByCondition"
USERS = """\
admin-token,admin,u-admin,"system:masters"
alice-token,alice,u-alice,"developers"
bob-token,bob,u-bob,"developers,testers"
carol-token,carol,u-carol
node1-token,system:node:n1,u-n1,"system:nodes"
node2-token,system:node:n2,u-n2,"system:nodes"
scheduler-token,system:kube-scheduler,u-sched
dana-token,dana,u-dana
dirk-token,dirk,u-dirk
dina-token,dina,u-dina
ada-token,ada,u-ada
ian-token,ian,u-ian
ines-token,ines,u-ines
rita-token,rita,u-rita,"developers,testers"
vera-token,vera,u-vera
"""


@dataclass(frozen=True, kw_only=True)
class Score:
    equal: int
    total: int
    notes: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.equal / self.total if self.total else 0.0


@dataclass(frozen=True, kw_only=True)
class Recording:
    """HTTP conversations, and how to start dray for them."""

    command: tuple[str, ...]
    floor: float
    folder: str
    users: bool = False
    beside: tuple[str, ...] = ()  # a second dray, which gets the first one's kubeconfig
    only: Callable[[str], bool] = lambda name: True

    def play(self, data: Path, *, verbose: bool) -> Score:
        transcript = load(data / "transcript.py")
        files = [f for f in sorted((data / self.folder).glob("*.json")) if self.only(f.stem)]
        equal = total = 0
        notes = []
        with running(self.command, users=self.users, beside=self.beside) as server:
            player = transcript.Player(server, TOKEN)
            for file in files:
                wanted = json.loads(file.read_text())
                got = player.play(wanted["scenario"])
                good = 0
                for want, have in zip(wanted["recorded"], got["recorded"], strict=True):
                    problems = differences(transcript, want, have)
                    good += not problems
                    if problems and verbose:
                        step = want["step"]
                        where = step.get("call") or step.get("wait") or "watch " + step["watch"]
                        notes.append(f"{file.stem}: {where}")
                        notes.extend(f"    {p}" for p in problems[:6])
                equal += good
                total += len(wanted["recorded"])
                if good < len(wanted["recorded"]):
                    notes.append(f"{file.stem}: {good}/{len(wanted['recorded'])}")
        return Score(equal=equal, total=total, notes=notes)


@dataclass(frozen=True, kw_only=True)
class Problems:
    """Questions with one exact answer each, asked of the command line's batch form."""

    command: tuple[str, ...]
    floor: float
    file: str
    same: Callable[[dict[str, Any], dict[str, Any]], bool | None]

    def play(self, data: Path, *, verbose: bool) -> Score:
        path = data / self.file
        done = subprocess.run(
            [DRAY, *self.command, "--problems", path], capture_output=True, text=True, check=True
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        with gzip.open(path, "rt") as lines:
            cases = [json.loads(line) for line in lines]
        verdicts = [
            (case["name"], self.same(case, answer)) for case, answer in zip(cases, answers, strict=True)
        ]
        judged = [(name, good) for name, good in verdicts if good is not None]
        wrong = [name for name, good in judged if not good]
        return Score(equal=len(judged) - len(wrong), total=len(judged), notes=wrong if verbose else wrong[:5])


def same_allocation(case: dict[str, Any], answer: dict[str, Any]) -> bool | None:
    wanted = case.get("expected")
    if wanted is None:
        feasible = case.get("feasible")
        return None if feasible is None else (answer["results"] is not None) == feasible
    if wanted["error"]:
        # To the letter where it says which claim, request or selector; in meaning after that.
        return bool(answer["error"]) and subject(answer["error"]) == subject(wanted["error"])
    return not answer["error"] and without_shares(answer["results"]) == without_shares(wanted["results"])


def subject(error: str) -> str:
    found = re.match(r"(claim [^:,]+)?(, request [^:,]+)?(: selector #[0-9]+)?", error)
    return found[0] if found else ""


def without_shares(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_shares(v) for k, v in value.items() if k != "shareID"}
    if isinstance(value, list):
        return [without_shares(v) for v in value]
    return value


def same_evaluation(case: dict[str, Any], answer: dict[str, Any]) -> bool | None:
    wanted = case.get("expected", case)
    for key in ("match", "maxCost", "actualCost"):
        if wanted.get(key) != answer.get(key):
            return False
    return all(bool(wanted.get(key)) == bool(answer.get(key)) for key in ("compileError", "evalError"))


AUTHZ = (
    "server", "--emulate", "1.36", "--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
    "--disable-admission-plugins", QUIET_PLUGINS,
    "--feature-gates", "DRADeviceTaintRules=true,DRAListTypeAttributes=true,DRAResourcePoolStatus=true",
    "--runtime-config", ALPHA_KINDS,
)  # fmt: skip


def release_137(*command: str, gates: tuple[str, ...]) -> tuple[str, ...]:
    """How the recordings of 1.37 were made, with these gates on."""
    kinds = f"scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true,{ALPHA_KINDS}"
    flags = ("--emulate", "1.37", "--disable-admission-plugins", QUIET_PLUGINS, "--runtime-config", kinds)
    return (*command, *flags, "--feature-gates", ",".join(f"{gate}=true" for gate in gates))


SERVER_137 = ("server", "--authorization-mode", "AlwaysAllow")
UP_137 = ("up", "--nodes", "0")

SETS: dict[str, Recording | Problems] = {
    "cel-devices": Problems(command=("cel",), file="cel-devices.jsonl.gz", floor=1.0, same=same_evaluation),
    "allocator-table": Problems(
        command=("allocate",), file="allocator-table.jsonl.gz", floor=1.0, same=same_allocation
    ),
    "allocator-hard": Problems(command=("allocate",), file="allocator-hard.jsonl.gz", floor=1.0, same=same_allocation),
    # Eight answers depend on the order of a Go map: docs/conformance.md.
    "allocator-random": Problems(
        command=("allocate",), file="allocator-random.jsonl.gz", floor=1794 / 1802, same=same_allocation
    ),
    "api-136": Recording(
        folder="api-136",
        floor=0.99,
        command=(
            "server", "--emulate", "1.36", "--authorization-mode", "AlwaysAllow",
            "--disable-admission-plugins", QUIET_PLUGINS,
            "--runtime-config", ALPHA_KINDS,
            "--feature-gates", "DRADeviceTaintRules=true,DRAListTypeAttributes=true,"
            "DRANodeAllocatableResources=true,DRAResourcePoolStatus=true",
        ),
    ),
    "api-130": Recording(
        folder="api-130",
        floor=0.99,
        command=(
            "server", "--emulate", "1.30", "--authorization-mode", "AlwaysAllow",
            "--disable-admission-plugins", QUIET_PLUGINS,
        ),
    ),
    "authz-136": Recording(
        folder="authz-136",
        floor=0.99,
        command=AUTHZ,
        users=True,
        only=lambda name: name != "aggregation-controller",
    ),
    "authz-136-roles": Recording(
        folder="authz-136",
        floor=0.99,
        command=AUTHZ,
        users=True,
        beside=("controllers", "--controllers", "clusterrole-aggregation-controller"),
        only=lambda name: name == "aggregation-controller",
    ),
    "behaviour-136": Recording(
        folder="behaviour-136",
        floor=0.95,
        command=(
            "up", "--nodes", "0", "--emulate", "1.36", "--disable-admission-plugins", QUIET_PLUGINS,
            "--runtime-config", ALPHA_KINDS,
            "--feature-gates", "DRADeviceTaintRules=true,DRAListTypeAttributes=true,"
            "DRANodeAllocatableResources=true,DRAResourcePoolStatus=true",
        ),
    ),
    "behaviour-130": Recording(
        folder="behaviour-130",
        floor=0.99,
        command=("up", "--nodes", "0", "--emulate", "1.30", "--disable-admission-plugins", QUIET_PLUGINS),
    ),
    "api-137": Recording(
        folder="api-137",
        floor=1.0,
        command=release_137(*SERVER_137, gates=MAIN_137),
        only=lambda name: not name.startswith(("alpha-", "gates-off-")),
    ),
    "api-137-alpha": Recording(
        folder="api-137",
        floor=1.0,
        command=release_137(*SERVER_137, gates=ALPHA_137),
        only=lambda name: name.startswith("alpha-"),
    ),
    "api-137-defaults": Recording(
        folder="api-137",
        floor=0.97,
        command=release_137(*SERVER_137, gates=()),
        only=lambda name: name.startswith("gates-off-"),
    ),
    "behaviour-137": Recording(
        folder="behaviour-137",
        floor=0.99,
        command=release_137(*UP_137, gates=MAIN_137),
        only=lambda name: not name.startswith("alpha-"),
    ),
    "behaviour-137-alpha": Recording(
        folder="behaviour-137",
        floor=0.95,
        command=release_137(*UP_137, gates=ALPHA_137),
        only=lambda name: name.startswith("alpha-"),
    ),
}  # fmt: skip


def differences(transcript: ModuleType, want: dict[str, Any], have: dict[str, Any]) -> list[str]:
    problems: list[str] = []
    if want["code"] != have["code"]:
        problems.append(f"code: want {want['code']} got {have['code']}")
    problems += transcript.diff(want["body"], have["body"])
    problems += transcript.diff(want.get("warnings", []), have.get("warnings", []), "warnings")
    problems += transcript.diff(want.get("headers", {}), have.get("headers", {}), "headers")
    if want.get("reached", True) != have.get("reached", True):
        problems.append(f"reached: want {want.get('reached')} got {have.get('reached')}")
    return problems


@contextlib.contextmanager
def running(command: tuple[str, ...], *, users: bool, beside: tuple[str, ...] = ()) -> Iterator[str]:
    """A fresh dray in a directory of its own, stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="dray-") as scratch:
        port = free_port()
        line = [
            str(DRAY),
            *command,
            "--listen",
            f"127.0.0.1:{port}",
            "--data",
            scratch,
            "--admin-token",
            TOKEN,
        ]
        line += ["--kubeconfig", f"{scratch}/kubeconfig"]
        if users:
            (Path(scratch) / "users.csv").write_text(USERS)
            line += ["--token-auth-file", f"{scratch}/users.csv"]
        log = Path(scratch) / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                line, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "CI": ""}
            )
        processes = [process]
        try:
            wait_ready(f"https://127.0.0.1:{port}", process, log)
            if beside:
                line = [str(DRAY), *beside, "--kubeconfig", f"{scratch}/kubeconfig"]
                processes.append(subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            yield f"https://127.0.0.1:{port}"
        finally:
            for one in reversed(processes):
                one.terminate()
                try:
                    one.wait(20)
                except subprocess.TimeoutExpired:
                    one.kill()
                    one.wait()


def wait_ready(server: str, process: subprocess.Popen[bytes], log: Path) -> None:
    context = ssl._create_unverified_context()
    request = urllib.request.Request(f"{server}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
    for _ in range(300):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(request, context=context, timeout=2):
            return
        time.sleep(0.1)
    raise SystemExit(f"dray did not become ready:\n{log.read_text()[-4000:]}")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "conformance")
    parser.add_argument(
        "--set", action="append", choices=sorted(SETS), help="only this set (may be repeated)"
    )
    parser.add_argument("--verbose", action="store_true", help="show every difference")
    args = parser.parse_args()
    if not args.data.is_dir():
        print(f"the recorded answers are not at {args.data}: nothing to compare with", file=sys.stderr)
        return 1
    failed = equal_sets = 0
    for name, recorded in SETS.items():
        if args.set and name not in args.set:
            continue
        began = time.monotonic()
        score = recorded.play(args.data, verbose=args.verbose)
        good = score.share >= recorded.floor
        failed += not good
        equal_sets += good
        mark = "ok" if good else f"below its floor of {recorded.floor:.0%}"
        took = time.monotonic() - began
        print(
            f"{name:18} {score.equal:5}/{score.total:<5} {score.share:7.2%}  {took:5.1f} s  {mark}",
            flush=True,
        )
        for note in score.notes:
            print(f"    {note}")
    print(f"{equal_sets} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
