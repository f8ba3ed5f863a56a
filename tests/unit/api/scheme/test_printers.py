"""How long ago something was, in cells of tables."""

from __future__ import annotations

import pytest

from dray.api.scheme import printers


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (179, "2m59s"), (600, "10m"),
        (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (8 * 3600, "8h"), (47 * 3600, "47h"), (48 * 3600, "2d"),
        (50 * 3600, "2d2h"), (8 * 86400, "8d"), (729 * 86400, "729d"), (730 * 86400, "2y"),
        (800 * 86400, "2y70d"), (8 * 365 * 86400, "8y"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds, text):
    assert printers.human_duration(seconds) == text
