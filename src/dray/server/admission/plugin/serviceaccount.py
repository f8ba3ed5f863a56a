"""ServiceAccount: every pod runs as a service account and mounts its token."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dray.api.pods import MIRROR_ANNOTATION, TOKEN_VOLUME, containers
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.admission.plugin.podreferences import secret_names
from dray.server.registry.metadata import generate_name

if TYPE_CHECKING:
    from dray.api.types.core import (
        ConfigMapProjection,
        Container,
        DownwardAPIVolumeFile,
        EphemeralContainer,
        Pod,
        PodSpec,
        ProjectedVolumeSource,
    )
    from dray.api.types.core import ServiceAccount as CoreServiceAccount

MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_DEFAULT: Final = "default"
_ENFORCE: Final = "kubernetes.io/enforce-mountable-secrets"
#: An hour, and some seconds by which a token's origin can be told.
_SECONDS: Final = 3607
_ROOT_CERTIFICATE: Final[ConfigMapProjection] = {
    "name": "kube-root-ca.crt",
    "items": [{"key": "ca.crt", "path": "ca.crt"}],
}
_NAMESPACE_FILE: Final[DownwardAPIVolumeFile] = {
    "path": "namespace",
    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
}
#: What every volume with a token is made of. All pods share it, and nobody changes what is in a document.
_TOKEN_SOURCE: Final[ProjectedVolumeSource] = {
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
        {"configMap": _ROOT_CERTIFICATE},
        {"downwardAPI": {"items": [_NAMESPACE_FILE]}},
    ],
    "defaultMode": 0o644,
}
_MAX_MISSING: Final = 1000
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class ServiceAccount:
    name = "ServiceAccount"

    def __init__(
        self,
        listers: Listers,
        *,
        generate: Callable[[str], str] = generate_name,
        timeout: float = 1.5,  # seconds
    ) -> None:
        self._listers = listers
        self._generate = generate
        self._timeout = timeout
        self._missing_accounts: set[str] = set()  # accounts that were waited for in vain

    def handles(self, scope: RequestScope) -> bool:
        if scope.operation == CREATE:
            return scope.is_for("", "pods")
        return scope.operation == UPDATE and scope.is_for("", "pods", "ephemeralcontainers")

    async def admit(self, attributes: Attributes) -> None:
        pod: Pod = attributes.object
        if attributes.operation != CREATE:
            return
        if MIRROR_ANNOTATION not in (pod["metadata"].get("annotations") or {}):
            spec = pod.setdefault("spec", {})
            if not spec.get("serviceAccountName"):
                spec["serviceAccountName"] = _DEFAULT
            # The older name of the field goes along with it.
            spec["serviceAccount"] = spec["serviceAccountName"]
            account = await self._account(attributes, spec["serviceAccountName"])
            if _automount(account, spec):
                self._mount(spec)
            if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
                spec["imagePullSecrets"] = [{"name": s.get("name", "")} for s in account["imagePullSecrets"]]
        await self.validate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        pod: Pod = attributes.object
        spec = pod.get("spec", {})
        if attributes.operation == CREATE and MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or {}):
            _check_mirror(spec, attributes)
            return
        name = spec.get("serviceAccountName")
        if not name:
            who = f"{attributes.namespace}/{pod['metadata'].get('name', '')}"
            raise attributes.forbidden(f"no service account specified for pod {who}")
        account = await self._account(attributes, name)
        if (account["metadata"].get("annotations") or {}).get(_ENFORCE) not in _TRUE:
            return
        ephemeral = attributes.operation == UPDATE
        for problem in _unmountable(account, spec, ephemeral=ephemeral):
            raise attributes.forbidden(problem)

    async def _account(self, attributes: Attributes, name: str) -> CoreServiceAccount:
        key = f"{attributes.namespace}/{name}"
        found: CoreServiceAccount | None = self._listers.get("", "serviceaccounts", key)
        if found is None and name == _DEFAULT:
            found = await self._arriving(key)
        if found is None:
            raise attributes.forbidden(
                f'error looking up service account {key}: serviceaccount "{name}" not found'
            )
        return found

    async def _arriving(self, key: str) -> CoreServiceAccount | None:
        """A new namespace gets its default account from a controller, which may need a moment; but just one."""
        accounts = self._listers.cache("", "serviceaccounts")
        if accounts is None or key in self._missing_accounts:
            return None
        arrived = asyncio.Event()
        stop = accounts.subscribe(
            lambda change: arrived.set() if change.after is not None and change.after.key == key else None
        )
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout):
                    await arrived.wait()
        finally:
            stop()
        found: CoreServiceAccount | None = self._listers.get("", "serviceaccounts", key)
        if found is None:
            if len(self._missing_accounts) >= _MAX_MISSING:
                self._missing_accounts.clear()
            self._missing_accounts.add(key)
        return found

    def _mount(self, spec: PodSpec) -> None:
        """Give every container the token, unless it has something else in that place."""
        volumes = spec.get("volumes") or ()
        present = next((v["name"] for v in volumes if v.get("name", "").startswith(TOKEN_VOLUME)), None)
        name = present or self._generate(TOKEN_VOLUME)
        mounted = False
        for container in containers(spec):
            mounts = container.get("volumeMounts") or ()
            if any(m.get("mountPath") == MOUNT_PATH for m in mounts):
                continue
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}]
            mounted = True
        if mounted and present is None:
            spec["volumes"] = [*volumes, {"name": name, "projected": _TOKEN_SOURCE}]


def _automount(account: CoreServiceAccount, spec: PodSpec) -> bool:
    """What the pod says, else what its account says, else yes."""
    said = spec.get("automountServiceAccountToken")
    if said is None:
        said = account.get("automountServiceAccountToken")
    return said is not False


def _check_mirror(spec: PodSpec, attributes: Attributes) -> None:
    """A mirror pod shows what a node runs from a file; it has no part in the cluster's secrets."""
    if spec.get("serviceAccountName"):
        raise attributes.forbidden("a mirror pod may not reference service accounts")
    if any(True for _ in secret_names(spec)):
        raise attributes.forbidden("a mirror pod may not reference secrets")
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                raise attributes.forbidden("a mirror pod may not use ServiceAccountToken volume projections")


def _unmountable(account: CoreServiceAccount, spec: PodSpec, *, ephemeral: bool) -> Iterator[str]:
    """References to secrets that the account does not list."""
    owner = account["metadata"]["name"]
    known = {secret.get("name") for secret in account.get("secrets") or ()}
    unlisted = f"is not allowed because service account {owner} does not reference that"
    if ephemeral:
        yield from _in_containers(
            spec.get("ephemeralContainers") or (), "ephemeral container", known, unlisted
        )
        return
    for volume in spec.get("volumes") or ():
        secret = volume.get("secret")
        if secret is not None and secret.get("secretName", "") not in known:
            yield f'volume with secret.secretName="{secret.get("secretName", "")}" {unlisted} secret'
    yield from _in_containers(spec.get("initContainers") or (), "init container", known, unlisted)
    yield from _in_containers(spec.get("containers") or (), "container", known, unlisted)
    pullable = {secret.get("name") for secret in account.get("imagePullSecrets") or ()}
    for i, pull in enumerate(spec.get("imagePullSecrets") or ()):
        if pull.get("name") not in pullable:
            yield f'imagePullSecrets[{i}].name="{pull.get("name", "")}" {unlisted} imagePullSecret'


def _in_containers(
    containers: Sequence[Container | EphemeralContainer], word: str, known: set[str | None], unlisted: str
) -> Iterator[str]:
    for container in containers:
        name = container.get("name", "")
        for env in container.get("env") or ():
            ref = (env.get("valueFrom") or {}).get("secretKeyRef")
            if ref is not None and ref.get("name") not in known:
                yield (
                    f"{word} {name} with envVar {env.get('name', '')} referencing "
                    f'secret.secretName="{ref.get("name", "")}" {unlisted} secret'
                )
        for source in container.get("envFrom") or ():
            whole = source.get("secretRef")
            if whole is not None and whole.get("name") not in known:
                yield (
                    f'{word} {name} with envFrom referencing secret.secretName="{whole.get("name", "")}" '
                    f"{unlisted} secret"
                )
