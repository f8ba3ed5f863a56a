"""Which capabilities a container gives up."""

from __future__ import annotations

import pytest

from dray.runtimes.process.capabilities import dropped

CHOWN, NET_ADMIN, NET_RAW, SYS_ADMIN, MKNOD = 0, 12, 13, 21, 27


@pytest.mark.parametrize(
    ("privileged", "add", "drop", "gone", "kept"),
    [
        (False, (), (), {NET_ADMIN, SYS_ADMIN, MKNOD}, {CHOWN, NET_RAW}),
        (False, (), ("CAP_NET_RAW",), {NET_RAW, SYS_ADMIN}, {CHOWN}),
        (False, ("net_admin",), ("ALL",), {CHOWN, NET_RAW, SYS_ADMIN}, {NET_ADMIN}),
        (False, ("ALL",), ("MKNOD",), {MKNOD}, {CHOWN, NET_ADMIN, SYS_ADMIN}),
        (True, (), ("ALL",), set(), {CHOWN, SYS_ADMIN, MKNOD}),
    ],
)
def test_capabilities_follow_the_security_context(
    privileged: bool, add: tuple[str, ...], drop: tuple[str, ...], gone: set[int], kept: set[int]
) -> None:
    numbers = set(dropped(privileged=privileged, add=add, drop=drop))
    assert gone <= numbers
    assert not kept & numbers
