"""The pure part of scheduling: which node a pod gets, which devices its claims get there, and whom it may preempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.exports import lazy

if TYPE_CHECKING:
    from dray.placement.config import ConfigError, Configuration, SchedulerProfile
    from dray.placement.config import parse as parse_configuration
    from dray.placement.decision import decide
    from dray.placement.outcome import Bind, Unschedulable
    from dray.placement.placement import Placement

__all__ = [
    "Bind",
    "ConfigError",
    "Configuration",
    "Placement",
    "SchedulerProfile",
    "Unschedulable",
    "decide",
    "parse_configuration",
]

__getattr__ = lazy(
    __name__,
    {
        "Bind": "outcome",
        "ConfigError": "config",
        "Configuration": "config",
        "Placement": "placement",
        "SchedulerProfile": "config",
        "Unschedulable": "outcome",
        "decide": "decision",
        "parse_configuration": "config:parse",
    },
)
