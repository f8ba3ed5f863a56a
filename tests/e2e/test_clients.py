"""Client libraries that people use, as they come from their registries: list, watch, patch, exec and port-forward."""

from __future__ import annotations

import json
import subprocess
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.process import DrayProcess, dray_process, free_port
from tests.support.wait import wait_for_sync

PODS = "/api/v1/namespaces/default/pods"
REQUEST = b"GET /hostname HTTP/1.0\r\n\r\n"
ANSWER = b"HTTP/1.0 200"
ECHO = ["echo", "hello"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    with dray_process(
        tmp_path_factory.mktemp("clients") / "c", "up", "--nodes", "1", "--drivers", "none"
    ) as server:
        yield server


@pytest.fixture(scope="module")
def port(cluster: DrayProcess) -> int:
    """Where the pod ``web`` serves /etc inside."""
    number = free_port()
    server = ["python3", "-m", "http.server", str(number), "--bind", "127.0.0.1", "--directory", "/etc"]
    web = {"name": "web", "image": "any", "command": server}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [web]}
    cluster.request("POST", PODS, {"metadata": {"name": "web"}, "spec": spec})

    def running() -> bool:
        return bool(cluster.get(f"{PODS}/web")["status"].get("phase") == "Running")

    wait_for_sync("the pod to run", running, log=lambda: cluster.log)
    return number


def label(cluster: DrayProcess, name: str) -> str:
    return str(cluster.get(f"{PODS}/web")["metadata"]["labels"].get(name))


def test_the_official_python_client(cluster: DrayProcess, port: int):
    from kubernetes import client, config, watch
    from kubernetes.stream import portforward, stream

    api = client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
    assert [p.metadata.name for p in api.list_namespaced_pod("default").items] == ["web"]
    seen = next(iter(watch.Watch().stream(api.list_namespaced_pod, "default", timeout_seconds=5)))
    assert (seen["type"], seen["object"].metadata.name) == ("ADDED", "web")
    api.patch_namespaced_pod("web", "default", {"metadata": {"labels": {"official": "yes"}}})
    assert label(cluster, "official") == "yes"
    said = stream(
        api.connect_get_namespaced_pod_exec, "web", "default", command=ECHO, stdout=True, stderr=True
    )
    assert said == "hello\n"

    def answered() -> bool:
        forward = portforward(api.connect_get_namespaced_pod_portforward, "web", "default", ports=str(port))
        connection = forward.socket(port)
        connection.setblocking(True)
        connection.sendall(REQUEST)
        return bool(connection.recv(1024).startswith(ANSWER))

    wait_for_sync("the forwarded port to answer", answered)


def test_lightkube(cluster: DrayProcess, port: int):
    from lightkube import Client, KubeConfig
    from lightkube.resources.core_v1 import Pod

    api = Client(config=KubeConfig.from_file(str(cluster.kubeconfig)), namespace="default")
    assert [pod.metadata.name for pod in api.list(Pod)] == ["web"]
    event, seen = next(iter(api.watch(Pod, server_timeout=5)))
    assert (event, seen.metadata.name) == ("ADDED", "web")
    api.patch(Pod, "web", {"metadata": {"labels": {"lightkube": "yes"}}})
    assert label(cluster, "lightkube") == "yes"
    assert api.exec("web", command=ECHO, stdout=True).stdout == "hello\n"


def test_kr8s(cluster: DrayProcess, port: int):
    import kr8s
    from kr8s.objects import Pod

    warnings.filterwarnings("ignore", message="Kubernetes version .* is not supported")
    api = kr8s.api(kubeconfig=str(cluster.kubeconfig))
    assert [pod.name for pod in api.get("pods", namespace="default")] == ["web"]
    event, seen = next(iter(api.watch("pods", namespace="default")))
    assert (event, seen.name) == ("ADDED", "web")
    pod = Pod.get("web", namespace="default", api=api)
    pod.patch({"metadata": {"labels": {"kr8s": "yes"}}})
    assert label(cluster, "kr8s") == "yes"
    assert pod.exec(ECHO).stdout == b"hello\n"

    def answered() -> bool:
        with pod.portforward(remote_port=port, local_port="auto") as local:
            return bool(
                urllib.request.urlopen(f"http://127.0.0.1:{local}/hostname", timeout=10).status == 200
            )

    wait_for_sync("the forwarded port to answer", answered)


async def test_kubernetes_asyncio(cluster: DrayProcess, port: int):
    from kubernetes_asyncio import client, config, watch
    from kubernetes_asyncio.stream import WsApiClient

    settings = client.Configuration()
    await config.load_kube_config(str(cluster.kubeconfig), client_configuration=settings)
    async with client.ApiClient(settings) as connection:
        api = client.CoreV1Api(connection)
        assert [p.metadata.name for p in (await api.list_namespaced_pod("default")).items] == ["web"]
        async with watch.Watch() as watching:
            async for seen in watching.stream(api.list_namespaced_pod, "default", timeout_seconds=5):
                assert (seen["type"], seen["object"].metadata.name) == ("ADDED", "web")
                break
        await api.patch_namespaced_pod("web", "default", {"metadata": {"labels": {"asyncio": "yes"}}})
        assert label(cluster, "asyncio") == "yes"
    async with WsApiClient(settings) as connection:
        api = client.CoreV1Api(connection)
        said = await api.connect_get_namespaced_pod_exec(
            "web", "default", command=ECHO, stdout=True, stderr=True
        )
        assert said == "hello\n"
        opened = await api.connect_get_namespaced_pod_portforward(
            "web", "default", ports=str(port), _preload_content=False
        )
        async with opened as socket:
            for channel in (0, 1):
                assert (await socket.receive()).data == bytes([channel]) + port.to_bytes(2, "little")
            await socket.send_bytes(b"\x00" + REQUEST)
            assert (await socket.receive()).data.startswith(b"\x00" + ANSWER)


def test_client_node(cluster: DrayProcess, port: int, tool: Callable[[str], str]):
    modules = ROOT / ".tools" / "npm" / "node_modules"
    if not (modules / "@kubernetes/client-node").is_dir():
        pytest.skip("@kubernetes/client-node cannot be had on this machine")
    script = Path(__file__).with_name("client_node.mjs")
    done = subprocess.run(
        [tool("node"), str(script), str(modules), str(cluster.kubeconfig), str(port)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "list": ["web"],
        "watch": ["ADDED", "web"],
        "patch": "yes",
        "exec": ["Success", "hello\n"],
        "forward": "HTTP/1.0 200",
    }
