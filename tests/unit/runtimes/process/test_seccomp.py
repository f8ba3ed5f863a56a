"""The default seccomp profile, tried in a child of this test."""

from __future__ import annotations

import ctypes
import errno
import os
import platform

import pytest

from dray.runtimes.process import seccomp

_ADD_KEY, _GETPID = (248, 39) if platform.machine() == "x86_64" else (217, 172)


@pytest.mark.skipif(not seccomp.is_supported() or os.geteuid() != 0, reason="needs root on a known machine")
def test_calls_that_programs_do_not_need_are_refused_and_others_are_not() -> None:
    pid = os.fork()
    if pid == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        seccomp.install(sys_admin=False)

        def refused(number: int, *arguments: int) -> bool:
            result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
            return result == -1 and ctypes.get_errno() == errno.EPERM

        namespaces = libc.unshare(0x04000000) == -1 and ctypes.get_errno() == errno.EPERM
        os._exit(0 if refused(_ADD_KEY) and not refused(_GETPID) and namespaces and os.fork() >= 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_containers_with_the_capability_keep_its_calls(machine: str) -> None:
    short, long = (seccomp.program(machine, sys_admin=kept) for kept in (True, False))
    assert len(short) < len(long) and len(long) % 8 == 0
