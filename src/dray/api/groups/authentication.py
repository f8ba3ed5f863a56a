"""authentication.k8s.io: questions about who somebody is. Nothing is stored; the answer is in the reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.scheme.kinds import Kind, Object, Version
from dray.api.scheme.strategy import SPEC, Context, Strategy
from dray.api.validation import field
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.authentication import TokenRequest

GROUP: Final = "authentication.k8s.io"
_TEN_MINUTES: Final = 600


def _default_token_request(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = 3600


class TokenRequestStrategy(Strategy["TokenRequest"]):
    def validate(self, obj: TokenRequest, ctx: Context) -> Sequence[FieldError]:
        seconds, path = obj.get("spec", {}).get("expirationSeconds", 0), SPEC.child("expirationSeconds")
        if seconds < _TEN_MINUTES:
            return [field.invalid(path, seconds, "may not specify a duration less than 10 minutes")]
        if seconds > 1 << 32:
            return [field.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
        return []


#: Not a resource of its own: the body of the ``token`` subresource of service accounts.
TOKEN_REQUEST = Kind(
    group=GROUP,
    kind="TokenRequest",
    plural="tokenrequests",
    versions=(Version(name="v1", type="authentication/v1.TokenRequest", default=_default_token_request),),
    storage="v1",
    strategy=TokenRequestStrategy(),
    verbs=("create",),
)
TOKEN_REVIEW = Kind(
    group=GROUP,
    kind="TokenReview",
    plural="tokenreviews",
    namespaced=False,
    versions=(Version(name="v1", type="authentication/v1.TokenReview"),),
    storage="v1",
    verbs=("create",),
)
SELF_SUBJECT_REVIEW = Kind(
    group=GROUP,
    kind="SelfSubjectReview",
    plural="selfsubjectreviews",
    namespaced=False,
    versions=tuple(
        Version(name=name, type=f"authentication/{name}.SelfSubjectReview")
        for name in ("v1", "v1beta1", "v1alpha1")
    ),
    storage="v1",
    verbs=("create",),
)
KINDS = (SELF_SUBJECT_REVIEW, TOKEN_REVIEW)
