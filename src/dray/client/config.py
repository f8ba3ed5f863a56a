"""Where an API server is and who we are to it, whatever file or environment that was learnt from."""

from __future__ import annotations

import base64
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

#: Seconds for which a token read from a file is used before the file is looked at again.
TOKEN_LIFE: Final = 60.0
#: The same for a certificate.
CERTIFICATE_LIFE: Final = 10.0


class ConfigError(Exception):
    """The configuration cannot be used; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How to reach an API server. Certificates and keys are PEM."""

    server: str  # http[s]://host[:port][/prefix]
    #: Other API servers of the same cluster, for when the first cannot be reached.
    other_servers: tuple[str, ...] = ()
    ca: bytes | None = None
    insecure: bool = False
    server_name: str = ""
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    #: Where the certificate and its key were read from, if that was a file: it may be renewed.
    certificate_file: Path | None = None
    key_file: Path | None = None
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()
    impersonate_extra: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS as configured; None for plain HTTP."""
        if not self.server.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cadata=self.ca.decode() if self.ca else None)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"the certificate authority is no PEM certificate: {error}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Clusters' own authorities often lack the key usage extension that newer Pythons ask for.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", ssl.VerifyFlags(0))
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None:
            _load_certificate(context, self.certificate, self.key)
        return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes | None) -> None:
    # The ssl module reads certificates from files only. This one is readable by us alone and gone at once.
    with tempfile.NamedTemporaryFile(prefix="dray-") as file:
        file.write(certificate + b"\n" + (key or b""))
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError as error:
            raise ConfigError(f"the client certificate and its key do not work: {error}") from error


class CertificateFile:
    """A client certificate in a file, which is looked at from time to time, as it may be renewed."""

    def __init__(self, config: Config, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._certificate = config.certificate_file
        self._key = config.key_file
        self._clock = clock
        self._looked = clock()
        self._seen = self._version()

    def renewed(self, context: ssl.SSLContext) -> bool:
        """Whether there is a new one; connections that ``context`` opens from now on use it."""
        if self._certificate is None or self._clock() - self._looked < CERTIFICATE_LIFE:
            return False
        self._looked = self._clock()
        version = self._version()
        if version is None or version == self._seen:
            return False
        try:
            context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError):
            return False  # it is being written; the old one is still there
        self._seen = version
        return True

    def _version(self) -> tuple[int, int] | None:
        try:
            found = self._certificate.stat() if self._certificate is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_mtime_ns, found.st_ino)


class Credentials:
    """The headers that say who we are. A token in a file is read anew from time to time, as it may be renewed."""

    def __init__(self, config: Config, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._fixed = _impersonation(config)
        self._token = config.token
        self._token_read = float("-inf")

    def headers(self) -> list[tuple[str, str]]:
        if value := self._authorization():
            return [("Authorization", value), *self._fixed]
        return self._fixed

    def _authorization(self) -> str:
        config = self._config
        if config.token_file is not None and self._clock() - self._token_read > TOKEN_LIFE:
            try:
                self._token = config.token_file.read_text().strip()
            except OSError as error:
                if not self._token:
                    raise ConfigError(f"the token cannot be read: {error}") from error
            self._token_read = self._clock()
        if self._token:
            return f"Bearer {self._token}"
        if config.username:
            return "Basic " + base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
        return ""


def _impersonation(config: Config) -> list[tuple[str, str]]:
    headers = []
    if config.impersonate:
        headers.append(("Impersonate-User", config.impersonate))
    if config.impersonate_uid:
        headers.append(("Impersonate-Uid", config.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in config.impersonate_groups]
    headers += [
        (f"Impersonate-Extra-{quote(name, safe='')}", value) for name, value in config.impersonate_extra
    ]
    return headers
