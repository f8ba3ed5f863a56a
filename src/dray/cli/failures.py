"""The one place that turns failures which are to be expected into a line that says what to do.

Commands let such failures through. Whatever is not named here is a defect of the program and keeps its traceback.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import click

_START_OR_NAME = "start a cluster with: dray up; or name another with --kubeconfig"


@contextmanager
def failures_as_lines() -> Iterator[None]:
    """Run a command. A parent that started it in the background is told the line too."""
    from dray.app.daemon import notify_parent

    try:
        yield
    except click.ClickException as problem:
        notify_parent(problem.format_message())
        raise
    except Exception as problem:
        line = failure_line(problem)
        if line is None:
            notify_parent(f"{type(problem).__name__}: {problem}")
            raise
        notify_parent(line)
        raise click.ClickException(line) from None


def failure_line(problem: Exception) -> str | None:
    """What to say about a failure; None for one that nobody expects."""
    if isinstance(problem, ExceptionGroup):
        lines = [failure_line(one) for one in problem.exceptions]
        return None if None in lines else lines[0]
    line = _line(problem)
    return None if line is None else " ".join(line.split())


def _line(problem: Exception) -> str | None:
    import sqlite3

    from dray.api.errors import StatusError
    from dray.api.release import SettingError
    from dray.app.options import OptionError
    from dray.client.config import ConfigError
    from dray.client.leaderelection import LeadershipLost
    from dray.client.transport import Unreachable
    from dray.controllers.manager import UnknownController
    from dray.convert import InvalidManifest, RuleError
    from dray.driver.plugin import DriverRunning
    from dray.driver.resource_api import NoResourceApi
    from dray.drivers.demo import DemoError
    from dray.explain import SnapshotError
    from dray.kubelet_api.checkpoint import CorruptCheckpoint
    from dray.node.bootstrap.cluster_info import JoinError
    from dray.placement import config as scheduler_config
    from dray.placement.policies.model import PolicyError
    from dray.runtimes.interface import RuntimeFailure
    from dray.simulate.model import SimulationError
    from dray.store.interface import StoreError

    match problem:
        case Unreachable():
            return f"{problem}; {_START_OR_NAME}"
        case StatusError():
            return problem.message
        case RuntimeFailure():
            return f"the container runtime: {problem}"
        case StoreError() | sqlite3.Error():
            return f"the store: {problem}"
        case OSError():
            return _os_line(problem)
        case (
            ConfigError()
            | CorruptCheckpoint()
            | DemoError()
            | DriverRunning()
            | InvalidManifest()
            | JoinError()
            | LeadershipLost()
            | NoResourceApi()
            | OptionError()
            | PolicyError()
            | RuleError()
            | SettingError()
            | SimulationError()
            | SnapshotError()
            | UnknownController()
            | scheduler_config.ConfigError()
        ):
            return str(problem)
    return None


def _os_line(problem: OSError) -> str | None:
    if problem.errno == errno.EPIPE:
        return None  # click knows what to do when the reader has gone
    reason = problem.strerror or str(problem)
    return f"{problem.filename}: {reason}" if problem.filename else reason
