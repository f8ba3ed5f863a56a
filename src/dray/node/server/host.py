"""What others want of a node's containers: their logs, and commands run in them.

The API server calls this in the same process, or through the agent's own endpoint. Failures are StatusErrors in the
words that kubectl shows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dray.api import pods
from dray.api.errors import BadRequest, InternalError, NotFound
from dray.api.golang.strconv import parse_int64
from dray.api.times import to_epoch
from dray.node.agent import Agent
from dray.node.nodes import Nodes
from dray.node.pod_actions import KnownContainer
from dray.node.pod_worker import PodWorker
from dray.node.server.resource_metrics import resource_metrics
from dray.runtimes.interface import PortConnection, RuntimeFailure, Session
from dray.runtimes.logs import LogOptions, read

if TYPE_CHECKING:
    from dray.api.types.core import Pod


@dataclass(frozen=True, kw_only=True, slots=True)
class PodLogOptions:
    """``kubectl logs``, as far as the node is concerned."""

    previous: bool = False
    options: LogOptions = field(default_factory=LogOptions)

    @classmethod
    def of(cls, query: Callable[[str], str], *, now: float) -> PodLogOptions:
        """Reads the parameters of a pod's ``log`` subresource, which are those of a kubelet's endpoint too."""

        def number(name: str) -> int | None:
            return _integer(name, query(name)) if query(name) else None

        def flag(name: str) -> bool:
            return query(name).lower() not in ("", "false", "0")

        seconds = number("sinceSeconds")
        since = ""
        if seconds is not None:
            since = _log_time(max(now - seconds, 0.0))
        elif text := query("sinceTime"):
            since = _log_time(_moment(text))
        return cls(
            previous=flag("previous"),
            options=LogOptions(
                follow=flag("follow"),
                tail=number("tailLines"),
                since=since,
                timestamps=flag("timestamps"),
                limit_bytes=number("limitBytes"),
                stream="" if query("stream") == "All" else query("stream"),
            ),
        )


class NodeHost:
    """Logs and commands of the pods on the nodes of this process."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def serves(self, node: str) -> bool:
        return node in self._nodes.agents

    def logs(self, pod: Pod, container: str, query: PodLogOptions) -> AsyncIterator[bytes]:
        """A container's output. Raises BadRequest if there can be none yet."""
        agent = self._agent(pod)
        if pods.is_mirror(pod) and not query.previous and (log := agent.mirror_log(pod)):
            return read(log, query.options, ended=lambda: False)
        worker = agent.workers.get(pod["metadata"]["uid"])
        path = self._log_path(agent, pod, worker, container, previous=query.previous)
        return read(
            path,
            query.options,
            ended=_ended(agent, pod["metadata"]["uid"], container, previous=query.previous),
        )

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, tty: bool, stdin: bool
    ) -> Session:
        agent, running = self._running(pod, container)
        try:
            return await agent.runtime.exec(running, command, tty=tty, stdin=stdin)
        except RuntimeFailure as e:
            raise InternalError(f"error executing command in container: {e}") from e

    async def attach(self, pod: Pod, container: str, *, tty: bool, stdin: bool) -> Session:
        agent, running = self._running(pod, container)
        try:
            return await agent.runtime.attach(running, tty=tty, stdin=stdin)
        except RuntimeFailure as e:
            raise InternalError(f"error attaching to container: {e}") from e

    async def port_forward(self, pod: Pod, port: int) -> PortConnection:
        agent, sandbox = self._sandbox(pod)
        try:
            return await agent.runtime.port_forward(sandbox, port)
        except RuntimeFailure as e:
            raise InternalError(str(e)) from e

    def check_running(self, pod: Pod, container: str = "") -> None:
        """Raises what a client is told instead of being given a session."""
        if container:
            self._running(pod, container)
        else:
            self._sandbox(pod)

    def pod(self, namespace: str, name: str) -> Pod:
        """A pod that runs here."""
        for agent in self._nodes.agents.values():
            if worker := agent.workers.find(namespace, name):
                return worker.pod
        raise NotFound(f'pods "{name}" not found')

    def pods(self, node: str = "") -> list[Pod]:
        return [worker.pod for worker in self._workers(node)]

    def _workers(self, node: str) -> Iterator[PodWorker]:
        """Those of one node, or of all."""
        for name, agent in self._nodes.agents.items():
            if node in ("", name):
                yield from agent.workers

    def metrics(self) -> str:
        """The node agents' measurements, as Prometheus text."""
        return self._nodes.shared.metrics.text()

    async def resource_metrics(self, node: str = "") -> str:
        """What the containers of a node use of the machine."""
        try:
            usage = await self._nodes.shared.runtime.usage()
        except RuntimeFailure:
            usage = {}
        return resource_metrics(self._workers(node), usage)

    def probe_metrics(self, node: str = "") -> str:
        """The outcomes of the probes of a node's pods."""
        return self._nodes.shared.metrics.probes_text({pod["metadata"]["uid"] for pod in self.pods(node)})

    def _agent(self, pod: Pod) -> Agent:
        name = pod["spec"].get("nodeName") or ""
        agent = self._nodes.agents.get(name)
        if agent is None:
            raise NotFound(f'nodes "{name}" not found')
        return agent

    def _running(self, pod: Pod, container: str) -> tuple[Agent, str]:
        agent = self._agent(pod)
        if pods.is_mirror(pod):
            raise BadRequest(
                f"{container} is a part of the process of dray up: there is no container to enter"
            )
        worker = agent.workers.get(pod["metadata"]["uid"])
        known = worker.state.container(container) if worker else KnownContainer()
        if not known.running or known.current is None:
            raise InternalError(f'container not found ("{container}")')
        return agent, known.current.id

    def _sandbox(self, pod: Pod) -> tuple[Agent, str]:
        agent = self._agent(pod)
        worker = agent.workers.get(pod["metadata"]["uid"])
        if worker is None or worker.state.sandbox is None or worker.state.torn_down:
            name = pod["metadata"]["name"]
            raise InternalError(f'pod "{name}" is not running')
        return agent, worker.state.sandbox.id

    def _log_path(
        self, agent: Agent, pod: Pod, worker: PodWorker | None, container: str, *, previous: bool
    ) -> Path:
        metadata = pod["metadata"]
        name = metadata["name"]
        if worker:
            known = worker.state.container(container)
            if previous:
                wanted = known.previous
                if wanted is None:
                    raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
                return wanted.log_path
            if known.current is not None and known.current.started_at:
                return known.current.log_path
            if known.previous is not None:
                return known.previous.log_path
            raise BadRequest(
                f'container "{container}" in pod "{name}" is waiting to start: {_waiting_reason(worker, container)}'
            )
        if not pods.is_terminal(pod):
            raise BadRequest(
                f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
            )
        # The pod was over before this agent started; what it wrote is still there.
        logs = agent.options.paths.pod_logs(metadata["namespace"], name, metadata["uid"]) / container
        attempts = sorted(logs.glob("*.log"), key=lambda p: int(p.stem)) if logs.is_dir() else []
        if previous and len(attempts) < 2:
            raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
        if not attempts:
            raise BadRequest(f'container "{container}" in pod "{name}" is not available')
        return attempts[-2 if previous else -1]


def _integer(name: str, text: str) -> int:
    number = parse_int64(text)
    if number is None or number < 0:
        raise BadRequest(f"{name}: {text!r} is not a number that makes sense")
    return number


def _moment(text: str) -> float:
    try:
        return max(to_epoch(text), 0.0)
    except (ValueError, OverflowError) as e:
        raise BadRequest(f"sinceTime: {e}") from None


def _log_time(moment: float) -> str:
    """As lines of the log begin, so that they compare as text."""
    whole = datetime.fromtimestamp(moment, UTC)
    return whole.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def _waiting_reason(worker: PodWorker, container: str) -> str:
    statuses = worker.status()
    for status in (*statuses.get("initContainerStatuses", ()), *statuses["containerStatuses"]):
        if status["name"] == container:
            return str((status["state"].get("waiting") or {}).get("reason", "ContainerCreating"))
    return "ContainerCreating"


def _ended(agent: Agent, uid: str, container: str, *, previous: bool) -> Callable[[], bool]:
    def ended() -> bool:
        worker = agent.workers.get(uid)
        return previous or worker is None or not worker.state.container(container).alive

    return ended
