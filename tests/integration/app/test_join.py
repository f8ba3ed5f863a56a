"""A second machine, as far as anybody can tell: it knows an address, a token and a hash, and becomes a node."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.kubectl import Kubectl
from tests.support.process import DRAY, dray_process
from tests.support.wait import wait_for_sync

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
    "type": "bootstrap.kubernetes.io/token",
    "stringData": {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
    },
}


def join_command(cluster: Kubectl) -> list[str]:
    """What `dray token create` tells one to type on the other machine."""
    line = [DRAY, "token", "create", "--print-join-command", "--kubeconfig", str(cluster.server.kubeconfig)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=30, check=True)
    words = done.stdout.split()
    assert words[:3] == ["dray", "node", "join"]
    return words[2:]


@contextlib.contextmanager
def joining(data: Path, name: str, *words: str) -> Iterator[Path]:
    """A process that joins; its log."""
    data.mkdir(parents=True, exist_ok=True)
    log = data / "test.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [DRAY, "node", *words, "--data", str(data), "--name", name],
            stdout=out, stderr=subprocess.STDOUT, env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
    try:
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)


def refused(tmp_path: Path, *words: str) -> str:
    """Why joining fails."""
    done = subprocess.run(
        [DRAY, "node", *words, "--data", str(tmp_path / "refused"), "--name", "nobody", "--timeout", "5"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert not (tmp_path / "refused" / "pki").exists()
    return done.stderr


def ready(cluster: Kubectl, name: str) -> bool:
    return f"{name} Ready" in " ".join(
        cluster.kubectl("get", "nodes", name, "--ignore-not-found", "--no-headers").split()
    )


def test_a_machine_joins_runs_pods_and_is_held_to_its_own(cluster: Kubectl, tmp_path: Path) -> None:
    data, words = tmp_path / "second", join_command(cluster)
    with joining(data, "worker", *words):
        wait_for_sync("node worker to be ready", lambda: ready(cluster, "worker"))
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "there", "namespace": "default"},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": "worker"},
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i", "command": ["sh", "-c", "echo hello"]}],
            },
        }
        cluster.apply(pod)
        wait_for_sync(
            "pod there to succeed", lambda: cluster.get("pod", "there")["status"].get("phase") == "Succeeded"
        )
        assert cluster.get("pod", "there")["spec"]["nodeName"] == "worker"
        assert cluster.kubectl("logs", "there") == "hello\n"

        [request] = [
            r for r in cluster.get("csr")["items"] if r["spec"]["username"].startswith("system:bootstrap:")
        ]
        assert request["status"]["conditions"][0]["reason"] == "AutoApproved"
        for file in ("kubeconfig", "pki/node.pem"):
            assert (data / file).stat().st_mode & 0o777 == 0o600, file

        node = cluster.acting("--kubeconfig", str(data / "kubeconfig"))
        assert "system:node:worker" in node.kubectl("auth", "whoami")
        node.kubectl("get", "node", "worker")
        for forbidden, why in (
            ("get node node-1", "only its own Node object"),
            ("get secrets -A", "can only read namespaced object of this type"),
            ("get resourceslices", "with nodeName field selector"),
            ("label node worker node-restriction.kubernetes.io/tenant=x", "is not allowed to modify labels"),
            ("taint node worker a=b:NoSchedule", "is not allowed to modify taints"),
        ):
            assert why in node.kubectl(*forbidden.split(), code=1), forbidden

    # Started again on its directory it needs no token, and somebody else cannot take its name.
    with joining(data, "worker", "join", words[1]) as log:
        wait_for_sync("node worker to be ready", lambda: ready(cluster, "worker"))
        impostor = [*words, "--data", str(tmp_path / "third"), "--name", "worker"]
        said = subprocess.run(
            [DRAY, "node", *impostor], capture_output=True, text=True, timeout=60, check=False
        )
        assert "has a node worker already" in said.stderr
        assert "has joined" not in log.read_text().partition("has joined")[2]


def test_machines_join_older_releases_too(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """Below 1.34 every object that is sent has a creationTimestamp of null, access reviews included."""
    with dray_process(
        tmp_path / "up", "up", "--store", "memory", "--nodes", "1", "--emulate", "1.27"
    ) as server:
        old = Kubectl(tool("kubectl-1.36"), server, tmp_path)
        with joining(tmp_path / "older", "older", *join_command(old), "--runtime", "simulated"):
            wait_for_sync("node older to be ready", lambda: ready(old, "older"))


def test_a_secret_made_with_kubectl_is_a_token_too(cluster: Kubectl, tmp_path: Path) -> None:
    cluster.apply(SECRET)
    ca = cluster.server.data / "pki" / "ca.crt"
    server = cluster.server.url.removeprefix("https://")
    # The token may authenticate but not sign: it does not tell a stranger which authority to trust.
    said = refused(
        tmp_path, "join", server, "--token", "abcdef.0123456789abcdef", "--unsafe-skip-ca-verification"
    )
    assert "not signed with this token" in said
    with joining(
        tmp_path / "by-secret", "by-secret",
        "join", server, "--token", "abcdef.0123456789abcdef", "--ca-file", str(ca), "--runtime", "simulated",
    ):  # fmt: skip
        wait_for_sync("node by-secret to be ready", lambda: ready(cluster, "by-secret"))


def test_whoever_has_the_token_vouches_where_one_trusts_that(cluster: Kubectl, tmp_path: Path) -> None:
    words = [w for w in join_command(cluster) if "sha256" not in w and "hash" not in w]
    assert "Give --ca-cert-hash or --ca-file" in refused(tmp_path, *words)
    with joining(
        tmp_path / "t", "trusting", *words, "--unsafe-skip-ca-verification", "--runtime", "simulated"
    ):
        wait_for_sync("node trusting to be ready", lambda: ready(cluster, "trusting"))


def test_nothing_is_given_to_the_wrong_cluster_or_for_a_wrong_token(cluster: Kubectl, tmp_path: Path) -> None:
    words = join_command(cluster)
    wrong = [w if not w.startswith("sha256:") else "sha256:" + "0" * 64 for w in words]
    assert "which is not what you gave" in refused(tmp_path, *wrong)
    at = words.index("--token") + 1
    liar = [*words[:at], words[at][:-4] + "zzzz", *words[at + 1 :]]
    assert "Unauthorized" in refused(tmp_path, *liar)
    assert "six letters or digits" in refused(tmp_path, "join", words[1], "--token", "hello")
    id = words[at].partition(".")[0]
    subprocess.run(
        [DRAY, "token", "delete", id, "--kubeconfig", str(cluster.server.kubeconfig)],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    assert "Unauthorized" in refused(tmp_path, *words)


def test_without_leave_a_certificate_waits_for_an_administrator(cluster: Kubectl, tmp_path: Path) -> None:
    binding = cluster.kubectl("get", "clusterrolebinding", "dray:node-client-certificates", "-o", "json")
    cluster.kubectl("delete", "clusterrolebinding", "dray:node-client-certificates")
    try:
        words = join_command(cluster)
        with joining(tmp_path / "slow", "slow", *words, "--runtime", "simulated") as log:
            wait_for_sync(
                "the hint to approve the certificate",
                lambda: "kubectl certificate approve csr-" in log.read_text(),
            )
            name = log.read_text().partition("certificate approve ")[2].split()[0]
            assert "Pending" in cluster.kubectl("get", "csr", name)
            cluster.kubectl("certificate", "approve", name)
            wait_for_sync("node slow to be ready", lambda: ready(cluster, "slow"))
    finally:
        cluster.kubectl("apply", "-f", "-", stdin=binding)


def test_a_refused_certificate_is_said_to_be_refused(cluster: Kubectl, tmp_path: Path) -> None:
    cluster.kubectl("delete", "clusterrolebinding", "dray:node-client-certificates")
    words = join_command(cluster)
    process = subprocess.Popen(
        [DRAY, "node", *words, "--data", str(tmp_path / "no"), "--name", "unwanted"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def asked() -> list[str]:
        listed = cluster.get("csr")["items"]
        return [r["metadata"]["name"] for r in listed if not r["status"]]

    wait_for_sync("a certificate signing request without an answer", asked)
    cluster.kubectl("certificate", "deny", *asked())
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "the certificate was refused (Denied)" in said


def test_parts_that_run_by_themselves_let_nodes_join_too(tmp_path: Path, tool: Callable[[str], str]) -> None:
    with dray_process(tmp_path / "server", "server", "--store", "memory") as server:
        alone = Kubectl(tool("kubectl-1.36"), server, tmp_path)
        keys = server.data / "pki"
        line = [
            DRAY, "controllers", "--kubeconfig", str(server.kubeconfig), "--no-leader-elect",
            "--controllers", "*,bootstrapsigner,tokencleaner",
            "--cluster-signing-cert-file", str(keys / "ca.crt"), "--cluster-signing-key-file", str(keys / "ca.key"),
        ]  # fmt: skip
        with (tmp_path / "controllers.log").open("wb") as log:
            controllers = subprocess.Popen(line, stdout=log, stderr=log)
        try:
            words = join_command(alone)
            with joining(tmp_path / "node", "lone", *words, "--runtime", "simulated"):
                wait_for_sync("node lone to be ready", lambda: ready(alone, "lone"))
        finally:
            controllers.terminate()
            controllers.wait(20)
