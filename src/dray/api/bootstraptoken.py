"""Bootstrap tokens: what they look like, the Secrets that hold them, and what is signed and pinned with their help.

A token is ``ID.SECRET``. The ID may be shown, the secret may not.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api.times import to_epoch

if TYPE_CHECKING:
    from dray.api.types.core import Secret

NAMESPACE: Final = "kube-system"
TYPE: Final = "bootstrap.kubernetes.io/token"
GROUP: Final = "system:bootstrappers"
PREFIX: Final = "bootstrap-token-"
#: Where a cluster tells strangers how it is reached and by which authority it is known.
CLUSTER_INFO_NAMESPACE: Final = "kube-public"
CLUSTER_INFO: Final = "cluster-info"
SIGNATURE_PREFIX: Final = "jws-kubeconfig-"

_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class Token(NamedTuple):
    id: str
    secret: str

    def __str__(self) -> str:
        return f"{self.id}.{self.secret}"

    @property
    def name(self) -> str:
        """The name of the Secret that holds it."""
        return PREFIX + self.id


def parse(text: str) -> Token | None:
    match = _TOKEN.fullmatch(text)
    return None if match is None else Token(*match.groups())


def secret(token: Token, *, expiration: str = "", description: str = "", groups: str = "") -> Secret:
    """The Secret by which a cluster knows a token that may both authenticate and sign."""
    data = {
        "token-id": token.id,
        "token-secret": token.secret,
        "expiration": expiration,
        "description": description,
        "auth-extra-groups": groups,
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
    }
    return {
        "metadata": {"name": token.name, "namespace": NAMESPACE},
        "type": TYPE,
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items() if text},
    }


def text(found: Secret, key: str) -> str:
    """A field of a Secret, decoded; empty where it is missing or no text."""
    try:
        return base64.b64decode((found.get("data") or {}).get(key) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def expires(found: Secret) -> float | None:
    """When the token of a Secret ends; None: never. A time that cannot be read is long past."""
    when = text(found, "expiration")
    if not when:
        return None
    try:
        return to_epoch(when)
    except ValueError:
        return float("-inf")


def token_of(found: Secret, *, usage: str, now: float) -> Token | None:
    """The token a Secret holds, if it is in force and may be used for ``authentication`` or ``signing``."""
    token = Token(text(found, "token-id"), text(found, "token-secret"))
    ends = expires(found)
    good = (
        found.get("type") == TYPE
        and found["metadata"]["name"] == token.name
        and bool(token.id and token.secret)
        and text(found, f"usage-bootstrap-{usage}") == "true"
        and (ends is None or ends > now)
    )
    return token if good else None


def signature(content: str, token: Token) -> str:
    """Whoever has the token can tell by this that the content is from somebody who has it too.

    A JSON web signature (HS256) whose payload has been left out.
    """
    head = _base64url(b'{"alg":"HS256","kid":"%s"}' % token.id.encode())
    signed = f"{head}.{_base64url(content.encode())}".encode()
    return f"{head}..{_base64url(hmac.digest(token.secret.encode(), signed, 'sha256'))}"


def is_signed(content: str, signed: str, token: Token) -> bool:
    return hmac.compare_digest(signature(content, token).encode(), signed.encode())


def pins(authorities: bytes) -> list[str]:
    """For each certificate in PEM the hash of its public key, as ``sha256:HEX``: short enough to carry by hand."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    found = []
    for pem in _CERTIFICATE.findall(authorities):
        key = x509.load_pem_x509_certificate(pem).public_key()
        info = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        found.append("sha256:" + hashlib.sha256(info).hexdigest())
    return found


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
