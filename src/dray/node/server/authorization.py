"""Who may ask a node: the API server's certificates, and whom the API server vouches for by their token."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from dray.api.errors import Forbidden, Unauthorized
from dray.client.client import Client
from dray.limiteddict import LimitedDict

if TYPE_CHECKING:
    from dray.api.types.authentication import TokenReview, UserInfo
    from dray.api.types.authorization import SubjectAccessReview, SubjectAccessReviewSpec

_REVIEW_TOKEN = "/apis/authentication.k8s.io/v1/tokenreviews"
_REVIEW_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Seconds for which an answer is remembered, and how many are.
_REMEMBERED = 10.0
_MAX_ANSWERS = 1024
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create"}
#: Below these paths a node is asked about the subresource of that name, elsewhere about ``proxy``.
_SUBRESOURCES = {"metrics": "metrics", "pods": "pods", "healthz": "healthz"}


class _Answer(NamedTuple):
    until: float
    problem: Exception | None


class Delegated:
    """Asks the API server who a token belongs to, and what that user may do with this node."""

    def __init__(self, client: Client, node: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._node = node
        self._clock = clock
        self._answers: LimitedDict[tuple[str, str, str], _Answer] = LimitedDict(_MAX_ANSWERS)

    async def check(self, token: str, method: str, path: str) -> None:
        """Raises Unauthorized or Forbidden."""
        if not token:
            raise Unauthorized("Unauthorized")
        verb = _VERBS.get(method, method.lower())
        top = path.strip("/").partition("/")[0]
        key = token, verb, top
        known = self._answers.get(key)
        if known is None or known.until < self._clock():
            known = _Answer(self._clock() + _REMEMBERED, await self._review(token, verb, top))
            self._answers[key] = known
        if known.problem:
            raise known.problem

    async def _review(self, token: str, verb: str, top: str) -> Exception | None:
        asked: TokenReview = {"spec": {"token": token}}
        reviewed: TokenReview = (await self._client.request("POST", _REVIEW_TOKEN, body=asked)).object
        status = reviewed.get("status") or {}
        if not status.get("authenticated"):
            return Unauthorized("Unauthorized")
        user = status.get("user") or {}
        wanted = [name for name in (_SUBRESOURCES.get(top, ""), "proxy") if name]
        if top == "metrics":
            wanted = ["metrics"]
        for subresource in wanted:
            if await self._allowed(user, verb, subresource):
                return None
        name = user.get("username", "")
        return Forbidden(f"Forbidden (user={name}, verb={verb}, resource=nodes, subresource(s)={wanted})")

    async def _allowed(self, user: UserInfo, verb: str, subresource: str) -> bool:
        spec: SubjectAccessReviewSpec = {
            "user": user.get("username", ""),
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "extra": user.get("extra") or {},
            "resourceAttributes": {
                "verb": verb,
                "version": "v1",
                "resource": "nodes",
                "subresource": subresource,
                "name": self._node,
            },
        }
        asked: SubjectAccessReview = {"spec": spec}
        reviewed: SubjectAccessReview = (
            await self._client.request("POST", _REVIEW_ACCESS, body=asked)
        ).object
        return bool((reviewed.get("status") or {}).get("allowed"))
