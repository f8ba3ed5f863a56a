"""TokenRequest: the ``token`` subresource of service accounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from dray.api import errors
from dray.api.errors import BadRequest
from dray.api.groups.authentication import GROUP, TOKEN_REQUEST
from dray.api.validation import field
from dray.api.validation.field import Path
from dray.server import admission
from dray.server.apiserver import APIServer
from dray.server.auth.authenticator.serviceaccount_token import BoundObject, ServiceAccountTokens
from dray.server.auth.serviceaccount import ServiceAccount
from dray.server.endpoints.call import Call
from dray.server.endpoints.options import write_options
from dray.server.endpoints.responses import Response
from dray.server.registry.metadata import ensure_namespace
from dray.server.storage.codec import Codec

if TYPE_CHECKING:
    from dray.api.types.authentication import BoundObjectReference, TokenRequest
    from dray.api.types.core import Node, Pod
    from dray.api.types.meta import ObjectMeta

_METADATA: Final = Path("metadata")


def install(api: APIServer, tokens: ServiceAccountTokens) -> None:
    """Serve ``serviceaccounts/token``."""
    codec = Codec(TOKEN_REQUEST, TOKEN_REQUEST.versions[0], api.version.emulation)

    async def request_token(call: Call) -> Response:
        return await _request_token(call, codec, tokens)

    api.handlers.register("", "serviceaccounts", "token", {"create": request_token})


async def _request_token(call: Call, codec: Codec, tokens: ServiceAccountTokens) -> Response:
    options = write_options(call.request.query, "CreateOptions")
    obj = call.api.decoder.versioned(call.request, codec, directive=options.directive)
    if codec.version.default is not None:
        codec.version.default(obj)
    request: TokenRequest = obj
    meta = request.setdefault("metadata", {})
    ensure_namespace(meta, call.info.namespace)
    attributes = call.attributes(
        admission.CREATE,
        obj=obj,
        options=options.object("CreateOptions"),
        dry_run=options.dry_run,
        codec=codec,
    )
    await call.api.admission.admit(attributes)
    account = ServiceAccount(call.info.namespace, call.info.name)
    if meta.get("name", account.name) != account.name:
        words = "must match the service account name if specified"
        problem = field.invalid(_METADATA.child("name"), meta["name"], words)
        raise errors.invalid("TokenRequest", GROUP, account.name, [problem])
    uid = call.existing().metadata["uid"]
    if meta.get("uid") and meta["uid"] != uid:
        told = f"the UID in the token request ({meta['uid']}) does not match the UID of the service account ({uid})"
        raise errors.conflict("TokenRequest", GROUP, account.name, told)
    spec = request.setdefault("spec", {})
    if not spec.get("audiences"):
        spec["audiences"] = list(tokens.audiences)
    meta["name"], meta["uid"], meta["creationTimestamp"] = account.name, uid, call.api.clock.now()
    if problems := TOKEN_REQUEST.strategy.validate(obj, call.context("create")):
        raise errors.invalid("TokenRequest", GROUP, "", problems)
    await call.api.admission.validate(attributes)
    bound = _bound(call, account, spec.get("boundObjectRef"))
    seconds = spec["expirationSeconds"]
    token = tokens.issue(account, uid, audiences=spec["audiences"], seconds=seconds, bound=bound)
    request["status"] = {"token": token, "expirationTimestamp": call.api.clock.later(seconds)}
    return Response(201, codec.object(obj))


_BINDABLE: Final[Mapping[str, Literal["pod", "secret", "node"]]] = {
    "Pod": "pod",
    "Secret": "secret",
    "Node": "node",
}


def _bound(call: Call, account: ServiceAccount, ref: BoundObjectReference | None) -> BoundObject | None:
    """The object that a token is to be bound to, as it is now."""
    if ref is None:
        return None
    kind, version, name = ref.get("kind", ""), ref.get("apiVersion", ""), ref.get("name", "")
    group, _, bare = version.rpartition("/")
    bound = None if group else _BINDABLE.get(kind)
    if bound is None:
        raise BadRequest(f"cannot bind token to object of type {group}/{bare}, Kind={kind}")
    plural = f"{bound}s"
    found = _object(call, plural, name if kind == "Node" else f"{account.namespace}/{name}")
    if found is None:
        raise errors.not_found(plural, "", name)
    also = None
    if kind == "Pod":
        pod: Pod = found
        if pod["spec"].get("serviceAccountName", "") != account.name:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{account.name}" to pod running with '
                "different serviceaccount name."
            )
        if (node := pod["spec"].get("nodeName")) and call.api.quirks.adds_node_to_pod_tokens:
            known: Node | None = _object(call, "nodes", node)
            also = (node, known["metadata"]["uid"] if known is not None else "")
    elif kind == "Node" and not call.api.quirks.binds_tokens_to_nodes:
        words = 'the "ServiceAccountTokenNodeBinding" feature-gate is disabled'
        raise BadRequest(f"cannot bind token to a Node object as {words}")
    metadata: ObjectMeta = found["metadata"]
    uid = metadata["uid"]
    if ref.get("uid") and ref["uid"] != uid:
        raise errors.conflict(
            kind,
            "",
            name,
            f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    return BoundObject(bound, name, uid, also)


def _object(call: Call, plural: str, key: str) -> Any:
    resource = call.api.resources.resource("", plural)
    document = None if resource is None else resource.cache.get(key)
    return None if document is None else document.hub
