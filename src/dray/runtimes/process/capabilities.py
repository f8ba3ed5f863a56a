"""Which of root's capabilities a container keeps.

Without them, root in a container can neither unmount what hides files of the host nor reach the kernel's settings.
"""

from __future__ import annotations

from collections.abc import Sequence

#: In the order of their numbers.
_NAMES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip

#: Those that container runtimes leave by default, but for MKNOD: no device cgroup keeps a made node from being opened.
_DEFAULT = frozenset(
    ("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
     "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE")
)  # fmt: skip


def dropped(*, privileged: bool, add: Sequence[str], drop: Sequence[str]) -> list[int]:
    """The numbers of the capabilities that a container gives up, from its security context."""
    if privileged:
        return []
    more, less = ({name.upper().removeprefix("CAP_") for name in names} for names in (add, drop))
    kept = set(_NAMES) if "ALL" in more else _DEFAULT - (set(_NAMES) if "ALL" in less else less) | more
    if "ALL" in more:
        kept -= less
    return [number for number, name in enumerate(_NAMES) if name not in kept]
