"""Service account tokens: issued, validated, and valid only while the object exists that they are bound to.

They are JSON web tokens. The signature of a token is verified once; its expiry, its service account and the object
that it is bound to are checked at every request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, cast
from uuid import uuid4

import msgspec

from dray.api import times
from dray.api.errors import not_found
from dray.api.scheme.kinds import Object
from dray.api.user import UserInfo
from dray.server.apiserver import APIServer
from dray.server.auth.authenticator.bearertoken import InvalidToken, TokenIdentity
from dray.server.auth.serviceaccount import ISSUER, ServiceAccount, service_account_groups

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    from dray.api.types.core import Secret
    from dray.api.types.meta import ObjectMeta

#: Who issues the tokens that Secrets hold, and what their claims begin with.
LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
_LEGACY_CLAIM: Final = "kubernetes.io/serviceaccount/"
_EXTRA: Final = "authentication.kubernetes.io/"
_LEEWAY: Final = 60  # seconds that clocks may differ, and that a deleted object's tokens stay good
_REMEMBERED: Final = 4096
_INVALIDATED: Final = "service account token has been invalidated"


class _Ref(TypedDict, total=False):
    """An object that a token names."""

    name: str
    uid: str


class _About(TypedDict, total=False):
    """What a token says of Kubernetes: whose it is, and what it lives and dies with."""

    namespace: str
    serviceaccount: _Ref
    pod: _Ref
    node: _Ref
    secret: _Ref


_Claims = TypedDict(
    "_Claims",
    {
        "aud": Sequence[str],
        "exp": int,
        "iat": int,
        "iss": str,
        "jti": str,
        "kubernetes.io": _About,
        "nbf": int,
        "sub": str,
    },
    total=False,
)


class SigningKey:
    """The key that signs tokens, loaded (PEM) when it is first needed."""

    def __init__(self, load: Callable[[], bytes]) -> None:
        self._load = load
        self._private: EllipticCurvePrivateKey | RSAPrivateKey | None = None
        self._id = ""

    @property
    def private(self) -> EllipticCurvePrivateKey | RSAPrivateKey:
        if self._private is None:
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec, rsa

            loaded = serialization.load_pem_private_key(self._load(), None)
            is_curve = isinstance(loaded, ec.EllipticCurvePrivateKey) and loaded.curve.name == "secp256r1"
            if not is_curve and not isinstance(loaded, rsa.RSAPrivateKey):
                raise ValueError("the key of service accounts must be of the curve P-256 or RSA")
            self._private = cast("EllipticCurvePrivateKey | RSAPrivateKey", loaded)
        return self._private

    @property
    def algorithm(self) -> str:
        """dray makes keys of a curve; clusters that were made by others often have RSA keys."""
        from cryptography.hazmat.primitives.asymmetric import rsa

        return "RS256" if isinstance(self.private, rsa.RSAPrivateKey) else "ES256"

    @property
    def id(self) -> str:
        """A name that follows from the public key."""
        if not self._id:
            from cryptography.hazmat.primitives import serialization

            der = self.private.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            self._id = _base64url(hashlib.sha256(der).digest())
        return self._id

    def sign(self, claims: _Claims) -> str:
        import jwt

        return jwt.encode(dict(claims), self.private, algorithm=self.algorithm, headers={"kid": self.id})

    def verify(self, token: str) -> _Claims:
        """The claims of a token that this key has signed."""
        import jwt

        try:
            payload = jwt.PyJWS().decode(token, self.private.public_key(), algorithms=[self.algorithm])
            claims = msgspec.json.decode(payload)
        except (jwt.PyJWTError, msgspec.DecodeError, RecursionError):
            raise InvalidToken("go-jose/go-jose: error in cryptographic primitive") from None
        return cast("_Claims", claims) if isinstance(claims, dict) else {}

    def jwks(self) -> Object:
        """The public key as a set of JSON web keys."""
        from cryptography.hazmat.primitives.asymmetric import rsa

        public = self.private.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            numbers = public.public_numbers()
            size = (numbers.n.bit_length() + 7) // 8
            shown = {"n": _base64url(numbers.n.to_bytes(size, "big")), "e": _base64url(_short(numbers.e))}
            return {"keys": [{"use": "sig", "kty": "RSA", "kid": self.id, "alg": "RS256", **shown}]}
        point = public.public_numbers()
        x, y = (_base64url(n.to_bytes(32, "big")) for n in (point.x, point.y))
        key = {"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256", "x": x, "y": y}
        return {"keys": [key]}


def _short(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class BoundObject:
    """An object that a token lives and dies with; ``also`` is a node that is only named."""

    kind: Literal["pod", "secret", "node"]
    name: str
    uid: str
    also: tuple[str, str] | None = None  # a pod's node: name and uid


class ServiceAccountTokens:
    """Issues and reads the tokens of this cluster's service accounts."""

    def __init__(self, api: APIServer, key: SigningKey, *, issuer: str = "") -> None:
        self.issuer = issuer or ISSUER
        #: whom tokens are for that say nothing else
        self.audiences = (self.issuer,)
        self.key = key
        self._api = api
        self._verified: dict[bytes, _Claims] = {}

    def issue(
        self,
        account: ServiceAccount,
        uid: str,
        *,
        audiences: Sequence[str],
        seconds: int,
        bound: BoundObject | None,
    ) -> str:
        now = int(self._api.clock.seconds())
        about: _About = {
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": uid},
        }
        if bound is not None:
            about[bound.kind] = {"name": bound.name, "uid": bound.uid}
            if bound.also is not None:
                name, uid_ = bound.also
                about["node"] = {"name": name, "uid": uid_} if uid_ else {"name": name}
        claims: _Claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid4()),
            "kubernetes.io": about,
            "nbf": now,
            "sub": account.user,
        }
        return self.key.sign(claims)

    # -- reading

    def read(self, token: str, audiences: Sequence[str]) -> TokenIdentity | None:
        if not _is_from(token, (self.issuer, LEGACY_ISSUER)):
            return None
        digest = hashlib.sha256(token.encode()).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self.key.verify(token)
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified[digest] = claims
        stated = _strings(claims.get("aud")) or self.audiences
        good = tuple(a for a in stated if a in audiences)
        if not good:
            raise InvalidToken(
                f"token audiences {_quoted(stated)} is invalid for the target audiences {_quoted(audiences)}"
            )
        if claims.get("iss") == LEGACY_ISSUER:
            return TokenIdentity(self._user_of_secret(claims, token), good)
        return TokenIdentity(self._user(claims), good)

    def _user_of_secret(self, claims: Mapping[str, Any], token: str) -> UserInfo:
        """Behind a token that a Secret holds, which must hold it still."""
        namespace, secret, name, uid = (
            str(claims.get(f"{_LEGACY_CLAIM}{part}", ""))
            for part in ("namespace", "secret.name", "service-account.name", "service-account.uid")
        )
        account = ServiceAccount(namespace, name)
        if not all((namespace, secret, name, uid)) or claims.get("sub") != account.user:
            raise InvalidToken("token claims do not name a service account and its secret")
        resource = self._api.resources.resource("", "secrets")
        held = None if resource is None else resource.cache.get(f"{namespace}/{secret}")
        if held is None or self._deleted(held.metadata):
            raise InvalidToken(_INVALIDATED)
        found: Secret = held.hub
        kept = (found.get("data") or {}).get("token", "")
        if not hmac.compare_digest(kept, base64.b64encode(token.encode()).decode()):
            raise InvalidToken("token does not match server's copy")
        return UserInfo(account.user, self._account_uid(account, uid), service_account_groups(namespace), {})

    def _user(self, claims: _Claims) -> UserInfo:
        now = self._api.clock.seconds()
        if now > claims.get("exp", 0) + _LEEWAY:
            raise InvalidToken("service account token has expired")
        if now < claims.get("nbf", 0) - _LEEWAY:
            raise InvalidToken("service account token is not valid yet")
        about = claims.get("kubernetes.io") or {}
        namespace, stated = about.get("namespace", ""), about.get("serviceaccount") or {}
        account = ServiceAccount(namespace, stated.get("name", ""))
        uid = self._account_uid(account, stated.get("uid", ""))
        extra = self._bindings(namespace, about)
        if claims.get("jti"):
            extra[_EXTRA + "credential-id"] = (f"JTI={claims['jti']}",)
        return UserInfo(account.user, uid, service_account_groups(namespace), extra)

    def _account_uid(self, account: ServiceAccount, stated: str) -> str:
        """The uid of an account that exists and is the one that the token was made for."""
        found = self._find("serviceaccounts", f"{account.namespace}/{account.name}")
        if found is None:
            raise InvalidToken(not_found("serviceaccounts", "", account.name).message)
        if found["uid"] != stated:
            raise InvalidToken(f"service account UID ({found['uid']}) does not match claim ({stated})")
        if self._deleted(found):
            raise InvalidToken(f"service account {account.namespace}/{account.name} has been deleted")
        return found["uid"]

    def _bindings(self, namespace: str, about: _About) -> dict[str, tuple[str, ...]]:
        """What the token is bound to, which must still be there; as extra information about its user."""
        extra: dict[str, tuple[str, ...]] = {}
        if (secret := about.get("secret")) is not None:
            self._check("secret", "secrets", f"{namespace}/{secret['name']}", secret)
        pod, node = about.get("pod"), about.get("node")
        if pod is not None:
            self._check("pod", "pods", f"{namespace}/{pod['name']}", pod)
            extra |= _named("pod", pod)
        if node is not None:
            if pod is None:
                self._check("node", "nodes", node["name"], node)
            extra |= _named("node", node)
        return extra

    def _check(self, kind: str, plural: str, key: str, stated: _Ref) -> None:
        found = self._find(plural, key)
        if found is None or self._deleted(found):
            raise InvalidToken(_INVALIDATED)
        if found["uid"] != stated.get("uid"):
            ref = f"service account {kind} ref claim ({stated.get('uid', '')})"
            raise InvalidToken(f"{kind} UID ({found['uid']}) does not match {ref}")

    def _find(self, plural: str, key: str) -> ObjectMeta | None:
        resource = self._api.resources.resource("", plural)
        document = None if resource is None else resource.cache.get(key)
        return None if document is None else document.metadata

    def _deleted(self, metadata: ObjectMeta) -> bool:
        when = metadata.get("deletionTimestamp") or ""
        return bool(when) and times.to_epoch(when) < self._api.clock.seconds() - _LEEWAY


def _named(kind: str, ref: _Ref) -> dict[str, tuple[str, ...]]:
    return {f"{_EXTRA}{kind}-{key}": (ref[key],) for key in ("name", "uid") if ref.get(key)}


def _is_from(token: str, issuers: Sequence[str]) -> bool:
    """Whether this is a token that claims to be from one of these; nothing of it can be trusted yet."""
    parts = token.split(".")
    if len(parts) != 3:
        return False
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, msgspec.DecodeError, RecursionError):
        return False
    return isinstance(claims, dict) and claims.get("iss") in issuers


def _strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(v for v in value or () if isinstance(v, str))


def _quoted(values: Sequence[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
