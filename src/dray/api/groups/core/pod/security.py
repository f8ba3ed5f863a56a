"""Security contexts of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core.pod.options import Part, PodValidationOptions
from dray.api.groups.core.pod.paths import check_descending
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import PodSecurityContext, PodSpec

_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_HIGHEST_ID: Final = (1 << 31) - 1
_SYSCTL: Final = "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_MATCH: Final = re.compile(
    "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
).fullmatch
_IPC_SYSCTLS: Final = ("kernel.shm_rmid_forced", "kernel.sem")
_IPC_PREFIXES: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_LINUX_ONLY: Final = "cannot be set for a windows pod"


def containers(spec: PodSpec, path: Path) -> Iterator[tuple[Part, Path]]:
    """Every container of a pod with its path: init containers, containers, ephemeral ones."""
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(part) or ()):
            yield container, path.child(part).index(i)


def _check_id(context: Mapping[str, Any], part: str, path: Path) -> list[FieldError]:
    value = context.get(part)
    if value is None or 0 <= value <= _HIGHEST_ID:
        return []
    return [field.invalid(path.child(part), value, f"must be between 0 and {_HIGHEST_ID}, inclusive")]


def _check_seccomp(context: PodSecurityContext, path: Path) -> list[FieldError]:
    profile, at = context.get("seccompProfile"), path.child("seccompProfile")
    if profile is None:
        return []
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    found: list[FieldError] = []
    if not kind:
        found.append(field.required(at.child("type"), "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        found.append(field.not_supported(at.child("type"), kind, _PROFILES))
    where = at.child("localhostProfile")
    if kind == "Localhost":
        if file is None:
            found.append(field.required(where, "must be set when seccomp type is Localhost"))
        else:
            found += check_descending(file, where)
    elif file is not None:
        shown = {"Type": kind, "LocalhostProfile": file}
        found.append(field.invalid(where, shown, "can only be set when seccomp type is Localhost"))
    return found


def _check_app_armor(context: PodSecurityContext, path: Path) -> list[FieldError]:
    profile, at = context.get("appArmorProfile"), path.child("appArmorProfile")
    if profile is None:
        return []
    kind, file, where = profile.get("type", ""), profile.get("localhostProfile"), at.child("localhostProfile")
    if not kind:
        return [field.required(at.child("type"), "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [field.not_supported(at.child("type"), kind, _PROFILES)]
    if kind != "Localhost":
        words = "can only be set when AppArmor type is Localhost"
        return [] if file is None else [field.invalid(where, file, words)]
    if not file:
        return [field.required(where, "must be set when AppArmor type is Localhost")]
    found: list[FieldError] = []
    if file != file.strip():
        found.append(field.invalid(where, file, "must not be padded with whitespace"))
    if len(file.encode()) > 4095:
        found.append(field.too_long(where, 4095))
    return found


def _check_windows_options(context: PodSecurityContext, path: Path) -> list[FieldError]:
    options, at = context.get("windowsOptions"), path.child("windowsOptions")
    if options is None:
        return []
    found: list[FieldError] = []
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        found += checks.each(name, at.child("gmsaCredentialSpecName"), names.dns1123_subdomain(name))
    if options.get("gmsaCredentialSpec") == "":
        where = at.child("gmsaCredentialSpec")
        found.append(field.invalid(where, "", "gmsaCredentialSpec cannot be an empty string"))
    if (user := options.get("runAsUserName")) is not None and (problem := _user_problem(user)):
        found.append(field.invalid(at.child("runAsUserName"), user, problem))
    return found


def _user_problem(name: str) -> str:
    if not name:
        return "runAsUserName cannot be an empty string"
    if re.search(r"[\x00-\x1f\x7f]", name):
        return "runAsUserName cannot contain control characters"
    if name.count("\\") > 1:
        return "runAsUserName cannot contain more than one backslash"
    user = name.rpartition("\\")[2]
    if not user:
        return "runAsUserName's User cannot be empty"
    if len(user) > 104:
        return "runAsUserName's User length must not be longer than 104 characters"
    if not user.strip(". "):
        return "runAsUserName's User cannot contain only periods or spaces"
    if re.search(r'["/\\:;|=,+*?<>@\[\]]', user):
        return "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
    return ""


def check_container_context(container: Part, path: Path, *, host_users: bool) -> list[FieldError]:
    context, at = container.get("securityContext"), path.child("securityContext")
    if context is None:
        return []
    found = _check_id(context, "runAsUser", at) + _check_id(context, "runAsGroup", at)
    if (mount := context.get("procMount")) is not None:
        where = at.child("procMount")
        found += checks.one_of(mount, where, ("Default", "Unmasked"))
        if mount == "Unmasked" and host_users:
            found.append(field.invalid(where, mount, "`hostUsers` must be false to use `Unmasked`"))
    found += _check_seccomp(context, at)
    if context.get("allowPrivilegeEscalation") is False:
        shown: Any = dict(context)
        if context.get("privileged"):
            words = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            found.append(field.invalid(at, shown, words))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            found.append(field.invalid(at, shown, words))
    return found + _check_windows_options(context, at) + _check_app_armor(context, at)


def check_pod_context(spec: PodSpec, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    context, at = spec.get("securityContext"), path.child("securityContext")
    if context is None:
        return []
    found: list[FieldError] = []
    for part in ("fsGroup", "runAsUser", "runAsGroup"):
        found += _check_id(context, part, at)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _HIGHEST_ID:
            words = f"must be between 0 and {_HIGHEST_ID}, inclusive"
            found.append(field.invalid(at.child("supplementalGroups").index(i), group, words))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        words = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(field.invalid(at.child("shareProcessNamespace"), True, words))
    found += _check_sysctls(spec, at.child("sysctls"))
    found += _check_choice(context, "fsGroupChangePolicy", at, ("Always", "OnRootMismatch"))
    found += _check_seccomp(context, at) + _check_windows_options(context, at) + _check_app_armor(context, at)
    found += _check_choice(context, "supplementalGroupsPolicy", at, ("Merge", "Strict"))
    policies = ("MountOption", "Recursive") if opts.on("SELinuxMount") else ("Recursive",)
    if opts.on("SELinuxChangePolicy"):
        policies = ("MountOption", "Recursive")
    return found + _check_choice(context, "seLinuxChangePolicy", at, policies)


def _check_choice(
    context: PodSecurityContext, part: str, path: Path, allowed: tuple[str, ...]
) -> list[FieldError]:
    value = context.get(part)
    if value is None or value in allowed:
        return []
    return [field.not_supported(path.child(part), value, allowed)]


def _check_sysctls(spec: PodSpec, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, sysctl in enumerate(spec["securityContext"].get("sysctls") or ()):
        name, at = sysctl.get("name", ""), path.index(i).child("name")
        if not name:
            found.append(field.required(at))
        elif len(name) > 253 or not _SYSCTL_MATCH(name):
            words = f"must have at most 253 characters and match regex ^{_SYSCTL}$"
            found.append(field.invalid(at, name, words))
        elif name in seen:
            found.append(field.duplicate(at, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            found.append(field.invalid(at, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith(_IPC_PREFIXES)):
            found.append(field.invalid(at, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return found


def check_host_process(spec: PodSpec, path: Path) -> list[FieldError]:
    """Windows host-process containers come all together, on the host's network."""
    of_pod = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    found: list[FieldError] = []
    all_containers = list(containers(spec, path))
    count = 0
    for container, at in all_containers:
        own = ((container.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
        if own is not None and of_pod is not None and own != of_pod:
            shown = "true" if of_pod else "false"
            words = f"pod hostProcess value must be identical if both are specified, was {shown}"
            where = at.child("securityContext", "windowsOptions", "hostProcess")
            found.append(field.invalid(where, own, words))
        count += bool(of_pod if own is None else own)
    if count and count != len(all_containers):
        words = (
            "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        )
        found.append(field.invalid(path, "", words))
    if count and not spec.get("hostNetwork"):
        words = "hostNetwork must be true if pod contains any hostProcess containers"
        found.append(field.invalid(path.child("hostNetwork"), False, words))
    return found


def check_host_users(spec: PodSpec, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    """A pod with users of its own shares no other namespace with the host."""
    if spec.get("hostUsers") is not False:
        return []
    shared = [("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    if not opts.on("UserNamespacesHostNetworkSupport"):
        shared.insert(0, ("hostNetwork", "hostNetwork"))
    words = "when `hostUsers` is false"
    found = [field.forbidden(path.child(shown), words) for part, shown in shared if spec.get(part)]
    for container, at in containers(spec, path):
        if container.get("volumeDevices"):
            found.append(field.forbidden(at.child("volumeDevices"), words))
    return found


def check_os(spec: PodSpec, path: Path) -> list[FieldError]:
    os, at = spec.get("os"), path.child("os")
    if os is None:
        return []
    name = os.get("name", "")
    if not name:
        return [field.required(at.child("name"))]
    if name not in ("linux", "windows"):
        return [field.not_supported(at, name, ("linux", "windows"))]
    return _check_linux(spec, path) if name == "linux" else _check_windows(spec, path)


def _check_linux(spec: PodSpec, path: Path) -> list[FieldError]:
    words = "windows options cannot be set for a linux pod"
    holders = [(spec, path), *containers(spec, path)]
    return [
        field.forbidden(at.child("securityContext", "windowsOptions"), words)
        for holder, at in holders
        if (holder.get("securityContext") or {}).get("windowsOptions") is not None
    ]


_POD_LINUX: Final = (
    "appArmorProfile", "seLinuxOptions", "hostUsers", "hostPID", "hostIPC", "seccompProfile", "fsGroup",
    "fsGroupChangePolicy", "sysctls", "shareProcessNamespace", "runAsUser", "runAsGroup", "supplementalGroups",
    "supplementalGroupsPolicy", "seLinuxChangePolicy",
)  # fmt: skip
_SPEC_PARTS: Final = frozenset({"hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"})
_CONTAINER_LINUX: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip


def _check_windows(spec: PodSpec, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    in_context: Mapping[str, Any] = spec.get("securityContext") or {}
    beside: Mapping[str, Any] = spec
    for part in _POD_LINUX:
        in_spec = part in _SPEC_PARTS
        value = (beside if in_spec else in_context).get(part)
        # Of the fields that are plain booleans only true is a setting.
        if value is None or (value is False and part in ("hostPID", "hostIPC")):
            continue
        found.append(
            field.forbidden(path.child(part) if in_spec else path.child("securityContext", part), _LINUX_ONLY)
        )
    for container, at in containers(spec, path):
        own = container.get("securityContext") or {}
        given = [part for part in _CONTAINER_LINUX if own.get(part) is not None]
        found += [field.forbidden(at.child("securityContext", part), _LINUX_ONLY) for part in given]
    return found
