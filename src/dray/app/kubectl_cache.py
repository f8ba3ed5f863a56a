"""What kubectl remembers about an address: it keeps discovery for hours, and asks for kinds that are no longer served."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dray.server.registry.resources import APIGroup

_GROUP: Final = "resource.k8s.io"


def stale_discovery(url: str, groups: list[APIGroup]) -> Path | None:
    """kubectl's cache for this address, if another release of the resource API was served there before."""
    base = os.environ.get("KUBECACHEDIR") or Path.home() / ".kube" / "cache"
    directory = Path(base) / "discovery" / re.sub(r"[^(\w/.)]", "_", url.removeprefix("https://"))
    served = {
        version: {resource.kind.plural for resource in resources}
        for group in groups
        if group.name == _GROUP
        for version, resources in group.resources.items()
    }
    remembered = _remembered(directory / _GROUP)
    return directory if remembered and remembered != served else None


def _remembered(directory: Path) -> Mapping[str, Set[str]]:
    found: dict[str, Set[str]] = {}
    for file in directory.glob("*/serverresources.json"):
        try:
            names = [resource["name"] for resource in json.loads(file.read_bytes())["resources"]]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        found[file.parent.name] = {name for name in names if "/" not in name}
    return found
