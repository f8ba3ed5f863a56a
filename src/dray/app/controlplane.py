"""The control plane of ``dray up`` as ``kubectl`` shows it in kube-system: a pod for each part, with the command that would
run this part by itself under the same options, and with the part's own log.

All parts run in one process. What they log is told apart by the logger and, where they share code, by the component
whose task says it.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dray.app.options import split_list

if TYPE_CHECKING:
    from dray.app.up import RunningCluster
    from dray.node.mirror import ControlPlanePart

API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
PARTS: Final = (API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
#: As the controllers of ``dray up`` are chosen: nodes may join.
CONTROLLERS: Final = ("*", "bootstrap-signer-controller", "token-cleaner-controller")

#: The component of ``dray up`` to which the running task belongs.
component: ContextVar[str] = ContextVar("component", default="server")

_PART_OF_COMPONENT: Final = {
    "server": API_SERVER,
    "controllers": CONTROLLER_MANAGER,
    "scheduler": SCHEDULER,
}
_API_SERVER_LOGGERS: Final = ("dray.server.", "dray.store.")
_LOG_BYTES: Final = 10_000_000
_DRA: Final = "DynamicResourceAllocation"


def log_path(data: Path, part: str) -> Path:
    return data / "logs" / f"{part}.log"


@contextlib.contextmanager
def component_logs(data: Path) -> Iterator[None]:
    """Keep a log for each part beside that of the process, for the length of the block."""
    root = logging.getLogger()
    handlers = [_PartHandler(log_path(data, part), part) for part in PARTS]
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()


class _PartHandler(logging.handlers.RotatingFileHandler):
    def __init__(self, path: Path, part: str) -> None:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)  # a log begins with its process, as that of a container does
        super().__init__(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
        self.setFormatter(_ContainerLog("%(levelname).1s %(name)s %(message)s"))
        self.addFilter(lambda record: part_of(record.name) == part)


class _ContainerLog(logging.Formatter):
    """A record as lines of a container's log."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        nanoseconds = int(record.created % 1 * 1_000_000) * 1000
        start = f"{moment}.{nanoseconds:09}Z stderr F "
        return "\n".join(start + line for line in super().format(record).splitlines())


def part_of(logger: str) -> str | None:
    """The part whose log takes what this logger says now; None for nodes and drivers."""
    if logger.startswith(_API_SERVER_LOGGERS):
        return API_SERVER  # in-process requests are answered in the caller's task
    return _PART_OF_COMPONENT.get(component.get())


def control_plane_parts(cluster: RunningCluster) -> tuple[ControlPlanePart, ...]:
    from dray.node.mirror import ControlPlanePart

    commands = {
        API_SERVER: _server_command(cluster),
        CONTROLLER_MANAGER: _component_command(
            cluster,
            "controllers",
            f"--controllers={','.join(CONTROLLERS)}",
            f"--cluster-signing-cert-file={cluster.server.pki.ca}",
            f"--cluster-signing-key-file={cluster.server.pki.ca_key}",
            f"--service-account-private-key-file={cluster.server.pki.folder / 'sa.key'}",
        ),
        SCHEDULER: _component_command(cluster, "scheduler", *cluster.options.scheduler_flags),
    }
    elsewhere = {_PART_OF_COMPONENT[name] for name in cluster.options.without}
    return tuple(
        ControlPlanePart(name=part, command=tuple(command), log=log_path(cluster.data, part))
        for part, command in commands.items()
        if part not in elsewhere
    )


def _server_command(cluster: RunningCluster) -> list[str]:
    """``dray server`` with the options in force. The administrator's token is nobody's business."""
    options = cluster.options.server
    flags = {
        "listen": cluster.server.url.removeprefix("https://"),
        "advertise-address": options.advertise,
        "data": str(options.data),
        "store": options.store,
        "emulate": options.emulate,
        "feature-gates": feature_gates(cluster),
        "runtime-config": options.runtime_config,
        "authorization-mode": ",".join(options.authorization),
        "enable-admission-plugins": ",".join(options.enable_plugins),
        "disable-admission-plugins": ",".join(options.disable_plugins),
        "anonymous-auth": "" if options.anonymous else "false",
        "service-account-issuer": options.account_issuer,
        "token-auth-file": str(options.token_file or ""),
        "audit-policy-file": str(options.audit_policy or ""),
        "audit-log-path": options.audit_log,
    }
    return ["dray", "server", *(f"--{name}={value}" for name, value in flags.items() if value)]


def _component_command(cluster: RunningCluster, name: str, *flags: str) -> list[str]:
    command = ["dray", name, f"--kubeconfig={cluster.options.server.kubeconfig_path}"]
    if cluster.options.server.emulate:
        command.append(f"--emulate={cluster.options.server.emulate}")
    if gates := feature_gates(cluster):
        command.append(f"--feature-gates={gates}")
    return [*command, *flags]


def feature_gates(cluster: RunningCluster) -> str:
    """The gates that were given, and DynamicResourceAllocation where upstream asks for it to be enabled."""
    given = list(split_list(cluster.options.server.feature_gates))
    opted_in = cluster.quirks.dynamic_resource_allocation_is_opt_in and _DRA in cluster.server.api.gates
    if opted_in and not any(gate.startswith(f"{_DRA}=") for gate in given):
        given.insert(0, f"{_DRA}=true")
    return ",".join(given)
