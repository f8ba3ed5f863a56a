"""AlwaysPullImages: nobody uses an image that is on the node only because somebody else could pull it."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.scheme.kinds import Object
from dray.api.validation import field
from dray.api.validation.field import Path
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope

_ALWAYS = "Always"
_SPEC = Path("spec")


def _containers(pod: Object) -> Iterator[tuple[Object, Path]]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(pod.get("spec", {}).get(part) or ()):
            yield container, _SPEC.child(part).index(i)


def _volumes(pod: Object) -> Iterator[tuple[Object, Path]]:
    for i, volume in enumerate(pod.get("spec", {}).get("volumes") or ()):
        if volume.get("image") is not None:
            yield volume["image"], _SPEC.child("volumes").index(i).child("image")


class AlwaysPullImages:
    name = "AlwaysPullImages"

    def handles(self, scope: RequestScope) -> bool:
        return scope.is_for("", "pods") and scope.operation in (CREATE, UPDATE)

    async def admit(self, attributes: Attributes) -> None:
        assert attributes.object is not None
        if _same_images(attributes):
            return
        for container, _ in _containers(attributes.object):
            container["imagePullPolicy"] = _ALWAYS
        for image, _ in _volumes(attributes.object):
            image["pullPolicy"] = _ALWAYS

    async def validate(self, attributes: Attributes) -> None:
        assert attributes.object is not None
        if _same_images(attributes):
            return
        wrong = [
            field.not_supported(path.child(key), part.get(key, ""), (_ALWAYS,))
            for key, parts in (
                ("imagePullPolicy", _containers(attributes.object)),
                ("pullPolicy", _volumes(attributes.object)),
            )
            for part, path in parts
            if part.get(key) != _ALWAYS
        ]
        if wrong:
            raise attributes.forbidden(str(wrong[0]))


def _same_images(attributes: Attributes) -> bool:
    """Whether an update asks for no image that the pod did not have."""
    if attributes.operation != UPDATE:
        return False
    old, new = (
        {container.get("image") for container, _ in _containers(pod or {})}
        for pod in (attributes.old, attributes.object)
    )
    return new <= old
