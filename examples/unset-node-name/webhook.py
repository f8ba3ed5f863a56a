"""The same as policy.yaml, as a webhook: an HTTPS server that answers AdmissionReviews with a JSON patch.

Prints the configuration that registers it, then serves until it is interrupted.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import ipaddress
import json
import ssl
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
HOSTNAME = "kubernetes.io/hostname"
MIRROR = "kubernetes.io/config.mirror"


def patch_for(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """What to change in a pod that comes with a node; nothing in others."""
    spec = pod["spec"]
    node = spec.get("nodeName")
    if not node or MIRROR in (pod["metadata"].get("annotations") or {}):
        return []
    selector = {**(spec.get("nodeSelector") or {}), HOSTNAME: node}
    return [
        {"op": "remove", "path": "/spec/nodeName"},
        {"op": "add", "path": "/spec/nodeSelector", "value": selector},
    ]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if patch := patch_for(request["object"]):
            text = json.dumps(patch).encode()
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(text).decode()}
        kind = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
        body = json.dumps({**kind, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a word."""


def certificate() -> tuple[bytes, bytes]:
    """A certificate for this address that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "unset-node-name")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(pem), private


def configuration(port: int, ca: bytes) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "unset-node-name.example.com",
        "clientConfig": {"url": f"https://{HOST}:{port}/", "caBundle": base64.b64encode(ca).decode()},
        "rules": [rule],
        "matchConditions": [{"name": "has-a-node", "expression": "has(object.spec.nodeName)"}],
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
            ]
        },
        "sideEffects": "None",
        "reinvocationPolicy": "IfNeeded",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "unset-node-name"},
        "webhooks": [webhook],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    server = ThreadingHTTPServer((HOST, parser.parse_args().port), Handler)
    public, private = certificate()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(private + public)
        context.load_cert_chain(file.name)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    json.dump(configuration(server.server_port, public), sys.stdout, indent=2)
    print(flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
