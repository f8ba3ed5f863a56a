"""Fills Secrets of the type ``kubernetes.io/service-account-token``: tokens that last as long as their Secret."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from dray.api.errors import Conflict, NotFound
from dray.client.resources import SECRETS, SERVICE_ACCOUNTS, ObjectKey, key_of
from dray.controllers.controller import Controller, ControllerContext, NotConfigured

if TYPE_CHECKING:
    from dray.api.types.core import Secret, ServiceAccount

TYPE: Final = "kubernetes.io/service-account-token"
NAME: Final = "kubernetes.io/service-account.name"
UID: Final = "kubernetes.io/service-account.uid"
#: Who issues such tokens, and what their claims begin with.
ISSUER: Final = "kubernetes/serviceaccount"
_CLAIM: Final = "kubernetes.io/serviceaccount/"


def claims(secret: Secret, account: ServiceAccount) -> dict[str, str]:
    """What a token says. It has no end: it is valid while the Secret holds it."""
    namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
    return {
        "iss": ISSUER,
        f"{_CLAIM}namespace": namespace,
        f"{_CLAIM}secret.name": secret["metadata"]["name"],
        f"{_CLAIM}service-account.name": name,
        f"{_CLAIM}service-account.uid": account["metadata"]["uid"],
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }


def filled(secret: Secret, account: ServiceAccount, *, ca: str, sign: Any) -> Secret | None:
    """The Secret with what it lacks; None if it lacks nothing."""
    data = dict(secret.get("data") or {})
    wanted = {"namespace": account["metadata"]["namespace"]} | ({"ca.crt": ca} if ca else {})
    data |= {key: base64.b64encode(value.encode()).decode() for key, value in wanted.items()}
    if not data.get("token"):
        data["token"] = base64.b64encode(sign(claims(secret, account)).encode()).decode()
    about = {NAME: account["metadata"]["name"], UID: account["metadata"]["uid"]}
    annotations = {**(secret["metadata"].get("annotations") or {}), **about}
    if data == secret.get("data") and annotations == secret["metadata"].get("annotations"):
        return None
    return {**secret, "metadata": {**secret["metadata"], "annotations": annotations}, "data": data}


class ServiceAccountTokenController(Controller[ObjectKey]):
    """Keys are Secrets. ``key`` signs tokens (PEM, of an elliptic curve or RSA), ``ca`` goes beside them."""

    name = "serviceaccount-token-controller"

    def __init__(self, context: ControllerContext, *, key: str = "", ca: str = "") -> None:
        super().__init__(context)
        if not key:
            raise NotConfigured("key of service accounts")
        self._key, self._ca = key, ca
        self._signer: Any = None
        self._secrets = context.informers.get(SECRETS, field_selector=f"type={TYPE}")
        self._accounts = context.informers.get(SERVICE_ACCOUNTS)
        self._secrets.add_handler(on_set=lambda new: self.enqueue(key_of(new)))
        self._accounts.add_handler(on_set=self._account_changed, on_delete=self._account_changed)

    def _account_changed(self, account: ServiceAccount) -> None:
        for secret in self._secrets.items():
            named = (secret["metadata"].get("annotations") or {}).get(NAME)
            here = secret["metadata"]["namespace"] == account["metadata"]["namespace"]
            if here and named == account["metadata"]["name"]:
                self.enqueue(key_of(secret))

    async def sync(self, key: ObjectKey) -> float | None:
        secret = self._secrets.get(*key)
        if secret is None or "deletionTimestamp" in secret["metadata"]:
            return None
        annotations = secret["metadata"].get("annotations") or {}
        account = await self._account(key.namespace, annotations.get(NAME, ""), annotations.get(UID, ""))
        if account is None:
            await self._delete(secret)
            return None
        wanted = filled(secret, account, ca=self._ca, sign=self._sign)
        if wanted is not None:
            await self.context.client.update(SECRETS, key.namespace, wanted)
        return None

    async def _account(self, namespace: str, name: str, uid: str) -> ServiceAccount | None:
        """The account, asked for where the informer has not shown it: a token is deleted with its account only."""
        found = self._accounts.get(namespace, name)
        if found is None:
            try:
                found = await self.context.client.get(SERVICE_ACCOUNTS, namespace, name)
            except NotFound:
                return None
        return found if not uid or uid == found["metadata"]["uid"] else None

    async def _delete(self, secret: Secret) -> None:
        metadata = secret["metadata"]
        try:
            await self.context.client.delete(
                SECRETS, metadata["namespace"], metadata["name"], uid=metadata["uid"]
            )
        except (NotFound, Conflict):
            return  # it is gone, or another one by now

    def _sign(self, about: dict[str, str]) -> str:
        import jwt
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        if self._signer is None:
            self._signer = serialization.load_pem_private_key(self._key.encode(), None)
        algorithm = "RS256" if isinstance(self._signer, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(about, self._signer, algorithm=algorithm)
