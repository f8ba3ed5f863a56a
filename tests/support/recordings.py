"""What it takes to replay recorded conversations, whatever they are about."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NOW = "2026-01-02T03:04:05Z"
_DROPPED = {"uid", "resourceVersion", "managedFields", "selfLink"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Unplayable(Exception):
    """A step that needs a real server."""


@dataclass
class Played:
    step: Mapping[str, Any]
    want: Any
    got: Any

    @property
    def equal(self) -> bool:
        return bool(self.want == self.got)

    def __repr__(self) -> str:
        return f"{self.step.get('call')} {json.dumps(self.step.get('body'))[:600]}\n want {self.want}\n  got {self.got}"


def clean(value: Any) -> Any:
    """Without what differs from one recording to the next."""
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items() if key not in _DROPPED}
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, str):
        return "<time>" if _TIME.fullmatch(value) else _UID.sub("<uid>", value)
    return value
