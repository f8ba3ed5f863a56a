"""How fast the stores are: creates a second at several concurrencies, and events a second out to many watchers.

python scripts/bench_store.py [--seconds 2] [--directory DIR] [--etcd HOST:PORT]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from dray.store import open_store
from dray.store.interface import Store, Watch

VALUE = b"x" * 1024
CONCURRENCIES = (1, 16, 64)
WATCHERS = (10, 1000)
BATCH = 100


async def creates(store: Store, concurrency: int, seconds: float) -> float:
    """Objects created a second by so many writers that each wait for their answer."""
    done = 0
    started = time.perf_counter()
    end = started + seconds

    async def write(writer: int) -> None:
        nonlocal done
        n = 0
        while time.perf_counter() < end:
            await store.create(f"/registry/bench-{concurrency}/{writer:03}/{n:08}", VALUE)
            n += 1
        done += n

    await asyncio.gather(*(write(writer) for writer in range(concurrency)))
    return done / (time.perf_counter() - started)


async def fan_out(store: Store, watchers: int, seconds: float) -> float:
    """Events delivered a second, summed over all watchers, with every one of them keeping up."""
    prefix = f"/registry/fan-out-{watchers}/"
    revision = await store.current_revision()
    received = 0
    delivered = asyncio.Event()
    expected = 0

    async def read(watch: Watch) -> None:
        nonlocal received
        async for batch in watch:
            received += len(batch)
            if received >= expected:
                delivered.set()

    watches = [store.watch(prefix, after=revision) for _ in range(watchers)]
    readers = [asyncio.create_task(read(watch)) for watch in watches]
    started = time.perf_counter()
    n = 0
    while time.perf_counter() - started < seconds:
        expected += BATCH * watchers
        delivered.clear()
        await asyncio.gather(*(store.create(f"{prefix}{n + i:08}", VALUE) for i in range(BATCH)))
        n += BATCH
        await delivered.wait()
    elapsed = time.perf_counter() - started
    for watch in watches:
        watch.close()
    await asyncio.gather(*readers)
    return received / elapsed


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each figure")
    parser.add_argument("--directory", type=Path, help="where SQLite writes; a real disk, not a RAM disk")
    parser.add_argument("--etcd", help="HOST:PORT of an etcd to measure as well; it is written to")
    options = parser.parse_args()
    specifications = ["memory", "sqlite", *([f"etcd://{options.etcd}"] if options.etcd else [])]
    print(f"{'store':<8}{'creates/s with writers':>24}{'':>16}{'events/s to watchers':>28}")
    columns = [*(str(c) for c in CONCURRENCIES), *(str(w) for w in WATCHERS)]
    print(f"{'':<8}" + "".join(f"{column:>14}" for column in columns))
    for specification in specifications:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            store = await open_store(specification, data=Path(directory))
            figures = [await creates(store, concurrency, options.seconds) for concurrency in CONCURRENCIES]
            figures += [await fan_out(store, watchers, options.seconds) for watchers in WATCHERS]
            await store.close()
        name = specification.partition(":")[0]
        print(f"{name:<8}" + "".join(f"{figure:>14,.0f}" for figure in figures))


if __name__ == "__main__":
    asyncio.run(main())
