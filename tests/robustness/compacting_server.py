"""``python -m tests.robustness.compacting_server``: ``dray`` whose SQLite store is compacted every two seconds, so that
power cuts meet compactions."""

from __future__ import annotations

from functools import partial
from typing import Any

from dray.cli import main
from dray.store.sqlite import SqliteStore

SECONDS = 2.0

if __name__ == "__main__":
    store: Any = SqliteStore
    store.open = partial(SqliteStore.open, compaction_interval=SECONDS)
    main()
