"""Where runs are made: in this process, in several on this machine, or on a Dask cluster.

The seam is ``concurrent.futures.Executor``, which Ray's and MPI's executors are, too: ``run_all`` takes any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from dray.simulate.model import SimulationError
from dray.simulate.progress import Counters
from dray.simulate.runs import local_processes

_DASK = "dask://"


@contextmanager
def open_executor(
    address: str | None, processes: int, *, timeout: float = 10.0, counters: Counters | None = None
) -> Iterator[Executor | None]:
    """The executor at an address such as ``dask://host:8786``; without one, so many processes of this machine, and None
    for this process alone. ``timeout``: how many seconds a cluster has to answer. ``counters``: what processes
    of this machine are to count in."""
    if address is not None:
        with _dask(address, timeout) as executor:
            yield executor
    elif processes == 1:
        yield None
    else:
        with local_processes(processes, counters=counters) as executor:
            yield executor


def check_address(address: str) -> None:
    host, colon, port = address.removeprefix(_DASK).rpartition(":")
    if not address.startswith(_DASK) or not host or not colon or not port.isdecimal():
        raise SimulationError(f"{address!r} is no executor: give one such as dask://host:8786")


@contextmanager
def _dask(address: str, timeout: float) -> Iterator[Executor]:
    check_address(address)
    try:
        from distributed import Client
    except ImportError:
        raise SimulationError(
            "runs on a Dask cluster need the package distributed: pip install 'dray[dask]'"
        ) from None
    where = address.removeprefix(_DASK)
    try:
        client = Client(f"tcp://{where}", timeout=timeout, set_as_default=False)
    except OSError as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise SimulationError(f"there is no Dask scheduler at {where}: {reason}") from None
    with client:
        # Nobody is asked for the same run twice, and Dask must not take one result for another.
        yield client.get_executor(pure=False)
