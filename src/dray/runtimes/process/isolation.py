"""Between fork and exec: namespaces, a root of its own, mounts, device nodes, identity.

A container sees the host's files through an overlay that keeps its changes in memory, a fresh /proc and /dev, and
what is mounted for it. Three ways, tried in this order: as root; as an ordinary user in a user namespace; plainly,
where the host allows neither (then there are no mounts and no protection).
"""

# System calls take strings, and the less there is between fork and exec the better:
# ruff: noqa: PTH101, PTH102, PTH103, PTH106, PTH108, PTH110, PTH112, PTH115, PTH116, PTH118, PTH120, PTH211

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dray.runtimes import bind_mounts
from dray.runtimes.process import seccomp, terminals

if TYPE_CHECKING:
    from dray.runtimes.process import protocol

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID = 0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000
NEWNET = 0x40000000

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_FLAGS = {"ro": RDONLY, "nosuid": NOSUID, "nodev": NODEV, "noexec": NOEXEC}
_DETACH = 2
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CAPABILITY_VERSION = 0x20080522

#: Filesystems that a container gets afresh, or not at all.
_PSEUDO = frozenset(
    ("proc", "sysfs", "devtmpfs", "devpts", "tmpfs", "cgroup", "cgroup2", "mqueue", "hugetlbfs", "debugfs", "tracefs",
     "securityfs", "pstore", "bpf", "configfs", "fusectl", "binfmt_misc", "overlay", "nsfs", "autofs", "efivarfs",
     "rpc_pipefs")
)  # fmt: skip
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
#: Directories that do not come from the host's.
_FRESH = ("/proc", "/sys", "/dev")
#: What of the kernel's settings root may not change, and what it may not see, unless the container is privileged.
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_MASKED = (
    "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/scsi", "/proc/timer_list",
    "/sys/devices/virtual/powercap", "/sys/firmware",
)  # fmt: skip
#: Hooks that run before the container has a mount namespace.
OUTSIDE = ("prestart", "createRuntime")
#: Where the old root hangs while mounts are made.
_OLD_ROOT = "/.host"

_libc = ctypes.CDLL(None, use_errno=True)


class SetupFailed(Exception):
    """A step of the set-up failed; the text is for the person who reads the pod's events."""


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise SetupFailed(f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(handle: int, kind: int) -> None:
    _check(_libc.setns(ctypes.c_int(handle), ctypes.c_int(kind)), "setns")


def enter_network(handle: int) -> None:
    """Joins the network namespace of a pod; -1 stays in the host's."""
    if handle >= 0:
        setns(handle, NEWNET)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode() or None
    )
    _check(result, f"mount {source} on {target}")


def prctl(option: int, value: int) -> None:
    _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), 0, 0, 0)


def die_with_parent() -> None:
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def become_root_of_user_namespace(extra: int) -> None:
    """A user namespace in which the caller is root, and other namespaces that belong to it."""
    uid, gid = os.getuid(), os.getgid()
    unshare(NEWUSER | extra)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def become_root_of_pod() -> None:
    """In the user namespace of a pod, where the host's root is nobody."""
    os.setgroups([])
    os.setgid(0)
    os.setuid(0)
    die_with_parent()  # the kernel forgets it when the user changes


def build_root(*, mode: str, scratch: str, hidden: Sequence[str]) -> str:
    """Builds a container's root, as far as it is the same for all. The caller is alone in new mount, UTS and IPC
    namespaces."""
    mount("none", "/", "", REC | PRIVATE)
    root = _new_root(scratch, mode)
    for directory in hidden:
        if os.path.isdir(root + directory):
            mount("tmpfs", root + directory, "tmpfs", NOSUID | NODEV | NOEXEC, "mode=0755,size=1m")
    return root


def fingerprint() -> object:
    """What a root is built of. A spare whose root was built of something else is discarded."""
    return Path("/proc/self/mountinfo").read_bytes(), os.stat("/").st_mtime_ns


def enter_root(config: protocol.Container, root: str, *, users: int) -> None:
    """Makes ``root`` the root of this process, with the mounts and devices of this container."""
    run_hooks(config, "createContainer")
    sources = {
        id(m): _source(m, users if m["of_pod"] else -1) for m in config["mounts"] if m["kind"] != "tmpfs"
    }
    nodes = {id(d): _node(d) for d in config["devices"]}
    _pivot(root)
    try:
        mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    except SetupFailed:  # a host that hides parts of its own /proc
        mount(f"{_OLD_ROOT}/proc", "/proc", "", BIND | REC)
    _populate_dev()
    # From here on no link in a volume leads to the host any more.
    _libc.umount2(_OLD_ROOT.encode(), _DETACH)
    os.rmdir(_OLD_ROOT)
    for device in config["devices"]:
        _device(device, nodes[id(device)])
    # Outer mounts first, or they would hide the inner ones.
    for m in sorted(config["mounts"], key=lambda m: m["target"].rstrip("/").count("/")):
        _bind(m, sources.get(id(m)))
    if not config["privileged"]:
        _protect_kernel()
    if config["hostname"]:
        socket.sethostname(config["hostname"])
        with contextlib.suppress(OSError):
            Path("/etc/hostname").write_text(config["hostname"] + "\n")
    if config["read_only_root"]:
        mount("none", "/", "", REMOUNT | BIND | RDONLY)


def _new_root(scratch: str, mode: str) -> str:
    """The host's directories, with changes kept in memory; other file systems of the host are seen, not written.

    An overlay per directory of the root rather than one over it all: in a user namespace the root cannot be a layer,
    because of what is mounted below it.
    """
    os.makedirs(scratch, exist_ok=True)
    mount("tmpfs", scratch, "tmpfs", NOSUID | NODEV, "mode=0755")
    root = os.path.join(scratch, "root")
    os.mkdir(root)
    mount("tmpfs", root, "tmpfs", NODEV, "mode=0755")
    for directory in (_OLD_ROOT, *_FRESH):
        os.mkdir(root + directory, 0o755)
    for entry in os.scandir("/"):
        target = root + entry.path
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.is_dir() and not os.path.lexists(target):
            _layer(entry.path, scratch, mode=mode)
    for point in _other_filesystems(scratch):
        with contextlib.suppress(SetupFailed, OSError):  # not worth failing for: it is merely not seen
            _mount_point(root + point, directory=os.path.isdir(point))
            mount(point, root + point, "", BIND)
            mount("none", root + point, "", REMOUNT | BIND | RDONLY)
    mount("/sys", root + "/sys", "", BIND | REC)
    return root


def _layer(directory: str, scratch: str, *, mode: str) -> None:
    name = directory.strip("/")
    target, upper, work = (os.path.join(scratch, kind, name) for kind in ("root", "upper", "work"))
    permissions = stat.S_IMODE(os.stat(directory).st_mode)
    for place in (target, upper, work):
        os.makedirs(place, exist_ok=True)
    os.chmod(upper, permissions)
    options = f"lowerdir={directory},upperdir={upper},workdir={work}"
    try:
        mount("overlay", target, "overlay", 0, options + (",userxattr" if mode == "user" else ""))
    except SetupFailed:
        with contextlib.suppress(SetupFailed):
            mount(directory, target, "", BIND | REC)
            mount("none", target, "", REMOUNT | BIND | RDONLY)


def _other_filesystems(scratch: str) -> Iterator[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    for line in lines:
        left, _, right = line.partition(" - ")
        point, kind = left.split()[4], right.split()[0]
        point = point.encode().decode("unicode_escape")
        if (
            point != "/"
            and kind not in _PSEUDO
            and not kind.startswith("fuse")
            and not scratch.startswith(point + "/")
        ):
            yield point


def _pivot(root: str) -> None:
    os.chdir(root)
    _check(_libc.pivot_root(b".", os.fsencode("." + _OLD_ROOT)), "pivot_root")
    os.chdir("/")


def _populate_dev() -> None:
    mount("tmpfs", "/dev", "tmpfs", NOSUID, "mode=0755,size=65536k")
    for name in _DEVICES:
        if os.path.exists(f"{_OLD_ROOT}/dev/{name}"):
            Path(f"/dev/{name}").touch()
            mount(f"{_OLD_ROOT}/dev/{name}", f"/dev/{name}", "", BIND)
    os.mkdir("/dev/pts")
    mount("devpts", "/dev/pts", "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    os.symlink("pts/ptmx", "/dev/ptmx")
    os.mkdir("/dev/shm")
    mount("tmpfs", "/dev/shm", "tmpfs", NOSUID | NODEV, "mode=1777,size=65536k")
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target if name == "fd" else f"/proc/self/{target}", f"/dev/{name}")


def _protect_kernel() -> None:
    for path in filter(os.path.exists, _READ_ONLY):
        mount(path, path, "", BIND | REC)
        mount("none", path, "", REMOUNT | BIND | RDONLY | NOSUID | NODEV | NOEXEC)
    for path in filter(os.path.exists, _MASKED):
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", RDONLY | NOSUID | NODEV | NOEXEC, "size=0")
        else:
            mount("/dev/null", path, "", BIND)
    try:
        bind_mounts.make_read_only("/sys")
    except OSError:  # before Linux 5.12 only the mount itself, without those below
        mount("none", "/sys", "", REMOUNT | BIND | RDONLY | NOSUID | NODEV | NOEXEC)


def _source(m: protocol.Mount, users: int) -> int:
    """What is to be mounted, as a mount that hangs nowhere yet."""
    where = os.path.join(m["source"], m["sub_path"]) if m["sub_path"] else m["source"]
    try:
        with bind_mounts.opened(m["source"], m["sub_path"]) as handle:
            tree = bind_mounts.clone(handle, recursive="bind" not in m["options"])
    except FileNotFoundError as e:
        raise SetupFailed(f"mount source {where} does not exist") from e
    except OSError as e:
        if e.errno == errno.EXDEV:
            raise SetupFailed(f"path {m['sub_path']!r} leads out of its volume") from e
        raise SetupFailed(f"mount {where} on {m['target']}: {e.strerror}") from e
    if users >= 0:
        try:
            bind_mounts.map_users(tree, users)
        except OSError as e:
            text = "its file system cannot be shown to a user namespace (hostUsers: false)"
            raise SetupFailed(f"mount {where} on {m['target']}: {text}: {e.strerror}") from e
    return tree


def _node(device: protocol.DeviceNode) -> int | None:
    """A device node of the host as such a mount; None if it is to be made by its numbers."""
    try:
        with bind_mounts.opened(device["source"]) as handle:
            return bind_mounts.clone(handle, recursive=False)
    except FileNotFoundError:
        return None


def _device(device: protocol.DeviceNode, source: int | None) -> None:
    target = device["target"]
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.lexists(target):
        os.unlink(target) if not os.path.ismount(target) else _libc.umount2(os.fsencode(target), _DETACH)
    if source is not None:
        Path(target).touch()
        bind_mounts.attach(source, target)
    elif device["kind"] in ("c", "b", "u") and device["major"] is not None:
        kind = stat.S_IFBLK if device["kind"] == "b" else stat.S_IFCHR
        os.mknod(target, (device["mode"] or 0o666) | kind, os.makedev(device["major"], device["minor"] or 0))
    else:
        raise SetupFailed(f"device node {device['source']} does not exist")
    if device["uid"] is not None or device["gid"] is not None:
        os.chown(target, _or(device["uid"], -1), _or(device["gid"], -1))


def _bind(m: protocol.Mount, source: int | None) -> None:
    options = set(m["options"])
    flags = sum(_FLAGS[o] for o in options & _FLAGS.keys()) | (RDONLY if m["read_only"] else 0)
    if source is None:
        _mount_point(m["target"], directory=True)
        data = ",".join(o for o in m["options"] if "=" in o)
        mount("tmpfs", m["target"], "tmpfs", flags, data)
        return
    _mount_point(m["target"], directory=stat.S_ISDIR(os.fstat(source).st_mode))
    bind_mounts.attach(source, m["target"])
    if flags:
        mount("none", m["target"], "", REMOUNT | BIND | flags)


def _mount_point(path: str, *, directory: bool) -> None:
    try:
        _make(path, directory=directory)
    except OSError as e:
        if e.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        # In a user namespace the host's root owns these directories, and no process here may write to them. Those with
        # mounts of the host below them are read-only.
        _replace_with_tmpfs(_existing_ancestor(path))
        _make(path, directory=directory)


def _make(path: str, *, directory: bool) -> None:
    if directory:
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).touch()


def _existing_ancestor(path: str) -> str:
    path = os.path.realpath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _replace_with_tmpfs(directory: str) -> None:
    """Replaces a directory by one in memory with the same entries."""
    links: dict[str, str] = {}
    trees: dict[str, int] = {}
    for entry in os.scandir(directory):
        with contextlib.suppress(OSError):  # not worth failing for: it is merely not seen
            if entry.is_symlink():
                links[entry.path] = os.readlink(entry.path)
            else:
                with bind_mounts.opened(entry.path) as handle:
                    trees[entry.path] = bind_mounts.clone(handle, recursive=True)
    mount("tmpfs", directory, "tmpfs", NODEV, "mode=0755")
    for path, target in links.items():
        os.symlink(target, path)
    for path, tree in trees.items():
        _make(path, directory=stat.S_ISDIR(os.fstat(tree).st_mode))
        bind_mounts.attach(tree, path)


def drop_capabilities(numbers: Sequence[int]) -> None:
    """Gives capabilities up for good: the command that is run next, and all it runs, cannot have them."""
    if not numbers:
        return
    for number in numbers:
        if _libc.prctl(ctypes.c_int(_PR_CAPBSET_DROP), ctypes.c_ulong(number), 0, 0, 0) and (
            ctypes.get_errno() != errno.EINVAL  # the kernel is older than the capability
        ):
            raise SetupFailed(f"capability {number} cannot be dropped: {os.strerror(ctypes.get_errno())}")
    # What is inheritable would outlast the bounding set: header, then twice effective, permitted and inheritable.
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, sets), "capget")
    sets[2] = sets[5] = 0
    _check(_libc.capset(header, sets), "capset")


def apply_identity(config: protocol.Container, *, mode: str) -> None:
    """User, groups and privileges, at the very end: after this nothing else may be set up."""
    if config["no_new_privileges"]:
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if config["seccomp"]:
        seccomp.install(sys_admin=seccomp.SYS_ADMIN not in config["dropped_capabilities"])
    if mode != "plain":
        drop_capabilities(config["dropped_capabilities"])
    if mode != "root":
        return  # an ordinary user cannot become another one
    user, group = config["user"], config["group"]
    groups = config["groups"]
    if user is not None or group is not None or groups:
        os.setgroups(groups)
        os.setgid(_or(group, 0))
        os.setuid(_or(user, 0))
        die_with_parent()  # the kernel forgets it when the user changes


def own_streams(config: protocol.Container) -> None:
    """Gives standard input and output to the user of the container, which can then open them by name (/dev/stdout). The
    caller is in the host's user namespace."""
    user, group = (config["first_user"] + _or(config[of], 0) for of in ("user", "group"))
    for number in (0, 1, 2):
        if (user or group) and (stat.S_ISFIFO(os.fstat(number).st_mode) or os.isatty(number)):
            os.fchown(number, user, group)


def run_program(config: protocol.Container) -> None:
    """Replaces this process by the container's command."""
    env = dict(config["env"])
    directory = config["working_dir"] or "/"
    try:
        os.chdir(directory)
    except FileNotFoundError as e:
        raise SetupFailed(f"working directory {directory} does not exist") from e
    argv = config["argv"]
    program = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=env.get("PATH", os.defpath))
    if program is None:
        raise SetupFailed(f'exec: "{argv[0]}": executable file not found in $PATH')
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, argv, env)
    except OSError as e:
        raise SetupFailed(f'exec: "{argv[0]}": {e.strerror}') from e


def run_hooks(config: protocol.Container, *stages: str, status: str = "creating") -> None:
    state = {
        "ociVersion": "1.0.2",
        "id": config["id"],
        "status": status,
        "pid": int(os.readlink("/proc/self")),
        "bundle": "/",
    }
    for hook in config["hooks"]:
        if hook["stage"] not in stages:
            continue
        done = subprocess.run(
            hook["args"] or [hook["path"]],
            executable=hook["path"],
            env=dict(e.split("=", 1) for e in hook["env"]),
            input=json.dumps(state).encode(),
            timeout=hook["timeout"],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            text = done.stderr.decode(errors="replace").strip()
            raise SetupFailed(f"{hook['stage']} hook {hook['path']} exited with {done.returncode}: {text}")


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def run_container(
    config: protocol.Container, *, mode: str, scratch: str, hidden: Sequence[str], users: int = -1
) -> None:
    """What the forked child does, up to the exec. Returns only by raising. ``users`` is the user namespace of its pod."""
    if mode == "root":
        run_hooks(config, *OUTSIDE)
        unshare(NEWNS | NEWUTS | NEWIPC)
        run_in_root(config, build_root(mode=mode, scratch=scratch, hidden=hidden), mode=mode, users=users)
    elif mode == "user":
        run_in_root(config, build_root(mode=mode, scratch=scratch, hidden=hidden), mode=mode)
    elif config["mounts"] or config["devices"]:
        raise SetupFailed("mounts and device nodes need a mount namespace, which this host does not allow")
    else:
        start(config, mode=mode)


def run_in_root(config: protocol.Container, root: str, *, mode: str, users: int = -1) -> None:
    enter_root(config, root, users=users)
    start(config, mode=mode, users=users)


def start(config: protocol.Container, *, mode: str, users: int = -1) -> None:
    os.umask(0o022)
    if config["tty"] and mode != "plain":
        _make_terminal()
    if mode == "root":
        own_streams(config)
    if users >= 0:
        setns(users, NEWUSER)
        become_root_of_pod()
        # Nothing of what is mounted can be unmounted in namespaces that belong to a user namespace.
        unshare(NEWNS | NEWUTS | NEWIPC)
    run_hooks(config, "startContainer")
    apply_identity(config, mode=mode)
    run_program(config)


def _make_terminal() -> None:
    """Makes a terminal in the container's own /dev/pts, where its programs find it by name. The supervisor's end of it goes
    through the socket that is the standard input."""
    near, far = terminals.open_in("/dev/pts/ptmx")
    with socket.socket(fileno=os.dup(0)) as console:
        socket.send_fds(console, [b"t"], [near])
    os.close(near)
    for number in (0, 1, 2):
        os.dup2(far, number)
    os.close(far)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def probe(scratch: str, modes: Sequence[str]) -> str:
    """The first of these ways that works here, or ``plain``."""
    for mode in modes:
        pid = os.fork()
        if pid == 0:
            try:
                if mode == "root":
                    unshare(NEWNS | NEWUTS | NEWIPC | NEWPID)
                else:
                    become_root_of_user_namespace(NEWNS | NEWUTS | NEWIPC | NEWPID)
                mount("none", "/", "", REC | PRIVATE)
                _new_root(scratch, mode)
                os._exit(0)
            except BaseException as e:
                print(f"no containers by way of {mode}: {e}", file=sys.stderr, flush=True)
                os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
            return mode
    return "plain"
