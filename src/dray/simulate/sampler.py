"""The sums over all nodes, kept up to date node by node, and the time series that is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.placement.policies.fragmentation import Fragmentation
from dray.simulate.model import UNITS_PER_DEVICE, Sample

if TYPE_CHECKING:
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.policies.model import NodeState
    from dray.simulate.components import Components


class Sampler:
    """How many devices there are, how many are free, and how much of these is fragmented."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._workload = components.workload
        self._fragmentation = Fragmentation(self._workload)
        self._version = self._workload.version  # of the workload that the fragmentation was counted for
        self._states: dict[str, NodeState] = {}  # as they are counted
        self._fragmented = 0.0
        self.capacity = self.free = 0  # thousandths of devices
        self.samples: list[Sample] = []

    def state(self, node: str) -> NodeState:
        return self._states[node]

    def count(self, node: NodeInfo) -> None:
        """Bring the sums up to date with a node that has changed."""
        state = self._components.scorer.states.of(node)
        old = self._states.get(node.name)
        if old is state:
            return
        self._states[node.name] = state
        self.capacity += UNITS_PER_DEVICE * len(state.free)
        self.free += state.total_free
        if old is not None:
            self.capacity -= UNITS_PER_DEVICE * len(old.free)
            self.free -= old.total_free
        if self._version == self._workload.version:
            self._fragmented += self._fragmentation.of(state)
            if old is not None:
                self._fragmented -= self._fragmentation.of(old)

    def discount(self, name: str) -> None:
        """The node is gone."""
        old = self._states.pop(name, None)
        if old is not None:
            self.capacity -= UNITS_PER_DEVICE * len(old.free)
            self.free -= old.total_free
            self._fragmented -= self._fragmentation.of(old)

    def recount_node(self, name: str) -> None:
        node = self._components.cluster.get(name)
        if node is not None:
            self.count(node)

    def recount(self) -> None:
        """Devices have appeared or vanished on any of the nodes."""
        self._components.scorer.renew(self._components.cluster.era)
        for node in self._components.cluster:
            self.count(node)

    def sample(self, *, arrived: int, requested: int, running: int, preemptions: int) -> None:
        """Write down the cluster as it is now, unless the last sample is too young."""
        now, every = self._components.clock.now, self._components.options.sample_every
        last = self.samples[-1].time if self.samples else None
        if last is not None and every and now - last < every:
            return
        if self._version != self._workload.version:
            self._version = self._workload.version
            self._fragmented = sum(map(self._fragmentation.of, self._states.values()))
        sample = Sample(
            time=now,
            arrived=arrived,
            requested=requested,
            capacity=self.capacity,
            allocated=self.capacity - self.free,
            fragmented=round(self._fragmented, 3),
            running=running,
            pending=len(self._components.queue),
            preemptions=preemptions,
        )
        if last == now:
            self.samples[-1] = sample
        else:
            self.samples.append(sample)
