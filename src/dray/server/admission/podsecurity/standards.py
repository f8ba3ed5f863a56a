"""The Pod Security Standards: what pods of each level may not do, by version; names, words and versions are upstream's.

A check gets a pod and returns its violation, a reason with details, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from dray.api.pods import all_containers
from dray.api.validation.field import quote
from dray.server.admission.podsecurity.levels import BASELINE, LATEST, PRIVILEGED, RESTRICTED, LevelVersion

if TYPE_CHECKING:
    from dray.api.types.core import (
        Container,
        EphemeralContainer,
        LifecycleHandler,
        PodSecurityContext,
        PodSpec,
        Probe,
        SecurityContext,
    )
    from dray.api.types.meta import ObjectMeta


class Violation(NamedTuple):
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


CheckFunc = Callable[["ObjectMeta", "PodSpec"], Violation | None]


class Check(NamedTuple):
    name: str
    level: str
    versions: tuple[tuple[int, CheckFunc], ...]  # each from a minor version on
    instead_of: str = ""  # the baseline check that this one makes superfluous

    def at(self, minor: int) -> CheckFunc | None:
        return next((check for since, check in reversed(self.versions) if since <= minor), None)


def violations(demand: LevelVersion, metadata: ObjectMeta, spec: PodSpec, *, newest: int) -> list[Violation]:
    """What a pod does that a level forbids. ``newest`` is the minor version that is the latest here."""
    if demand.level == PRIVILEGED:
        return []
    minor = newest if demand.minor == LATEST else min(demand.minor, newest)
    found = (check(metadata, spec) for check in _checks_of(demand.level, minor))
    return [violation for violation in found if violation is not None]


@lru_cache(maxsize=64)
def _checks_of(level: str, minor: int) -> tuple[CheckFunc, ...]:
    """The checks of a level, those of the baseline first; both in the order of their names."""
    strict = [c for c in CHECKS if c.level == RESTRICTED and c.at(minor)] if level == RESTRICTED else []
    replaced = {check.instead_of for check in strict}
    chosen = [c for c in CHECKS if c.level == BASELINE and c.name not in replaced]
    ordered = (*sorted(chosen, key=lambda c: c.name), *sorted(strict, key=lambda c: c.name))
    return tuple(func for check in ordered if (func := check.at(minor)) is not None)


# -- what checks share ----------------------------------------------------------------------------------------------


def _pod_context(spec: PodSpec) -> PodSecurityContext:
    return spec.get("securityContext") or {}


def _context(container: Container | EphemeralContainer) -> SecurityContext:
    return container.get("securityContext") or {}


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _some(one: str, names: Sequence[Any], many: str = "") -> str:
    return one if len(names) == 1 else many or f"{one}s"


def _named(names: Sequence[str]) -> str:
    return f"{_some('container', names)} {_quoted(names)}"


def _setters(pod: object, names: Sequence[str]) -> str:
    """Who has set something: the pod itself, containers, or both."""
    return " and ".join([*(["pod"] if pod else []), *([_named(names)] if names else [])])


def _in_user_namespace(spec: PodSpec) -> bool:
    return spec.get("hostUsers") is False


def _except_windows(check: CheckFunc) -> CheckFunc:
    """Windows knows no such thing."""
    return lambda metadata, spec: (
        None if (spec.get("os") or {}).get("name") == "windows" else check(metadata, spec)
    )


def _except_user_namespaces(check: CheckFunc) -> CheckFunc:
    return lambda metadata, spec: None if _in_user_namespace(spec) else check(metadata, spec)


# -- baseline -------------------------------------------------------------------------------------------------------

_HOST_NAMESPACES: Final[tuple[Literal["hostNetwork", "hostPID", "hostIPC"], ...]] = (
    "hostNetwork",
    "hostPID",
    "hostIPC",
)
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
_SYSCTLS: Final = (
    (0, ("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies")),
    (0, ("net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start")),
    (27, ("net.ipv4.ip_local_reserved_ports",)),
    (29, ("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl")),
    (29, ("net.ipv4.tcp_keepalive_probes",)),
    (32, ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")),
)
_SELINUX_IDENTITY: Final[tuple[Literal["user", "role"], ...]] = ("user", "role")
_SELINUX: Final = ("", "container_t", "container_init_t", "container_kvm_t")


def _apparmor(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    pod, names, values = _profiles(spec, "appArmorProfile")
    annotations = sorted(
        f"{key}={quote(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APPARMOR)
        and not (value in ("", "runtime/default") or value.startswith("localhost/"))
    )
    if not (pod or names or annotations):
        return None
    setters = [_setters(pod, names)] if pod or names else []
    setters += [_some("annotation", annotations)] if annotations else []
    shown = [*sorted(values), *annotations]
    reason = _some("forbidden AppArmor profile", shown)
    return Violation(
        reason, f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(shown)}"
    )


def _profiles(
    spec: PodSpec, part: Literal["appArmorProfile", "seccompProfile"]
) -> tuple[bool, list[str], set[str]]:
    """Whether the pod, and which containers, set a profile that is not allowed, and to what."""
    values = set()

    def bad(context: PodSecurityContext | SecurityContext) -> bool:
        profile = context.get(part)
        if profile is None or profile.get("type", "") in _PROFILES:
            return False
        values.add(profile.get("type", ""))
        return True

    pod = bad(_pod_context(spec))
    return pod, [c["name"] for c in all_containers(spec) if bad(_context(c))], values


def _capabilities_baseline(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    names, added = _adding(spec, _CAPABILITIES)
    if not names:
        return None
    words = f"must not include {_quoted(added)} in securityContext.capabilities.add"
    return Violation("non-default capabilities", f"{_named(names)} {words}")


def _adding(spec: PodSpec, allowed: frozenset[str]) -> tuple[list[str], list[str]]:
    """The containers that add other capabilities, and which."""
    names, found = [], set()
    for container in all_containers(spec):
        other = set((_context(container).get("capabilities") or {}).get("add") or ()) - allowed
        if other:
            names.append(container["name"])
            found |= other
    return names, sorted(found)


def _host_namespaces(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    found = [f"{part}=true" for part in _HOST_NAMESPACES if spec.get(part)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _host_paths(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    found = [v["name"] for v in spec.get("volumes") or () if v.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{_some('volume', found)} {_quoted(found)}") if found else None


def _host_ports(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    names, ports = [], set()
    for container in all_containers(spec):
        if own := {str(p["hostPort"]) for p in container.get("ports") or () if p.get("hostPort")}:
            names.append(container["name"])
            ports |= own
    if not names:
        return None
    listed = sorted(ports)
    words = f"{_some('uses', names, 'use')} {_some('hostPort', listed)} {', '.join(listed)}"
    return Violation("hostPort", f"{_named(names)} {words}")


def _host_probes(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    names, hosts = set(), set()
    for container in all_containers(spec):
        lifecycle = container.get("lifecycle") or {}
        handlers: tuple[Probe | LifecycleHandler | None, ...] = (
            container.get("livenessProbe"),
            container.get("readinessProbe"),
            container.get("startupProbe"),
            lifecycle.get("postStart"),
            lifecycle.get("preStop"),
        )
        for handler in handlers:
            if handler is None:
                continue
            for action in (handler.get("httpGet"), handler.get("tcpSocket")):
                if action and (host := action.get("host")):
                    names.add(container["name"])
                    hosts.add(host)
    if not names:
        return None
    listed, what = sorted(hosts), "probe or lifecycle host"
    words = f"{_some('uses', sorted(names), 'use')} {_some(what, listed)} {_quoted(listed)}"
    return Violation(what, f"{_named(sorted(names))} {words}")


def _privileged(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    names = [c["name"] for c in all_containers(spec) if _context(c).get("privileged")]
    if not names:
        return None
    return Violation("privileged", f"{_named(names)} must not set securityContext.privileged=true")


def _proc_mount(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    set_ = [(c["name"], _context(c).get("procMount")) for c in all_containers(spec)]
    bad = [(name, kind) for name, kind in set_ if kind is not None and kind != "Default"]
    if not bad:
        return None
    words = f"must not set securityContext.procMount to {_quoted(sorted({kind for _, kind in bad}))}"
    return Violation("procMount", f"{_named([name for name, _ in bad])} {words}")


def _selinux(*more: str) -> CheckFunc:
    allowed = {*_SELINUX, *more}

    def check(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
        types, others = set(), set()

        def bad(context: PodSecurityContext | SecurityContext) -> bool:
            options = context.get("seLinuxOptions") or {}
            kind = options.get("type", "")
            own = {part for part in _SELINUX_IDENTITY if options.get(part)}
            others.update(own)
            if kind not in allowed:
                types.add(kind)
            return bool(own) or kind not in allowed

        pod = bad(_pod_context(spec))
        names = [c["name"] for c in all_containers(spec) if bad(_context(c))]
        if not pod and not names:
            return None
        listed = sorted(types)
        data = [f"{_some('type', listed)} {_quoted(listed)}"] if listed else []
        data += [f"{part} may not be set" for part in _SELINUX_IDENTITY if part in others]
        words = f"set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Violation("seLinuxOptions", f"{_setters(pod, names)} {words}")

    return check


def _seccomp_annotations(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    annotations = metadata.get("annotations") or {}
    keys = (_SECCOMP_POD, *(_SECCOMP + c["name"] for c in all_containers(spec)))
    found = sorted(
        f"{key}={quote(annotations[key])}"
        for key in set(keys) & set(annotations)
        if annotations[key] not in ("runtime/default", "docker/default")
        and not annotations[key].startswith("localhost/")
    )
    if not found:
        return None
    return Violation("seccompProfile", f"forbidden {_some('annotation', found)} {', '.join(found)}")


def _seccomp_baseline(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    pod, names, values = _profiles(spec, "seccompProfile")
    if not pod and not names:
        return None
    words = f"must not set securityContext.seccompProfile.type to {_quoted(sorted(values))}"
    return Violation("seccompProfile", f"{_setters(pod, names)} {words}")


def _sysctls(minor: int) -> CheckFunc:
    allowed = {name for since, names in _SYSCTLS if since <= minor for name in names}

    def check(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
        found = [s["name"] for s in _pod_context(spec).get("sysctls") or () if s["name"] not in allowed]
        return Violation("forbidden sysctls", ", ".join(found)) if found else None

    return check


def _windows_host_process(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    def bad(context: PodSecurityContext | SecurityContext) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    pod = bad(_pod_context(spec))
    names = [c["name"] for c in all_containers(spec) if bad(_context(c))]
    if not pod and not names:
        return None
    words = "must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", f"{_setters(pod, names)} {words}")


# -- restricted -----------------------------------------------------------------------------------------------------

_VOLUMES: Final = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
_OTHER_VOLUMES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def _escalation(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    names = [
        c["name"] for c in all_containers(spec) if _context(c).get("allowPrivilegeEscalation") is not False
    ]
    if not names:
        return None
    words = "must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", f"{_named(names)} {words}")


def _capabilities_restricted(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    keeping = [
        c["name"]
        for c in all_containers(spec)
        if "ALL" not in ((_context(c).get("capabilities") or {}).get("drop") or ())
    ]
    adding, added = _adding(spec, frozenset({"NET_BIND_SERVICE"}))
    details = []
    if keeping:
        details.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        words = f"must not include {_quoted(added)} in securityContext.capabilities.add"
        details.append(f"{_named(adding)} {words}")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    bad = [v for v in spec.get("volumes") or () if not any(v.get(kind) is not None for kind in _VOLUMES)]
    if not bad:
        return None
    names = [v["name"] for v in bad]
    kinds = sorted({next((k for k in _OTHER_VOLUMES if v.get(k) is not None), "unknown") for v in bad})
    words = f"{_some('uses', names, 'use')} {_some('restricted volume type', kinds)} {_quoted(kinds)}"
    return Violation("restricted volume types", f"{_some('volume', names)} {_quoted(names)} {words}")


def _non_root(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    pod = _pod_context(spec).get("runAsNonRoot")
    own = [(c["name"], _context(c).get("runAsNonRoot")) for c in all_containers(spec)]
    said_no = [name for name, value in own if value is False]
    if pod is False or said_no:
        words = "must not set securityContext.runAsNonRoot=false"
        return Violation("runAsNonRoot != true", f"{_setters(pod is False, said_no)} {words}")
    silent = [name for name, value in own if value is None and not pod]
    if silent:
        words = "must set securityContext.runAsNonRoot=true"
        return Violation("runAsNonRoot != true", f"pod or {_named(silent)} {words}")
    return None


def _user(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    pod = _pod_context(spec).get("runAsUser") == 0
    names = [c["name"] for c in all_containers(spec) if _context(c).get("runAsUser") == 0]
    if not pod and not names:
        return None
    return Violation("runAsUser=0", f"{_setters(pod, names)} must not set runAsUser=0")


def _seccomp_restricted(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    if (found := _seccomp_baseline(metadata, spec)) is not None:
        return found
    if _pod_context(spec).get("seccompProfile") is not None:
        return None
    silent = [c["name"] for c in all_containers(spec) if _context(c).get("seccompProfile") is None]
    if not silent:
        return None
    words = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {_named(silent)} {words}")


CHECKS: Final = (
    Check("appArmorProfile", BASELINE, ((0, _apparmor),)),
    Check("capabilities_baseline", BASELINE, ((0, _capabilities_baseline),)),
    Check("hostNamespaces", BASELINE, ((0, _host_namespaces),)),
    Check("hostPathVolumes", BASELINE, ((0, _host_paths),)),
    Check("hostPorts", BASELINE, ((0, _host_ports),)),
    Check("hostProbesAndHostLifecycle", BASELINE, ((34, _host_probes),)),
    Check("privileged", BASELINE, ((0, _privileged),)),
    Check("procMount", BASELINE, ((0, _proc_mount), (35, _except_user_namespaces(_proc_mount)))),
    Check("seLinuxOptions", BASELINE, ((0, _selinux()), (31, _selinux("container_engine_t")))),
    Check("seccompProfile_baseline", BASELINE, ((0, _seccomp_annotations), (19, _seccomp_baseline))),
    Check("sysctls", BASELINE, tuple((minor, _sysctls(minor)) for minor in (0, 27, 29, 32))),
    Check("windowsHostProcess", BASELINE, ((0, _windows_host_process),)),
    Check("allowPrivilegeEscalation", RESTRICTED, ((8, _escalation), (25, _except_windows(_escalation)))),
    Check(
        "capabilities_restricted",
        RESTRICTED,
        ((22, _capabilities_restricted), (25, _except_windows(_capabilities_restricted))),
        instead_of="capabilities_baseline",
    ),
    Check("procMount_restricted", RESTRICTED, ((35, _proc_mount),), instead_of="procMount"),
    Check("restrictedVolumes", RESTRICTED, ((0, _volumes),), instead_of="hostPathVolumes"),
    Check("runAsNonRoot", RESTRICTED, ((0, _non_root), (35, _except_user_namespaces(_non_root)))),
    Check("runAsUser", RESTRICTED, ((23, _user), (35, _except_user_namespaces(_user)))),
    Check(
        "seccompProfile_restricted",
        RESTRICTED,
        ((19, _seccomp_restricted), (25, _except_windows(_seccomp_restricted))),
        instead_of="seccompProfile_baseline",
    ),
)
