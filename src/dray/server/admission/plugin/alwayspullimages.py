"""AlwaysPullImages: every container pulls its image, so that image pull secrets are checked each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from dray.api.validation import field
from dray.api.validation.field import Path
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope

if TYPE_CHECKING:
    from dray.api.types.core import Container, EphemeralContainer, ImageVolumeSource, Pod, PodSpec

_ALWAYS = "Always"
_SPEC = Path("spec")
_PARTS: Final[tuple[Literal["initContainers", "containers", "ephemeralContainers"], ...]] = (
    "initContainers",
    "containers",
    "ephemeralContainers",
)


def _containers(spec: PodSpec) -> Iterator[tuple[Container | EphemeralContainer, Path]]:
    for part in _PARTS:
        for i, container in enumerate(spec.get(part) or ()):
            yield container, _SPEC.child(part).index(i)


def _images(spec: PodSpec) -> Iterator[tuple[ImageVolumeSource, Path]]:
    for i, volume in enumerate(spec.get("volumes") or ()):
        if (image := volume.get("image")) is not None:
            yield image, _SPEC.child("volumes").index(i).child("image")


class AlwaysPullImages:
    name = "AlwaysPullImages"

    def handles(self, scope: RequestScope) -> bool:
        return scope.is_for("", "pods") and scope.operation in (CREATE, UPDATE)

    async def admit(self, attributes: Attributes) -> None:
        if _same_images(attributes):
            return
        pod: Pod = attributes.object
        spec = pod.get("spec", {})
        for container, _ in _containers(spec):
            container["imagePullPolicy"] = _ALWAYS
        for image, _ in _images(spec):
            image["pullPolicy"] = _ALWAYS

    async def validate(self, attributes: Attributes) -> None:
        if _same_images(attributes):
            return
        pod: Pod = attributes.object
        spec = pod.get("spec", {})
        said = [
            (path.child("imagePullPolicy"), c.get("imagePullPolicy", "")) for c, path in _containers(spec)
        ]
        said += [(path.child("pullPolicy"), image.get("pullPolicy", "")) for image, path in _images(spec)]
        wrong = [field.not_supported(path, policy, (_ALWAYS,)) for path, policy in said if policy != _ALWAYS]
        if wrong:
            raise attributes.forbidden(str(wrong[0]))


def _same_images(attributes: Attributes) -> bool:
    """Whether an update asks for no image that the pod did not have."""
    if attributes.operation != UPDATE:
        return False
    old, new = (
        {container.get("image") for container, _ in _containers((pod or {}).get("spec", {}))}
        for pod in (attributes.old, attributes.object)
    )
    return new <= old
