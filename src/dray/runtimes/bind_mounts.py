"""The system calls with which paths that containers can write to are opened, mounted and removed.

A path is resolved once. What comes of it is a descriptor, and the descriptor is what is mounted: a container that swaps a
directory for a link in between changes nothing.
"""

# The less there is between fork and exec the better:
# ruff: noqa: PTH101

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import PurePosixPath

_DETACH, _NOFOLLOW = 2, 8
# Linux gave these the same numbers on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 0x02, 0x08
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE = 1
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_IDMAP = 1, 0x00100000
_MOVE_MOUNT_F_EMPTY_PATH = 4
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_path(path: str) -> int:
    """A descriptor of a path, which opens no device and waits for no writer."""
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def open_beneath(directory: int, relative: str) -> int:
    """A descriptor of a path in a directory. Links are followed within the directory; EXDEV if one leads out of it."""
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    while True:
        result = _libc.syscall(
            *(ctypes.c_long(_OPENAT2), ctypes.c_int(directory), os.fsencode(relative)),
            *(ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))),
        )
        if result >= 0:
            return int(result)
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):  # EAGAIN: something was renamed meanwhile
            raise OSError(code, os.strerror(code), relative)


@contextlib.contextmanager
def opened(path: str, relative: str = "") -> Iterator[int]:
    """A descriptor of ``path``, or of ``relative`` in it, for a while."""
    outer = open_path(path)
    inner = -1
    try:
        if relative:
            inner = open_beneath(outer, relative)
        yield inner if relative else outer
    finally:
        for handle in (outer, inner):
            if handle >= 0:
                os.close(handle)


def make_beneath(path: str, relative: str) -> None:
    """Makes the directories of ``relative`` in ``path`` that are not there, with the permissions of ``path``."""
    handle = open_path(path)
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    parts = PurePosixPath(relative).parts
    try:
        for number, part in enumerate(parts):
            try:
                inner = open_beneath(handle, part)
            except FileNotFoundError:
                os.mkdir(part, mode, dir_fd=handle)
                inner = open_beneath(handle, part)
                os.chmod(f"/proc/self/fd/{inner}", mode)  # whatever the umask says
            except OSError as e:
                if e.errno != errno.EXDEV:
                    raise
                # A link within the volume may lead up and down again; what is behind it has to be there.
                with opened(path, relative):
                    return
            if not stat.S_ISDIR(os.fstat(inner).st_mode) and number + 1 < len(parts):
                os.close(inner)
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), relative)
            os.close(handle)
            handle = inner
    finally:
        os.close(handle)


def remove_tree(name: str, *, dir_fd: int | None = None) -> None:
    """Removes a directory and all below it as far as that is possible. No links are followed, and however deep containers
    have nested directories, few descriptors are open at a time: what is further down is moved up first."""
    with contextlib.suppress(OSError):
        top = os.open(name, _DIRECTORY, dir_fd=dir_fd)
        try:
            prefix, numbers = secrets.token_hex(8), itertools.count()
            waiting = _emptied(top, top, prefix, numbers)
            while waiting:
                inner = waiting.pop()
                with contextlib.suppress(OSError):
                    handle = os.open(inner, _DIRECTORY, dir_fd=top)
                    try:
                        waiting += _emptied(handle, top, prefix, numbers)
                    finally:
                        os.close(handle)
                    os.rmdir(inner, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=dir_fd)


def _emptied(directory: int, top: int, prefix: str, numbers: Iterator[int]) -> list[str]:
    """Removes the files of a directory and moves its directories to the top; returns their names there."""
    moved = []
    with os.scandir(directory) as entries:
        there = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in there:
        with contextlib.suppress(OSError):
            if is_directory:
                new = f"{prefix}-{next(numbers)}"
                os.rename(name, new, src_dir_fd=directory, dst_dir_fd=top)
                moved.append(new)
            else:
                os.unlink(name, dir_fd=directory)
    return moved


def clone(handle: int, *, recursive: bool) -> int:
    """A mount of what the descriptor stands for, which hangs nowhere yet."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    return _call(_OPEN_TREE, ctypes.c_int(handle), b"", ctypes.c_uint(flags))


def attach(tree: int, target: str) -> None:
    """Hangs a cloned mount on a path, and closes its descriptor."""
    _call(
        _MOVE_MOUNT,
        *(ctypes.c_int(tree), b"", ctypes.c_int(_AT_FDCWD), os.fsencode(target)),
        ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH),
    )
    os.close(tree)


def make_read_only(target: str) -> None:
    """Makes a mount and all mounts below it read-only."""
    _set_attributes(_AT_FDCWD, target, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY)


def map_users(tree: int, users: int) -> None:
    """Lets a cloned mount show the files of the host's users as those of the same numbers in a user namespace. OSError if
    its file system, or the kernel before Linux 5.12, cannot."""
    _set_attributes(tree, "", _AT_EMPTY_PATH, _MOUNT_ATTR_IDMAP, users=users)


def _set_attributes(directory: int, path: str, flags: int, attribute: int, *, users: int = 0) -> None:
    attributes = (ctypes.c_uint64 * 4)(attribute, 0, 0, users)
    _call(
        _MOUNT_SETATTR,
        *(ctypes.c_int(directory), os.fsencode(path), ctypes.c_uint(flags)),
        *(ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes))),
    )


def mount_tmpfs(target: str, *, size: int) -> None:
    """Mounts a file system in memory, of that many bytes at most (0: half of the memory)."""
    options = f"size={size}".encode() if size else None
    if _libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", ctypes.c_ulong(0), options):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def detach(target: str) -> None:
    if _libc.umount2(os.fsencode(target), _DETACH | _NOFOLLOW):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def _call(number: int, *arguments: object) -> int:
    result = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)
