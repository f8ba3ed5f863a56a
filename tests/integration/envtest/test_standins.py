"""The stand-ins, started as controller-runtime's envtest starts kube-apiserver and etcd."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from dray.app import pki
from dray.envtest import apiserver, flags, standins
from tests.support.paths import TOOLS
from tests.support.process import free_port, is_ready
from tests.support.wait import wait_for_sync


@contextmanager
def running(
    log: Path, *command: str, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(20) == 0, log.read_text()


@pytest.fixture
def assets(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """What envtest has: a directory of binaries, a serving certificate of its own, a CA for clients, free ports."""
    with ExitStack() as stack:
        binaries = tmp_path / "assets"
        standins.write(binaries)
        serving, clients = pki.Pki(tmp_path / "serving"), pki.Pki(tmp_path / "clients")
        for authority in (serving, clients):
            authority.folder.mkdir()
            certificate, key = pki.new_ca()
            authority.ca.write_bytes(certificate)
            authority.ca_key.write_bytes(key)
        pki.sign(serving, "apiserver", "localhost", names=["localhost", "127.0.0.1"])
        pki.sign(clients, "admin", "default", groups=["system:masters"])
        signer, signing_key = pki.new_ca()
        (serving.folder / "sa-signer.crt").write_bytes(signer)
        (serving.folder / "sa-signer.key").write_bytes(signing_key)
        etcd, secure = free_port(), free_port()
        client_url, peer_url = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{free_port()}"
        etcd_log = tmp_path / "etcd.log"
        stack.enter_context(
            running(
                etcd_log, str(binaries / "etcd"), f"--advertise-client-urls={client_url}", f"--data-dir={tmp_path}/etcd",
                f"--listen-client-urls={client_url}", f"--listen-peer-urls={peer_url}", "--unsafe-no-fsync=true",
            )
        )  # fmt: skip
        wait_for_sync("etcd to be healthy", lambda: _health(client_url), log=etcd_log.read_text)
        yield SimpleNamespace(
            kube_apiserver=str(binaries / "kube-apiserver"),
            url=f"https://127.0.0.1:{secure}",
            log=tmp_path / "apiserver.log",
            serving=serving,
            clients=clients,
            flags=[
                "--allow-privileged=true", "--authorization-mode=RBAC",
                "--bind-address=127.0.0.1", f"--cert-dir={serving.folder}", f"--client-ca-file={clients.ca}",
                "--disable-admission-plugins=ServiceAccount", f"--etcd-servers={client_url}", f"--secure-port={secure}",
                f"--service-account-issuer=https://127.0.0.1:{secure}/",
                f"--service-account-key-file={serving.folder}/sa-signer.crt",
                f"--service-account-signing-key-file={serving.folder}/sa-signer.key",
                "--service-cluster-ip-range=10.0.0.0/24",
            ],
        )  # fmt: skip


def _health(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return b'"true"' in answer.read()
    except OSError:
        return False


def test_the_python_client_and_kubectl_find_an_api_server(assets: SimpleNamespace) -> None:
    from kubernetes import client

    with running(assets.log, assets.kube_apiserver, *assets.flags):
        wait_for_sync("the API server to be ready", lambda: is_ready(assets.url), log=assets.log.read_text)
        configuration = client.Configuration(host=assets.url)
        configuration.ssl_ca_cert = str(assets.serving.ca)
        admin = assets.clients.leaf("admin")
        configuration.cert_file, configuration.key_file = str(admin.certificate), str(admin.key)
        with client.ApiClient(configuration) as connection:
            core = client.CoreV1Api(connection)
            body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="c"), data={"a": "b"})
            core.create_namespaced_config_map("default", body)
        printed = subprocess.run(
            [
                str(TOOLS / "kubectl-1.36"), "--server", assets.url, "--certificate-authority", str(assets.serving.ca),
                "--client-certificate", str(admin.certificate), "--client-key", str(admin.key),
                "get", "configmap", "c", "-o", "jsonpath={.data.a}",
            ],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert printed.stdout == "b"
    said = assets.log.read_text()
    assert said.count("without meaning here") == 1 and "--allow-privileged" in said


def test_a_whole_cluster_where_the_environment_asks_for_nodes(assets: SimpleNamespace) -> None:
    with running(assets.log, assets.kube_apiserver, *assets.flags, environment={apiserver.NODES: "1"}):
        wait_for_sync("the API server to be ready", lambda: is_ready(assets.url), log=assets.log.read_text)
        admin = assets.clients.leaf("admin")
        kubectl = [
            str(TOOLS / "kubectl-1.36"), "--server", assets.url, "--certificate-authority", str(assets.serving.ca),
            "--client-certificate", str(admin.certificate), "--client-key", str(admin.key),
        ]  # fmt: skip
        wait_for_sync(
            "the node's devices",
            lambda: "node-1" in subprocess.run(
                [*kubectl, "get", "resourceslices"], capture_output=True, text=True, check=False
            ).stdout,
        )  # fmt: skip


def test_tokens_of_service_accounts_are_signed_with_the_key_of_the_suite(assets: SimpleNamespace) -> None:
    import jwt
    from cryptography import x509

    with running(assets.log, assets.kube_apiserver, *assets.flags):
        wait_for_sync("the API server to be ready", lambda: is_ready(assets.url), log=assets.log.read_text)
        admin = assets.clients.leaf("admin")
        kubectl = [
            str(TOOLS / "kubectl-1.36"), "--server", assets.url, "--certificate-authority", str(assets.serving.ca),
            "--client-certificate", str(admin.certificate), "--client-key", str(admin.key),
        ]  # fmt: skip
        subprocess.run([*kubectl, "create", "serviceaccount", "robot"], check=True, capture_output=True)
        made = subprocess.run(
            [*kubectl, "create", "token", "robot"], check=True, capture_output=True, text=True
        )
    signer = x509.load_pem_x509_certificate((assets.serving.folder / "sa-signer.crt").read_bytes())
    claims = jwt.decode(
        made.stdout.strip(), signer.public_key(), algorithms=["ES256"], audience=f"{assets.url}/"
    )  # type: ignore[arg-type]
    assert (claims["iss"], claims["sub"]) == (f"{assets.url}/", "system:serviceaccount:default:robot")


def test_help_ends_at_once_and_names_the_flags_that_envtest_looks_for(tmp_path: Path) -> None:
    """envtest runs ``--help`` without a time limit and looks for flags at the start of a line."""
    standins.write(tmp_path)
    found = {
        name: re.findall(
            r"(?m)^\s*--([a-z-]+)\b",
            subprocess.run(
                [str(tmp_path / name), "--help"], capture_output=True, text=True, check=True, timeout=60
            ).stdout,
        )
        for name in ("kube-apiserver", "etcd")
    }
    assert "unsafe-no-fsync" in found["etcd"]
    assert "secure-port" in found["kube-apiserver"] and "insecure-port" not in found["kube-apiserver"]


def test_flags_are_read_as_go_reads_them() -> None:
    assert flags.parse(["--a=1", "--b", "2", "-c", "--a=3"]) == {"a": ["1", "3"], "b": ["2"], "c": ["true"]}


def test_a_bad_flag_is_one_line(tmp_path: Path) -> None:
    standins.write(tmp_path)
    done = subprocess.run(
        [str(tmp_path / "kube-apiserver"), "--secure-port=x"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "dray as kube-apiserver: --secure-port x: not a port\n")


def test_a_stand_in_that_is_asked_for_its_version_does_not_start(tmp_path: Path) -> None:
    standins.write(tmp_path)
    for name in ("kube-apiserver", "etcd"):
        command = [str(tmp_path / name), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout.startswith("dray ") and done.stdout.endswith(f" as {name}\n")
