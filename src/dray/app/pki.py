"""The cluster's own certificate authority and what it has signed, made once and kept in the data directory.

Keys are readable by their owner only. A leaf that runs out soon, or that does not cover an address the server listens
on, is signed anew.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypedDict

from dray import atomicfile

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_DAY: Final = 86400
_CA_DAYS: Final = 3650
_LEAF_DAYS: Final = 365
_RENEW_DAYS: Final = 30
SERVICE_IP: Final = "10.96.0.1"
#: The certificate by which nodes know the API server, under its usual name.
KUBELET_CLIENT: Final = "apiserver-kubelet-client"
#: The common name of every API server's serving certificate.
APISERVER: Final = "kube-apiserver"
_SERVICE_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True, slots=True)
class Leaf:
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Pki:
    """Where everything is."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.folder / "ca.key"

    def leaf(self, name: str) -> Leaf:
        return Leaf(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def context(self, serving: Leaf | None = None, client_ca: Path | None = None) -> ssl.SSLContext:
        """TLS for the server, with a certificate of its own or the given one. Client certificates are asked for, and
        verified when sent: this CA or ``client_ca`` must have signed them."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        serving = serving or self.leaf("apiserver")
        context.load_cert_chain(serving.certificate, serving.key)
        context.load_verify_locations(self.ca)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context


def write_private(path: Path, data: bytes) -> None:
    """Replace a file at once, with a mode that keeps it from others from the first byte on."""
    atomicfile.write(path, data, mode=0o600, durable=True)


class KeyMaker(Protocol):
    """Makes keys and certificates: this process, or another one (``dray.app.keymaker``)."""

    def new_ca(self) -> tuple[bytes, bytes]:
        """The certificate of a new authority and its key, PEM."""
        ...

    def new_account_key(self) -> bytes:
        """A new key that signs tokens of service accounts, PEM."""
        ...

    def sign(self, folder: Path, name: str, user: str, groups: Sequence[str], names: Sequence[str]) -> None:
        """See the function of this name."""
        ...


class InProcess:
    """Makes them here."""

    def new_ca(self) -> tuple[bytes, bytes]:
        return new_ca()

    def new_account_key(self) -> bytes:
        return new_account_key()

    def sign(self, folder: Path, name: str, user: str, groups: Sequence[str], names: Sequence[str]) -> None:
        sign(Pki(folder), name, user, groups=groups, names=names)


def ensure(folder: Path, hosts: Sequence[str], *, maker: KeyMaker | None = None) -> Pki:
    """The CA, the serving certificate for ``hosts`` and the administrator's certificate, making what is missing."""
    maker = maker or InProcess()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    pki = Pki(folder)
    if not pki.ca.exists() or not pki.ca_key.exists():
        certificate, key = maker.new_ca()
        write_private(pki.ca_key, key)
        write_private(pki.ca, certificate)
    names = list(
        dict.fromkeys((*_SERVICE_NAMES, socket.gethostname(), SERVICE_IP, "127.0.0.1", "::1", *hosts))
    )
    ensure_leaf(pki, "apiserver", APISERVER, names=names, maker=maker)
    ensure_leaf(pki, "admin", "kubernetes-admin", groups=("system:masters",), maker=maker)
    # Nodes know it by its name. It is in no group, so a node that passes it on gains nothing by it.
    ensure_leaf(pki, KUBELET_CLIENT, "kube-apiserver-kubelet-client", maker=maker)
    return pki


class LeafNote(TypedDict):
    """What the file beside a certificate says about it."""

    user: str
    groups: list[str]
    names: list[str]
    expires: int  # seconds since the epoch


def ensure_leaf(
    pki: Pki,
    name: str,
    user: str,
    *,
    groups: Sequence[str] = (),
    names: Sequence[str] = (),
    maker: KeyMaker | None = None,
) -> Leaf:
    """Sign a leaf unless the one that is there is for the same user and groups, covers the names and lasts. A note beside
    it saves parsing it."""
    note = pki.folder / f"{name}.json"
    leaf = pki.leaf(name)
    try:
        known: LeafNote = json.loads(note.read_bytes())
    except (OSError, ValueError):
        known = {"user": "", "groups": [], "names": [], "expires": 0}
    lasting = known.get("expires", 0) - time.time() > _RENEW_DAYS * _DAY
    covered = set(names) <= set(known.get("names", ()))
    same = known.get("user") == user and known.get("groups") == list(groups)
    if leaf.certificate.exists() and leaf.key.exists() and same and lasting and covered:
        return leaf
    (maker or InProcess()).sign(pki.folder, name, user, groups, names)
    made: LeafNote = {
        "user": user,
        "groups": list(groups),
        "names": list(names),
        "expires": int(time.time()) + _LEAF_DAYS * _DAY,
    }
    write_private(note, json.dumps(made).encode())
    return leaf


def new_ca() -> tuple[bytes, bytes]:
    """The certificate of a new authority and its key, PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name("dray-ca")
    builder = _builder(subject, subject, key, days=_CA_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(ca=True), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return _pem(builder.sign(key, hashes.SHA256())), _key_pem(key)


def new_account_key() -> bytes:
    """A new key that signs tokens of service accounts, PEM."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return _key_pem(ec.generate_private_key(ec.SECP256R1()))


def sign(pki: Pki, name: str, user: str, *, groups: Sequence[str] = (), names: Sequence[str] = ()) -> Leaf:
    """Make a key and have the CA sign a certificate: a serving one with ``names``, else a client's."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    ca_key = serialization.load_pem_private_key(pki.ca_key.read_bytes(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    ca = x509.load_pem_x509_certificate(pki.ca.read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(user, groups), ca.subject, key, days=_LEAF_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(ca=False), critical=True)
    usage = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
    leaf = pki.leaf(name)
    write_private(leaf.key, _key_pem(key))
    write_private(leaf.certificate, _pem(builder.sign(ca_key, hashes.SHA256())))
    return leaf


def self_signed(folder: Path, name: str, names: Sequence[str]) -> Leaf:
    """A self-signed serving certificate, as kubelets make them; kept while it covers the names."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    leaf = Pki(folder).leaf(name)
    if leaf.certificate.exists() and leaf.key.exists():
        found = x509.load_pem_x509_certificate(leaf.certificate.read_bytes())
        known = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        lasting = found.not_valid_after_utc.timestamp() - time.time() > _RENEW_DAYS * _DAY
        if lasting and set(_alternatives(names)) <= set(known):
            return leaf
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(names[0])
    builder = _builder(subject, subject, key, days=_LEAF_DAYS)
    builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
    write_private(leaf.key, _key_pem(key))
    write_private(leaf.certificate, _pem(builder.sign(key, hashes.SHA256())))
    return leaf


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, *, days: int
) -> x509.CertificateBuilder:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks of clients may lag
        .not_valid_after(now + timedelta(days=days))
    )


def _name(common: str, organizations: Iterable[str] = ()) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternatives(names: Iterable[str]) -> list[x509.GeneralName]:
    from cryptography import x509

    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _usage(*, ca: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not ca,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    """In the form in which kube-apiserver reads keys of service accounts. It knows PKCS #8 for RSA keys alone."""
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
