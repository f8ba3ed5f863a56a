"""Names of container images."""

from __future__ import annotations

import re
from typing import Final

_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = rf"(?:{_HOST}(?:\.{_HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG: Final = r"\w[\w.-]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE: Final = re.compile(
    rf"(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::(?P<tag>{_TAG}))?(?P<digest>@{_DIGEST})?", re.ASCII
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")


def is_latest(image: str) -> bool:
    """Whether an image's name stands for whatever is newest: its tag says so, or it has neither tag nor digest.

    A name that is none stands for nothing.
    """
    found = _REFERENCE.fullmatch(image)
    if found is None or _IDENTIFIER.fullmatch(image) is not None:
        return False
    return found["tag"] == "latest" or not (found["tag"] or found["digest"])
