"""Probes and lifecycle hooks: what is run to look after a container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dray.api.groups.core.pod.options import Part, PodValidationOptions
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

_SCHEMES: Final = ("HTTP", "HTTPS")
_COUNTS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_SIGNALS: Final = (
    "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP "
    "TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX"
)
LINUX_SIGNALS: Final = tuple(
    sorted(
        [f"SIG{name}" for name in _SIGNALS.split()]
        + [f"SIGRTMIN+{i}" for i in range(1, 16)]
        + [f"SIGRTMAX-{i}" for i in range(1, 15)]
    )
)
_WINDOWS_SIGNALS: Final = ("SIGKILL", "SIGTERM")


def check_probes(container: Part, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    found: list[FieldError] = []
    for part in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe, at = container.get(part), path.child(part)
        if probe is None:
            continue
        found += _check_probe(probe, at, opts)
        if part == "readinessProbe":
            if (grace := probe.get("terminationGracePeriodSeconds")) is not None:
                where = at.child("terminationGracePeriodSeconds")
                found.append(field.invalid(where, grace, "must not be set for readinessProbes"))
        elif probe.get("successThreshold", 0) != 1:
            where = at.child("successThreshold")
            found.append(field.invalid(where, probe.get("successThreshold", 0), "must be 1"))
    return found


def _check_probe(probe: Part, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    found = _check_handler(probe, path, grace=None, opts=opts)
    for part in _COUNTS:
        found += checks.not_negative(probe.get(part), path.child(part))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        where = path.child("terminationGracePeriodSeconds")
        found.append(field.invalid(where, grace, "must be greater than 0"))
    return found


def _check_handler(
    handler: Part, path: Path, *, grace: int | None, opts: PodValidationOptions
) -> list[FieldError]:
    def sleep(action: Part, at: Path) -> list[FieldError]:
        return _check_sleep(action, at, grace, opts)

    actions: tuple[tuple[str, Callable[[Part, Path], list[FieldError]]], ...] = (
        ("exec", _check_exec),
        ("httpGet", _check_http),
        ("tcpSocket", _check_socket),
        ("grpc", _check_socket),
        ("sleep", sleep),
    )
    found: list[FieldError] = []
    given = 0
    for part, check in actions:
        if handler.get(part) is None:
            continue
        if given:
            found.append(field.forbidden(path.child(part), "may not specify more than 1 handler type"))
        else:
            given += 1
            found += check(handler[part], path.child(part))
    return found if given else [field.required(path, "must specify a handler type")]


def _check_exec(action: Part, path: Path) -> list[FieldError]:
    return [] if action.get("command") else [field.required(path.child("command"))]


def _check_http(action: Part, path: Path) -> list[FieldError]:
    found = [] if action.get("path") else [field.required(path.child("path"))]
    found += checks.port_or_name(action.get("port", 0), path.child("port"))
    if (scheme := action.get("scheme", "")) not in _SCHEMES:
        found.append(field.not_supported(path.child("scheme"), scheme, _SCHEMES))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        found += checks.each(name, path.child("httpHeaders"), names.http_header_name(name))
    return found


def _check_socket(action: Part, path: Path) -> list[FieldError]:
    return checks.port_or_name(action.get("port", 0), path.child("port"))


def _check_sleep(action: Part, path: Path, grace: int | None, opts: PodValidationOptions) -> list[FieldError]:
    seconds = action.get("seconds", 0)
    # The gate has gone from the newest releases, where a sleep of no seconds is always allowed.
    lowest = (
        1 if opts.on("PodLifecycleSleepAction") and not opts.on("PodLifecycleSleepActionAllowZero") else 0
    )
    if grace is None or lowest <= seconds <= grace:
        return []
    words = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    if lowest:
        words = (
            f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace}). Enable "
            "AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
        )
    return [field.invalid(path, seconds, words)]


def check_lifecycle(container: Part, spec: Part, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    lifecycle, at = container.get("lifecycle"), path.child("lifecycle")
    if lifecycle is None:
        return []
    grace = spec.get("terminationGracePeriodSeconds")
    found: list[FieldError] = []
    for part in ("postStart", "preStop"):
        if lifecycle.get(part) is not None:
            found += _check_handler(lifecycle[part], at.child(part), grace=grace, opts=opts)
    if (signal := lifecycle.get("stopSignal")) is not None:
        found += _check_signal(signal, (spec.get("os") or {}).get("name"), at.child("stopSignal"))
    return found


def _check_signal(signal: str, os: str | None, path: Path) -> list[FieldError]:
    if os is None:
        return [field.forbidden(path, "may not be set for containers with empty `spec.os.name`")]
    allowed = {"linux": LINUX_SIGNALS, "windows": _WINDOWS_SIGNALS}.get(os, (signal,))
    return checks.one_of(signal, path, allowed)
