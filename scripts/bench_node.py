"""From bound to Running: how long a node takes to start a pod with a claim, seen from outside over a watch.

Pods are created one after the other, each with a claim from a template on devices of the GPU driver. The time runs
from the event that shows the pod bound to the one that shows it Running. ``--at-once`` creates them all and waits for
the last one to run.
"""

from __future__ import annotations

import argparse
import http.client
import json
import ssl
import statistics
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit


class Server:
    def __init__(self, url: str, token: str) -> None:
        self._host = urlsplit(url).netloc
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, context=ssl._create_unverified_context(), timeout=60)

    def ask(
        self, connection: http.client.HTTPSConnection, method: str, path: str, body: Any = None
    ) -> dict[str, Any]:
        connection.request(method, path, body and json.dumps(body), self._headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 400 and answer.status not in (404, 409):
            raise SystemExit(f"{method} {path}: {text.decode(errors='replace')}")
        document: dict[str, Any] = json.loads(text)
        return document

    def watch(self, path: str) -> http.client.HTTPResponse:
        connection = self.connect()
        connection.request("GET", path, headers=self._headers)
        return connection.getresponse()


TEMPLATE = {
    "metadata": {"name": "one"},
    "spec": {
        "spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
        }
    },
}
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def pod(name: str) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sleep", "3600"],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    }


def measure(server: Server, pods: int) -> list[float]:
    """Milliseconds from bound to Running, pod by pod."""
    calls = server.connect()
    templates = CLAIMS.replace("resourceclaims", "resourceclaimtemplates")
    server.ask(calls, "POST", templates, TEMPLATE)
    version = server.ask(calls, "GET", PODS)["metadata"]["resourceVersion"]
    events = server.watch(f"{PODS}?watch=1&resourceVersion={version}")
    out = []
    for number in range(pods):
        name = f"bench-{number}"
        server.ask(calls, "POST", PODS, pod(name))
        bound = running = 0.0
        while not running:
            line = events.readline()
            now = time.perf_counter()
            seen = json.loads(line)["object"]
            if seen["metadata"]["name"] != name:
                continue
            if not bound and seen["spec"].get("nodeName"):
                bound = now
            if seen.get("status", {}).get("phase") == "Running":
                running = now
        out.append((running - bound) * 1000)
        server.ask(calls, "DELETE", f"{PODS}/{name}")
        gone = False
        while not gone:
            event = json.loads(events.readline())
            gone = event["type"] == "DELETED" and event["object"]["metadata"]["name"] == name
    return out


def all_at_once(server: Server, pods: int) -> float:
    """Seconds from the first pod's creation until all of them run."""
    calls = server.connect()
    server.ask(calls, "POST", CLAIMS.replace("resourceclaims", "resourceclaimtemplates"), TEMPLATE)
    began = time.perf_counter()
    for number in range(pods):
        server.ask(calls, "POST", PODS, pod(f"bench-{number}"))
    wait_for(server, PODS, pods, lambda p: p.get("status", {}).get("phase") == "Running")
    return time.perf_counter() - began


def wait_for(server: Server, path: str, number: int, good: Callable[[dict[str, Any]], bool]) -> None:
    calls = server.connect()
    for _ in range(600):
        if sum(good(item) for item in server.ask(calls, "GET", path)["items"]) >= number:
            return
        time.sleep(0.2)
    raise SystemExit(f"{path}: not all {number} are as they should be")


def is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--at-once", action="store_true", help="all pods at once")
    parser.add_argument("--ready-nodes", type=int, help="only wait until that many nodes are Ready")
    args = parser.parse_args()
    server = Server(args.server, args.token)
    if args.ready_nodes:
        wait_for(server, "/api/v1/nodes", args.ready_nodes, is_ready)
        print("{}")
        return
    if args.at_once:
        print(json.dumps({"all_running_s": round(all_at_once(server, args.pods), 2)}))
        return
    took = sorted(measure(server, args.pods))
    figures = {
        "bound_to_running_ms": round(statistics.median(took), 1),
        "p95_ms": round(took[int(len(took) * 0.95)], 1),
        "worst_ms": round(took[-1], 1),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
