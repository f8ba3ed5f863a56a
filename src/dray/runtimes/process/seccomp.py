"""The runtime's default seccomp profile: system calls that no ordinary program needs are refused.

It names what is refused, not what is allowed. Calls that need CAP_SYS_ADMIN stay allowed for containers that keep it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from typing import NamedTuple

SYS_ADMIN = 21
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
#: Flags of clone(2) that make namespaces.
_NEW_NAMESPACES = 0x7E020000
#: Where x86-64 has the calls of its 32-bit-pointers variant.
_X32 = 0x40000000


class _Calls(NamedTuple):
    audit: int
    clone: int
    always: Sequence[int]
    without_sys_admin: Sequence[int]


#: The new mount calls and clone3 have the same numbers everywhere.
_MOUNTS, _CLONE3 = (428, 429, 430, 431, 432, 433, 442), 435
# always: acct, add_key, clock_adjtime, clock_settime, the calls of modules and kexec, iopl and ioperm, kcmp, keyctl,
# lookup_dcookie, nfsservctl, open_by_handle_at, process_vm_readv and writev, reboot, request_key, settimeofday, swapon and
# swapoff, userfaultfd, and what is long gone. without_sys_admin: bpf, mount, umount2, perf_event_open, pivot_root,
# quotactl, setdomainname, sethostname, setns, syslog, unshare, vhangup.
_MACHINES = {
    "x86_64": _Calls(
        0xC000003E, 56,
        (163, 248, 305, 227, 174, 175, 176, 313, 177, 178, 246, 320, 172, 173, 312, 250, 212, 180, 304, 310, 311, 169,
         249, 164, 167, 168, 323, 134, 136, 139, 156),
        (321, 165, 166, 298, 155, 179, 171, 170, 308, 103, 272, 153),
    ),
    "aarch64": _Calls(
        0xC00000B7, 220,
        (89, 217, 266, 112, 105, 106, 273, 104, 294, 272, 219, 18, 42, 265, 270, 271, 142, 218, 170, 224, 225, 282),
        (280, 40, 39, 241, 41, 60, 162, 161, 268, 116, 97, 58),
    ),
}  # fmt: skip


def is_supported() -> bool:
    return platform.machine() in _MACHINES


def program(machine: str, *, sys_admin: bool) -> bytes:
    """The filter as the kernel reads it: instructions of eight bytes each."""
    calls = _MACHINES[machine]
    refused = [*calls.always, *(() if sys_admin else (*calls.without_sys_admin, *_MOUNTS))]
    allow, refuse, unknown = (_RETURN, 0, 0, _ALLOW), _failing(errno.EPERM), _failing(errno.ENOSYS)
    made = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, calls.audit),
        unknown,
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32),
        unknown,
    ]
    for number in refused:
        made += [(_JUMP_EQUAL, 0, 1, number), refuse]
    if not sys_admin:
        # clone3 has its flags where no filter can look: programs fall back to clone.
        made += [(_JUMP_EQUAL, 0, 1, _CLONE3), unknown]
        made += [(_JUMP_EQUAL, 0, 3, calls.clone), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
        made += [(_JUMP_BITS, 0, 1, _NEW_NAMESPACES), refuse]
    made.append(allow)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in made)


def install(*, sys_admin: bool) -> None:
    """From here on this process and all that it starts are under the filter. It needs CAP_SYS_ADMIN or no_new_privs."""
    code = program(platform.machine(), sys_admin=sys_admin)
    instructions = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_MODE_FILTER), described, 0, 0):
        code_of_error = ctypes.get_errno()
        raise OSError(code_of_error, f"seccomp: {os.strerror(code_of_error)}")


def _failing(code: int) -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _ERRNO | code
