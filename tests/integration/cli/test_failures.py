"""Every command with everything that a user may give it wrongly: one line that says what to do, never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dray.cli import commands
from tests.support.paths import DRAY

_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: x}}]
"""
_TOOLS = {
    "allocate", "backup", "cel", "check", "check-store", "convert", "demo", "devices", "envtest", "explain", "export",
    "exporter", "import", "restore", "simulate", "snapshot", "token", "ui",
}  # fmt: skip
#: Commands that read files, the file last.
_READERS = [
    ("allocate", "--offline", "-f"),
    ("allocate", "--problems"),
    ("cel", "--problems"),
    ("cel", "true", "--snapshot"),
    ("check", "-f"),
    ("check", "-f", "{good}", "--snapshot"),
    ("convert", "-f"),
    ("convert", "-f", "{good}", "--rules"),
    ("devices", "--snapshot"),
    ("explain", "--offline", "-f"),
    ("explain", "pod", "x", "--snapshot"),
    ("snapshot", "--snapshot"),
    ("scheduler", "--kubeconfig", "{unreachable}", "--no-leader-elect", "--config"),
    ("controllers", "--kubeconfig", "{wrong}", "--root-ca-file"),
    ("controllers", "--kubeconfig", "{wrong}", "--cluster-signing-key-file", "{good}", "--cluster-signing-cert-file"),
    ("server", "--listen", "127.0.0.1", "--data", "{data}", "--store", "memory", "--audit-policy-file"),
    ("server", "--listen", "127.0.0.1", "--data", "{data}", "--store", "memory", "--token-auth-file"),
    ("node", "join", "127.0.0.1:1", "--data", "{data}", "--token", "abcdef.0123456789abcdef", "--ca-file"),
    ("driver", "run", "--node", "node-1", "--data", "{data}"),
    ("up", "--listen", "127.0.0.1", "--data", "{data}", "--scheduler-config"),
    ("restore", "--data", "{data}"),
    ("import", "--kubeconfig", "{unreachable}"),
    ("simulate", "run", "--processes", "1", "--workload", "{good}", "--cluster"),
    ("simulate", "openb", "--processes", "1", "--pods", "{good}", "--nodes"),
    ("simulate", "capacity", "--snapshot", "{good}", "-f"),
    ("simulate", "scale-up", "--snapshot", "{good}", "--groups"),
]  # fmt: skip
#: Commands that talk to an API server.
_CLIENTS = [
    ("allocate", "-f", "{good}"),
    ("backup", "{data}/backup"),
    ("cel", "true"),
    ("controllers", "--no-leader-elect"),
    ("convert", "--cluster"),
    ("demo",),
    ("devices",),
    ("driver", "gpu", "--root", "{data}", "--cdi", "{data}/cdi"),
    ("driver", "verify", "--registry", "{data}"),
    ("explain", "pod", "x"),
    ("export", "{data}/objects.json"),
    ("exporter",),
    ("node", "--root", "{data}", "--port", "0"),
    ("node", "--simulated", "1"),
    ("scheduler", "--no-leader-elect"),
    ("simulate", "capacity", "-f", "{good}"),
    ("snapshot",),
    ("token", "create"),
    ("token", "delete", "abcdef"),
    ("token", "list"),
    ("ui",),
]
#: Components go on trying while nobody answers, and say so.
_PATIENT = {"controllers", "scheduler"}


def every_command(group: click.Group = commands.dray, *before: str) -> list[tuple[str, ...]]:
    """Every command, those of groups included, whoever adds one."""
    found: list[tuple[str, ...]] = [before]
    for name, command in sorted(group.commands.items()):
        inner = isinstance(command, click.Group)
        found += every_command(command, *before, name) if inner else [(*before, name)]
    return found


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    files = {
        "good": b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n",
        "binary": bytes(range(128, 256)) * 8,
        "empty": b"",
        "malformed": b"apiVersion: v1\nkind: {[\n",
        "unreachable": _KUBECONFIG.encode(),
        "wrong": b"apiVersion: v1\nkind: Config\n",
    }
    for name, content in files.items():
        (tmp_path / f"{name}.yaml").write_bytes(content)
    for name in ("folder", "data"):
        (tmp_path / name).mkdir(mode=0o700)
    found = {name: str(tmp_path / f"{name}.yaml") for name in (*files, "missing")}
    return {**found, "folder": str(tmp_path / "folder"), "data": str(tmp_path / "data")}


def dray(places: dict[str, str], *arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    arguments = tuple(argument.format(**places) for argument in arguments)
    if arguments and arguments[0] in _TOOLS:
        return in_this_process(arguments, {"HOME": places["folder"], "XDG_DATA_HOME": places["folder"]})
    line = [DRAY, *arguments]
    process = subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(places)
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, err = process.communicate(timeout=30)
    return subprocess.CompletedProcess(line, process.returncode, out, err)


def environment(places: dict[str, str]) -> dict[str, str]:
    """A user without a cluster."""
    kept = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "DRAY_DATA")}
    return {**kept, "HOME": places["folder"], "XDG_DATA_HOME": places["folder"], "NO_COLOR": "1"}


def in_this_process(
    arguments: tuple[str, ...], variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """The same without the start of a process, for commands that answer and end."""
    without: dict[str, str | None] = {"KUBECONFIG": None, "DRAY_DATA": None, "KUBERNETES_SERVICE_HOST": None}
    done = CliRunner().invoke(commands.dray, arguments, env={**variables, **without})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(f"{arguments} end with a traceback") from done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that says what is wrong."""
    everything = done.stdout + done.stderr
    assert "Traceback" not in everything, everything[-2000:]
    assert done.returncode in (1, 2), (done.args, done.returncode, everything[-2000:])
    last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.stdout.strip()
    assert last, done.args
    return last


@pytest.mark.parametrize("wrong", ["missing", "folder", "binary", "empty", "malformed"])
@pytest.mark.parametrize("command", _READERS, ids=" ".join)
def test_a_file_that_cannot_be_used_is_named(places: dict[str, str], command: tuple[str, ...], wrong: str):
    done = dray(places, *command, f"{{{wrong}}}", seconds=5 if wrong == "empty" else 20)
    everything = done.stdout + done.stderr
    assert "Traceback" not in everything, everything[-2000:]
    if wrong == "missing":
        assert done.returncode == 1 and Path(places[wrong]).name in refused(done), everything
    elif wrong in ("binary", "malformed") and command[0] not in ("controllers", "server", "node"):
        assert done.returncode in (1, 3) and Path(places[wrong]).name in everything, everything


@pytest.mark.parametrize("wrong", ["binary", "malformed"])
@pytest.mark.parametrize("option", ["--token-auth-file", "--audit-policy-file"])
@pytest.mark.parametrize("command", ["up", "server"])
def test_a_file_that_a_server_cannot_start_with_is_all_it_speaks_of(
    places: dict[str, str], command: str, option: str, wrong: str
):
    log = ("--audit-log-path", "-") if option == "--audit-policy-file" else ()
    done = dray(
        places, command, "--listen", "127.0.0.1", "--data", "{data}", "--store", "memory", *log, option, f"{{{wrong}}}"
    )  # fmt: skip
    assert done.returncode == 1 and places[wrong] in refused(done)
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    "given", [("--audit-log-path", "-"), ("--audit-policy-file", "{good}")], ids=" ".join
)
def test_an_audit_without_policy_or_log_is_refused(places: dict[str, str], given: tuple[str, ...]):
    done = dray(places, "server", "--listen", "127.0.0.1", "--data", "{data}", "--store", "memory", *given)
    assert done.returncode == 2 and "go together" in refused(done)


@pytest.mark.parametrize("wrong", ["missing", "wrong", "malformed", "binary", "empty", "folder"])
@pytest.mark.parametrize("command", _CLIENTS, ids=" ".join)
def test_a_kubeconfig_that_cannot_be_used_is_named(
    places: dict[str, str], command: tuple[str, ...], wrong: str
):
    done = dray(places, *command, "--kubeconfig", f"{{{wrong}}}")
    assert done.returncode == 1 and Path(places[wrong]).name in refused(done)


@pytest.mark.parametrize("command", [c for c in _CLIENTS if c[0] not in _PATIENT], ids=" ".join)
def test_a_server_that_does_not_answer_is_named(places: dict[str, str], command: tuple[str, ...]):
    done = dray(places, *command, "--kubeconfig", "{unreachable}")
    refused(done)
    assert done.stdout == "" or command[1:2] == ("verify",)
    assert command[1:2] == ("verify",) or "127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("command", [c for c in _CLIENTS if c[0] in _PATIENT], ids=" ".join)
def test_a_component_says_which_server_it_waits_for(places: dict[str, str], command: tuple[str, ...]):
    """It goes on trying, so the test ends it once it has said so."""
    line = [DRAY, *command, "--kubeconfig", places["unreachable"]]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment(places)) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.terminate()
        rest = process.stderr.read()
    assert "127.0.0.1:1" in first and "trying again" in first
    assert "Traceback" not in rest


@pytest.mark.parametrize("command", [*every_command(), ("up", "--detach")], ids=" ".join)
def test_an_unknown_flag_is_a_mistake_on_the_command_line(places: dict[str, str], command: tuple[str, ...]):
    done = in_this_process((*command, "--nonsense"), {"HOME": places["folder"]})
    assert done.returncode == 2
    assert "--nonsense" in done.stderr


def test_a_misspelt_command_is_answered_with_the_one_that_was_meant(places: dict[str, str]):
    done = in_this_process(("explian",), {"HOME": places["folder"]})
    assert done.returncode == 2 and "Did you mean explain?" in done.stderr


@pytest.mark.parametrize("command", ["devices", "explain"])
def test_without_a_cluster_the_user_is_told_how_to_get_one(places: dict[str, str], command: str):
    done = dray(places, *((command, "pod", "x") if command == "explain" else (command,)))
    assert "dray up" in refused(done) and "--kubeconfig" in done.stderr


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        yield busy.getsockname()[1]


@pytest.mark.parametrize("command", [("up",), ("up", "--detach"), ("server",)], ids=" ".join)
def test_a_port_in_use_is_named(places: dict[str, str], command: tuple[str, ...], taken_port: int):
    done = dray(places, *command, "--data", "{data}", "--listen", f"127.0.0.1:{taken_port}")
    assert f"127.0.0.1:{taken_port}: Address already in use" in refused(done)


@pytest.mark.parametrize("command", [("scheduler",), ("controllers",)], ids=" ".join)
def test_a_port_for_metrics_in_use_is_named(
    places: dict[str, str], command: tuple[str, ...], taken_port: int
):
    listen = f"127.0.0.1:{taken_port}"
    done = dray(places, *command, "--kubeconfig", "{unreachable}", "--metrics-listen", listen)
    assert "in use" in refused(done)


@pytest.mark.parametrize("command", [("ui",), ("exporter",)], ids=" ".join)
def test_an_address_that_cannot_be_listened_on_is_named(
    places: dict[str, str], command: tuple[str, ...], taken_port: int
):
    for address in (f"127.0.0.1:{taken_port}", "192.0.2.1", "127.0.0.1:99999", "no.such.host.invalid"):
        done = dray(places, *command, "--kubeconfig", "{unreachable}", "--listen", address)
        assert address in refused(done)


@pytest.mark.parametrize("detached", [(), ("--detach",)], ids=["foreground", "detached"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--runtime", "docker"), "--runtime docker"),
        (("--runtime", "cri:/nonexistent.sock"), "/nonexistent.sock"),
        (("--store", "sqlite:/proc/x.db"), "/proc/x.db"),
        (("--listen", "127.0.0.1:99999"), "not a port: 99999"),
        (("--drivers", "dogs"), "--drivers dogs"),
        (("--without", "nodes"), "--without nodes: a cluster can do without scheduler and controllers"),
        (("--without", "scheduler", "--device-policy", "pack"), "to heed --device-policy=pack"),
        (("--kubeconfig", "/proc/nope/kubeconfig"), "/proc/nope"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_up_says_itself_what_is_wrong(
    places: dict[str, str], options: tuple[str, ...], words: str, detached: tuple[str, ...]
):
    listen = () if "--listen" in options else ("--listen", "127.0.0.1")
    done = dray(
        places, "up", "--data", "{data}", "--nodes", "1", "--store", "memory", *listen, *options, *detached
    )
    assert words in refused(done)


@pytest.mark.parametrize(
    "command",
    [
        ("up", "--data"),
        ("up", "--detach", "--data"),
        ("server", "--data"),
        ("snapshot", "--snapshot", "{good}", "-f"),
        ("convert", "-f", "{good}", "-o"),
        ("envtest",),
        ("driver", "new", "cats", "--directory"),
    ],
    ids=" ".join,
)
def test_a_place_that_cannot_be_written_is_named(places: dict[str, str], command: tuple[str, ...]):
    # /proc is read-only for root, too.
    assert "/proc/" in refused(dray(places, *command, "/proc/nope/x"))


def test_a_driver_without_a_kubeconfig_says_so(places: dict[str, str], tmp_path: Path):
    program = tmp_path / "driver.py"
    program.write_text(
        "from dray.driver import Driver, main\n\nclass Cats(Driver):\n    name = 'cats.example.com'\n\nmain(Cats())\n"
    )
    import sys

    environment = {**os.environ, "HOME": places["folder"], "KUBECONFIG": places["missing"]}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False, env=environment
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "cats.example.com: there is no kubeconfig" in done.stderr


@pytest.mark.parametrize("option", ["--root", "--cdi-spec-dir", "--pod-log-dir"])
def test_a_file_where_a_node_needs_a_directory_is_said_at_once(option: str, places: dict[str, str]):
    result = dray(places, "node", "--kubeconfig", "{unreachable}", option, "{good}")
    assert result.returncode == 2
    assert f"'{option}': Directory '{places['good']}' is a file." in result.stderr
