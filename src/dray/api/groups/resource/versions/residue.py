"""What an older version cannot express survives a round trip: it travels in an annotation.

``attach`` notes on the way out everything of the hub object that is missing from its older form; ``detach`` puts
it back on the way in, where its surroundings are still there. Items of lists are found again by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from dray.api.scheme.kinds import Object

ANNOTATION: Final = "resource.dray.dev/not-expressed"
_NEVER: Final = frozenset({"kind", "apiVersion", "metadata"})
Codec = Callable[[Object], Object]


def attach(shown: Object, hub: Object, to_hub: Codec) -> Object:
    """The older form, annotated with what it leaves out."""
    back = to_hub(shown)
    lost = _missing(_content(hub), _content(back))
    if not lost:
        return shown
    metadata = dict(shown.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    annotations[ANNOTATION] = msgspec.json.encode(lost).decode()
    metadata["annotations"] = annotations
    return {**shown, "metadata": metadata}


def detach(obj: Object, to_hub: Codec) -> Object:
    """The hub object behind an older form, complete again."""
    metadata = obj.get("metadata") or {}
    text = (metadata.get("annotations") or {}).get(ANNOTATION)
    hub = to_hub(obj)
    if text is None:
        return hub
    annotations = {key: value for key, value in metadata["annotations"].items() if key != ANNOTATION}
    metadata = {key: value for key, value in metadata.items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    try:
        lost = msgspec.json.decode(text)
    except msgspec.DecodeError:
        lost = None
    lost = _content(lost) if isinstance(lost, dict) else {}
    return {**hub, **_restored(_content(hub), lost), "metadata": metadata}


def _content(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in _NEVER}


def _missing(full: Any, shown: Any) -> Any:
    """The part of ``full`` that ``shown`` lacks, or None."""
    if isinstance(full, dict) and isinstance(shown, dict):
        found = {}
        for key, value in full.items():
            if value is None:
                continue
            rest = value if shown.get(key) is None else _missing(value, shown[key])
            if rest is not None:
                found[key] = rest
        return found or None
    if isinstance(full, list) and isinstance(shown, list) and len(full) == len(shown):
        rests = {_identity(item, i): _missing(item, shown[i]) for i, item in enumerate(full)}
        return {key: rest for key, rest in rests.items() if rest is not None} or None
    return None


def _restored(shown: Any, lost: Any) -> Any:
    """``shown`` with what was lost; whatever the client has set in the meantime wins."""
    if isinstance(shown, dict) and isinstance(lost, dict):
        kept = {
            key: rest if shown.get(key) is None else _restored(shown[key], rest) for key, rest in lost.items()
        }
        return {**shown, **kept}
    if isinstance(shown, list) and isinstance(lost, dict):
        return [
            _restored(item, lost[key]) if (key := _identity(item, i)) in lost else item
            for i, item in enumerate(shown)
        ]
    return shown


def _identity(item: Any, index: int) -> str:
    """Items with a name are recognised by it, others by their place."""
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        return f"={item['name']}"
    return str(index)
