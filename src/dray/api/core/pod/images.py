"""Names of container images."""

from __future__ import annotations


def is_latest(image: str) -> bool:
    """Whether an image's name stands for whatever is newest: its tag says so, or it has neither tag nor digest."""
    name, at, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    if tag:
        return tag == "latest"
    return not at
