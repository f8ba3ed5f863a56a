"""How an etcd cluster is reached beyond its addresses: TLS, a client certificate, user and password."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dray.store.interface import StoreError


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """Files are read when the store is opened. With an authority or a certificate the connection is TLS."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    username: str = ""
    password_file: Path | None = None

    @property
    def tls(self) -> bool:
        return self.ca is not None or self.certificate is not None

    def check(self) -> None:
        """Refuse what cannot work, before anything is tried."""
        if (self.certificate is None) != (self.key is None):
            raise StoreError("a client certificate for etcd needs both --etcd-certfile and --etcd-keyfile")
        if bool(self.username) != (self.password_file is not None):
            raise StoreError("a user of etcd needs both --etcd-username and --etcd-password-file")

    def password(self) -> str:
        return "" if self.password_file is None else _read(self.password_file).decode().strip()

    def pem(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Authority, key and certificate."""
        ca, key, certificate = (
            None if path is None else _read(path) for path in (self.ca, self.key, self.certificate)
        )
        return ca, key, certificate


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise StoreError(f"{path} cannot be read: {e.strerror}") from e
