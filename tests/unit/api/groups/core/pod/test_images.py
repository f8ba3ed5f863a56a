"""Names of images."""

from __future__ import annotations

import pytest

from dray.api.groups.core.pod.images import is_latest


@pytest.mark.parametrize(
    ("image", "latest"),
    [
        ("nginx", True), ("nginx:latest", True), ("nginx:1", False), ("a.b:5000/c/d", True), ("a.b:5000/c:2", False),
        ("c@sha256:" + "a" * 64, False), ("c:latest@sha256:" + "a" * 64, True), ("Upper", False), ("", False),
        ("0" * 64, False),
    ],
)  # fmt: skip
def test_image_names(image, latest):
    assert is_latest(image) is latest
